"""The proxy's side of an HTTP/1.1 connection to an instance.

The instance is hostile: its response is parsed as strictly as a request, a response before the request or behind the message ends the
connection, and nothing it sends reaches another client's response.
"""

from __future__ import annotations

import asyncio

from krun.serve.http.body import Chunked, chunk, last_chunk
from krun.serve.http.endpoint import small_reads
from krun.serve.http.head import CHUNKED, UNTIL_CLOSE, Head, parse_response
from krun.serve.http.timers import Wheel
from krun.serve.http.types import Headers, HttpError, Limits
from krun.serve.proxy.outgoing import Outgoing, Receiver

IDLE, HEAD, BODY, TUNNEL, CLOSED = range(5)

#: Interim responses of one request; an instance could send them without end.
_INTERIM = 16


class Keeper:
    """What a connection asks of its pool."""

    def give_back(self, connection: Up1) -> None:
        """The connection is idle."""
        raise NotImplementedError

    def forget(self, connection: Up1) -> None:
        """The connection is closed or closing."""
        raise NotImplementedError

    def lost(self, connection: Up1) -> None:
        """The connection's descriptor is closed."""
        raise NotImplementedError


class Up1(asyncio.Protocol, Outgoing):
    """A connection; it serves one request at a time and returns to its pool between two."""

    __slots__ = (
        "_buffer", "_chunked", "_decoder", "_eof", "_full", "_informed", "_keep", "_left", "_limits", "_paused", "_pool", "_seen", "_sent",
        "_state", "_wheel", "deadline", "method", "receiver", "rested", "reused", "slot", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, pool: Keeper, limits: Limits, wheel: Wheel) -> None:
        self._pool = pool
        self._limits = limits
        self._wheel = wheel
        self.deadline: float | None = None
        self.slot = 0
        self.receiver: Receiver | None = None
        #: Whether it has served a request before: the instance may have closed it meanwhile.
        self.reused = False
        #: Since when it is idle, loop.time().
        self.rested = 0.0
        self.method = b""
        self._state = IDLE
        self._buffer = b""
        self._seen = 0
        self._chunked = False
        #: Whether the request is complete.
        self._sent = True
        self._left = 0
        self._decoder: Chunked | None = None
        self._paused = False
        self._eof = False
        self._informed = 0
        self._keep = False
        #: The instance does not read what is written.
        self._full = False

    # asyncio's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        small_reads(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        state, self._state = self._state, CLOSED
        self._pool.forget(self)
        self._pool.lost(self)
        self._wheel.forget(self)
        self.deadline = None
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        if state == BODY and self._left == UNTIL_CLOSE and exc is None:
            receiver.up_end(b"", [])
        elif state == TUNNEL:
            receiver.up_gone()
        else:
            fresh = state == HEAD and not self._buffer and not self._informed and self.reused
            receiver.up_error("the instance closed the connection before the response was complete", fresh)

    def eof_received(self) -> bool:
        if self._state == TUNNEL and self.receiver is not None:
            self._eof = True
            self.receiver.up_end(b"", [])
            return True
        return False

    def pause_writing(self) -> None:
        self._full = True
        if self.receiver is not None:
            self.receiver.up_pause()

    def resume_writing(self) -> None:
        self._full = False
        if self.receiver is not None:
            self.receiver.up_resume()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == HEAD:
            try:
                self._head(data)
            except HttpError as error:
                self._fail(f"the instance's response cannot be read: {error.reason}")
        elif state == BODY:
            self._body(data)
        elif state == TUNNEL:
            if self.receiver is not None:
                self.receiver.up_data(data)
        elif state == IDLE:
            # Nothing was asked.
            self._close()

    # The request.

    def send(self, receiver: Receiver, method: bytes, head: bytes, length: int) -> None:
        """Starts a request; `head` is complete, with its empty line.  `length` as in Head."""
        self.receiver = receiver
        self.method = method
        self.deadline = None
        self._state = HEAD
        self._sent = length == 0
        self._chunked = length == CHUNKED
        self._informed = 0
        self.transport.write(head)

    def write(self, data: bytes) -> None:
        if self._state in (HEAD, BODY) and not self._sent:
            self.transport.write(chunk(data) if self._chunked else data)
        elif self._state == TUNNEL:
            self.transport.write(data)

    def finish(self, trailers: Headers) -> None:
        if self._state == TUNNEL:
            if self._eof:
                self._close()
            elif self.transport.can_write_eof():
                self.transport.write_eof()
        elif not self._sent and self._state != CLOSED:
            self._sent = True
            if self._chunked:
                self.transport.write(last_chunk(trailers))

    def abort(self) -> None:
        self.receiver = None
        if self._state != CLOSED:
            self._state = CLOSED
            self.transport.abort()

    def pause(self) -> None:
        if not self._paused and self._state != CLOSED:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._state != CLOSED:
            self._paused = False
            self.transport.resume_reading()

    # The response.

    def _head(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        end = data.find(b"\r\n\r\n", self._seen)
        if end < 0 or end > self._limits.head:
            if len(data) > self._limits.head:
                raise HttpError(502, f"its head is longer than {self._limits.head} bytes")
            self._buffer = data
            self._seen = max(0, len(data) - 3)
            return
        end += 4
        self._buffer = b""
        self._seen = 0
        rest = data[end:] if end < len(data) else b""
        head = parse_response(data[:end] if rest else data, self._limits, self.method)
        receiver = self.receiver
        assert receiver is not None
        if head.status < 200:
            self._interim(head, receiver, rest)
            return
        length = head.length
        self._keep = head.keep_alive
        content = b""
        done = length == 0
        if length > 0:
            content = rest[:length] if len(rest) > length else rest
            self._left = length - len(content)
            rest = rest[length:]
            done = not self._left
        elif length == CHUNKED:
            self._decoder = Chunked(self._limits, 502)
            self._left = CHUNKED
        elif length == UNTIL_CLOSE:
            self._left = UNTIL_CLOSE
            content, rest = rest, b""
        if done:
            self._complete(not rest)
            receiver.up_head(head, content, True)
            return
        self._state = BODY
        if length != CHUNKED:
            receiver.up_head(head, content, False)
        else:
            receiver.up_head(head, b"", False)
            if rest and self._state == BODY:
                self._body(rest)

    def _interim(self, head: Head, receiver: Receiver, rest: bytes) -> None:
        self._informed += 1
        if head.status == 101:
            # Set first: what the client has sent already goes through at once.
            self._state = TUNNEL
            if not receiver.up_tunnel(head):
                self._fail("the instance switched protocols without having been asked")
                return
            if rest:
                receiver.up_data(rest)
            return
        if self._informed > _INTERIM:
            raise HttpError(502, "it has too many interim responses")
        receiver.up_inform(head.status, head.headers)
        if rest and self._state == HEAD:
            self._head(rest)

    def _body(self, data: bytes) -> None:
        receiver = self.receiver
        if receiver is None:
            return
        left = self._left
        if left > 0:
            if len(data) < left:
                self._left = left - len(data)
                receiver.up_data(data)
                return
            self._complete(len(data) == left)
            receiver.up_end(data if len(data) == left else data[:left], [])
        elif left == CHUNKED:
            decoder = self._decoder
            assert decoder is not None
            try:
                content = decoder.feed(data)
            except HttpError as error:
                self._fail(f"the instance's response cannot be read: {error.reason}")
                return
            if decoder.done:
                self._complete(not decoder.rest)
                receiver.up_end(content, decoder.trailers)
            elif content:
                receiver.up_data(content)
        else:
            receiver.up_data(data)

    def _complete(self, keep: bool) -> None:
        """The response is complete: back into the pool, or closed where the next byte's meaning is not certain."""
        self.receiver = None
        self._decoder = None
        if keep and self._keep and self._sent and not self._full and not self.transport.is_closing():
            self._state = IDLE
            self.reused = True
            self.resume()
            self._pool.give_back(self)
        else:
            self._close()

    def _fail(self, text: str) -> None:
        receiver, self.receiver = self.receiver, None
        self._state = CLOSED
        self.transport.abort()
        if receiver is not None:
            receiver.up_error(text, False)

    def _close(self) -> None:
        self._state = CLOSED
        self._pool.forget(self)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            # An instance that does not read keeps no connection for ever.
            self.deadline = self._wheel.now() + self._limits.idle_time
            self._wheel.watch(self)

    # Idle connections.

    def rest(self, seconds: float) -> None:
        """The pool keeps it for at most `seconds`."""
        self.rested = self._wheel.now()
        self.deadline = self.rested + seconds
        self._wheel.watch(self)

    def expired(self, now: float) -> None:
        """The wheel's call."""
        self.deadline = None
        if self._state == IDLE:
            self._close()
        elif self._state == CLOSED:
            self.transport.abort()

    def close(self) -> None:
        """The pool's end; a request that runs goes on."""
        if self._state == IDLE:
            self._close()
