"""What the connections of a listener share, and the serialised parts of an HTTP/1.1 head."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from krun.serve.http.hangup import Hangups
from krun.serve.http.memory import Memory, client_of
from krun.serve.http.stream import Incoming
from krun.serve.http.timers import Wheel
from krun.serve.http.types import REASONS, Headers, HttpError, Limits

#: The status lines of the statuses that have a phrase here.
_LINES = {status: b"HTTP/1.1 %d %b\r\n" % (status, reason) for status, reason in REASONS.items()}


def status_line(status: int) -> bytes:
    """The status line of `status`, with its CRLF."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def field_lines(headers: Headers) -> bytes:
    """`headers` as field lines."""
    return b"".join([b"%b: %b\r\n" % field for field in headers])


def small_reads(transport: asyncio.Transport) -> None:
    """Has a transport of asyncio read 64 KiB at a time, not 256: what one read brings is held whatever the other bounds say."""
    if hasattr(transport, "max_size"):
        transport.max_size = 65536


class Endpoint:
    """What the connections of a listener share."""

    def __init__(
        self,
        on_request: Callable[[Incoming], None],
        wheel: Wheel,
        limits: Limits,
        *,
        report: Callable[[str], None],
        on_refused: Callable[[int, str], None] | None = None,
        memory: Memory | None = None,
    ) -> None:
        """`on_request` gets each request and calls its consume(); `report` gets a line about an error of the
        server itself, `on_refused` the status and reason of a message that was refused;
        `memory` is shared with other listeners.
        """
        self.memory = memory or Memory(limits.memory)
        self.on_request = on_request
        self.wheel = wheel
        self.limits = limits
        self.report = report
        self.on_refused = on_refused or (lambda status, reason: None)
        self.connections: set[Any] = set()
        #: Those of each client (client_of); a client without one has no entry.
        self._clients: dict[str, int] = {}
        self.draining = False
        self.hangups = Hangups()

    def check_room(self, peer: tuple | str) -> None:
        """Raises HttpError 503 or 429 if there is no room for one more connection of `peer`."""
        if len(self.connections) >= self.limits.connections:
            raise HttpError(503, "too many connections")
        client = client_of(peer)
        if client and self._clients.get(client, 0) >= self.limits.client:
            raise HttpError(429, "too many connections from this address")

    def join(self, connection: Any) -> None:
        """Counts a connection, which has an attribute `peer`."""
        self.connections.add(connection)
        client = client_of(connection.peer)
        self._clients[client] = self._clients.get(client, 0) + 1

    def leave(self, connection: Any) -> None:
        """A connection has ended. Idempotent."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        client = client_of(connection.peer)
        left = self._clients[client] - 1
        if left:
            self._clients[client] = left
        else:
            del self._clients[client]

    def deliver(self, incoming: Incoming) -> bool:
        """Hands a request to its user.  A failure there costs this request only; returns whether there was none."""
        try:
            self.on_request(incoming)
        except Exception as error:
            self.report(f"a request could not be handled: {type(error).__name__}: {error}")
            return False
        return True
