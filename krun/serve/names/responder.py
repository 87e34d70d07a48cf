"""The name server of the instances: datagrams and streams, on sockets that only instances reach.

The source address of a question is an instance's own (run/firewall.py), so that bounds for one client hold.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

from krun.serve.names import message
from krun.serve.names.forward import Forward, room
from krun.serve.names.zone import Zone

_LONGEST = 1232  # bytes of a question: its name has 255 at most, the rest are options that are not read
_STREAMS, _STREAMS_OF_ONE = 256, 16
_STREAM_SECONDS = 5.0
_STREAM_QUESTIONS = 100


class Responder(asyncio.DatagramProtocol):
    """Arguments: zone; forward, None: other names are refused; report gets lines about failures of the server itself."""

    def __init__(self, zone: Zone, forward: Forward | None, report: Callable[[str], None]) -> None:
        self._zone = zone
        self._forward = forward
        self._report = report
        self._transport: Any = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._streams: Counter[str] = Counter()

    async def listen(self, datagrams: socket.socket, streams: socket.socket) -> None:
        """Serve a bound socket and a listening one; they are the responder's from now on. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._stream, sock=streams, limit=4096)
        await loop.create_datagram_endpoint(lambda: self, sock=datagrams)

    def close(self) -> None:
        """Stop; what is asked at the moment gets no answer. Idempotent."""
        if self._transport is not None:
            self._transport.abort()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def error_received(self, exc: Exception) -> None:
        """A client that has gone."""

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if len(data) > _LONGEST:
            return
        try:
            query = message.parse(data)
        except message.Refused as refused:
            self._send(refused.answer(), addr)
            return
        if query is None:
            return
        found = self._known(query)
        if found is not None:
            self._send(message.fit(query, found), addr)
        else:
            self._keep(self._forwarded(query, addr))

    def _send(self, data: bytes, addr: Any) -> None:
        # A client that does not read costs its own answers: a datagram that cannot be sent at once is not kept.
        if self._transport is not None and not self._transport.get_write_buffer_size():
            self._transport.sendto(data, addr)

    def _known(self, query: message.Query) -> bytes | None:
        """What is answered without asking elsewhere; None: it is to be asked."""
        found = self._zone.answer(query)
        if found is None and self._forward is None:
            found = message.answer(query, message.REFUSED, own=False)
        return found

    async def _forwarded(self, query: message.Query, addr: Any) -> None:
        assert self._forward is not None
        found = await self._forward.ask(query, addr[0], False)
        if found is not None:
            self._send(message.fit(query, found), addr)

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._report(f"a name could not be asked for: {task.exception()!r}")

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        client = str(writer.get_extra_info("peername")[0])
        try:
            if not room(self._streams, client, _STREAMS, _STREAMS_OF_ONE):
                return
            self._streams[client] += 1
            self._tasks.add(task)
            try:
                for _ in range(_STREAM_QUESTIONS):
                    async with asyncio.timeout(_STREAM_SECONDS):
                        if not await self._one(reader, writer, client):
                            return
            finally:
                self._tasks.discard(task)
                self._streams[client] -= 1
                if not self._streams[client]:
                    del self._streams[client]
        except (OSError, TimeoutError, EOFError, asyncio.CancelledError):
            pass  # the client has gone or was too slow, or the server ends
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str) -> bool:
        """Serve one question of a stream; returns whether there may be another one."""
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        if length > _LONGEST:
            return False
        try:
            query = message.parse(await reader.readexactly(length))
            if query is None:
                return False
            found = self._known(query)
            if found is None:
                assert self._forward is not None
                found = await self._forward.ask(query, client, True)
        except message.Refused as refused:
            found = refused.answer()
        if found is None:
            return False
        writer.write(struct.pack("!H", len(found)) + found)
        await writer.drain()
        return True
