"""The server's side of an HTTP/2 connection (RFC 9113) on the sans-io library h2.

The library keeps the states, HPACK and the flow control.  This file adds what it leaves to its user: fields that can stand in an HTTP/1.1
message (a CR LF in a value would smuggle a request past the proxy, CVE-2025-57804), one Cookie field, back-pressure, bounds (h2limits).
"""

from __future__ import annotations

import asyncio

import h2.config
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from krun.serve.http.endpoint import Endpoint
from krun.serve.http.h2head import request_head, settings, trailer_fields
from krun.serve.http.h2limits import Budget, Library, TooMany
from krun.serve.http.h2stream import H2Incoming
from krun.serve.http.head import Head
from krun.serve.http.turns import Turns
from krun.serve.http.types import HttpError

#: The receive window of the connection.
_CONNECTION_WINDOW = 1 << 20

#: Bytes that wait for the peer to read before nothing more of it is read: answers without a body need no window (CVE-2019-9517).
_UNREAD = 1 << 18


class H2Connection(asyncio.Protocol):
    """A connection and its streams."""

    __slots__ = (
        "_closing", "_reading", "_turns", "_widened", "budget", "conn", "deadline", "endpoint", "peer", "slot", "streams", "tls",
        "transport", "write_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, endpoint: Endpoint, *, tls: bool = False) -> None:
        self.endpoint = endpoint
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
        self.budget = Budget(endpoint.limits.abuse, endpoint.wheel.now())
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.conn = Library(config)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._turns = Turns(transport, self._take, self._taken)
        self.peer = transport.get_extra_info("peername") or "unix"
        self.endpoint.join(self)
        conn = self.conn
        conn.local_settings = h2.settings.Settings(
            client=False, initial_values=settings(self.endpoint.limits, client=False)
        )
        conn.initiate_connection()
        conn.increment_flow_control_window(_CONNECTION_WINDOW - 65535)
        self.flush()
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self.endpoint.leave(self)
        self.deadline = None
        self.endpoint.wheel.forget(self)
        streams = list(self.streams.values())
        self.streams.clear()
        for stream in streams:
            stream.gone()

    def data_received(self, data: bytes) -> None:
        self._turns.feed(data)

    def _take(self, data: bytes) -> int:
        """Handles a piece of a read; returns the number of its frames."""
        if self._closing:
            return 0
        self._reading = True
        self.conn.room = self.budget.room(self.endpoint.wheel.now())
        try:
            events = self.conn.receive_data(data)
        except TooMany as error:
            self.endpoint.on_refused(429, f"HTTP/2: {error}")
            self._hang_up()
            return 0
        except (h2.exceptions.H2Error, ValueError, IndexError) as error:
            self.endpoint.on_refused(400, f"HTTP/2: {type(error).__name__}")
            self._hang_up()
            return 0
        self.conn.bound_table()
        self.budget.spend(self.conn.costs())
        for event in events:
            self._event(event)
            if self.transport.is_closing():
                return 0
        return self.conn.frames()

    def _taken(self) -> None:
        if self.transport.is_closing():
            return
        if self._widened:
            # Once for all frames of a turn: a flood of them must not cost a turn over all streams each.
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
        self._turns.release()
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
            if not event.stream_id:
                self._widened = True
            elif (stream := self.streams.get(event.stream_id)) is not None:
                stream.pump()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.deadline = None
            if not self.streams:
                self._hang_up()
        elif isinstance(event, h2.events.StreamReset):
            if not event.remote_reset and not self.budget.spend(1):  # a frame that the library refuses
                self.endpoint.on_refused(429, "HTTP/2: too many frames that are refused")
                self.conn.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                self._hang_up()
            stream = self.streams.pop(event.stream_id, None)
            if stream is not None:
                stream.gone()
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            # INITIAL_WINDOW_SIZE may have opened every stream's window.
            self._widened = True

    def _hang_up(self) -> None:
        """Sends what the library has to say (GOAWAY) and closes."""
        self._closing = True
        self._reading = False
        data = self.conn.data_to_send()
        if data:
            self.transport.write(data)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._rest()

    def _request(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id
        assert stream_id is not None
        if self.endpoint.draining:
            self.conn.reset_stream(stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        self.deadline = None
        stream = self.streams[stream_id] = H2Incoming(self, stream_id)
        try:
            stream.head = request_head(
                event.headers or [], self.endpoint.limits, event.stream_ended is not None
            )
        except HttpError as error:
            self.endpoint.on_refused(error.status, error.reason)
            head = stream.head = Head()
            head.method, head.length, head.minor = b"", 0, 1
            text = error.reason.encode() + b"\n"
            stream.respond(
                error.status, [(b"content-type", b"text/plain; charset=utf-8")], len(text), text, end=True
            )
            return
        if not self.endpoint.deliver(stream) and not stream.done:
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
        fields = trailer_fields(event.headers or [])
        if fields is not None:
            stream.trailers = fields
        else:
            stream.abort()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Opens the windows by `size` bytes that have been taken."""
        try:
            self.conn.acknowledge_received_data(size, stream_id)
        except h2.exceptions.H2Error:
            return
        self.flush()

    def flush(self) -> None:
        """Writes what the library has made; while a read is handled, once at its end."""
        if not self._reading and not self._closing:
            data = self.conn.data_to_send()
            if data:
                self.transport.write(data)
                if (
                    self.write_paused
                    and not self._turns.held
                    and self.transport.get_write_buffer_size() > _UNREAD
                ):
                    self._turns.hold()  # the peer does not read

    def finished(self, stream_id: int) -> None:
        """A stream has ended normally."""
        self.streams.pop(stream_id, None)
        self.budget.earn()
        if not self.streams and not self._closing:
            if self.endpoint.draining:
                self.flush()
                self.transport.close()
            else:
                self._rest()

    def _rest(self) -> None:
        wheel = self.endpoint.wheel
        self.deadline = wheel.now() + self.endpoint.limits.idle_time
        wheel.watch(self)

    def expired(self, now: float) -> None:
        """The wheel's call: no stream for a long time."""
        self.deadline = None
        if self._closing:
            self.transport.abort()
        elif not self.streams:
            self.conn.close_connection()
            self._hang_up()

    def drain(self) -> None:
        """Takes no further streams; closes when the last one has ended."""
        if self._closing:
            return
        self.transport.write(self.conn.goaway())
        if not self.streams:
            self.transport.close()
