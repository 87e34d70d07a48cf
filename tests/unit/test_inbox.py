"""krun/inbox.py: datagrams of a payload, and descriptors that come along."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from krun.inbox import Inbox

PATIENCE = 20.0


class Made:
    """An inbox with a sender. `taken` are the datagrams; `over` is set at the thread's end; `go` lets the thread go on."""

    def __init__(self, path: Path) -> None:
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        inner.bind(str(path))
        self.sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sender.connect(str(path))
        self.sender.settimeout(PATIENCE)
        self.taken: list[bytes] = []
        self.over, self.go = threading.Event(), threading.Event()
        self.inbox = Inbox(inner, self.take, self.over.set)

    def take(self, data: bytes) -> bool:
        self.taken.append(data)
        assert self.go.wait(PATIENCE)
        return data != b"last"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "socket")


def lingering() -> tuple[socket.socket, socket.socket]:
    """A TCP socket whose close waits until the other one has gone."""
    door = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(door.getsockname())
    other, _ = door.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30000))
    one.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            one.send(bytes(1 << 16))
    return one, other


def test_datagrams_in_their_order_until_one_is_the_last(made: Made) -> None:
    made.go.set()
    made.inbox.start()
    for data in (b"a", b"", b"b", b"last"):
        made.sender.send(data)
    assert made.over.wait(PATIENCE)
    assert made.taken == [b"a", b"", b"b", b"last"]
    made.inbox.close()
    assert made.inbox.fileno() == -1


def test_finish_reads_what_has_come(made: Made) -> None:
    made.inbox.start()
    for data in (b"a", b"b"):
        made.sender.send(data)
    made.inbox.finish()
    with pytest.raises(OSError):
        made.sender.send(b"c")
    made.go.set()
    assert made.over.wait(PATIENCE)
    assert made.taken == [b"a", b"b"]


@pytest.mark.parametrize("begun", [False, True])
def test_a_close_that_waits_is_the_threads(made: Made, begun: bool) -> None:
    """Neither who closes the inbox nor anybody else waits for the socket that has come along."""
    one, other = lingering()
    if begun:
        made.inbox.start()
    made.sender.send(b"first")
    socket.send_fds(made.sender, [b"with a socket"], [one.fileno()])
    # The inbox has the last descriptor of it now.
    one.close()
    made.go.set()
    made.inbox.close()
    other.close()
    assert made.over.wait(PATIENCE)


@pytest.mark.parametrize("begun", [False, True])
def test_a_signal_ends_the_wait_of_a_close(made: Made, begun: bool) -> None:
    """Each instance that krun serve had removed could leave a thread, for as long as its payload had wished."""
    before = signal.signal(signal.SIGURG, lambda *_: None)
    one, other = lingering()
    if begun:
        made.inbox.start()
    for _ in range(3):
        socket.send_fds(made.sender, [b"with a socket"], [one.fileno()])
    one.close()
    made.go.set()
    made.inbox.close()
    end = time.monotonic() + PATIENCE
    while made.inbox.interrupt(signal.SIGURG):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert made.over.is_set() and not made.inbox.interrupt(signal.SIGURG)
    other.close()
    signal.signal(signal.SIGURG, before)


def test_an_inbox_without_datagrams_is_closed_at_once(made: Made) -> None:
    number = made.inbox.fileno()
    made.inbox.close()
    made.inbox.close()
    with pytest.raises(OSError):
        os.fstat(number)
    assert not made.over.is_set()
