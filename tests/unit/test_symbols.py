"""The names of flags that `krun trace` shows (krun/kvm/symbols.py) have the values of the kernel's headers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from krun.kvm import symbols
from krun.kvm.calls import CALLS

HEADERS = """
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>
"""


def tables() -> dict[str, int]:
    found: dict[str, int] = {}
    for names in (value for value in vars(symbols).values() if isinstance(value, symbols.Names)):
        for name, value in [*((n, v) for v, n in names.one.items()), *names.bits.items()]:
            assert found.setdefault(name, value) == value, name
    return found


def test_values(tmp_path: Path) -> None:
    found = tables()
    lines = "".join(
        f'#ifdef {name}\n    printf("{name} %llu\\n", (unsigned long long)(unsigned)({name}));\n#endif\n'
        for name in found
    )
    # Enumerations are no macros.
    enums = ("P_ALL", "P_PID", "P_PGID", "P_PIDFD", "PRIO_PROCESS", "PRIO_PGRP", "PRIO_USER")
    lines += "".join(f'    printf("{name} %d\\n", (int){name});\n' for name in enums)
    (tmp_path / "v.c").write_text(f"{HEADERS}int main(void) {{\n{lines}    return 0;\n}}\n")
    subprocess.run(["gcc", "-w", "-o", tmp_path / "v", tmp_path / "v.c"], check=True)
    out = subprocess.run([tmp_path / "v"], capture_output=True, text=True, check=True).stdout
    kernel = {name: int(value) for name, value in (line.split() for line in out.splitlines())}
    wrong = {name: (value, kernel[name]) for name, value in found.items() if kernel.get(name, value) != value}
    # glibc has 0 for O_LARGEFILE on 64-bit machines; the kernel adds its own bit.
    wrong.pop("O_LARGEFILE", None)
    assert not wrong
    assert len(kernel) > 0.93 * len(found), sorted(set(found) - set(kernel))


def test_the_table_fits_the_calls() -> None:
    calls = {name: kinds.split() for name, _, kinds in CALLS.values()}
    for name, arguments in symbols.ARGUMENTS.items():
        assert name in calls and max(arguments) < len(calls[name]), name


def test_texts() -> None:
    assert symbols.OPEN.text(0o2000101) == "O_WRONLY|O_CREAT|O_CLOEXEC"
    assert symbols.OPEN.text(0) == "O_RDONLY" and symbols.OPEN.text(3) == "0x3"
    assert symbols.MAP.text(0x22) == "MAP_PRIVATE|MAP_ANONYMOUS"
    assert symbols.PROT.text(0) == "PROT_NONE" and symbols.PROT.text(5) == "PROT_READ|PROT_EXEC"
    assert symbols.PROT.text(0x1000001) == "PROT_READ|0x1000000"
    assert symbols.AT.text(0) == "0" and symbols.SIGNAL.text(99) == "99"
    assert symbols.CLONE.text(0x1200011) == "SIGCHLD|CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID"
    assert symbols.FLOCK.text(6) == "LOCK_EX|LOCK_NB"
