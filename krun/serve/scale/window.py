"""Windows of samples: averages over seconds, and the maximum over slots.

Sources: knative/serving, pkg/autoscaler/aggregation/bucketing.go and pkg/autoscaler/aggregation/max/window.go.
"""

from __future__ import annotations

import math
from collections import deque

_DIGITS = 1e6


def round_half_away(value: float) -> float:
    """`value` with six digits behind the point; halves go away from zero, as Go's math.Round."""
    scaled = value * _DIGITS
    return math.copysign(math.floor(abs(scaled) + 0.5), scaled) / _DIGITS


class Average:
    """The average of one value a second over the last `seconds`.  A second without a sample counts as 0."""

    __slots__ = ("_buckets", "_first", "_last", "_size")

    def __init__(self, seconds: int) -> None:
        self._size = max(1, seconds)
        #: (second, sum of its samples), oldest first; none is older than the window at the last write.
        #: Made with the first sample: an empty deque takes 760 bytes, and a service at zero has four windows.
        self._buckets: deque[tuple[int, float]] | None = None
        self._first = 0
        self._last: int | None = None

    def record(self, now: float, value: float) -> None:
        """Adds `value` to the second of `now` (seconds).  A sample from before the last one counts in the last second."""
        second = int(now)
        last = self._last
        if self._buckets is None:
            self._buckets = deque()
        if last is None or second - last >= self._size:
            self._buckets.clear()
            self._first = second
        elif second < last:
            second = last
        self._last = second
        if self._buckets and self._buckets[-1][0] == second:
            self._buckets[-1] = (second, self._buckets[-1][1] + value)
        else:
            self._buckets.append((second, value))
        while self._buckets[0][0] <= second - self._size:
            self._buckets.popleft()

    def empty(self, now: float) -> bool:
        """Whether there is no sample, or the last one is older than the window."""
        return self._last is None or int(now) - self._last > self._size

    def value(self, now: float) -> float:
        """The average at `now` (seconds): over the window, or over the time since the first sample if that is shorter."""
        if self._last is None or self._buckets is None:
            return 0.0
        second = int(now)
        gap = max(0, second - self._last)
        if gap >= self._size:
            return 0.0
        oldest = self._last + gap - self._size
        total = math.fsum(value for at, value in self._buckets if at > oldest)
        return round_half_away(total / min(self._last - self._first + 1, self._size - gap))

    def resize(self, seconds: int) -> None:
        """Changes the window; what is older than the new one is dropped."""
        self._size = max(1, seconds)
        if self._last is not None and self._buckets is not None:
            self._first = max(self._first, self._last - self._size + 1)
            while self._buckets and self._buckets[0][0] <= self._last - self._size:
                self._buckets.popleft()


class Maximum:
    """The maximum of the values recorded in the last slots."""

    __slots__ = ("_entries", "_slot", "_slots")

    def __init__(self, seconds: float, slot: float) -> None:
        """Arguments: the window and the length of a slot, in seconds."""
        self._slots = math.ceil(seconds / slot)
        self._slot = slot
        #: (slot, value) with values that fall: the first one is the maximum.
        self._entries: deque[tuple[int, int]] = deque()

    def record(self, now: float, value: int) -> int:
        """Adds `value` at `now` (seconds) and returns the maximum."""
        index = int(now // self._slot)
        entries = self._entries
        while entries and entries[0][0] <= index - self._slots:
            entries.popleft()
        while entries and entries[-1][1] <= value:
            entries.pop()
        entries.append((index, value))
        return entries[0][1]
