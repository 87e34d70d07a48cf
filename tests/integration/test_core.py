"""A fatal signal leaves an ELF core of the payload that gdb opens, when the core limit asks for one."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int ready;
static int innermost(char *where) { if (where) *where = 1; else abort(); return 0; }
static void *spinner(void *arg) { ready = 1; for (;;) ; return arg; }
int main(int argc, char **argv) {
    pthread_t t;
    (void)argv;
    pthread_create(&t, 0, spinner, 0);
    while (!ready)
        ;
    return innermost(argc > 1 ? (char *)0x1234 : 0);
}
"""


def pattern_is_a_file() -> bool:
    return not Path("/proc/sys/kernel/core_pattern").read_text().startswith("|")


@pytest.mark.parametrize(("arguments", "signal"), [(["fault"], 11), ([], 6)])
def test_core_opens_in_gdb(tmp_path: Path, arguments: list[str], signal: int) -> None:
    assert pattern_is_a_file(), (
        "kernel.core_pattern names a program: krun leaves cores to files only (docs/limits.md)"
    )
    (tmp_path / "crash.c").write_text(PROGRAM)
    program = tmp_path / "crash"
    subprocess.run(["gcc", "-g", "-O0", "-pthread", "-o", program, tmp_path / "crash.c"], check=True)
    work = tmp_path / "work"
    work.mkdir()

    def unlimited() -> None:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    command = ["/usr/bin/python3", "-m", "krun.kvm.direct", str(program), *arguments]
    done = subprocess.run(
        command,
        cwd=work,
        preexec_fn=unlimited,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal, done.stderr
    cores = list(work.glob("core*"))
    assert len(cores) == 1
    gdb = [
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "thread apply all bt",
        "-ex",
        "print $_siginfo.si_signo",
        str(program),
        str(cores[0]),
    ]
    seen = subprocess.run(gdb, capture_output=True, text=True, check=False).stdout
    assert "innermost (where=" in seen
    assert "spinner (arg=" in seen
    assert "in main (argc=" in seen
    assert f"Program terminated with signal {'SIGSEGV' if signal == 11 else 'SIGABRT'}" in seen
    if signal == 11:
        assert "$1 = 11" in seen


def test_no_core_without_limit(tmp_path: Path) -> None:
    (tmp_path / "crash.c").write_text(PROGRAM)
    program = tmp_path / "crash"
    subprocess.run(["gcc", "-g", "-O0", "-pthread", "-o", program, tmp_path / "crash.c"], check=True)
    command = ["/usr/bin/python3", "-m", "krun.kvm.direct", str(program)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
        ),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -6
    assert not list(tmp_path.glob("core*"))
