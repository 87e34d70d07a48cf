"""The server's side of an HTTP/2 connection (RFC 9113) on the sans-io library h2.

The library keeps the states, HPACK and the flow control.  This file adds what it leaves to its user: fields that can stand in an HTTP/1.1
message (a CR LF in a value would smuggle a request past the proxy, CVE-2025-57804), one Cookie field, back-pressure, bounds (h2limits).
"""

from __future__ import annotations

import asyncio
from collections import deque

import h2.config
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from krun.serve.http.endpoint import Endpoint
from krun.serve.http.h2head import HOP, lower, pour, request_head, settings
from krun.serve.http.h2limits import CONTROL, Budget, Library
from krun.serve.http.head import Head, check_field
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.types import Headers, HttpError

#: Bytes that wait for the peer's window before the source is paused, and the receive window of the connection.
_PENDING = 65536
_CONNECTION_WINDOW = 1 << 20

#: Bytes below which a WINDOW_UPDATE is charged.
_DRIBBLE = 256


class H2Connection(asyncio.Protocol):
    """A connection and its streams."""

    __slots__ = (
        "_budget", "_closing", "_conn", "_endpoint", "_reading", "_widened", "deadline", "peer", "slot", "streams", "tls",
        "transport", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, endpoint: Endpoint, *, tls: bool = False) -> None:
        self._endpoint = endpoint
        self.tls = tls
        self.peer: tuple | str = ""
        self.streams: dict[int, H2Incoming] = {}
        self.deadline: float | None = None
        self.slot = 0
        self.write_paused = False
        self._reading = False
        self._closing = False
        #: The windows of all streams may have become wider.
        self._widened = False
        self._budget = Budget(endpoint.limits.abuse, endpoint.wheel.now())
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self._conn = Library(config)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = transport.get_extra_info("peername") or "unix"
        self._endpoint.join(self)
        conn = self._conn
        conn.local_settings = h2.settings.Settings(
            client=False, initial_values=settings(self._endpoint.limits, client=False)
        )
        conn.initiate_connection()
        conn.increment_flow_control_window(_CONNECTION_WINDOW - 65535)
        self.flush()
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._endpoint.leave(self)
        self.deadline = None
        self._endpoint.wheel.forget(self)
        streams = list(self.streams.values())
        self.streams.clear()
        for stream in streams:
            stream.gone()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._reading = True
        try:
            events = self._conn.receive_data(data)
        except (h2.exceptions.H2Error, ValueError, IndexError) as error:
            self._endpoint.on_refused(400, f"HTTP/2: {type(error).__name__}")
            self._hang_up()
            return
        self._conn.bound_table()
        for event in events:
            self._event(event)
            if self.transport.is_closing():
                return
        if self._widened:
            # Once for all frames of the read: a flood of them must not cost a turn over all streams each.
            self._widened = False
            for stream in list(self.streams.values()):
                stream.pump()
        self._reading = False
        self.flush()
        if not self.streams and self.deadline is None:
            self._rest()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.write_paused = True
        for stream in list(self.streams.values()):
            stream.check_pressure()

    def resume_writing(self) -> None:
        self.write_paused = False
        for stream in list(self.streams.values()):
            stream.pump()

    def _event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._data(event)
        elif isinstance(event, h2.events.RequestReceived):
            self._request(event)
        elif isinstance(event, h2.events.StreamEnded):
            stream = self.streams.get(event.stream_id)
            if stream is not None:
                stream.ended()
        elif isinstance(event, h2.events.TrailersReceived):
            self._trailers(event)
        elif isinstance(event, h2.events.WindowUpdated):
            if (event.delta or 0) < _DRIBBLE:
                # CVE-2019-9511: a response that is sent in frames of a few bytes.
                self.charge()
            if not event.stream_id:
                self._widened = True
            elif (stream := self.streams.get(event.stream_id)) is not None:
                stream.pump()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.deadline = None
            if not self.streams:
                self._hang_up()
        elif isinstance(event, CONTROL):
            self.charge()
            if isinstance(event, h2.events.StreamReset):
                stream = self.streams.pop(event.stream_id, None)
                if stream is not None:
                    stream.gone()
            elif isinstance(event, h2.events.RemoteSettingsChanged):
                # INITIAL_WINDOW_SIZE may have opened every stream's window.
                self._widened = True

    def charge(self) -> None:
        """A frame that costs the server and brings no request; too many of them end the connection."""
        if not self._budget.spend(self._endpoint.wheel.now()) and not self._closing:
            self._endpoint.on_refused(429, "HTTP/2: too many resets and control frames")
            self._conn.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            self._hang_up()

    def _hang_up(self) -> None:
        """Sends what the library has to say (GOAWAY) and closes."""
        self._closing = True
        self._reading = False
        data = self._conn.data_to_send()
        if data:
            self.transport.write(data)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._rest()

    def _request(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id
        assert stream_id is not None
        if self._endpoint.draining:
            self._conn.reset_stream(stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        self.deadline = None
        stream = self.streams[stream_id] = H2Incoming(self, stream_id)
        try:
            stream.head = request_head(
                event.headers or [], self._endpoint.limits, event.stream_ended is not None
            )
        except HttpError as error:
            self._endpoint.on_refused(error.status, error.reason)
            head = stream.head = Head()
            head.method, head.length, head.minor = b"", 0, 1
            text = error.reason.encode() + b"\n"
            stream.respond(
                error.status, [(b"content-type", b"text/plain; charset=utf-8")], len(text), text, end=True
            )
            return
        if not self._endpoint.deliver(stream) and not stream.done:
            # The user's part may hold a slot.
            sink, stream.sink = stream.sink, None
            if stream.started:
                stream.abort()
            else:
                stream.respond(500, [], 18, b"the server failed\n", end=True)
            if sink is not None:
                sink.on_abort()

    def _data(self, event: h2.events.DataReceived) -> None:
        stream_id, size, data = event.stream_id, event.flow_controlled_length or 0, event.data or b""
        assert stream_id is not None
        if not data and event.stream_ended is None:
            self.charge()
        stream = self.streams.get(stream_id)
        if stream is None or stream.sink is None:
            if size:
                self.acknowledge(stream_id, size)
            return
        stream.unread += size
        if data:
            stream.sink.on_data(data)
        stream.consumed()

    def _trailers(self, event: h2.events.TrailersReceived) -> None:
        stream = self.streams.get(event.stream_id or 0)
        if stream is None:
            return
        fields = [
            (name, value) for name, value in event.headers or [] if name not in HOP and name[:1] != b":"
        ]
        if all(check_field(name, value) for name, value in fields):
            stream.trailers = fields
        else:
            stream.abort()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Opens the windows by `size` bytes that have been taken."""
        try:
            self._conn.acknowledge_received_data(size, stream_id)
        except h2.exceptions.H2Error:
            return
        self.flush()

    def flush(self) -> None:
        """Writes what the library has made; while a read is handled, once at its end."""
        if not self._reading and not self._closing:
            data = self._conn.data_to_send()
            if data:
                self.transport.write(data)

    def finished(self, stream_id: int) -> None:
        """A stream has ended normally."""
        self.streams.pop(stream_id, None)
        self._budget.earn()
        if not self.streams and not self._closing:
            if self._endpoint.draining:
                self.flush()
                self.transport.close()
            else:
                self._rest()

    def _rest(self) -> None:
        wheel = self._endpoint.wheel
        self.deadline = wheel.now() + self._endpoint.limits.idle_time
        wheel.watch(self)

    def expired(self, now: float) -> None:
        """The wheel's call: no stream for a long time."""
        self.deadline = None
        if self._closing:
            self.transport.abort()
        elif not self.streams:
            self._conn.close_connection()
            self._hang_up()

    def drain(self) -> None:
        """Takes no further streams; closes when the last one has ended."""
        if self._closing:
            return
        self.transport.write(self._conn.goaway())
        if not self.streams:
            self.transport.close()


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
        self._share = link._endpoint.memory.share(link.peer)
        self._ending: Headers | None = None
        self._told = False  # the sink, to pause
        #: Until when the peer has to take more of a response that is complete: no other time-out counts for it.
        self.deadline: float | None = None
        self.slot = 0

    # The request's side.

    def consume(self, sink: Sink) -> None:
        self.sink = sink

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
        link._conn.reset(self.stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
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
        conn = link._conn
        pending = self._pending
        size, sent = 0, False
        try:
            if pending and not link.write_paused:
                size, sent = pour(conn, self.stream_id, pending, self._ending == [])
                self._size -= size
                link._budget.sent(size)
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
            wheel = link._endpoint.wheel
            self.deadline = wheel.now() + link._endpoint.limits.idle_time
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
            self._link._endpoint.wheel.forget(self)

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
            self._link._conn.send_headers(self.stream_id, fields, end_stream=last)
        except h2.exceptions.H2Error:
            self.gone()

    def _complete(self) -> None:
        if self.done:
            return
        self._ends()
        link = self._link
        if not self._closed:
            # Section 8.1: the rest of the request is not wanted.
            link._conn.reset(self.stream_id, h2.errors.ErrorCodes.NO_ERROR)
        self._paused = False
        self.consumed()
        link.flush()
        link.finished(self.stream_id)
