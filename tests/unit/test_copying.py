"""Copying for a terminal in the foreground never waits for the reader (krun/oci/copying.py)."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import tty
from collections.abc import Callable, Iterator

import pytest

from krun.oci import copying
from krun.oci.copying import Flow, Target, own_source
from krun.oci.foreground import Foreground
from krun.sysio import poll_for


@pytest.fixture(autouse=True)
def not_for_ever() -> Iterator[None]:
    """Where something waits, the test ends by an exception."""

    def late(*_: object) -> None:
        raise AssertionError("it waits for the reader")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def stream() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def terminal() -> tuple[int, int]:
    master, slave = pty.openpty()
    tty.setraw(slave)
    return master, slave


#: Makes (what the reader has, what krun writes to).
TARGETS: dict[str, Callable[[], tuple[int, int]]] = {"pipe": os.pipe, "socket": stream, "terminal": terminal}


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize("kind", TARGETS)
def test_a_reader_that_stops(monkeypatch: pytest.MonkeyPatch, kind: str, anew: bool) -> None:
    """With the file opened anew, and where that is not allowed (another user's): nothing waits, and nothing is lost."""
    reader, end = TARGETS[kind]()
    with monkeypatch.context() as patch:
        if not anew:
            patch.setattr(copying.os, "open", lambda *_: (_ for _ in ()).throw(PermissionError()))
        target = Target(end)
    source, feeder = os.pipe()
    flow = Flow(source, target)
    sent = read = 0

    def run() -> None:
        while poll_for([flow.wanted()], 50)[0] and flow.open:
            flow.go_on()

    for _ in range(100):
        sent += os.write(feeder, b"x" * 8192)
        run()
        if flow.left:
            break
    assert flow.left and flow.wanted() == (target.fd, select.POLLOUT)
    os.close(feeder)
    os.set_blocking(reader, False)
    while flow.open:
        try:
            while piece := len(os.read(reader, 1 << 16)):
                read += piece
        except BlockingIOError:
            pass
        run()
    try:
        while piece := len(os.read(reader, 1 << 16)):
            read += piece
    except BlockingIOError:
        pass
    assert read == sent
    assert os.get_blocking(end)
    target.close()
    for fd in (reader, end, source):
        os.close(fd)


def test_the_end_of_either_side() -> None:
    for gone in (0, 1):
        source, feeder = os.pipe()
        reader, end = os.pipe()
        target = Target(end)
        flow = Flow(source, target)
        os.write(feeder, b"x")
        os.close((feeder, reader)[gone])
        for _ in range(3):
            flow.go_on()
        assert not flow.open and flow.wanted() == (-1, 0)
        target.close()
        for fd in (source, end, (reader, feeder)[gone]):
            os.close(fd)


def test_one_descriptor_in_both_directions() -> None:
    one, other = stream()
    try:
        wanted = [(one, select.POLLIN), (one, select.POLLOUT), (-1, select.POLLIN)]
        assert poll_for(wanted, 0) == [False, True, False]
        os.write(other, b"x")
        assert poll_for(wanted, 0) == [True, True, False]
    finally:
        os.close(one)
        os.close(other)


# --- what others do meanwhile, or after the program's end (krun/oci/foreground.py)


def serve(source: int, target: Target | None) -> int:
    """Foreground's loop for a program that has ended; returns its exit code."""
    front = Foreground.__new__(Foreground)  # its own signals stay the test's
    front.signals, front.relay = -1, None
    with subprocess.Popen(["sh", "-c", "read word; exit 7"], stdin=subprocess.PIPE) as program:
        pidfd = os.pidfd_open(program.pid)
        assert program.stdin is not None
        program.stdin.close()
        select.select([pidfd], [], [])
        try:
            return front._serve(program.pid, pidfd, source, [Flow(source, target)], Flow(0, None))
        finally:
            os.close(pidfd)
            program.returncode = 7  # reaped by the loop


def test_a_terminal_that_others_keep_writing() -> None:
    """The program has ended, and krun with it, after a bounded rest of what others write."""
    signal.alarm(10)
    source, sink = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
    target = Target(sink)
    assert serve(source, target) == 7
    target.close()
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_another_reader_was_faster(kind: str) -> None:
    """Two commands on one terminal: both are told of a line, one gets it. The other waited in read(2), deaf to signals and to the end."""
    here, there = os.pipe() if kind == "pipe" else pty.openpty()[::-1]
    out, feeder = os.pipe()
    source = own_source(here)
    try:
        assert source >= 0 and os.get_blocking(here)
        flow = Flow(source, Target(feeder, True), True)
        flow.go_on()
        assert flow.open and not flow.left
        os.write(there, b"line\n")
        flow.go_on()
        assert flow.left == b"line\n"
        flow.close()
    finally:
        for fd in (here, there, out):
            os.close(fd)
