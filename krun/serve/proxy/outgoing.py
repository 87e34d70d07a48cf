"""The two sides of a request to an instance: what a connection offers (Outgoing) and what its user implements (Receiver)."""

from __future__ import annotations

from krun.serve.http.head import Head
from krun.serve.http.types import Headers


class Receiver:
    """The user of a response.  After up_end with the end of the message, or up_error, there is no further call."""

    __slots__ = ()

    def up_head(self, head: Head, content: bytes, done: bool) -> None:
        """The response's head, with the first part of its body; `done`: that is all."""

    def up_inform(self, status: int, headers: Headers) -> None:
        """An interim response."""

    def up_tunnel(self, head: Head) -> bool:
        """The instance switches protocols.  Returns whether that was asked for."""
        return False

    def up_data(self, content: bytes) -> None:
        """A part of the body, not empty."""

    def up_end(self, content: bytes, trailers: Headers) -> None:
        """The last part and the end of the body, or the end of what the instance sends through a tunnel."""

    def up_gone(self) -> None:
        """The instance's end of a tunnel has gone, both ways."""

    def up_error(self, text: str, fresh: bool) -> None:
        """The response will not come or not be complete.  `fresh`: the connection had been idle and ended before any answer, so the request
        may be sent again if it is idempotent (RFC 9112, section 9.3.1).
        """

    def up_pause(self) -> None:
        """The instance does not read the request."""

    def up_resume(self) -> None:
        """The instance reads again."""


class Outgoing:
    """A request on its way."""

    __slots__ = ()

    reused: bool

    def write(self, data: bytes) -> None:
        """A part of the request's body."""
        raise NotImplementedError

    def finish(self, trailers: Headers) -> None:
        """The request is complete; of a tunnel: the client sends nothing more."""
        raise NotImplementedError

    def abort(self) -> None:
        """Nobody wants the response.  No further call on the receiver."""
        raise NotImplementedError

    def pause(self) -> None:
        """The client does not read."""
        raise NotImplementedError

    def resume(self) -> None:
        """The client reads again."""
        raise NotImplementedError
