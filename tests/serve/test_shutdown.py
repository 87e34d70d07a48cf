"""The end of krun serve by a signal, in each phase of its life: it ends, and says what it left."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.runtime import ROOT, find
from helpers.serveapi import SERVING, ksvc

from .test_serve import Server, images, kill_worker, service, workers  # noqa: F401  (images is a fixture)

as_root = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]
TERM, INT = signal.SIGTERM, signal.SIGINT
BOTH = pytest.mark.parametrize("number", [TERM, INT], ids=["term", "int"])

#: A command that does not come back, and tells that it has been called. Its command line has its path, in the test's directory.
HANG = ": >{flag}; while sleep 1; do :; done"
#: A runtime that does not come back from one verb; the others are runc's.
HANGING = """#!/bin/sh
for word in "$@"; do [ "$word" = create ] && {{ {hang}; }}; done
exec {runc} "$@"
"""


def slow_command(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def server(tmp_path, images):  # noqa: F811
    made = Server(tmp_path / "data", str(find("runc")), images)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end()
    # Instances that a SIGTERM has left: their worker ends with them, because no server is connected.
    for pid in worker_pids(made):
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
    made.until(lambda: not workers(tmp_path), "the worker has ended", 60)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert os.listdir(tmp_path / "data" / "instances") == []


def worker_pids(server):
    found = []
    for name in workers(server.directory.parent):
        try:
            if b"serve.run.worker" in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def log(server):
    return (server.directory / "log").read_text()


def ends(server, number):
    """Sends the signal; returns what the server wrote after it. Popen.wait's time-out is what a hang meets."""
    before = len(log(server))
    assert server.end(number) == 0, log(server)[-3000:]
    written = log(server)[before:]
    assert "Traceback" not in written and "was destroyed" not in written, written
    return written


def began(server, path, words="", headers=""):
    """A request that has reached the program: a socket, after the response's head where there is one."""
    sock = socket.create_connection(("127.0.0.1", server.ingress), 30)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: hello.default.localhost\r\n{headers}\r\n".encode())
    if words:
        data = b""
        while words.encode() not in data:
            data += sock.recv(4096)
            assert data
    else:
        # The program has read it when its process is in no accept any more: it says so itself.
        server.until(lambda: " sleeps\n" in program_log(server), "the program has the request")
    return sock


def program_log(server):
    return "".join(
        path.read_text() for path in (server.directory / "logs").glob("hello-*/user-container/*.log")
    )


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
class TestPhases:
    @BOTH
    def test_nothing_to_do(self, server, number):
        server.start()
        assert "end:" not in ends(server, number)

    @BOTH
    def test_before_it_is_ready(self, server, number):
        """A signal while the server starts undoes the start."""
        server.directory.mkdir(exist_ok=True)
        for delay in (0.0, 0.1, 0.3, 0.6):
            command = [sys.executable, "-m", "krun", "serve", "--directory", str(server.directory), "--api",
                       f"127.0.0.1:{server.api}", "--listen", f"127.0.0.1:{server.ingress}", "--runtime", server.runtime,
                       "--images", str(server.images), "--no-pull"]  # fmt: skip
            with open(server.directory / "log", "a") as out:
                process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
            server.until(lambda pid=process.pid: catches(pid), "the handlers are there")
            time.sleep(delay)
            process.send_signal(number)
            assert process.wait(60) == 0, log(server)
        assert "Traceback" not in log(server)

    @BOTH
    def test_an_instance_that_starts(self, server, number, tmp_path):
        hang = HANG.format(flag=tmp_path / "flag")
        server.runtime = slow_command(tmp_path / "runtime", HANGING.format(runc=find("runc"), hang=hang))
        server.start()
        assert server.ask("POST", f"{SERVING}/services", service())[0] == 201
        server.until((tmp_path / "flag").exists, "the runtime hangs")
        written = ends(server, number)
        if number == INT:
            assert re.search(r"not ended 8 s after SIGTERM, and killed: hello-00001-", written)

    @BOTH
    def test_an_image_that_is_fetched(self, server, number, tmp_path, monkeypatch):
        slow_command(tmp_path / "podman", "#!/bin/sh\n" + HANG.format(flag=tmp_path / "flag"))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        server.start()
        assert server.ask("POST", f"{SERVING}/services", ksvc(image="reg.example/other"))[0] == 201
        server.until((tmp_path / "flag").exists, "podman hangs")
        ends(server, number)

    @BOTH
    @pytest.mark.parametrize(
        ("path", "words", "headers"),
        [
            ("/hang", "", ""),
            ("/stream", "more", ""),
            ("/tunnel", "101", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AA==\r\n"),
        ],
        ids=["request", "stream", "websocket"],
    )
    def test_a_request(self, server, number, path, words, headers):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        with began(server, path, words, headers):
            written = ends(server, number)
        assert "1 connections were cut" in written

    @BOTH
    def test_a_watch(self, server, number):
        server.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.api, timeout=30)
        connection.request("GET", f"{SERVING}/services?watch=true")
        connection.getresponse()
        ends(server, number)

    @BOTH
    def test_an_instance_that_drains(self, server, number):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        with began(server, "/hang"):
            server.ask("DELETE", f"{SERVING}/services/hello")
            ends(server, number)

    @BOTH
    def test_a_killed_worker(self, server, number):
        server.start()
        server.ask("POST", f"{SERVING}/services", service(min_scale="1"))
        server.ready()
        kill_worker(server)
        ends(server, number)
        if not worker_pids(server):
            # The server ended before it had another worker: the next one takes down what is left.
            server.start()
            server.end(INT)

    @BOTH
    def test_a_stopped_worker(self, server, number):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        (pid,) = worker_pids(server)
        os.kill(pid, signal.SIGSTOP)
        written = ends(server, number)
        if number == INT:
            assert "the worker does not answer" in written and "hello-00001-" in written

    def test_a_start_with_a_stopped_worker(self, server):
        """The server does not wait for ever for the worker's instances, and a signal ends the wait."""
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        (pid,) = worker_pids(server)
        ends(server, TERM)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(AssertionError):
            server.start()
        assert server.process.wait(60) == 1
        assert "no answer after 20 s; is it stopped?" in log(server)

    def test_with_a_server_only_the_server_ends_the_worker(self, server):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        pids = worker_pids(server)
        os.kill(pids[0], TERM)
        time.sleep(2)
        assert worker_pids(server) == pids and server.env("K_SERVICE") == "hello"

    def test_a_worker_whose_directory_is_gone_ends_with_its_instances(self, server):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        inits = children(worker_pids(server)[0])
        assert inits
        server.end(signal.SIGKILL)
        shutil.rmtree(server.directory)
        (server.directory / "instances").mkdir(parents=True)
        (server.directory / "log").touch()
        server.until(lambda: not worker_pids(server), "the worker ends", 60)
        assert not [pid for pid in inits if Path(f"/proc/{pid}").exists()]

    def test_a_second_signal_ends_at_once(self, server):
        server.start()
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        with began(server, "/hang"):
            server.process.send_signal(INT)
            server.until(lambda: not reachable(server.api), "the end has begun")
            server.process.send_signal(INT)
            assert server.process.wait(60) == -INT
        assert "a second signal: the process ends at once; step: drain requests; still there:" in log(server)
        server.until(lambda: not worker_pids(server), "the worker has ended the instances", 60)


def children(pid):
    return [
        int(word)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for word in path.read_text().split()
    ]


def catches(pid):
    """Whether a process has a handler for SIGTERM (proc_pid_status(5), SigCgt)."""
    caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return int(caught[1], 16) >> (TERM - 1) & 1


def reachable(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    except OSError:
        return False


STUCK = """
import asyncio, sys, time
from krun.serve.ending import Ending

async def stubborn():
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

async def main(ending):
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)  # it is in its try
    print("ready", flush=True)
    await ending.asked()
    {work}
    await ending.sweep()

with Ending(lambda line: print(line, file=sys.stderr, flush=True), longest=3) as ending:
    asyncio.run(main(ending))
"""


@pytest.mark.parametrize(
    "work", ["pass", "time.sleep(1000)", "await ending.step('wait', 0.1, asyncio.sleep(1000))"]
)
def test_an_end_that_takes_too_long_is_ended(work):
    """A task that swallows its cancellations, and a callback that does not return: SIGKILL at the end of the time."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK.format(work=work)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    process.send_signal(TERM)
    _, text = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "not done 3 s after the signal: the process ends at once" in text and "stubborn" in text
    if "step" in work:
        assert "end: wait: not done after 0.1 s; still there:" in text


def test_a_step_that_fails_is_reported_and_the_next_one_follows():
    from krun.serve.ending import Ending

    lines, done = [], []

    async def fail():
        raise ValueError("no")

    async def follow():
        done.append(1)

    async def test():
        ending = Ending(lines.append)
        await ending.step("first", 1, fail())
        await ending.step("second", 1, follow())
        await ending.sweep()

    asyncio.run(test())
    assert lines == ["end: first: no"] and done
