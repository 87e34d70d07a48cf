"""What a peer can make the library h2 keep and do: the table of its encoder, streams that have ended, frames that bring nothing."""

from __future__ import annotations

import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from hyperframe.frame import GoAwayFrame

#: Frames that cost the server and bring no request.
CONTROL = (
    h2.events.StreamReset,
    h2.events.PingReceived,
    h2.events.RemoteSettingsChanged,
    h2.events.PriorityUpdated,
)

#: Bytes of the encoder's dynamic table (RFC 7541, section 4.2: at most what the peer permits), HPACK's initial size.
_TABLE = 4096

#: Seconds in which the whole budget for control frames comes back.
_REFILL = 60.0

#: Bytes of a response that are worth one such frame.
_EARNS = 4096


class Library(h2.connection.H2Connection):
    """A connection of the library."""

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

    def spend(self, now: float) -> bool:
        """Charges one frame; returns whether it was in the budget."""
        self._left = min(self._limit, self._left + (now - self._at) * self._limit / _REFILL) - 1
        self._at = now
        return self._left >= 0

    def earn(self, count: int = 1) -> None:
        """A stream has ended normally."""
        self._left = min(self._limit, self._left + count)

    def sent(self, size: int) -> None:
        """The peer has taken bytes: while it reads it may measure the path (grpc-go: a PING for each part). Few bytes earn nothing."""
        if size >= _EARNS:
            self.earn(size // _EARNS)
