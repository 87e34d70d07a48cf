"""The server's side of an HTTP/1.1 connection: heads cut and parsed, bodies delimited, one request at a time.

A request that arrives while another one runs (pipelining) waits in the buffer.  What breaks the protocol is answered once and ends the
connection: after it the next message's first byte is not known for sure.
"""

from __future__ import annotations

import asyncio
import re
import select

from krun.serve.http.body import Chunked
from krun.serve.http.endpoint import Endpoint, status_line
from krun.serve.http.h1request import H1Incoming
from krun.serve.http.hangup import GONE
from krun.serve.http.head import CHUNKED, parse_request
from krun.serve.http.types import HttpError, Limits

# What the next bytes are.
HEAD, BODY, WAIT, TUNNEL, DISCARD, CLOSED = range(6)

_BARE_LF = re.compile(rb"(?<!\r)\n")
_LINGER_TIME, _LINGER_BYTES = 2.0, 1 << 20
#: Pipelined requests of one connection before the others get their turn.
_TURN = 16


class H1Connection(asyncio.Protocol):
    """A connection; `current` is the request that runs."""

    __slots__ = (
        "_buffer", "_busy", "_decoder", "_eof", "_left", "_paused", "_seen", "_shut", "_state", "_watched", "current", "deadline",
        "endpoint", "peer", "slot", "tls", "transport", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, endpoint: Endpoint, *, tls: bool = False) -> None:
        self.endpoint = endpoint
        self.tls = tls
        self.peer: tuple | str = ""
        self.current: H1Incoming | None = None
        self.deadline: float | None = None
        self.slot = 0
        self.write_paused = False
        self._state = HEAD
        self._buffer: bytes | bytearray = b""
        #: Offset up to which the buffer has no end of a head; -1: nothing has been looked at.
        self._seen = -1
        self._busy = self._paused = False
        self._watched = -1
        self._eof = self._shut = False  # which half of a tunnel has ended: the peer's, this side's
        self._left = 0
        self._decoder: Chunked | None = None

    # ------------------------------------------------------------------------------------------ asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = transport.get_extra_info("peername") or "unix"
        endpoint = self.endpoint
        endpoint.join(self)
        self._rest(endpoint.limits.idle_time)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = CLOSED
        self.endpoint.leave(self)
        self.deadline = None
        self.endpoint.wheel.forget(self)
        self.endpoint.hangups.forget(self._watched)
        self._buffer = b""
        self._abandon()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == HEAD:
            if self._buffer:
                self._buffer += data
            else:
                self._buffer = data
            if not self._busy and not self.write_paused:
                self._pump()
            elif len(self._buffer) > self.endpoint.limits.ahead:
                self.pause()
        elif state == BODY:
            self._body(data)
        elif state == TUNNEL:
            if self.current is not None and self.current.sink is not None:
                self.current.sink.on_data(data)
        elif state == WAIT:
            self._buffer += data
            if len(self._buffer) > self.endpoint.limits.ahead:
                self.pause()
        elif state == DISCARD:
            self._left -= len(data)
            if self._left < 0:
                self.transport.abort()

    def eof_received(self) -> bool:
        current = self.current
        if self._state == TUNNEL and current is not None and current.sink is not None:
            self._eof = True
            current.sink.on_end([])
            return not self.tls
        return (
            False  # a client that only stops sending looks like one that has gone, whose slot must be freed
        )

    def pause_writing(self) -> None:
        self.write_paused = True
        if self.current is not None and self.current.sink is not None:
            self.current.sink.on_pause()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.current is not None:
            if self.current.sink is not None:
                self.current.sink.on_resume()
        elif self._state == HEAD and not self._busy:
            self.resume()
            self._pump()

    # ---------------------------------------------------------------------------------------------- time-outs

    def _rest(self, seconds: float) -> None:
        """Sets the deadline of a connection on which no request runs."""
        wheel = self.endpoint.wheel
        self.deadline = wheel.now() + seconds
        wheel.watch(self)

    def expired(self, now: float) -> None:
        """The wheel's call: a head that takes too long is told, an idle connection is closed, and one whose peer does not read."""
        self.deadline = None
        if self._state == HEAD and self._buffer and not self.write_paused:
            self._refuse(HttpError(408, "the head of the request took too long"))
        elif self._state == DISCARD:
            self.transport.abort()
        elif self._state == HEAD:
            self._close()

    def drain(self) -> None:
        """Closes the connection when the current request is answered, or at once if there is none."""
        if self.current is None and not (self._state == HEAD and self._buffer):
            self._close()

    # ---------------------------------------------------------------------------------------------- reading

    def _pump(self) -> None:
        """Takes the requests in the buffer, one after another, until one does not end at once.

        Other connections get their turn after a few.  A peer that does not read its answers gets no further ones.
        """
        self._busy = True
        try:
            for _ in range(_TURN):
                if self._state != HEAD or not self._buffer or self.write_paused or not self._next():
                    break
            else:
                asyncio.get_running_loop().call_soon(self._pump)
                return
        except HttpError as error:
            self._refuse(error)
        self._busy = False
        if self.write_paused and self.current is None and self._state == HEAD:
            self._rest(self.endpoint.limits.idle_time)

    def _next(self) -> bool:
        """Cuts one head off the buffer and delivers its request; returns False if the head is not complete."""
        data = self._buffer
        limits = self.endpoint.limits
        end = data.find(b"\r\n\r\n", max(self._seen, 0))
        if end < 0 or end > limits.head:
            self._partial(data, limits)
            return False
        self._seen = -1
        end += 4
        if end == len(data):
            self._buffer = b""
        else:
            data, self._buffer = data[:end], bytes(data[end:])
        data = bytes(data)
        # RFC 9112, section 2.2: empty lines before the request line are ignored.
        if data[:2] == b"\r\n":
            data = data[2:]
            if len(data) == 2:
                return True
        head = parse_request(data, limits)
        self.deadline = None
        current = self.current = H1Incoming(self, head)
        length = head.length
        if length == 0:
            self._state = WAIT
        else:
            self._state = BODY
            self._left = length
            self._decoder = Chunked(limits) if length == CHUNKED else None
        if not self.endpoint.deliver(current):
            if self.current is current:
                self._refuse(HttpError(500, "the server failed"))
            return False
        if length == 0:
            # Delivered, not yet answered, or answered and the next one waits.
            if self.current is current and current.sink is not None:
                current.sink.on_end([])
        elif self._state == BODY and self._buffer:
            data, self._buffer = bytes(self._buffer), b""
            self._body(data)
        return True

    def _partial(self, data: bytes | bytearray, limits: Limits) -> None:
        """The head is not complete: checks what is there."""
        if len(data) > limits.head:
            line = data.find(b"\r\n", 0, limits.target + 80)
            if line < 0:
                raise HttpError(414, f"the request line is longer than {limits.target} bytes")
            raise HttpError(431, f"the head is longer than {limits.head} bytes")
        if _BARE_LF.search(data, max(self._seen, 0)):
            raise HttpError(400, "a line of the head does not end with CRLF")
        if self._seen < 0:
            self._rest(limits.head_time)
            if not isinstance(data, bytearray):
                self._buffer = bytearray(data)
        self._seen = max(len(data) - 3, 0)

    def _body(self, data: bytes) -> None:
        current = self.current
        assert current is not None
        decoder = self._decoder
        try:
            if decoder is not None:
                content = decoder.feed(data)
                done, rest = decoder.done, decoder.rest
            else:
                left = self._left
                content = data if len(data) <= left else data[:left]
                rest = data[left:]
                self._left = left = left - len(content)
                done = left == 0
        except HttpError as error:
            self._refuse(error)
            return
        if done:
            self._state = WAIT
            self._buffer = rest
        sink = current.sink
        if sink is not None:
            if content:
                sink.on_data(content)
            if done and self.current is current:
                sink.on_end(decoder.trailers if decoder is not None else [])

    def pause(self) -> None:
        """Stops reading from the socket."""
        if not self._paused and self._state != CLOSED:
            self._paused = True
            self.transport.pause_reading()
            self._watched = self.endpoint.hangups.watch(self.transport, self._hung_up)

    def resume(self) -> None:
        """Reads from the socket again."""
        if self._paused and self._state != CLOSED:
            self._paused = False
            self.endpoint.hangups.forget(self._watched)
            self.transport.resume_reading()

    def _hung_up(self, events: int) -> None:
        """The peer of a paused connection has ended. In a tunnel it may still read; else it counts as gone (eof_received)."""
        if self._state != TUNNEL or events & (select.EPOLLERR if self._shut else GONE):
            self.transport.abort()
        elif self.current is not None and self.current.sink is not None:
            self.current.sink.on_leaving()

    # ---------------------------------------------------------------------------------------------- the end of a request

    @property
    def unread(self) -> bool:
        """Whether the body of the current request is not complete."""
        return self._state == BODY

    def finish(self, current: H1Incoming, keep: bool) -> None:
        """The response of `current` is complete."""
        self.current = None
        if self._state == CLOSED:
            return
        if self._state == BODY or not keep:
            self._linger()  # the client may be sending the rest of the body still
            return
        self._finished()

    def _finished(self) -> None:
        self.current = None
        self._state = HEAD
        self._seen = -1
        self.resume()
        if self.endpoint.draining:
            self._close()
        elif not self._buffer:
            self._rest(self.endpoint.limits.idle_time)
        elif not self._busy:
            # Not from within the response's last call: its caller is not finished.
            self._busy = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _abandon(self) -> None:
        current, self.current = self.current, None
        if current is not None:
            current.done = True
            if current.sink is not None:
                current.sink.on_abort()

    def _refuse(self, error: HttpError) -> None:
        """Answers a message that cannot be served, and ends the connection."""
        self.endpoint.on_refused(error.status, error.reason)
        started = self.current is not None and self.current.started
        self._abandon()
        if self._state == CLOSED:
            return
        if started:
            self.transport.abort()
            return
        text = error.reason.encode() + b"\n"
        self.transport.write(
            status_line(error.status)
            + b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (len(text), text)
        )
        self._linger()

    def _linger(self) -> None:
        """Closes in stages: a close with unread input makes the kernel send RST, which can destroy the answer on its way."""
        unread = self._state != WAIT or self._buffer or self._paused
        self._buffer = b""
        self._decoder = None
        if not unread or not self.transport.can_write_eof():
            self._close()
            return
        self._state = DISCARD
        self._left = _LINGER_BYTES
        self.resume()
        self.transport.write_eof()
        self._rest(_LINGER_TIME)

    def _close(self) -> None:
        """Closes when everything is written; a peer that does not read has the time of an idle connection for it."""
        self._state = DISCARD
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._rest(self.endpoint.limits.idle_time)

    def tunnel(self) -> None:
        """From here on the bytes belong to another protocol."""
        self._state = TUNNEL
        data, self._buffer = bytes(self._buffer), b""
        self.resume()
        if data and self.current is not None and self.current.sink is not None:
            self.current.sink.on_data(data)

    def end_tunnel(self, whole: bool) -> None:
        """The other side of a tunnel has ended."""
        if whole or self._eof or not self.transport.can_write_eof():
            self._close()
        else:
            self._shut = True
            self.transport.write_eof()
