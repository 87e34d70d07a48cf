"""The room for connections to instances: an instance that accepts and never answers must not use up the server's descriptors."""

from __future__ import annotations

import resource
from typing import Protocol


class Holder(Protocol):
    """The connections of one instance."""

    #: Connections that exist, are being made, or have not been closed yet.
    count: int

    def evict(self) -> bool:
        """Ends an idle connection; returns whether there was one."""


class Room:
    """All instances' room. One connection of an instance has one descriptor, whatever became of its request."""

    def __init__(self, each: int, total: int = 0) -> None:
        """`each`: connections of one instance; `total`: of all, 0 for half of the process's descriptors (RLIMIT_NOFILE)."""
        self.each = each
        self.total = total or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self.count = 0
        self._holders: set[Holder] = set()

    def take(self, holder: Holder) -> bool:
        """Counts one more connection of `holder`, in the place of an idle one where there is no room. Returns whether it may be made."""
        if holder.count >= self.each and not holder.evict():
            return False
        if self.count >= self.total and not any(other.evict() for other in self._holders):
            return False
        self._holders.add(holder)
        holder.count += 1
        self.count += 1
        return True

    def give(self, holder: Holder) -> None:
        """A connection of `holder` has gone."""
        holder.count -= 1
        self.count -= 1
        if not holder.count:
            self._holders.discard(holder)
