"""krun/kvm/inspect.py on processes that are no monitors, or whose memory says what it likes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from krun.kvm import inspect


def test_a_process_without_a_table() -> None:
    process = inspect.Process(os.getpid())
    assert process.threads() == [] and process.read(0, 8) == b"" and process.read(1 << 63, 8) == b""
    assert process.name_of(0) == ""
    for m in process.maps:
        assert process.name_of(m.start).startswith(m.name) and process.name_of(m.end - 1)
    assert process.name_of(inspect.WINDOW_END) == ""
    process.close()
    with pytest.raises(OSError, match="No such file"):
        inspect.Process(1 << 22)


UNTOUCHED = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open(sys.argv[1]) as file:
    at = libc.mmap(0x500000000000, 4096, 1, 2 | 0x100000, file.fileno(), 0)  # PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE
assert at == 0x500000000000
print("ready", flush=True)
sys.stdin.readline()
ctypes.string_at(at, 1)
print("touched", flush=True)
sys.stdin.readline()
"""


def test_a_page_of_a_file_that_is_not_there_is_not_fetched(tmp_path: Path) -> None:
    """Of a file of FUSE it would be waited for without an end: not even SIGKILL ended krun debug."""
    (tmp_path / "file").write_bytes(b"words" * 1000)
    argv = [sys.executable, "-c", UNTOUCHED, str(tmp_path / "file")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdin and child.stdout.readline() == "ready\n"
        process = inspect.Process(child.pid)
        assert process.read(0x500000000000, 5) == b"" and process.read(0x4FFFFFFFFFFF, 5) == b""
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "touched\n"
        assert process.read(0x500000000000, 5) == b"words"
        assert process.read(0x500000000000 + 4090, 10) == (b"words" * 1000)[4090:4096]
        process.close()
        child.stdin.close()


HOSTILE = """
import ctypes, mmap, os, struct, sys, time
file = open(sys.argv[1], "r+b")
memory = mmap.mmap(file.fileno(), 1 << 16, prot=int(sys.argv[2]))
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
table = [int(word, 0) for word in sys.argv[3:]]
memory[4096:4096 + 64] = struct.pack("<16sQ10I", b"krun-inspect-01\\0", base, *table)
memory[0:8] = struct.pack("<Q", base + 8192)  # the first task
memory[8192:8200] = struct.pack("<Q", base + 8192)  # leads to itself
memory[8200:8204] = struct.pack("<I", os.getpid())
memory[8208:8216] = struct.pack("<Q", base + 12288)  # kvm_run
memory[8216:8224] = struct.pack("<Q", 1)  # in a call
memory[12288:12288 + 144] = struct.pack("<18Q", *[base + 20000] * 18)
print("ready", flush=True)
time.sleep(1000)
"""


def test_a_process_that_lies(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(bytes(1 << 16))
    there = ["0", "0", "8", "16", "24", "32", "200", "204", "0", "144"]
    for prot, table, threads in (
        (7, there, 1),
        (7, ["0", "0", "8", "16", "24", "32", "200", "204", "0xffffffff", "0xfffffff0"], 1),
        (7, ["0xffffffff"] * 10, 0),
        # In memory of a file that is not the executed one, as the board with the ring of `krun trace`.
        (3, there, 0),
    ):
        argv = [sys.executable, "-c", HOSTILE, str(tmp_path / "m"), str(prot), *table]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout and child.stdout.readline() == "ready\n"
            process = inspect.Process(child.pid)
            found = process.threads()
            process.close()
            child.kill()
        assert len(found) == threads
        for one in found:
            assert one["call"] == 1 and len(one["args"]) == 6 and len(one["frames"]) <= inspect.FRAMES


NAMES = """
import ctypes, mmap, sys, time
file = open(sys.argv[1], "r+b")
memory = mmap.mmap(file.fileno(), 4096)
ctypes.CDLL(None).prctl(15, b"\\rState:\\x1b[3J", 0, 0, 0)
print("ready", flush=True)
time.sleep(1000)
"""


def test_names_that_look_like_lines(tmp_path: Path) -> None:
    """The kernel escapes \\n in them, and no other end of a line."""
    name = tmp_path / "x\r1000-2000 r-xp 00000000 00:00 5 made-up"
    name.write_bytes(bytes(4096))
    with subprocess.Popen([sys.executable, "-c", NAMES, name], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdout.readline() == "ready\n"
        process = inspect.Process(child.pid)
        state = inspect._field(inspect._text(f"/proc/{child.pid}/status"), "State")
        process.close()
        child.kill()
    assert process.maps and "made-up" not in [m.name for m in process.maps]
    assert state in ("S (sleeping)", "R (running)")


def test_the_table_is_the_monitors() -> None:
    """The table stands in the monitor's file, in front of the places that the source names."""
    source = (Path(inspect.__file__).parents[1] / "native" / "process" / "inspect.h").read_text()
    assert f'"{inspect.MAGIC[:-1].decode()}"' in source
    assert struct.calcsize("<16sQ10I") == inspect._TABLE.size == 64


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)


def test_a_number_that_is_used_again_gets_no_signal() -> None:
    """The process has ended, or executed another program, since it was opened: its memory is gone."""
    before = sleeper()
    memory = os.open(f"/proc/{before.pid}/mem", os.O_RDONLY)
    before.kill()
    before.wait()
    after = sleeper()
    process = inspect.Process.__new__(inspect.Process)
    process.pid, process._memory, process._unheard, process._table = after.pid, memory, 0, (0,) * 11
    process._pages = -1
    assert process._kick(after.pid, inspect.WINDOW_END) is False
    process.close()
    # A signal that was sent has an effect before the next one.
    after.terminate()
    assert after.wait() == -15


def test_lines_of_status() -> None:
    status = "Name:\ta\x0bNSpid:\t7\r\x85\u2028NSpid:\t7\nNSpid:\t5\t3\nSigQ:\t0/100\n"
    assert inspect.last_number(status, "NSpid") == 3
