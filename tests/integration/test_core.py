"""A fatal signal leaves an ELF core of the payload that gdb opens, when the core limit asks for one."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.runtime import DIRECT

ROOT = Path(__file__).resolve().parents[2]
PVM = Path("/sys/module/kvm_pvm").is_dir()
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

    command = [*DIRECT, str(program), *arguments]
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


PATCHED = r"""
#include <stdlib.h>
#include <string.h>
extern const char hot[];
__asm__(".text\n.ascii \"patched site here\"\n.globl hot\nhot: mov $39,%eax; syscall; ret\n");
int main(void) {
    for (int i = 0; i < 5000; i++)
        ((int (*)(void))hot)();
    if (!memcmp(hot, "\xb8\x27", 2))
        return 3; /* it is not patched */
    abort();
}
"""


@pytest.mark.skipif(not PVM, reason="sites are patched where KVM is PVM only (docs/calls.md)")
def test_a_core_has_the_original_text(tmp_path: Path) -> None:
    """A patched page of the text is in the core, because it is private, with the bytes that it had."""
    (tmp_path / "crash.c").write_text(PATCHED)
    program = tmp_path / "crash"
    subprocess.run(["gcc", "-o", program, tmp_path / "crash.c"], check=True)
    work = tmp_path / "work"
    work.mkdir()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    done = subprocess.run(
        [*DIRECT, "--local", str(program)],
        cwd=work,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -6, done
    (core,) = work.glob("core*")
    before, marker, text = core.read_bytes().partition(b"patched site here")
    assert marker and text.startswith(b"\xb8\x27\0\0\0\x0f\x05\xc3")


def test_no_core_without_limit(tmp_path: Path) -> None:
    (tmp_path / "crash.c").write_text(PROGRAM)
    program = tmp_path / "crash"
    subprocess.run(["gcc", "-g", "-O0", "-pthread", "-o", program, tmp_path / "crash.c"], check=True)
    command = [*DIRECT, str(program)]
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


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("rules") / "core_rules"
    source = Path(__file__).with_name("core_rules.c")
    subprocess.run(["gcc", "-O1", "-static", "-pthread", "-w", "-o", program, source], check=True)
    program.parent.chmod(0o755)
    program.parent.parent.chmod(0o755)
    return program


@pytest.fixture(params=["native", "krun"])
def crash(request: pytest.FixtureRequest, rules: Path, tmp_path: Path) -> Callable[..., list[Path]]:
    """Runs a case of core_rules.c in tmp_path/work, natively first; returns the cores that it left."""
    assert pattern_is_a_file(), "kernel.core_pattern names a program"
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o777)

    def run(case: str, limit: int | None = None, status: int | None = -6) -> list[Path]:
        def limits() -> None:
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard if limit is None else limit, hard))

        done = subprocess.run(
            [*(DIRECT if request.param == "krun" else ()), str(rules), case],
            cwd=work,
            preexec_fn=limits,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert status is None or done.returncode == status, (done.returncode, done.stderr)
        return list(work.glob("core*"))

    return run


@pytest.mark.parametrize("case", ["undumpable", "user", "fsuid", "effective"])
def test_no_core_of_what_is_not_dumpable(crash: Callable[..., list[Path]], case: str) -> None:
    """PR_SET_DUMPABLE(2const): other credentials than those the memory was read with leave no core."""
    assert Path("/proc/sys/fs/suid_dumpable").read_text().strip() == "0", "the expectation is that of mode 0"
    assert crash(case) == []


def test_core_of_who_is_dumpable_again(crash: Callable[..., list[Path]]) -> None:
    (core,) = crash("user-again")
    assert core.stat().st_uid == 1000 and stat.S_IMODE(core.stat().st_mode) == 0o600


@pytest.mark.parametrize("limit", [1, 4095, 4096, 5000, 12288, 100_000])
def test_small_limits(crash: Callable[..., list[Path]], limit: int) -> None:
    cores = crash("", limit)
    assert len(cores) == (limit >= 4096)
    for core in cores:
        assert core.stat().st_blocks * 512 <= limit + 65536  # file systems allocate ahead


def old_file(work: Path, uid: int = 1000) -> Path:
    """A file of somebody else's where the core goes, readable and writable by all."""
    path = work / "core"
    path.write_bytes(b"old")
    path.chmod(0o666)
    os.chown(path, uid, uid)
    return path


def test_an_existing_file_is_not_used(crash: Callable[..., list[Path]], tmp_path: Path) -> None:
    old = old_file(tmp_path / "work")
    with old.open("rb") as reader:
        (core,) = crash("")
        assert reader.read() == b"old" and os.fstat(reader.fileno()).st_nlink == 0
    assert core.stat().st_uid == 0 and stat.S_IMODE(core.stat().st_mode) == 0o600


def test_links_to_other_files(crash: Callable[..., list[Path]], tmp_path: Path) -> None:
    old = old_file(tmp_path / "work")
    os.link(old, tmp_path / "other")
    (core,) = crash("")
    assert (tmp_path / "other").read_bytes() == b"old" and core.stat().st_nlink == 1
    core.unlink()
    core.symlink_to(tmp_path / "other")
    (core,) = crash("")
    assert (tmp_path / "other").read_bytes() == b"old" and not core.is_symlink()


def test_what_cannot_be_removed_stays(crash: Callable[..., list[Path]], tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "core").mkdir()
    (core,) = crash("")
    assert core.is_dir()
    core.rmdir()
    old = old_file(work, 0)
    work.chmod(0o1777)
    crash("user-again")
    assert old.read_bytes() == b"old"


def test_which_mappings_are_dumped(crash: Callable[..., list[Path]]) -> None:
    (core,) = crash("mappings")
    data = core.read_bytes()
    assert [data.count(bytes([n]) * 4096) for n in range(1, 9)] == [1, 0, 1, 1, 1, 0, 1, 1]


def test_a_limit_that_is_raised_later(crash: Callable[..., list[Path]]) -> None:
    assert len(crash("later", 0)) == 1


@pytest.mark.parametrize("case", ["stackless", "child"])
def test_a_core_is_left(crash: Callable[..., list[Path]], case: str) -> None:
    """Of a process without its first stack (where its auxiliary vector was), and of a child on its parent's memory."""
    (core,) = crash(case, status=None)
    done = subprocess.run(["readelf", "-hln", core], capture_output=True, text=True, check=False)
    assert "NT_PRSTATUS" in done.stdout and not done.stderr


def test_threads_that_are_anywhere(crash: Callable[..., list[Path]]) -> None:
    """All of them come to a stand, whatever they were doing, without a lock held."""
    for _ in range(8):
        (core,) = crash("busy")
        notes = subprocess.run(["readelf", "-n", core], capture_output=True, text=True, check=True).stdout
        assert notes.count("NT_PRSTATUS") >= 21
        core.unlink()


def test_two_that_die_at_once(crash: Callable[..., list[Path]]) -> None:
    for _ in range(5):
        (core,) = crash("two")
        core.unlink()


def test_the_hosts_log_has_no_fault_of_the_monitors(tmp_path: Path) -> None:
    """A payload that dies of a fault as pid 1 ends by the signal, not by an instruction of the monitor's."""
    program = tmp_path / f"faults{os.getpid()}"
    (tmp_path / "faults.c").write_text("int main(void) { *(volatile int *)16 = 1; return 0; }")
    subprocess.run(["gcc", "-static", "-o", program, tmp_path / "faults.c"], check=True)
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(log, 0, os.SEEK_END)
        command = ["unshare", "--pid", "--fork", *DIRECT, str(program)]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        said = []
        with contextlib.suppress(BlockingIOError):
            while True:
                with contextlib.suppress(BrokenPipeError):  # overwritten meanwhile
                    said.append(os.read(log, 8192).decode(errors="replace"))
    finally:
        os.close(log)
    assert done.returncode in (-11, 139)
    assert not [line for line in said if program.name[:15] in line and "in krun-monitor" in line]
