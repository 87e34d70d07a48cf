"""The two sides of a message in progress: what a connection offers (Incoming) and what its user implements (Sink).

Both HTTP versions offer the same object, so a server, a proxy and an upgrade know nothing of frames.  All calls are synchronous and
on the loop.  Order of the calls on a Sink: on_data*, then one of on_end and on_abort; on_abort may also follow on_end, until the
response is complete.
"""

from __future__ import annotations

from krun.serve.http.head import Head
from krun.serve.http.types import Headers


class Sink:
    """The user of a request's body, and of the news about its connection."""

    __slots__ = ()

    def on_data(self, data: bytes) -> None:
        """A part of the body, not empty."""

    def on_end(self, trailers: Headers) -> None:
        """The body is complete."""

    def on_abort(self) -> None:
        """The peer is gone or broke the protocol; nothing can be answered any more."""

    def on_leaving(self) -> None:
        """The peer of a tunnel sends nothing more behind what has not been read yet."""

    def on_pause(self) -> None:
        """The peer does not read the response: write no more than what is on its way."""

    def on_resume(self) -> None:
        """The peer reads again."""


class Incoming:
    """A request whose head is complete.  `head.headers` has the fields of both versions; HTTP/2's have no pseudo fields."""

    __slots__ = ()

    head: Head
    peer: tuple | str
    tls: bool
    #: True for HTTP/2.
    multiplexed: bool

    def consume(self, sink: Sink) -> None:
        """Names the sink.  Called once, inside the call that delivers the request."""
        raise NotImplementedError

    def pause(self) -> None:
        """No further on_data, except for what has been read already."""
        raise NotImplementedError

    def resume(self) -> None:
        """Delivers the body again."""
        raise NotImplementedError

    def inform(self, status: int, headers: Headers) -> None:
        """Sends an interim answer (1xx, not 101); HTTP/1.0 peers get none."""
        raise NotImplementedError

    def respond(
        self,
        status: int,
        headers: Headers,
        length: int,
        body: bytes = b"",
        *,
        raw: bytes | None = None,
        end: bool = False,
    ) -> None:
        """Starts the response.

        `length` is that of the body in bytes, or CHUNKED for an unknown one.  `raw` is `headers` as HTTP/1.1 field lines, already
        checked, without fields of the connection and with Content-Length exactly if `length` is known.  `body` is its first part; `end`
        says that it is the whole.
        """
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """A further part of the body."""
        raise NotImplementedError

    def end(self, data: bytes = b"", trailers: Headers = ()) -> None:  # type: ignore[assignment]
        """The response is complete with `data` and `trailers`.  Later calls have no effect."""
        raise NotImplementedError

    def abort(self) -> None:
        """Ends the response in a way that the peer can tell from its end."""
        raise NotImplementedError

    def tunnel(self, headers: Headers) -> None:
        """Answers 101 with `headers`; from here on bytes go both ways until one side ends.  HTTP/1.1 only."""
        raise NotImplementedError

    def end_tunnel(self, whole: bool = False) -> None:
        """The other side of a tunnel sends nothing more; `whole`: it takes nothing either."""
        raise NotImplementedError
