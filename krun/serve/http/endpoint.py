"""What the connections of a listener share, and the serialised parts of an HTTP/1.1 head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from krun.serve.http.hangup import Hangups
from krun.serve.http.stream import Incoming
from krun.serve.http.timers import Wheel
from krun.serve.http.types import REASONS, Headers, Limits

#: The status lines of the statuses that have a phrase here.
_LINES = {status: b"HTTP/1.1 %d %b\r\n" % (status, reason) for status, reason in REASONS.items()}


def status_line(status: int) -> bytes:
    """The status line of `status`, with its CRLF."""
    return _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def field_lines(headers: Headers) -> bytes:
    """`headers` as field lines."""
    return b"".join([b"%b: %b\r\n" % field for field in headers])


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
    ) -> None:
        """`on_request` gets each request and calls its consume(); `report` gets a line about an error of the
        server itself, `on_refused` the status and reason of a message that was refused.
        """
        self.on_request = on_request
        self.wheel = wheel
        self.limits = limits
        self.report = report
        self.on_refused = on_refused or (lambda status, reason: None)
        self.connections: set[Any] = set()
        self.draining = False
        self.hangups = Hangups()

    def deliver(self, incoming: Incoming) -> bool:
        """Hands a request to its user.  A failure there costs this request only; returns whether there was none."""
        try:
            self.on_request(incoming)
        except Exception as error:
            self.report(f"a request could not be handled: {type(error).__name__}: {error}")
            return False
        return True
