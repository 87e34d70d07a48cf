"""Watches: events of one kind from a version on, for one client.

A client that reads slowly must not make the store keep events for ever: after _BACKLOG events that it has not taken, or
_BACKLOG_BYTES of them, it is told that its version has expired, and lists again (what client-go does with a 410).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from krun.serve.model.kinds import Kind
from krun.serve.model.status import expired

_BACKLOG = 4096
#: Bytes of their texts. One of the largest objects always fits.
_BACKLOG_BYTES = 16 << 20


class Event(NamedTuple):
    """A change: version, ADDED, MODIFIED or DELETED, kind, the object (shared by all readers: not to be changed), its bytes."""

    rv: int
    type: str
    kind: Kind
    obj: dict[str, Any]
    size: int = 0


class Watch:
    """An asynchronous iterator over events. Whoever made it closes it."""

    def __init__(
        self, kind: Kind, namespace: str | None, since: int, forget: Callable[["Watch"], None]
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.since = since
        self._forget = forget
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._wake: asyncio.Event = asyncio.Event()
        self._overrun = False
        self.closed = False

    def offer(self, event: Event) -> None:
        """Takes an event of the store, if it is of the kind and namespace and new."""
        if event.kind is not self.kind or event.rv <= self.since:
            return
        if self.namespace is not None and event.obj["metadata"].get("namespace", "") != self.namespace:
            return
        if self._overrun:
            return
        self._bytes += event.size
        if len(self._events) >= _BACKLOG or self._bytes > _BACKLOG_BYTES:
            self._overrun = True
            self._events.clear()
        else:
            self._events.append(event)
        self._wake.set()

    @property
    def overrun(self) -> bool:
        """Whether there were too many: the reader is told, and further ones are of no use."""
        return self._overrun

    def close(self) -> None:
        """Ends the iteration; idempotent."""
        self.closed = True
        self._forget(self)
        self._wake.set()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Event:
        """Returns the next event. Errors: ApiError 410, too many were not taken; StopAsyncIteration, closed."""
        while not self._events:
            if self.closed:
                raise StopAsyncIteration
            if self._overrun:
                self.close()
                raise expired(self.since)
            self._wake.clear()
            await self._wake.wait()
        event = self._events.popleft()
        self._bytes -= event.size
        self.since = event.rv
        return event
