"""A request of an HTTP/1.1 connection of the server, and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krun.serve.http.body import chunk, last_chunk
from krun.serve.http.endpoint import field_lines, status_line
from krun.serve.http.head import Head
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.types import Headers

if TYPE_CHECKING:
    from krun.serve.http.h1 import H1Connection


class H1Incoming(Incoming):
    """A request of an HTTP/1.1 connection."""

    __slots__ = ("_chunked", "_conn", "_keep", "_left", "done", "head", "peer", "sink", "started", "tls")

    multiplexed = False

    def __init__(self, conn: H1Connection, head: Head) -> None:
        self._conn = conn
        self.head = head
        self.peer = conn.peer
        self.tls = conn.tls
        self.sink: Sink | None = None
        self.started = False
        self.done = False
        self._keep = False
        self._chunked = False
        #: Bytes of the response's body that are left, -1 if its length is unknown.
        self._left = -1

    def consume(self, sink: Sink) -> None:
        self.sink = sink

    def pause(self) -> None:
        if not self.done:
            self._conn.pause()

    def resume(self) -> None:
        if not self.done:
            self._conn.resume()

    def inform(self, status: int, headers: Headers) -> None:
        if not self.done and not self.started and self.head.minor:
            self._conn.transport.write(status_line(status) + field_lines(headers) + b"\r\n")

    def respond(
        self,
        status: int,
        headers: Headers,
        length: int,
        body: bytes = b"",
        *,
        raw: bytes | None = None,
        end: bool = False,
    ) -> None:
        if self.done or self.started:
            return
        self.started = True
        head = self.head
        conn = self._conn
        lines = raw if raw is not None else field_lines(headers)
        keep = head.keep_alive and not conn.endpoint.draining
        bare = status == 204 or status == 304 or head.method == b"HEAD"
        if length >= 0:
            framing = b"" if status == 204 or raw is not None else b"Content-Length: %d\r\n" % length
            self._left = 0 if bare else length
        elif bare:
            framing = b""
            self._left = 0
        elif head.minor:
            framing = b"Transfer-Encoding: chunked\r\n"
            self._chunked = True
        else:
            framing = b""
            keep = False
        if end and conn.unread:
            keep = False
        self._keep = keep
        if not keep:
            framing += b"Connection: close\r\n"
        elif not head.minor:
            framing += b"Connection: keep-alive\r\n"
        out = b"%b%b%b\r\n" % (status_line(status), lines, framing)
        if bare:
            body = b""
        if end:
            if body:
                out += (chunk(body) + b"0\r\n\r\n") if self._chunked else body
            elif self._chunked:
                out += b"0\r\n\r\n"
            short = self._left > 0 and self._left != len(body)
            conn.transport.write(out)
            self._complete(short)
        else:
            conn.transport.write(out)
            if body:
                self.write(body)

    def write(self, data: bytes) -> None:
        if self.done or not data:
            return
        if self._chunked:
            data = chunk(data)
        elif self._left >= 0:
            self._left -= len(data)
            if self._left < 0:
                # Further bytes would be read as the next response.
                self._left += len(data)
                data = data[: self._left]
                self._left = 0
                self._keep = False
        self._conn.transport.write(data)

    def end(self, data: bytes = b"", trailers: Headers = ()) -> None:  # type: ignore[assignment]
        if self.done:
            return
        if self._chunked:
            last = last_chunk(trailers)
            self._conn.transport.write(chunk(data) + last if data else last)
        elif data:
            self.write(data)
        self._complete(self._left > 0)

    def _complete(self, short: bool) -> None:
        self.done = True
        if not short:
            self._conn.finish(self, self._keep)
            return
        # The peer waits for bytes that will not come: it must see the end of the connection.
        self._conn.current = None
        self._conn.transport.abort()

    def abort(self) -> None:
        if not self.done:
            self.done = True
            self._conn.current = None
            # An orderly close would look complete to a peer that reads up to the end of the connection.
            self._conn.transport.abort()

    def tunnel(self, headers: Headers) -> None:
        if self.done or self.started:
            return
        self.started = True
        self._left = -1
        self._conn.transport.write(status_line(101) + field_lines(headers) + b"\r\n")
        self._conn.tunnel()

    def end_tunnel(self, whole: bool = False) -> None:
        if not self.done:
            self._conn.end_tunnel(whole)
