"""The proxy's side of an HTTP/2 connection to an instance whose port is named h2c (prior knowledge, RFC 9113, section 3.3)."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable

import h2.config
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from krun.serve.http.endpoint import field_lines, small_reads
from krun.serve.http.h2head import HOP, lower, pour, settings, trailer_fields
from krun.serve.http.h2limits import Budget, Library, TooMany
from krun.serve.http.head import CHUNKED, Head, check_field
from krun.serve.http.timers import Wheel
from krun.serve.http.turns import Turns
from krun.serve.http.types import Headers, Limits
from krun.serve.proxy.outgoing import Outgoing, Receiver

_WINDOW = 1 << 20
#: As in a status line (RFC 9110, section 15).
_STATUS = re.compile(rb"[1-9][0-9]{2}")
#: Bytes that wait for the instance's window before the client is paused.
_PENDING = 65536
#: Bytes, of answers to the instance's frames too, that wait for it to read before nothing more of it is read.
_UNREAD = 1 << 20
#: Interim responses of one request; an instance could send them without end.
_INTERIM = 16
#: Seconds that a connection without a request is kept.
_IDLE_TIME = 60.0


def _response_head(
    fields: list[tuple[bytes, bytes]], method: bytes, limits: Limits, ended: bool
) -> Head | None:
    """The head of a response, or None if it cannot be an HTTP/1.1 response."""
    head = Head()
    status = b""
    headers: Headers = []
    for name, value in fields:
        if name == b":status":
            status = value
        elif name[:1] == b":" or not check_field(name, value):
            return None
        elif name not in HOP or name == b"content-length":
            headers.append((name, value))
    if not _STATUS.fullmatch(status) or len(headers) > limits.fields:
        return None
    head.status, head.reason, head.minor, head.method = int(status), b"", 1, method
    head.keep_alive, head.connection = True, frozenset()
    head.headers = headers
    index: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == b"content-length" and (name in index or not value.isdigit() or len(value) > 18):
            return None
        index.setdefault(name, value)
    head.index = index
    head.raw = field_lines(headers)
    declared = index.get(b"content-length")
    head.length = 0 if ended else int(declared) if declared is not None else CHUNKED
    return head


class Up2(asyncio.Protocol):
    """A connection; it carries as many requests as the instance allows."""

    __slots__ = (
        "_budget",
        "_closing",
        "_conn",
        "_limits",
        "_on_lost",
        "_over",
        "_reading",
        "_turns",
        "_wheel",
        "_widened",
        "deadline",
        "slot",
        "streams",
        "transport",
        "write_paused",
    )

    transport: asyncio.Transport

    def __init__(self, limits: Limits, wheel: Wheel, on_lost: Callable[[Up2], None]) -> None:
        """`on_lost` is called when the descriptor is closed."""
        self._limits = limits
        self._wheel = wheel
        self._on_lost = on_lost
        self.deadline: float | None = None
        self.slot = 0
        self.streams: dict[int, Stream2] = {}
        #: No further requests; nothing more is read.
        self._closing = self._over = False
        self._reading = False
        #: The windows of all streams may have become wider.
        self._widened = False
        self._budget = Budget(limits.abuse, wheel.now())
        self.write_paused = False
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self._conn = Library(config)

    # asyncio's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        small_reads(transport)
        self._turns = Turns(transport, self._take, self._taken)
        conn = self._conn
        conn.local_settings = h2.settings.Settings(
            client=True, initial_values=settings(self._limits, client=True)
        )
        conn.initiate_connection()
        conn.increment_flow_control_window(_WINDOW - 65535)
        self.flush()
        self._rest(_IDLE_TIME)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = self._over = True
        self.deadline = None
        self._wheel.forget(self)
        self._on_lost(self)
        self._drop("the instance closed the connection before the response was complete")

    def _drop(self, text: str) -> None:
        streams = list(self.streams.values())
        self.streams.clear()
        for stream in streams:
            stream.failed(text)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.write_paused = True
        for stream in list(self.streams.values()):
            stream.check_pressure()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._turns.release()
        self._pump()

    def _pump(self) -> None:
        for stream in list(self.streams.values()):
            stream.pump()

    def data_received(self, data: bytes) -> None:
        self._turns.feed(data)

    def _take(self, data: bytes) -> int:
        """Handles a piece of a read; returns the number of its frames."""
        if self._over:
            return 0
        self._reading = True
        # All instances' requests wait while the frames of one are read.
        self._conn.room = self._budget.room(self._wheel.now())
        try:
            events = self._conn.receive_data(data)
        except TooMany as error:
            self._hang_up(f"the instance sends {error}")
            return 0
        except (h2.exceptions.H2Error, ValueError, IndexError) as error:
            self._hang_up(f"the instance's response cannot be read: {type(error).__name__}")
            return 0
        self._conn.bound_table()
        self._budget.spend(self._conn.costs())
        for event in events:
            self._event(event)
        return self._conn.frames()

    def _taken(self) -> None:
        if self._over:
            return
        if self._widened:
            self._widened = False
            self._pump()
        self._reading = False
        self.flush()

    def _event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            last: int = event.last_stream_id or 0
            self._closing = True
            for later in [n for n in self.streams if n > last]:
                self.streams.pop(later).failed("the instance does not take the request")
            if not self.streams:
                self._end()
            return
        number = getattr(event, "stream_id", None)
        if isinstance(event, h2.events.RemoteSettingsChanged) or (
            isinstance(event, h2.events.WindowUpdated) and not number
        ):
            self._widened = True
            return
        stream2 = self.streams.get(number or 0)
        if stream2 is not None:
            stream2.event(event)
        elif isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
            self.acknowledge(number or 0, event.flow_controlled_length)

    def _hang_up(self, text: str) -> None:
        self._closing = self._over = True
        self._reading = False
        self.transport.write(self._conn.data_to_send())
        self._end()
        self._drop(text)

    # Its end.

    def _rest(self, seconds: float) -> None:
        self.deadline = self._wheel.now() + seconds
        self._wheel.watch(self)

    def _end(self) -> None:
        """Closes when everything is written; an instance that does not read keeps no connection for ever."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._rest(self._limits.idle_time)

    def expired(self, now: float) -> None:
        """The wheel's call: no request for a long time, or an instance that does not take the rest."""
        self.deadline = None
        if self.transport.is_closing():
            self.transport.abort()
        elif not self.streams:
            self.close()

    # For the streams and the pool.

    @property
    def usable(self) -> bool:
        """Whether it can carry one more request."""
        return (
            not self._closing
            and not self.transport.is_closing()
            and len(self.streams)
            < min(self._conn.remote_settings.max_concurrent_streams, self._limits.streams)
        )

    def send(self, receiver: Receiver, head: Head, fields: Headers) -> Stream2:
        """Starts a request; `fields` without framing, Host first.  Raises OSError if the connection cannot take it."""
        authority = fields[0][1]
        out: Headers = [
            (b":method", head.method),
            (b":scheme", b"http"),
            (b":authority", authority),
            (b":path", head.target),
            *lower(fields[1:]),
        ]
        if head.length > 0:
            out.append((b"content-length", b"%d" % head.length))
        conn = self._conn
        try:
            number = conn.get_next_available_stream_id()
            conn.send_headers(number, out, end_stream=head.length == 0)
        except (h2.exceptions.H2Error, ValueError) as error:
            self._closing = True
            raise OSError(f"the instance's connection takes no further request: {error}") from None
        self.deadline = None
        stream = self.streams[number] = Stream2(self, number, receiver, head.method, head.length == 0)
        self.flush()
        return stream

    def acknowledge(self, number: int, size: int) -> None:
        """Opens the windows by `size` bytes."""
        try:
            self._conn.acknowledge_received_data(size, number)
        except h2.exceptions.H2Error:
            return
        self.flush()

    def flush(self) -> None:
        """Writes what the library has made; while a read is handled, once at its end."""
        if not self._reading and not self.transport.is_closing():
            data = self._conn.data_to_send()
            if data:
                self.transport.write(data)
                if not self._turns.held and self.transport.get_write_buffer_size() > _UNREAD:
                    # CVE-2019-9512, CVE-2019-9515: each PING and SETTINGS wants an answer.
                    self._turns.hold()

    def close(self) -> None:
        """No further requests; closes after the last one."""
        self._closing = True
        if not self.streams:
            self._end()

    def ended(self, number: int) -> None:
        """A stream has ended."""
        self.streams.pop(number, None)
        self._budget.earn()
        if self.streams:
            return
        if self._closing:
            self.flush()
            self._end()
        else:
            self._rest(_IDLE_TIME)


class Stream2(Outgoing):
    """A request on such a connection."""

    __slots__ = (
        "_ending", "_informed", "_link", "_number", "_method", "_paused", "_pending", "_receiver", "_sent", "_size", "_started",
        "_told", "_trailers", "_unread", "reused",
    )  # fmt: skip

    def __init__(self, link: Up2, number: int, receiver: Receiver, method: bytes, ended: bool) -> None:
        self._link = link
        self._number = number
        self._method = method
        self._receiver: Receiver | None = receiver
        self.reused = False
        self._started = False
        self._paused = False
        self._unread = 0
        self._trailers: Headers = []
        self._pending: deque[bytes | memoryview] = deque()
        self._size = 0
        #: The trailers, once the request is complete, and whether its end is sent.
        self._ending: Headers | None = [] if ended else None
        self._sent = ended
        self._told = False
        self._informed = 0

    def event(self, event: h2.events.Event) -> None:
        """Takes an event of this stream."""
        receiver = self._receiver
        if receiver is None:
            return
        if isinstance(event, h2.events.DataReceived):
            self._unread += event.flow_controlled_length or 0
            data = event.data or b""
            if data:
                receiver.up_data(data)
            self._consumed()
        elif isinstance(event, h2.events.ResponseReceived):
            self._head(event)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            self._informed += 1
            if self._informed > _INTERIM:
                self._refuse("the instance sent too many interim responses")
                return
            fields = [(n, v) for n, v in event.headers or [] if n[:1] != b":"]
            status = dict(event.headers or []).get(b":status", b"")
            if all(check_field(n, v) for n, v in fields) and _STATUS.fullmatch(status) and status != b"101":
                receiver.up_inform(int(status), fields)
        elif isinstance(event, h2.events.TrailersReceived):
            trailers = trailer_fields(event.headers or [])
            if trailers is not None:
                self._trailers = trailers
            else:
                self._refuse("the instance's trailer fields are malformed")
        elif isinstance(event, h2.events.StreamEnded):
            self._end()
        elif isinstance(event, h2.events.StreamReset):
            self._link.ended(self._number)
            self.failed(f"the instance reset the stream: {int(event.error_code or 0)}")
        elif isinstance(event, h2.events.WindowUpdated):
            self.pump()

    def _head(self, event: h2.events.ResponseReceived) -> None:
        head = _response_head(
            event.headers or [], self._method, self._link._limits, event.stream_ended is not None
        )
        if head is None:
            self._refuse("the instance's response fields are malformed")
            return
        self._started = True
        if event.stream_ended is None and self._receiver is not None:
            self._receiver.up_head(head, b"", False)
        elif self._receiver is not None:
            receiver, self._receiver = self._receiver, None
            self._leave()
            receiver.up_head(head, b"", True)

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        self._leave()
        if receiver is not None:
            receiver.up_end(b"", self._trailers)

    def _leave(self) -> None:
        """The response is complete; the rest of the request is not wanted."""
        if not self._sent:
            self._reset(h2.errors.ErrorCodes.CANCEL)
        self._pending.clear()
        self._paused = False
        self._consumed()
        self._link.ended(self._number)

    def _refuse(self, text: str) -> None:
        self._reset(h2.errors.ErrorCodes.PROTOCOL_ERROR)
        self._link.ended(self._number)
        self.failed(text)

    def _reset(self, code: h2.errors.ErrorCodes) -> None:
        self._link._conn.reset(self._number, code)
        self._link.flush()

    def failed(self, text: str) -> None:
        """The stream or its connection has ended."""
        receiver, self._receiver = self._receiver, None
        self._pending.clear()
        if receiver is not None:
            receiver.up_error(text, False)

    # The request.

    def write(self, data: bytes) -> None:
        if self._receiver is not None and self._ending is None:
            self._pending.append(data)
            self._size += len(data)
            self.pump()

    def finish(self, trailers: Headers) -> None:
        if self._receiver is not None and self._ending is None:
            self._ending = lower(trailers)
            self.pump()

    def abort(self) -> None:
        if self._receiver is None:
            return
        self._receiver = None
        self._pending.clear()
        self._reset(h2.errors.ErrorCodes.CANCEL)
        self._paused = False
        self._consumed()
        self._link.ended(self._number)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._consumed()

    def _consumed(self) -> None:
        if not self._paused and self._unread:
            size, self._unread = self._unread, 0
            self._link.acknowledge(self._number, size)

    def pump(self) -> None:
        """Sends what the windows and the socket allow."""
        link = self._link
        conn = link._conn
        pending = self._pending
        if self._sent or (not pending and self._ending is None):
            return
        sent = False
        try:
            if pending and not link.write_paused:
                size, sent = pour(conn, self._number, pending, self._ending == [])
                self._size -= size
                link._budget.sent(size)
            if not pending and self._ending is not None:
                self._sent = True
                if self._ending:
                    conn.send_headers(self._number, self._ending, end_stream=True)
                elif not sent:
                    conn.end_stream(self._number)
        except h2.exceptions.H2Error:
            # Half-closed by the instance, or complete already: its answer tells.
            pending.clear()
        link.flush()
        self.check_pressure()

    def check_pressure(self) -> None:
        """Tells the client's side to pause or to go on."""
        if self._receiver is None:
            return
        full = self._size > _PENDING or self._link.write_paused
        if full and not self._told:
            self._told = True
            self._receiver.up_pause()
        elif not full and self._told:
            self._told = False
            self._receiver.up_resume()
