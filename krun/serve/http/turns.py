"""How much of a read is handled at once: of one-byte DATA frames a read has thousands, and all other connections wait meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_PIECE = 16384  # bytes that are handled without a look at the number of frames
_FRAMES = 256  # of one turn: the rest of the read waits until the other connections have had theirs


class Turns:
    """The reads of one connection, and whether it is read from at all."""

    __slots__ = ("_after", "_left", "_take", "_transport", "held")

    def __init__(
        self, transport: asyncio.Transport, take: Callable[[bytes], int], after: Callable[[], None]
    ) -> None:
        """Arguments: take, handles bytes and returns how many frames they were; nothing once the connection ends; after, called at
        the end of each turn.
        """
        self._transport = transport
        self._take = take
        self._after = after
        self._left = b""
        #: Nothing is read.
        self.held = False

    def feed(self, data: bytes) -> None:
        """Handle what was read, now or in later turns. Until then nothing more is read."""
        if self._left:
            self._left += data  # TLS: it had been read before
        else:
            self._turn(data)

    def hold(self) -> None:
        """Read nothing until `release`."""
        self.held = True
        self._transport.pause_reading()

    def release(self) -> None:
        """Read again, if `hold` was called."""
        if self.held:
            self.held = False
            self._go_on()

    def _turn(self, data: bytes) -> None:
        frames, end = self._take(data[:_PIECE]), _PIECE
        while end < len(data):
            if frames > _FRAMES:
                self._left = data[end:]
                self._transport.pause_reading()
                asyncio.get_running_loop().call_soon(self._go_on)
                break
            frames += self._take(data[end : end + _PIECE])
            end += _PIECE
        self._after()

    def _go_on(self) -> None:
        if self.held or self._transport.is_closing():
            return
        data, self._left = self._left, b""
        self._transport.resume_reading()
        self._turn(data)
