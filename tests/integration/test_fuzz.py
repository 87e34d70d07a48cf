"""The guest fuzzer with fixed seeds: a hostile payload in a container, under the sanitizer build of the monitor (tests/fuzz)."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))
import run  # pylint: disable=wrong-import-position

#: elf(5)
PT_LOAD, PT_INTERP, PT_TLS, ET_DYN, EM_X86_64 = 1, 3, 7, 3, 62


@pytest.fixture(scope="module", autouse=True)
def built(as_root):
    run.build()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_random_hostile_payload(seed):
    outcome = run.run_slice(seed, 10)
    assert not outcome.problems, "\n".join(outcome.problems)


def test_a_program_whose_libc_cannot_start_does_not_end_with_the_monitors_status(tmp_path):
    """glibc ends such a program with 127. The fuzzer would take this for the end of a monitor."""
    fuzzer, program = os.fsencode(run.BUILD / "guest_fuzz") + b"\0", tmp_path / "program"
    # type, flags, offset, address, address, size in the file, size in memory, alignment
    segments = [
        (PT_LOAD, 5, 0, 0, 0, 4096, 4096, 4096),
        (PT_INTERP, 4, 512, 512, 512, len(fuzzer), len(fuzzer), 1),
        (PT_TLS, 4, 0, 0, 0, 0, 16, 1 << 59),  # more than memory has
    ]
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, ET_DYN, EM_X86_64, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    table = b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
    program.write_bytes(((head + table).ljust(512, b"\0") + fuzzer).ljust(4096, b"\0"))
    program.chmod(0o755)
    ended = subprocess.run([program, "probe"], check=False)
    # Natively the program says that it runs natively.
    assert run.SAW.get(ended.returncode) == "native code"


def test_a_monitor_that_its_filter_ended_is_noticed():
    """The line of the kernel (dmesg) when a monitor of a container with /guest_fuzz made io_uring_setup."""
    line = (
        '5,7021,3231158508,-;audit: type=1326 audit(1795366334.742:1554): auid=4294967295 uid=0 gid=0 ses=4294967295 pid=3413 comm="guest_fuzz" '
        'exe="/" sig=31 arch=c000003e syscall=425 compat=0 ip=0x7f5ae3e8904b code=0x80000000'
    )
    found = run.REFUSED.search(line)
    assert found and found[1] == "425"
    # A payload's own filter is the monitor's work; other monitors of the machine have other programs.
    assert not run.REFUSED.search(line.replace("guest_fuzz", "sleep"))


def test_a_relatives_death_is_no_finding():
    """What krun said after seed 179537907412, and the same with the words of a defect."""
    killed = (
        "guest_fuzz: seed 179538446025722255: process 596: status 127\n"
        'time="2026-11-22T20:24:40Z" level=warning msg="container fuzz-1: the monitor of process 596 ended: a process that shares this process\'s '
        "memory (CLONE_VM) was killed while it made a descriptor: nobody knows which numbers are the monitor's\"\n"
    )
    assert run.shared_a_death(killed)
    defect = 'level=warning msg="container fuzz-1: the monitor of process 597 ended: the page-table pool is full"\n'
    assert not run.shared_a_death(killed + defect)
    assert not run.shared_a_death("guest_fuzz: seed 1: process 5: status 127\n")
