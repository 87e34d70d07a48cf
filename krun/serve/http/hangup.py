"""Peers that go while nobody reads what they send: asyncio looks for their end only where it reads.

A reader that does not keep up pauses a connection. Its peer may go then without being noticed, and its request keeps its slot.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

#: Both directions have ended, of which one may be this side's (EPOLLHUP), or the peer has sent a reset.
GONE = select.EPOLLHUP | select.EPOLLERR


class Hangups:
    """The paused connections of one loop, in an epoll of their own that the loop watches as one descriptor."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[int, Callable[[int], None]] = {}
        self._closed = False

    def watch(self, transport: asyncio.Transport, call: Callable[[int], None]) -> int:
        """Calls `call` with the events (epoll_ctl(2)) when the peer sends nothing more, EPOLLRDHUP, and when it has gone.

        Returns what `forget` wants.
        """
        fd: int = transport.get_extra_info("socket").fileno()
        if self._closed or fd < 0:
            return -1
        if self._epoll is None:
            self._loop = asyncio.get_running_loop()
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._ready)
        self._calls[fd] = call
        # Edge-triggered: told once for each of both, and at once for what has happened already.
        self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLET)
        return fd

    def forget(self, fd: int) -> None:
        """Ends a watch, also one that has ended. Before the descriptor is closed: its number is another connection's then."""
        if self._calls.pop(fd, None) is not None and self._epoll is not None:
            self._epoll.unregister(fd)

    def _ready(self) -> None:
        assert self._epoll is not None
        for fd, events in self._epoll.poll(0):
            call = self._calls.get(fd)
            if call is not None:
                call(events)

    def close(self) -> None:
        """Ends all watches."""
        self._closed = True
        self._calls.clear()
        if self._epoll is not None and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
