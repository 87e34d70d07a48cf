"""Programs that cannot begin: one line that says why, and runc's code; never a signal of the monitor's without a word."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from signal import SIGSEGV, SIGXFSZ

import pytest
from helpers.bundle import Bundle

KRUN_ONLY = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
_PT_LOAD, _ET_EXEC, _EM_X86_64 = 1, 2, 62


def unloadable() -> bytes:
    """An ELF program whose one segment, of 2^47 bytes, has no place: the kernel would kill it in execve(2)."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", _ET_EXEC, _EM_X86_64, 1, 0x400000, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", _PT_LOAD, 7, 0, 0x400000, 0x400000, 120, 1 << 47, 4096)
    return ident + head + segment


def exec_with(container, **changes):
    """exec of `true` with changes to the container's own process."""
    process = {**container.bundle.process, "args": ["true"], **changes}
    file = container.runtime.work / "process.json"
    file.write_text(json.dumps(process))
    return container.runtime.call("exec", "--process", file, container.id)


def put(bundle, name: str, data: bytes) -> str:
    """A file of the image that may be executed; its path inside."""
    file = bundle.rootfs / "bin" / name
    file.write_bytes(data)
    file.chmod(0o755)
    return f"/bin/{name}"


DYNAMIC = Path("/bin/true").read_bytes()  # the busybox root has no interpreter for it
STATIC = Path("/bin/busybox").read_bytes()


@pytest.mark.parametrize(
    ("data", "status", "words", "cause"),
    [
        pytest.param(
            DYNAMIC, 1, "no such file or directory", "/lib64/ld-linux-x86-64.so.2; is the", id="libc"
        ),
        pytest.param(b"#!/bin/nope\n", 1, "no such file or directory", "interpreter: /bin/nope", id="script"),
        pytest.param(b"#!/bin/sh\r\n", 1, "no such file or directory", "CR LF", id="crlf"),
        pytest.param(b"#!/etc/hosts.d\n", 1, "no such file or directory", "/etc/hosts.d", id="absent"),
        pytest.param(b"#!/etc/passwd\n", 1, "permission denied", "/etc/passwd", id="denied"),
        pytest.param(b"text\n", 1, "exec format error", "neither an ELF program nor a script", id="text"),
        pytest.param(STATIC[:60], 1, "exec format error", "a truncated ELF header", id="cut"),
        pytest.param(STATIC[:18] + b"\xb7" + STATIC[19:], 1, "exec format error", "aarch64", id="aarch64"),
        pytest.param(STATIC[:3000], 128 + SIGSEGV, "", "mapping the program", id="beyond"),
    ],
)
def test_a_program_that_execve_refuses(runtime, bundle, data, status, words, cause):
    """As with runc, it is the end of the container's process: start and exec succeed, the reason is in the payload's output."""
    program = put(bundle, "unfit", data)
    container = runtime.start(bundle.args("sleep", "1000"))
    done = container.exec(program)
    # An execve(2) that has failed; beyond its point of no return the process dies without a word.
    line = f"exec {program}: {words}"
    assert done.status == status and (line in done.err if status == 1 else True), done
    if runtime.name == "krun":
        assert done.err.count("\n") == 1 and line in done.err and cause in done.err, done
    first = runtime.create(runtime_bundle(bundle, program))
    first.call("start").ok()
    assert first.wait() == status and (line in first.out() if status == 1 else True), first.out()


def runtime_bundle(bundle, program: str) -> Bundle:
    """Another container of the same root, whose program this is."""
    return Bundle(bundle.path.with_name("second"), root=bundle.rootfs).args(program)


@KRUN_ONLY
def test_exec_says_why_a_program_does_not_load(runtime, bundle):
    """Without a start FIFO nobody listened any more when the program was loaded: status 139, no word."""
    program = put(bundle, "unloadable", unloadable())
    done = runtime.start(bundle.args("sleep", "1000")).exec(program)
    assert done.status == 1 and f"exec {program}: exec format error: an ELF" in done.err, done


@KRUN_ONLY
def test_a_limit_without_room_for_kvms_thread_is_an_error(runtime, bundle):
    """It was a wait without end, of run and of exec."""
    container = runtime.start(bundle.args("sleep", "1000"))
    runtime.call("update", "--pids-limit", "1", container.id).ok()
    done = container.exec("true")
    if (
        len(os.listdir(f"/proc/{container.processes()[0]}/task")) == 1
    ):  # the worker is not a thread of the process (before Linux 6.13)
        done.ok()
        return
    assert done.status == 255 and "KVM's worker thread: raise the limit of processes" in done.err, done


@KRUN_ONLY
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK"])
def test_a_limit_without_room_for_the_monitor_is_named(running, name):
    done = exec_with(running, rlimits=[{"type": name, "soft": 4096, "hard": 4096}])
    assert done.status == 255 and name in done.err, done


def test_no_file_size_limit_keeps_a_program_from_its_start(running):
    """The boot block is a file in memory: it was written under the payload's limit."""
    limit = {"type": "RLIMIT_FSIZE", "soft": 0, "hard": 0}
    exec_with(running, rlimits=[limit]).ok()
    assert exec_with(running, rlimits=[limit], args=["sh", "-c", "echo x >/tmp/x"]).status == 128 + SIGXFSZ


@pytest.mark.parametrize("program", ["/nonexistent", "/etc/passwd"])
def test_a_program_without_a_container_says_why_it_does_not_start(program):
    command = [sys.executable, "-m", "krun.kvm.direct", program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 127 and program in done.stderr and done.stderr.count("\n") == 1, done


@KRUN_ONLY
@pytest.mark.parametrize("limit", [10, 13, 16, 18, 20, 24])
def test_too_few_descriptors_leave_nothing_behind(runtime, bundle, limit):
    """Those that were opened for the container are closed before it is undone, which takes some, too."""
    container = runtime.new(bundle.args("true"))
    done = subprocess.run(
        ["prlimit", f"--nofile={limit}", *container.argv("run")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=runtime.environment,
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    # With cgroup v2 alone 24 are enough to come to the limits of the program, which are higher.
    words = ("too many open files", f"krun's own hard limit is {limit}")
    assert any(word in done.stderr.lower() for word in words) and container.left() == [], done
