"""What a peer can make the library h2 keep and do: the table of its encoder, streams that have ended, frames that bring nothing."""

from __future__ import annotations

import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    WindowUpdateFrame,
)

#: Bytes below which a WINDOW_UPDATE costs more than it brings (CVE-2019-9511: a response that is sent in frames of a few bytes).
_DRIBBLE = 256

#: How many wider ones cost as one other frame: a reader sends them by thousands, for what it reads, which earns more (Budget.sent).
_WINDOWS = 16

#: Bytes of the encoder's dynamic table (RFC 7541, section 4.2: at most what the peer permits), HPACK's initial size.
_TABLE = 4096

#: Seconds in which the whole budget for control frames comes back.
_REFILL = 60.0

#: Bytes of a response that are worth one such frame.
_EARNS = 4096


class TooMany(h2.exceptions.ProtocolError):
    """Frames beyond `Library.room`."""

    error_code = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


def _costs(frame: Frame) -> bool:
    """Whether a frame costs the reader and brings nothing: whatever is no part of a message."""
    if isinstance(frame, HeadersFrame | ContinuationFrame):
        return False
    if isinstance(frame, DataFrame):
        return not frame.data and "END_STREAM" not in frame.flags
    return True


class Library(h2.connection.H2Connection):
    """A connection of the library."""

    #: Frames since `costs` was asked: of some the library makes no event (late ones, answers that nobody waits for, unknown types);
    #: and how many there may be. One read has thousands, and all other connections wait while it is handled.
    _costly = 0
    room = 0
    #: All frames since `frames` was asked.
    _count = 0
    _windows = 0

    #: Streams that have ended and are remembered, so that late frames on them are no error. The library's 65536 have some 6 MB.
    MAX_CLOSED_STREAMS = 4096

    def bound_table(self) -> None:
        """To be called after what the peer has sent: its SETTINGS_HEADER_TABLE_SIZE of 4 GiB would keep the fields of all messages."""
        encoder = self.encoder
        if encoder.header_table_size > _TABLE:
            encoder.header_table_size = _TABLE
        changes = encoder.table_size_changes
        if len(changes) > 2:
            # The smallest and the last one are what the peer must be told.
            changes[:] = [min(changes), changes[-1]]

    def _receive_frame(self, frame: Frame) -> list[h2.events.Event]:
        self._count += 1
        if isinstance(frame, WindowUpdateFrame) and frame.window_increment >= _DRIBBLE:
            self._windows = (self._windows + 1) % _WINDOWS
            self._costly += not self._windows
        else:
            self._costly += _costs(frame)
        if self._costly > self.room:
            raise TooMany("too many resets and control frames")
        return super()._receive_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """The peer's GOAWAY, past the library, which serves nothing after it: the streams that there are go on (RFC 9113, section 6.8)."""
        event = h2.events.ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]

    def costs(self) -> int:
        """Return how many frames have cost and brought nothing since the last call."""
        count, self._costly = self._costly, 0
        return count

    def frames(self) -> int:
        """Return how many frames have come since the last call."""
        count, self._count = self._count, 0
        return count

    def reset(self, number: int, code: h2.errors.ErrorCodes) -> None:
        """Resets a stream, which may have ended already."""
        try:
            self.reset_stream(number, code)
        except h2.exceptions.H2Error:
            pass

    def goaway(self) -> bytes:
        """GOAWAY beside the library, which refuses everything after its own: the streams that there are go on."""
        return GoAwayFrame(0, last_stream_id=self.highest_inbound_stream_id, error_code=0).serialize()


class Budget:
    """Frames that cost and bring no request (CVE-2023-44487, CVE-2019-9512, -9515, -9518).

    It refills: pings that keep a connection alive for hours are no abuse.
    """

    __slots__ = ("_at", "_left", "_limit")

    def __init__(self, limit: int, now: float) -> None:
        self._limit = limit
        self._left: float = limit
        self._at = now

    def room(self, now: float) -> int:
        """Returns how many frames may come."""
        self._left = min(self._limit, self._left + (now - self._at) * self._limit / _REFILL)
        self._at = now
        return max(int(self._left), 0)

    def spend(self, count: int) -> bool:
        """Charges frames; returns whether they were in the budget."""
        self._left -= count
        return self._left >= 0

    def earn(self, count: int = 1) -> None:
        """A stream has ended normally."""
        self._left = min(self._limit, self._left + count)

    def sent(self, size: int) -> None:
        """The peer has taken bytes: while it reads it may measure the path (grpc-go: a PING for each part). Few bytes earn nothing."""
        if size >= _EARNS:
            self.earn(size // _EARNS)
