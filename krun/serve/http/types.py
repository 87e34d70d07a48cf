"""What the HTTP code and its users share: limits, errors, and the request and response of a handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote_to_bytes

#: A field: (name, value), case and order as they came.
Header = tuple[bytes, bytes]
Headers = list[Header]

#: Reason phrases of the answers that the server makes itself (RFC 9110, section 15).
REASONS = {
    100: b"Continue",
    101: b"Switching Protocols",
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    206: b"Partial Content",
    301: b"Moved Permanently",
    302: b"Found",
    304: b"Not Modified",
    308: b"Permanent Redirect",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    406: b"Not Acceptable",
    408: b"Request Timeout",
    409: b"Conflict",
    410: b"Gone",
    413: b"Content Too Large",
    414: b"URI Too Long",
    415: b"Unsupported Media Type",
    417: b"Expectation Failed",
    421: b"Misdirected Request",
    422: b"Unprocessable Content",
    426: b"Upgrade Required",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported",
}


@dataclass(frozen=True)
class Limits:
    """Bounds of what a peer may send.  Sizes are bytes, times are seconds."""

    #: The request line or status line with all fields.
    head: int = 65536
    target: int = 16384
    fields: int = 200
    #: Trailer fields of a chunked message, and the sum of its chunk extensions.
    trailers: int = 8192
    #: From the first byte of a head to its end; Knative's servers set ReadHeaderTimeout to one minute.
    head_time: float = 60.0
    #: A connection without a request.
    idle_time: float = 90.0
    #: What is read ahead of a request that still runs (pipelining) before the reading pauses.
    ahead: int = 65536
    #: Connections of one listener, those in a TLS handshake too; one more is answered 503 and closed.
    connections: int = 8192
    #: Those of one address (IPv6: of one /64); one more is answered 429 and closed.
    client: int = 4096
    #: Bytes of messages that all clients of the services make the server hold; one client has half of them.
    memory: int = 256 << 20
    #: The proxy's connections to one instance, tunnels too; a request that needs one more is answered 503.
    upstream: int = 4096
    #: HTTP/2: concurrent streams of a connection, and resets and control frames beyond the streams that end normally.
    streams: int = 250
    abuse: int = 1000
    #: HTTP/2: bytes of request body that one stream may send ahead of its reader.
    window: int = 262144

    @classmethod
    def within(cls, descriptors: int, client: int = 0) -> Limits:
        """The limits of a process that has so many descriptors: an eighth for each listener, half for all instances.

        `client`: connections of one address, 0 for half of a listener's.
        """
        connections = max(1, min(cls.connections, descriptors // 8))
        return cls(connections=connections, client=client or max(1, connections // 2))


class HttpError(Exception):
    """A message that breaks the protocol or a limit: the status to answer and the reason in one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ClientGone(Exception):
    """The peer ended the connection or the stream before the message was complete."""


class Request:
    """A request of the server's handlers.  Fields are bytes as they came; `path` is decoded, `target` is not."""

    __slots__ = (
        "_path",
        "_query",
        "_receive",
        "_split",
        "headers",
        "index",
        "method",
        "peer",
        "target",
        "tls",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        *,
        peer: tuple | str = "",
        tls: bool = False,
        receive: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        """`receive` returns the next part of the body, b"" at its end, and raises ClientGone."""
        self.method = method
        self.target = target
        self.headers = headers
        self.peer = peer
        self.tls = tls
        self._receive = receive
        self.index: dict[bytes, bytes] = {}
        for name, value in headers:
            self.index.setdefault(name.lower(), value)
        raw, _, query = target.partition(b"?")
        self._path: str | None = None
        self._query: dict[str, list[str]] | None = None
        self._split = (raw, query)

    @property
    def path(self) -> str:
        """The path, percent-decoded once.  Raises HttpError 400 if it is not UTF-8 or holds a NUL."""
        if self._path is None:
            try:
                self._path = unquote_to_bytes(self._split[0]).decode()
            except UnicodeDecodeError:
                raise HttpError(400, "the path is not valid UTF-8") from None
            if "\0" in self._path:
                raise HttpError(400, "the path holds a NUL")
        return self._path

    @property
    def query(self) -> dict[str, list[str]]:
        """The query, decoded.  Raises HttpError 400 if it is not UTF-8 or has more than 1000 fields."""
        if self._query is None:
            try:
                self._query = parse_qs(
                    self._split[1].decode("ascii"),
                    keep_blank_values=True,
                    errors="strict",
                    max_num_fields=1000,
                )
            except ValueError as error:
                raise HttpError(400, f"the query cannot be decoded: {error}") from None
        return self._query

    def header(self, name: bytes) -> bytes | None:
        """The first value of the field `name` (lower case), or None."""
        return self.index.get(name)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in parts as they come.  Raises ClientGone if it ends too early."""
        while self._receive is not None and (part := await self._receive()):
            yield part

    async def body(self, limit: int) -> bytes:
        """The whole body.  Raises HttpError 413 as soon as it is longer than `limit` bytes, and ClientGone."""
        declared = self.index.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise HttpError(413, f"the body is longer than {limit} bytes")
        parts, size = [], 0
        async for part in self.chunks():
            size += len(part)
            if size > limit:
                raise HttpError(413, f"the body is longer than {limit} bytes")
            parts.append(part)
        return b"".join(parts)


class Response:
    """An answer of a handler.  The server adds the framing and Date; an iterator makes a chunked (or DATA frame) stream."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int = 200, headers: Headers | None = None, body: bytes | AsyncIterator[bytes] = b""
    ) -> None:
        self.status = status
        self.headers: Headers = headers if headers is not None else []
        self.body = body

    @classmethod
    def text(cls, status: int, text: str) -> Response:
        """A plain text answer of one line."""
        return cls(status, [(b"content-type", b"text/plain; charset=utf-8")], text.encode() + b"\n")


class Duplex:
    """The bytes of a connection that has switched protocols, as the handler of a Tunnel sees them."""

    __slots__ = ()

    @property
    def stalled(self) -> bool:
        """Whether the peer does not read: what is written now waits in memory."""
        raise NotImplementedError

    async def receive(self) -> bytes:
        """The next bytes, b"" at the end of what the peer sends.  Raises ClientGone.  The peer is held back while nobody asks."""
        raise NotImplementedError

    async def drained(self) -> None:
        """Waits until the peer reads.  Raises ClientGone."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Sends bytes; call `drained` before."""
        raise NotImplementedError


class Tunnel(Response):
    """The answer 101, a change to `protocol`: `run` is called with the connection, which ends when it returns.

    The task of `run` is cancelled when the peer has gone.  HTTP/1.1 only.
    """

    __slots__ = ("protocol", "run")

    def __init__(self, protocol: bytes, headers: Headers, run: Callable[[Duplex], Awaitable[None]]) -> None:
        super().__init__(101, headers)
        self.protocol = protocol
        self.run = run


#: What the user of the server writes.
Handler = Callable[[Request], Awaitable[Response]]
