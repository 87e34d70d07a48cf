"""A stream of an HTTP/2 connection of the server: a request's body, and the response as far as the windows let it go."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import h2.errors
import h2.exceptions

from krun.serve.http.h2head import lower, pour
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.types import Headers

if TYPE_CHECKING:
    from krun.serve.http.h2 import H2Connection

#: Bytes that wait for the peer's window before the source is paused.
_PENDING = 65536


class H2Incoming(Incoming):
    """A stream."""

    __slots__ = (
        "_closed", "_ending", "_link", "_paused", "_pending", "_share", "_size", "_told", "deadline", "done", "head", "peer", "sink",
        "slot", "started", "stream_id", "tls", "trailers", "unread",
    )  # fmt: skip

    multiplexed = True

    def __init__(self, link: H2Connection, stream_id: int) -> None:
        self._link = link
        self.stream_id = stream_id
        self.peer = link.peer
        self.tls = link.tls
        self.sink: Sink | None = None
        self.trailers: Headers = []
        self.started = False
        #: The response is complete, or the stream is gone.
        self.done = False
        #: The request is complete.
        self._closed = False
        #: Bytes received that the sink has not been ready for, and whether it is paused.
        self.unread = 0
        self._paused = False
        #: The response's parts that wait for the window, their size, and the trailers once all parts are here.
        self._pending: deque[bytes | memoryview] = deque()
        self._size = 0
        self._share = link.endpoint.memory.share(link.peer)
        self._ending: Headers | None = None
        self._told = False  # the sink, to pause
        #: Until when the peer has to take more of a response that is complete: no other time-out counts for it.
        self.deadline: float | None = None
        self.slot = 0

    # The request's side.

    def consume(self, sink: Sink) -> None:
        self.sink = sink
        if self._link.write_paused:
            self.check_pressure()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.consumed()

    def consumed(self) -> None:
        """Acknowledges what the sink has taken."""
        if not self._paused and self.unread:
            size, self.unread = self.unread, 0
            self._link.acknowledge(self.stream_id, size)

    def ended(self) -> None:
        """The peer has sent everything."""
        self._closed = True
        if self.sink is not None and not self.done:
            self.sink.on_end(self.trailers)

    def gone(self) -> None:
        """The stream or its connection has ended."""
        if not self.done:
            self._ends()
            self._pending.clear()
            if self.unread:
                # The connection's window must not shrink by what nobody reads.
                self._paused = False
                self.consumed()
            if self.sink is not None:
                self.sink.on_abort()

    # The response's side.

    def inform(self, status: int, headers: Headers) -> None:
        if not self.done and not self.started:
            self._send_headers([(b":status", b"%d" % status), *lower(headers)], False)
            self._link.flush()

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
        fields = [(b":status", b"%d" % status), *lower(headers)]
        bare = status == 204 or status == 304 or self.head.method == b"HEAD"
        if length >= 0 and status != 204:
            fields.append((b"content-length", b"%d" % length))
        if bare:
            body = b""
        # A body of a known length that is not complete here must end with an abort.
        last = end and not body
        self._send_headers(fields, last)
        if last:
            self._complete()
        elif end:
            self.end(body)
        elif body:
            self.write(body)
        else:
            self._link.flush()

    def write(self, data: bytes) -> None:
        if self.done or self._ending is not None or not data or self.head.method == b"HEAD":
            return
        self._pending.append(data)
        self._size += len(data)
        self.pump()

    def end(self, data: bytes = b"", trailers: Headers = ()) -> None:  # type: ignore[assignment]
        if self.done or self._ending is not None:
            return
        if data and self.head.method != b"HEAD":
            self._pending.append(data)
            self._size += len(data)
        self._ending = lower(trailers)
        self.pump()

    def abort(self) -> None:
        if self.done:
            return
        self._ends()
        self._pending.clear()
        link = self._link
        link.streams.pop(self.stream_id, None)
        link.conn.reset(self.stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
        self.consumed()
        link.flush()
        link.finished(self.stream_id)

    def tunnel(self, headers: Headers) -> None:
        """There is no 101 in HTTP/2."""
        self.abort()

    def end_tunnel(self, whole: bool = False) -> None:
        self.abort()

    def pump(self) -> None:
        """Sends what the windows and the socket allow."""
        link = self._link
        conn = link.conn
        pending = self._pending
        size, sent = 0, False
        try:
            if pending and not link.write_paused:
                size, sent = pour(conn, self.stream_id, pending, self._ending == [])
                self._size -= size
                link.budget.sent(size)
            if not pending and self._ending is not None and not self.done:
                if self._ending:
                    conn.send_headers(self.stream_id, self._ending, end_stream=True)
                elif not sent:
                    conn.end_stream(self.stream_id)
                self._complete()
                return
        except h2.exceptions.H2Error:
            self.gone()
            return
        link.flush()
        if not self.done and not self._share.set(self._size):
            self.abort()
            return
        self.check_pressure()
        if self._ending is not None and (size or self.deadline is None):
            wheel = link.endpoint.wheel
            self.deadline = wheel.now() + link.endpoint.limits.idle_time
            wheel.watch(self)

    def expired(self, now: float) -> None:
        """The wheel's call: the peer has not taken more of the response."""
        self.deadline = None
        self.abort()

    def _ends(self) -> None:
        self.done = True
        self._share.set(0)
        self.deadline = None
        if self.slot:
            self._link.endpoint.wheel.forget(self)

    def check_pressure(self) -> None:
        """Tells the sink to pause or to go on."""
        if self.sink is None or self.done:
            return
        full = self._size > _PENDING or self._link.write_paused
        if full and not self._told:
            self._told = True
            self.sink.on_pause()
        elif not full and self._told:
            self._told = False
            self.sink.on_resume()

    def _send_headers(self, fields: Headers, last: bool) -> None:
        try:
            self._link.conn.send_headers(self.stream_id, fields, end_stream=last)
        except h2.exceptions.H2Error:
            self.gone()

    def _complete(self) -> None:
        if self.done:
            return
        self._ends()
        link = self._link
        if not self._closed:
            # Section 8.1: the rest of the request is not wanted.
            link.conn.reset(self.stream_id, h2.errors.ErrorCodes.NO_ERROR)
        self._paused = False
        self.consumed()
        link.flush()
        link.finished(self.stream_id)
