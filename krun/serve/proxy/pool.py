"""The proxy's connections to one instance."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol

from krun.serve.http.timers import Wheel
from krun.serve.http.types import Limits
from krun.serve.proxy.queue import Backend
from krun.serve.proxy.room import Room
from krun.serve.proxy.up1 import Keeper, Up1
from krun.serve.proxy.up2 import Up2

#: Seconds and number of idle connections that are kept.
_IDLE_TIME, _IDLE_MOST = 60.0, 256
#: An instance may close an idle connection at any time.  A request that must not be sent twice takes one that has just been used.
_JUST_USED = 1.0
#: Seconds for a connect; between two tries where the backlog of a unix socket is full.
_CONNECT_TIME, _CONNECT_AGAIN = 10.0, 0.03


class Wanting(Protocol):
    """A request that waits for a connection."""

    def connected(self, connection: Up1 | Up2) -> bool:
        """Takes it; returns False if the request has ended meanwhile."""

    def unreachable(self, text: str) -> None:
        """There is none."""

    def crowded(self, text: str) -> None:
        """There is none because of the room's bounds."""


class Pool(Keeper):
    """Connections of one backend."""

    def __init__(self, backend: Backend, http2: bool, limits: Limits, wheel: Wheel, room: Room) -> None:
        #: See Holder.
        self.count = 0
        self._room = room
        self._backend = backend
        self._http2 = http2
        self._limits = limits
        self._wheel = wheel
        self._idle: list[Up1] = []
        self._links: list[Up2] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self, now: float, replayable: bool) -> Up1 | None:
        """An idle HTTP/1.1 connection, the last one used; None if there is none that is good for the request."""
        idle = self._idle
        while idle:
            connection = idle[-1]
            if not replayable and now - connection.rested > _JUST_USED:
                return None
            idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    def link(self) -> Up2 | None:
        """An HTTP/2 connection that can carry one more request."""
        for link in self._links:
            if link.usable:
                return link
        for link in self._links:
            if not link.streams:
                # An instance that permits no stream would keep a descriptor for each request.
                link.close()
        self._links = [link for link in self._links if link.streams]
        return None

    def evict(self) -> bool:
        """Ends the connection that has been idle for the longest time; returns whether there was one."""
        if self._idle:
            self._idle.pop(0).transport.abort()
            return True
        for link in self._links:
            if not link.streams:
                self._links.remove(link)
                link.transport.abort()
                return True
        return False

    def open(self, wanting: Wanting) -> None:
        """Makes a new connection for `wanting`, or tells it that there is no room for one."""
        if not self._room.take(self):
            whose = "this instance" if self.count >= self._room.each else "the instances"
            wanting.crowded(f"too many connections to {whose}")
            return
        task = asyncio.get_running_loop().create_task(self._open(wanting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, wanting: Wanting) -> None:
        try:
            protocol = await self._connection()
        except TimeoutError:
            wanting.unreachable(f"connect to the instance: no answer in {_CONNECT_TIME:.0f} s")
            return
        except OSError as error:
            wanting.unreachable(f"connect to the instance: {error.strerror or error}")
            return
        except Exception as error:
            # KrunError: the instance has gone since the request was given to it. Whatever it is, the request gets an answer.
            wanting.unreachable(f"connect to the instance: {error}")
            return
        if isinstance(protocol, Up2):
            self._links.append(protocol)
        if not wanting.connected(protocol) and isinstance(protocol, Up1):
            self.give_back(protocol)
        if self._closed:
            protocol.close()

    async def _connection(self) -> Up1 | Up2:
        """A new connection, in the room that has been taken for it: `lost` gives it back."""
        loop = asyncio.get_running_loop()
        factory: Callable[[], Up1 | Up2] = self._make
        try:
            async with asyncio.timeout(_CONNECT_TIME):
                sock = await self._connect(loop)
            _, protocol = await loop.create_connection(factory, sock=sock)
        except BaseException:
            self._room.give(self)
            raise
        return protocol

    def _make(self) -> Up1 | Up2:
        if self._http2:
            return Up2(self._limits, self._wheel, self.lost)
        return Up1(self, self._limits, self._wheel)

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        while True:
            try:
                sock = self._backend.connect()
            except BlockingIOError:
                await asyncio.sleep(_CONNECT_AGAIN)
                continue
            try:
                await _writable(loop, sock)
                if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(code, os.strerror(code))
            except BaseException:
                sock.close()
                raise
            return sock

    # Keeper.

    def give_back(self, connection: Up1) -> None:
        if self._closed or len(self._idle) >= _IDLE_MOST:
            connection.close()
        else:
            self._idle.append(connection)
            connection.rest(_IDLE_TIME)

    def forget(self, connection: Up1) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def lost(self, connection: Up1 | Up2) -> None:
        self._room.give(self)
        if connection in self._links:
            self._links.remove(connection)  # type: ignore[arg-type]

    def close(self) -> None:
        """Closes what is idle; requests that run go on."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for link in self._links:
            link.close()


async def _writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Waits until the connect of `sock` is decided."""
    decided: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not decided.done():
            decided.set_result(None)

    loop.add_writer(sock.fileno(), ready)
    try:
        await decided
    finally:
        loop.remove_writer(sock.fileno())
