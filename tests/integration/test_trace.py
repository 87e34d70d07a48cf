"""`krun trace`: the calls of a running container, seen from the host."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from helpers.runtime import wait_for as wait_until
from helpers.settings import complete_calls

from krun.kvm import board, watch

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
LOOP = "while :; do sleep 0.05; cat /nosuch 2>/dev/null; done"


def wait_for(condition):
    wait_until(condition, "the trace", 60)


class Tracer:
    """A `krun trace` in the background."""

    def __init__(self, runtime, container, *options):
        self.out = Path(runtime.work) / f"trace.{len(list(Path(runtime.work).glob('trace.*')))}"
        with self.out.open("w") as file:
            self.process = subprocess.Popen(
                [runtime.path, "--root", runtime.root, "trace", *options, container.id],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.board = f"{runtime.root}/{container.id}/board"
        wait_for(lambda: number(self.board, watch.WORD_AT) or self.process.poll() is not None)

    def text(self):
        return self.out.read_text()

    def lines(self):
        return [json.loads(line) for line in self.text().splitlines()]

    def end(self, number=signal.SIGINT):
        """Its status and standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


def number(path, at):
    with open(path, "rb") as file:
        return int.from_bytes(os.pread(file.fileno(), 4, at), "little")


def test_calls_of_new_processes(runtime, bundle):
    container = runtime.start(bundle.args("sh", "-c", LOOP))
    files = sorted(os.listdir(f"{runtime.root}/{container.id}"))
    tracer = Tracer(runtime, container, "-e", "%file,clone,exit_group")
    wait_for(
        lambda: tracer.text().count('"/nosuch", O_RDONLY) = -1 ENOENT (No such file or directory) <') >= 3
    )
    assert tracer.end() == (0, "")
    text = tracer.text()
    assert " exit_group(1) = ?\n" in text and ' execve("' in text and "[1] " in text
    assert "clone(SIGCHLD|" in text and " nanosleep(" not in text and "wait4" not in text
    # Nothing is left: neither the word nor the memory of the ring.
    assert number(tracer.board, watch.WORD_AT) == 0
    assert (
        os.stat(tracer.board).st_size == board.SIZE and os.stat(tracer.board).st_blocks * 512 < board.WATCH_AT
    )
    assert sorted(os.listdir(f"{runtime.root}/{container.id}")) == files


def test_signals_and_ends(runtime, bundle):
    """As strace(1) shows them: with any choice of calls, and without if they are not asked for."""
    script = "trap : USR1; while :; do kill -USR1 $$; (exit 7); sh -c 'kill -SEGV $$'; sleep 0.05; done"
    container = runtime.start(bundle.args("sh", "-c", script))
    for choice, shown in ((("-e", "kill"), True), (("-e", "kill,exit_group", "-e", "signal=none"), False)):
        tracer = Tracer(runtime, container, *choice)
        wait_for(lambda text=tracer.text: text().count("kill(1, SIGUSR1) = 0") >= 5)
        assert tracer.end() == (0, "")
        text = tracer.text()
        for line in (
            "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=1, si_uid=0} ---",
            "--- SIGSEGV {si_signo=SIGSEGV, si_code=SI_USER, si_pid=",
            "+++ killed by SIGSEGV +++",
            "+++ exited with 7 +++",
        ):
            assert (line in text) == shown, line
        assert ("exit_group(7) = ?" in text) != shown


def test_choice_and_json(runtime, bundle):
    other = "echo $$ >/pid; while :; do sleep 0.05; ls / >/dev/null; done"
    container = runtime.start(bundle.args("sh", "-c", f"sh -c '{other}' & {LOOP}"))
    tracer = Tracer(runtime, container, "--json", "--errno", "ENOENT", "-e", "openat,open")
    wait_for(lambda: len(tracer.text().splitlines()) >= 3)
    assert tracer.end(signal.SIGTERM) == (0, "")
    for line in tracer.lines():
        assert (line["call"], line["error"], line["result"]) == ("openat", "ENOENT", -2)
        assert line["args"] == ["AT_FDCWD", '"/nosuch"', "O_RDONLY"]
        assert line["took"] > 0 and line["time"] > 1.7e18 and line["pid"] == line["tid"]
    # The other process of the container, and the children that it makes from now on.
    pid = int((bundle.rootfs / "pid").read_text())
    tracer = Tracer(runtime, container, "--json", "-p", str(pid), "-e", "clone,execve,openat")
    wait_for(
        lambda: sum(line.endswith("}") and '"execve"' in line for line in tracer.text().splitlines()) >= 2
    )
    tracer.end()
    assert "/nosuch" not in tracer.text()
    made = {line["result"] for line in tracer.lines() if line.get("call") == "clone"}
    assert {line["pid"] for line in tracer.lines() if line.get("call") == "clone"} == {pid}
    assert {line["pid"] for line in tracer.lines()} - {pid} <= made
    assert any(
        line.get("call") == "openat" and line["pid"] != pid for line in tracer.lines()
    )  # behind its execve


def test_the_end_of_the_container_ends_the_trace(runtime, bundle):
    container = runtime.start(bundle.args("sleep", "1000"))
    tracer = Tracer(runtime, container, "-e", "exit_group,kill,tgkill")
    assert container.exec("sh", "-c", "exit 3").status == 3
    container.call("kill", "KILL").ok()
    _, err = tracer.process.communicate(timeout=60)
    assert (tracer.process.returncode, err) == (0, "")
    assert " exit_group(3) = ?" in tracer.text()


def test_who_may_not_be_traced(runtime, bundle):
    done = runtime.call("trace", "nosuch")
    assert done.status == 1 and "container does not exist: nosuch" in done.err
    container = runtime.start(bundle.args("sleep", "1000"))
    for options, words in (
        (("-e", "opennat"), "unknown system call 'opennat'"),
        (("--errno", "EFOO"), "unknown error 'EFOO'"),
        (("-p", "0"), "--pid: not a process id: 0"),
        (("--string", "1000"), "--string: 0 to 200 bytes"),
    ):
        done = container.call("trace", options=options)
        assert done.status == 1 and words in done.err
    tracer = Tracer(runtime, container)
    done = container.call("trace")
    assert done.status == 1 and f"process {tracer.process.pid} is tracing it; end that one first" in done.err
    tracer.end(signal.SIGKILL)
    Tracer(runtime, container).end()  # a reader that was killed does not stand in the way
    container.call("kill", "KILL").ok()
    wait_for(lambda: container.state()["status"] == "stopped")
    done = container.call("trace")
    assert done.status == 1 and "in the stopped state" in done.err


def test_completed_calls_are_seen_and_come_back(runtime, bundle, tmp_path):
    complete_calls(runtime, "local: on, sockets: on")
    (tmp_path / "c.c").write_text(
        "#include <stdio.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n"
        "int main(void) { struct timespec t = {0, 2000000};\n"
        "for (;;) { for (int i = 0; i < 50; i++) syscall(SYS_getppid), syscall(SYS_getpid); nanosleep(&t, 0); } }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", bundle.rootfs / "bin" / "c", tmp_path / "c.c"], check=True)
    container = runtime.start(bundle.args("c"))
    for options, ratio in ((("-e", "getpid,getppid"), 1), (("-e", "getppid"), 0)):
        tracer = Tracer(runtime, container, *options)
        wait_for(lambda tracer=tracer: tracer.text().count("getppid() = 0") >= 500)
        assert tracer.end() == (0, "")
        text = tracer.text()
        assert 0.8 * ratio <= text.count(" getpid() = 1 ") / text.count(" getppid() = 0 ") <= 1.2 * ratio


def test_a_reader_that_does_not_read(runtime, bundle, tmp_path):
    """The container goes on, the records are lost, and the reader says how many."""
    (tmp_path / "c.c").write_text(
        "#include <sys/syscall.h>\n#include <unistd.h>\n"
        "int main(void) { for (int i = 0; i < 30000; i++) syscall(SYS_getppid); return 0; }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", bundle.rootfs / "bin" / "c", tmp_path / "c.c"], check=True)
    container = runtime.start(bundle.args("sleep", "1000"))
    tracer = Tracer(runtime, container, "-e", "getppid", "-e", "signal=none")
    tracer.process.send_signal(signal.SIGSTOP)
    container.exec("c").ok()
    tracer.process.send_signal(signal.SIGCONT)
    wait_for(lambda: tracer.text().count("\n") >= watch.RECORDS)
    status, err = tracer.end()
    assert status == 0 and "records were lost: the reader was too slow" in err
    assert int(err.split('msg="')[1].split()[0]) + tracer.text().count("\n") == 30000


@pytest.fixture
def flood(runtime, bundle, tmp_path):
    """A container that does nothing but call, also what no kernel has."""
    (tmp_path / "f.c").write_text(
        "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { fork(); for (;;) syscall(SYS_getppid), syscall(500), syscall(1000); }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", bundle.rootfs / "bin" / "f", tmp_path / "f.c"], check=True)
    return runtime.start(bundle.args("f"))


def test_an_output_that_takes_no_more(runtime, flood, tmp_path):
    """A signal ends a trace whose output nobody reads; a full disk is an error."""
    command = [runtime.path, "--root", runtime.root, "trace", "-e", "getppid"]
    reading, writing = os.pipe()
    process = subprocess.Popen([*command, flood.id], stdin=subprocess.DEVNULL, stdout=writing)
    path = f"{runtime.root}/{flood.id}/board"
    wait_for(lambda: number(path, board.WATCH_AT + watch.LOST_AT) > watch.RECORDS)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    os.close(writing)
    os.close(reading)
    done = flood.call("trace", options=("-e", "getppid", "--output", "/dev/full"))
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "write trace file /dev/full: no space left on device" in done.err
    # A trace that is refused leaves the first one's file as it is.
    file = tmp_path / "file"
    tracer = Tracer(runtime, flood, "--output", str(file))
    wait_for(lambda: file.exists() and file.stat().st_size > 1000)
    assert flood.call("trace", options=("--output", str(file))).status == 1
    tracer.end()
    assert file.read_bytes()[:1] == b"["
    # Calls that no table has.
    text = file.read_text()
    assert " syscall_500(" in text and " syscall_1000(" in text and ") = -1 ENOSYS (" in text


def test_trace_log(runtime, bundle, tmp_path):
    """The global option of engines: a file for each container, which has an end; no directory of somebody else's."""
    folder = tmp_path / "traces"
    folder.mkdir(mode=0o755)
    runtime.options = ["--trace-log", str(folder)]
    bundle.config["annotations"] = {"io.krun.trace": str(tmp_path / "other")}
    container = runtime.start(bundle.args("sh", "-c", LOOP))
    container.exec("sh", "-c", "exit 3")
    file = folder / f"{container.id}.trace"
    wait_for(
        lambda: 'openat(AT_FDCWD, "/nosuch", ' in file.read_text() and "exit_group(3) = " in file.read_text()
    )
    assert file.stat().st_mode & 0o7777 == 0o600 and not (tmp_path / "other").exists()
    os.truncate(file, 64 << 20)
    container.exec("true").ok()
    assert file.stat().st_size < (64 << 20) + 4096
    folder.chmod(0o777)
    done = container.exec("true")
    assert done.status != 0 and f"use directory {folder}: owned by uid 0, mode 0777" in done.err
    runtime.options = []


def test_a_process_without_room_for_the_records(runtime, bundle, tmp_path):
    """It goes on, and the trace says that it is not shown."""
    (tmp_path / "c.c").write_text(
        "#include <sys/resource.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n"
        "int main(void) { struct rlimit r = {1, 1}; struct timespec t = {0, 2000000};\n"
        "if (setrlimit(RLIMIT_AS, &r)) return 1;\n"
        "for (;;) syscall(SYS_getppid), nanosleep(&t, 0); }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", bundle.rootfs / "bin" / "c", tmp_path / "c.c"], check=True)
    container = runtime.start(bundle.args("c"))
    limits = Path(f"/proc/{container.state()['pid']}/limits")
    wait_for(lambda: re.search(r"Max address space +1 ", limits.read_text()))
    tracer = Tracer(runtime, container)
    wait_for(lambda: number(tracer.board, watch.BLIND_AT) == 1)
    status, err = tracer.end()
    assert status == 0 and "1 processes are not shown: their limit of address space has no room" in err
    assert container.state()["status"] == "running" and "getppid" not in tracer.text()
