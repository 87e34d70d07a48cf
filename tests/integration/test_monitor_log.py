"""The monitor's log (`--trace FILE`, krun.kvm.direct --log) and the words of a monitor that ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.runtime import DIRECT, wait_for

ROOT = Path(__file__).resolve().parents[2]
#: A program with a limit on files, and with one signal that waits; then so many calls that a trace of them fills a pipe.
PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    sigset_t pipes, waiting;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipes, 0);
    kill(getpid(), SIGPIPE);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    for (int i = 0; i < 1500; i++)
        getppid();
    sigpending(&waiting);
    dprintf(1, "SIGPIPE waits: %d, SIGXFSZ waits: %d\n", sigismember(&waiting, SIGPIPE), sigismember(&waiting, SIGXFSZ));
    return 0;
}
"""


def compiled(folder: Path, text: str) -> Path:
    (folder / "program.c").write_text(text)
    subprocess.run(["gcc", "-static", "-o", folder / "program", folder / "program.c"], check=True)
    return folder / "program"


def direct(*words: object) -> subprocess.CompletedProcess[bytes]:
    command = [*DIRECT, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)


@pytest.mark.parametrize("log", ["file", "pipe"])
def test_a_log_that_cannot_be_written_sends_the_payload_no_signal(tmp_path: Path, log: str) -> None:
    program, file = compiled(tmp_path, PROGRAM), tmp_path / "log"
    natively = subprocess.run([program], capture_output=True, check=False)
    assert (natively.returncode, natively.stdout) == (0, b"SIGPIPE waits: 1, SIGXFSZ waits: 0\n")
    reader = None
    if log == "pipe":  # one that goes away after the first line
        os.mkfifo(file)
        read = "import sys; open(sys.argv[1], 'rb').read(1)"
        reader = subprocess.Popen([sys.executable, "-c", read, file])
    ended = direct("--trace", "--log", file, program)
    if reader:
        reader.wait()
    else:
        assert b"setrlimit(" not in file.read_bytes().split(b"\n", 1)[0] and b"kill(" in file.read_bytes()
    assert (ended.returncode, ended.stdout) == (natively.returncode, natively.stdout)


@pytest.fixture
def broken(runtime, bundle, tmp_path):
    """A container whose init's monitor is about to end: its vCPU's descriptor is closed. Returns what it has to say."""
    program = tmp_path / "inject"
    source = ROOT / "tests" / "helpers" / "inject.c"
    subprocess.run(["gcc", "-static", "-O1", "-o", program, source], check=True)

    def breaks(script: str, *options: str):
        container = runtime.start(bundle.shell(script), *options)
        wait_for(lambda: Path(f"/proc/{container.pid}/comm").read_text() == "sleep\n", "no sleep")
        files = Path(f"/proc/{container.pid}/fd")
        number = next(p.name for p in files.iterdir() if "kvm-vcpu" in os.readlink(p))
        done = subprocess.run([program, str(container.pid), "3", number], capture_output=True, check=True)
        assert done.stdout == b"0\n"
        return container

    return breaks


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "exec 2>&-",
        "exec 2>/dev/full",
        "mkfifo /tmp/f; exec 2<>/tmp/f; dd if=/dev/zero of=/tmp/f bs=4096 count=16 2>/dev/null",
        "ulimit -S -f 0",
        "ulimit -f 0",
    ],
    ids=["open", "closed", "full", "nobody reads", "soft limit", "hard limit"],
)
@pytest.mark.parametrize("log", [False, True], ids=["no log", "log"])
def test_a_monitor_that_ends_says_why(runtime, broken, tmp_path, stderr, log):
    trace = tmp_path / "trace"
    container = broken(f"{stderr}\nexec sleep 2", *(("--trace", str(trace)) if log else ()))
    assert container.wait() == 127
    said = runtime.call("delete", container.id).ok().err
    assert re.search(rf"container {container.id}: the monitor of process 1 ended: KVM_RUN: errno 9", said), (
        said
    )
    if log and stderr != "ulimit -f 0":  # only the board is left there
        assert "krun-monitor: fatal: KVM_RUN: errno 9" in trace.read_text()
    elif not stderr:
        assert "krun-monitor: fatal: KVM_RUN: errno 9" in container.out()
