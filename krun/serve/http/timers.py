"""One coarse timer wheel for all time-outs of an event loop: loop.call_later for each request would churn its heap."""

from __future__ import annotations

import asyncio
from typing import Protocol

#: Seconds of a slot: a time-out ends at most this late.
TICK = 0.1


class Timed(Protocol):
    """An object with a deadline.  Moving the deadline back costs one store; the wheel looks again when the old one is over."""

    #: loop.time() of the deadline; None: no deadline.
    deadline: float | None
    #: The slot of the wheel in which it stands, 0 for none.  Only the wheel writes it.
    slot: int

    def expired(self, now: float) -> None:
        """The deadline is over; it may set a new one and return."""


class Wheel:
    """The wheel of one loop.  Nothing runs while no object has a deadline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: loop.time
        self.now = loop.time
        self._slots: dict[int, set[Timed]] = {}
        self._handle: asyncio.TimerHandle | None = None
        #: The slot at which `_handle` rings.
        self._next = 0

    def watch(self, item: Timed) -> None:
        """Looks at `item` when its deadline is over.  A later deadline needs no further call, an earlier one does."""
        deadline = item.deadline
        if deadline is None:
            return
        slot = int(deadline / TICK) + 1
        if item.slot:
            if item.slot <= slot:
                return
            self.forget(item)
        item.slot = slot
        entries = self._slots.get(slot)
        if entries is None:
            self._slots[slot] = {item}
            if self._handle is None or slot < self._next:
                self._arm(slot)
        else:
            entries.add(item)

    def forget(self, item: Timed) -> None:
        """Lets go of `item`, which has ended: without this call the wheel holds it until its old deadline."""
        entries = self._slots.get(item.slot)
        if entries is not None:
            entries.discard(item)
        item.slot = 0

    def _arm(self, slot: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._next = slot
        self._handle = self._loop.call_at(slot * TICK, self._ring)

    def _ring(self) -> None:
        self._handle = None
        now = self._loop.time()
        # call_at may ring a clock's resolution too early.
        current = max(int(now / TICK), self._next)
        for slot in sorted(slot for slot in self._slots if slot <= current):
            for item in self._slots.pop(slot):
                # Forgotten, or moved, by an item before it.
                if item.slot != slot:
                    continue
                item.slot = 0
                if item.deadline is not None and item.deadline <= now:
                    self._expire(item, now)
                self.watch(item)
        if self._slots and self._handle is None:
            self._arm(max(min(self._slots), current + 1))

    def _expire(self, item: Timed, now: float) -> None:
        try:
            item.expired(now)
        except Exception as error:
            # One item's error must not cost the others their time-outs.
            self._loop.call_exception_handler({"message": "a time-out failed", "exception": error})

    def close(self) -> None:
        """Forgets every deadline."""
        self._slots.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
