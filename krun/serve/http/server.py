"""A server for handlers that are coroutines: the API, the metrics, the status page.  The proxy uses streams directly."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

from krun.serve.http.front import Front
from krun.serve.http.head import CHUNKED, check_field
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.types import (
    ClientGone,
    Duplex,
    Handler,
    Headers,
    HttpError,
    Limits,
    Request,
    Response,
    Tunnel,
)

#: Bytes of a body that are read ahead of the handler, and seconds that a peer may neither send nor read.
_AHEAD = 262144
_STALL = 60.0

_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"upgrade"))


class _Call(Sink, Duplex):
    """One request and the task of its handler; from the answer 101 on, the tunnel."""

    __slots__ = (
        "_ended", "_gone", "_incoming", "_news", "_parts", "_paused", "_patience", "_size", "_stopped", "task"
    )  # fmt: skip

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._gone = False
        self._paused = False
        #: The peer does not read.
        self._stopped = False
        self._news = asyncio.Event()
        #: Seconds that the peer may neither send nor read; None: a tunnel may be silent for hours.
        self._patience: float | None = _STALL
        self.task: asyncio.Task | None = None

    def on_data(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > _AHEAD and not self._paused:
            self._paused = True
            self._incoming.pause()
        self._news.set()

    def on_end(self, trailers: Headers) -> None:
        self._ended = True
        self._news.set()

    def on_abort(self) -> None:
        self._gone = True
        self._news.set()
        if self.task is not None:
            self.task.cancel()

    def on_pause(self) -> None:
        self._stopped = True

    def on_resume(self) -> None:
        self._stopped = False
        self._news.set()

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(self._patience):
                await self._news.wait()
        except TimeoutError:
            raise HttpError(408, "the client neither sent nor read anything for a minute") from None

    async def receive(self) -> bytes:
        """The next part of the body, b"" at its end."""
        if not self._parts and not self._ended and b"expect" in self._incoming.head.index:
            self._incoming.inform(100, [])
        while not self._parts:
            if self._gone:
                raise ClientGone("the client ended the connection before the request's body was complete")
            if self._ended:
                return b""
            await self._wait()
        data = self._parts.popleft()
        self._size -= len(data)
        if self._paused and self._size < _AHEAD // 2:
            self._paused = False
            self._incoming.resume()
        return data

    async def drained(self) -> None:
        """Waits until the peer reads.  Raises ClientGone, HttpError 408."""
        while self._stopped and not self._gone:
            await self._wait()
        if self._gone:
            raise ClientGone("the client ended the connection before the response was complete")

    @property
    def stalled(self) -> bool:
        return self._stopped

    def write(self, data: bytes) -> None:
        self._incoming.write(data)

    async def tunnel(self, response: Tunnel, headers: Headers) -> None:
        """Switches protocols and runs the tunnel to its end."""
        # The request's end has been told; what comes now belongs to the tunnel.
        self._ended = False
        self._patience = None
        self._incoming.tunnel([(b"upgrade", response.protocol), (b"connection", b"Upgrade"), *headers])
        if not self._paused:
            # A client that had sent ahead of the answer is held back by the connection.
            self._incoming.resume()
        await response.run(self)
        self._incoming.end_tunnel()
        # The peer takes what is on its way, and ends its side. A close before that would destroy what it has not read.
        self._patience = _STALL
        try:
            async with asyncio.timeout(_STALL):
                while await self.receive():
                    pass
        except (TimeoutError, ClientGone, HttpError):
            pass
        self._incoming.abort()


async def _copy(body: AsyncIterator[bytes], call: _Call, incoming: Incoming) -> None:
    """Sends the parts of `body`.  An iterator that is a generator is closed whatever happens: it may hold a watch."""
    try:
        async for part in body:
            await call.drained()
            incoming.write(part)
        incoming.end()
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


class Server:
    """A listener and its handler."""

    def __init__(self, handler: Handler, limits: Limits, report: Callable[[str], None], http2: bool) -> None:
        self._handler = handler
        self._report = report
        self._calls: set[_Call] = set()
        self.front = Front(self._request, limits=limits, report=report, http2=http2)
        #: The TCP port, 0 on a unix socket.
        self.port = 0
        self._date = (0, b"")

    def _request(self, incoming: Incoming) -> None:
        call = _Call(incoming)
        incoming.consume(call)
        self._calls.add(call)
        call.task = asyncio.get_running_loop().create_task(self._run(call, incoming))

    async def _run(self, call: _Call, incoming: Incoming) -> None:
        head = incoming.head
        started = False
        try:
            request = Request(
                head.method,
                head.target,
                head.headers,
                peer=incoming.peer,
                tls=incoming.tls,
                receive=call.receive,
            )
            try:
                response = await self._handler(request)
            except HttpError as error:
                response = Response.text(error.status, error.reason)
            headers = self._headers(response)
            if isinstance(response, Tunnel):
                if incoming.multiplexed or not head.minor:
                    refused = Response.text(400, "a change of the protocol needs HTTP/1.1")
                    text = refused.body
                    assert isinstance(text, bytes)
                    incoming.respond(400, self._headers(refused), len(text), text, end=True)
                    return
                started = True
                await call.tunnel(response, headers)
                return
            if isinstance(response.body, bytes):
                incoming.respond(response.status, headers, len(response.body), response.body, end=True)
                return
            started = True
            incoming.respond(response.status, headers, CHUNKED)
            await _copy(response.body, call, incoming)
        except (ClientGone, asyncio.CancelledError):
            incoming.abort()
        except Exception as error:
            if not isinstance(error, HttpError):
                self._report(f"{head.method.decode()} failed: {type(error).__name__}: {error}")
            if started:
                incoming.abort()
            else:
                incoming.respond(500, self._headers(Response()), 22, b"internal server error\n", end=True)
        finally:
            call.task = None
            self._calls.discard(call)

    def _headers(self, response: Response) -> Headers:
        headers = [field for field in response.headers if field[0].lower() not in _FRAMING]
        for name, value in headers:
            if not check_field(name, value):
                raise ValueError(f"a field of the response is malformed: {name!r}")
        if not any(name.lower() == b"date" for name, _ in headers):
            headers.append((b"date", self._now()))
        return headers

    def _now(self) -> bytes:
        second = int(time.time())
        if self._date[0] != second:
            self._date = (second, email.utils.formatdate(second, usegmt=True).encode())
        return self._date[1]

    async def close(self, grace: float = 0.0) -> None:
        """Stops listening, waits at most `grace` seconds for running requests, cancels the rest."""
        await self.front.close(grace)
        tasks = [call.task for call in self._calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _to_stderr(text: str) -> None:
    from krun.log import Log

    Log().error(text)


async def serve(
    handler: Handler,
    *,
    address: tuple[str, int] | None = None,
    unix: str | None = None,
    sock: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    http2: bool = True,
    report: Callable[[str], None] = _to_stderr,
) -> Server:
    """Serves `handler` on an address ("127.0.0.1", 0), a unix socket's path or a listening socket.

    `tls` is a server's context.  `report` gets a line about each failure of the server itself.  Raises OSError.
    """
    server = Server(handler, limits or Limits(), report, http2)
    server.port = await server.front.listen(address, unix=unix, sock=sock, tls=tls)
    return server
