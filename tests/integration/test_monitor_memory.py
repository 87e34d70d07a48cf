"""What the host shows of a monitor's memory: where it lies, what is sealed, what is under the protection key."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from helpers.runtime import DIRECT

ROOT = Path(__file__).resolve().parents[2]
WINDOW_END, EMPTY_PATH = 0x6A0000000000, 0x6D0000000000
HOST_SYS, HOST_LOW = 0x6E0000000000, 0x6F0000000000

pytestmark = pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="needs /dev/kvm")


def has_key() -> bool:
    return " ospke" in Path("/proc/cpuinfo").read_text()


def has_seal() -> bool:
    release = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    return release >= (6, 10)


class Area:
    """One mapping of /proc/PID/smaps."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.partition("\n")
        words = head.split(maxsplit=5)
        self.start, self.end = (int(n, 16) for n in words[0].split("-"))
        self.permissions, self.name = words[1], words[5].strip() if len(words) > 5 else ""
        key = re.search(r"^ProtectionKey:\s+(\d+)", rest, re.M)
        self.key = int(key[1]) if key else 0
        flags = re.search(r"^VmFlags:(.*)", rest, re.M)
        self.flags = flags[1].split() if flags else []


@pytest.fixture(scope="module")
def areas() -> list[Area]:
    """Of a monitor whose program has executed itself anew, so that nothing of krun's start is left."""
    process = subprocess.Popen(
        [*DIRECT, "/bin/sh", "-c", "exec sh -c 'echo ready; read x'"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        text = Path(f"/proc/{process.pid}/smaps").read_text()
    finally:
        process.communicate(b"\n", timeout=20)
    return [Area(part) for part in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text) if part]


def test_nobody_writes_the_empty_path() -> None:
    """/proc/PID/mem writes private mappings whatever their protection is (FOLL_FORCE). The path by which a monitor executes
    its own file stays empty: with another one the jail would let it execute any file."""
    process = subprocess.Popen(
        [
            *DIRECT,
            "/bin/sh",
            "-c",
            "exec sh -c 'echo ready; read x; /bin/echo done'",
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        memory = os.open(f"/proc/{process.pid}/mem", os.O_RDWR)
        try:
            assert os.pread(memory, 8, EMPTY_PATH) == bytes(8)
            with pytest.raises(OSError):
                os.pwrite(memory, b"/bin/sh", EMPTY_PATH)
            assert os.pread(memory, 8, EMPTY_PATH) == bytes(8)
        finally:
            os.close(memory)
    finally:
        assert process.communicate(b"\n", timeout=20)[0] == b"done\n"


def test_nothing_of_the_monitor_in_the_window(areas: list[Area]) -> None:
    monitor = [
        a for a in areas if a.name.endswith("krun-monitor") or a.name.startswith(("[v", "anon_inode:kvm"))
    ]
    monitor += [a for a in areas if "gd" in a.flags]  # its own stack; the name "[stack]" is the payload's
    assert len(monitor) > 5
    assert all(a.start >= HOST_LOW for a in monitor), [a.name for a in monitor]
    between = [(a.start, a.permissions) for a in areas if WINDOW_END <= a.start < HOST_SYS]
    assert between == [(WINDOW_END, "---p"), (0x6D0000000000, "r--s")]


@pytest.mark.skipif(not has_seal(), reason="mseal(2) is of Linux 6.10")
def test_what_stays_is_sealed(areas: list[Area]) -> None:
    own = [a for a in areas if a.name.endswith("krun-monitor") or WINDOW_END <= a.start < HOST_LOW]
    assert len(own) >= 6
    assert [a.name or hex(a.start) for a in own if "sl" not in a.flags] == []


@pytest.mark.skipif(not has_key(), reason="the processor has no protection keys")
def test_writable_memory_is_under_the_key(areas: list[Area]) -> None:
    """But for host stacks, on which the kernel writes signal frames, what is shared, and the payload's own."""
    own = [
        a for a in areas if a.start >= HOST_SYS and a.permissions.startswith("rw-p") and "gd" not in a.flags
    ]
    assert len(own) >= 3
    assert [f"{a.start:#x} {a.name}" for a in own if a.key != 1] == []
    assert {a.key for a in areas if a.start < WINDOW_END} == {0}


#: posix_spawn(3) is clone(CLONE_VM | CLONE_VFORK) and execve(2) in the child.
SPAWN = """
import os, sys
def spawn(path, strings):
    try:
        os.waitpid(os.posix_spawn(path, ["true"], {"A": "x" * strings}), 0)
    except OSError:
        pass
for rounds in 10, 100, 100:
    for _ in range(rounds):
        spawn("/bin/true", 100)
        spawn("/bin/true", 70000)
        spawn("/nowhere", 100)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_program_that_leaves_by_execve_leaves_nothing_behind() -> None:
    """The child of a vfork has its execve's strings in the heap that it shares with its parent."""
    process = subprocess.Popen(
        [*DIRECT, "/usr/bin/python3", "-c", SPAWN], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    sizes = []
    try:
        for _ in range(3):
            assert process.stdout.readline() == b"ready\n"
            text = Path(f"/proc/{process.pid}/smaps").read_text()
            mappings = [Area(part) for part in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text) if part]
            own = [a for a in mappings if a.start >= HOST_LOW and a.permissions == "rw-p"]
            sizes.append(sum(a.end - a.start for a in own))
            process.stdin.write(b"\n")
            process.stdin.flush()
    finally:
        process.communicate(timeout=60)
    assert sizes[0] == sizes[1] == sizes[2]


PAGEMAP = """
import os, sys
fd = os.open('/proc/self/pagemap', os.O_RDONLY)
print('ready', id(os), flush=True)
for page in [id(os) >> 12, *(int(word) for word in sys.stdin.readline().split())]:
    print(int.from_bytes(os.pread(fd, 8, page * 8), 'little'), flush=True)
"""


def test_pagemap_shows_no_page_of_the_monitor() -> None:
    """The own pagemap: entries of the payload alone, and no number of a page frame, whatever capabilities the payload has."""
    process = subprocess.Popen(
        [*DIRECT, "/usr/bin/python3", "-c", PAGEMAP],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout and process.stdout.readline().startswith("ready ")
        pages = []
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if WINDOW_END <= start < 1 << 47:
                pages += range(start >> 12, min(end, start + (64 << 12)) >> 12)
        assert len(pages) > 100
    finally:
        out, _ = process.communicate(" ".join(map(str, pages)) + "\n", timeout=60)
    own, *others = map(int, out.split())
    assert own >> 63 and not own & ((1 << 55) - 1)
    assert others == [0] * len(pages)
