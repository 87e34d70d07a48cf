"""Fields of HTTP/2 as heads that an HTTP/1.1 message can carry, and back (RFC 9113, section 8)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

import h2.connection
import h2.settings

from krun.serve.http.endpoint import field_lines
from krun.serve.http.head import CHUNKED, NOT_IN_TRAILERS, TOKEN, Head, check_field, check_host
from krun.serve.http.types import Headers, HttpError, Limits

_METHOD = re.compile(TOKEN)
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*|\*")

#: Fields of an HTTP/1.1 connection (RFC 9113, section 8.2.2); content-length is written from the length.
HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"content-length")
)


def settings(limits: Limits, *, client: bool) -> dict[h2.settings.SettingCodes, int]:
    """The SETTINGS of one side."""
    codes = h2.settings.SettingCodes
    values = {
        codes.INITIAL_WINDOW_SIZE: limits.window,
        codes.MAX_HEADER_LIST_SIZE: limits.head,
        codes.MAX_CONCURRENT_STREAMS: limits.streams,
    }
    if client:
        values[codes.ENABLE_PUSH] = 0
    return values


def request_head(fields: Iterable[tuple[bytes, bytes]], limits: Limits, ended: bool) -> Head:
    """The head of a request from HTTP/2 fields that the library has checked (section 8.3.1).

    Raises HttpError for fields that no HTTP/1.1 message can carry, and for limits.
    """
    head = Head()
    head.minor, head.keep_alive, head.connection = 1, True, frozenset()
    pseudo: dict[bytes, bytes] = {}
    headers: Headers = []
    cookies: list[bytes] = []
    for name, value in fields:
        if name[:1] == b":":
            pseudo[name] = value
        elif not check_field(name, value):
            raise HttpError(400, "a field is malformed")
        elif name == b"cookie":
            # Section 8.2.3: one field in HTTP/1.1.
            cookies.append(value)
        else:
            headers.append((name, value))
    if len(headers) > limits.fields:
        raise HttpError(431, f"there are more than {limits.fields} fields")
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    head.method = pseudo.get(b":method", b"")
    head.target = pseudo.get(b":path", b"")
    if head.method == b"CONNECT":
        raise HttpError(501, "CONNECT is not served")
    if len(head.target) > limits.target:
        raise HttpError(414, f"the target is longer than {limits.target} bytes")
    if not _METHOD.fullmatch(head.method) or len(head.method) > 64 or not _TARGET.fullmatch(head.target):
        raise HttpError(400, "a pseudo field is malformed")
    if head.target == b"*" and head.method != b"OPTIONS":
        raise HttpError(400, "the target is malformed")
    _authority(head, headers, pseudo.get(b":authority"))
    head.headers = headers
    index: dict[bytes, bytes] = {}
    head.index = index
    for name, value in headers:
        index.setdefault(name, value)
    _content_length(head, headers, ended)
    head.raw = field_lines(headers)
    return head


def _authority(head: Head, headers: Headers, authority: bytes | None) -> None:
    """Sets head.host and makes it the one field Host, at the front."""
    hosts = [value for name, value in headers if name == b"host"]
    host = authority if authority is not None else hosts[0] if hosts else b""
    if len(hosts) > 1 or (hosts and hosts[0] != host) or not host or not check_host(host):
        raise HttpError(400, "the authority is missing or malformed")
    head.host = host
    headers[:] = [(b"host", host)] + [field for field in headers if field[0] != b"host"]


def _content_length(head: Head, headers: Headers, ended: bool) -> None:
    declared = [value for name, value in headers if name == b"content-length"]
    if len(declared) > 1 or (declared and not (declared[0].isdigit() and len(declared[0]) <= 18)):
        raise HttpError(400, "the field Content-Length is malformed")
    if ended:
        if declared and int(declared[0]):
            raise HttpError(400, "the body is shorter than Content-Length")
        head.length = 0
    else:
        head.length = int(declared[0]) if declared else CHUNKED
    if head.index.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise HttpError(417, "the only expectation served is 100-continue")


def lower(headers: Headers) -> Headers:
    """`headers` with lower-case names, without the fields of an HTTP/1.1 connection."""
    return [(low, value) for name, value in headers if (low := name.lower()) not in HOP]


def trailer_fields(fields: Iterable[tuple[bytes, bytes]]) -> Headers | None:
    """The trailers of a message, without fields that frame or route it (RFC 9110, section 6.5.1); None where one is malformed."""
    kept = [field for field in fields if field[0] not in NOT_IN_TRAILERS and field[0][:1] != b":"]
    return kept if all(check_field(name, value) for name, value in kept) else None


def pour(
    conn: h2.connection.H2Connection, number: int, pending: deque[bytes | memoryview], last: bool
) -> tuple[int, bool]:
    """Sends what the windows of a stream allow of `pending`.

    `last`: the stream ends with it.  Returns the number of bytes sent, and whether the end was.  Raises h2's errors.
    """
    size, ended = 0, False
    while pending:
        window = min(conn.local_flow_control_window(number), conn.max_outbound_frame_size)
        if window <= 0:
            break
        data = pending.popleft()
        if len(data) > window:
            # A view: copies of the rest would be quadratic.
            view = memoryview(data)
            pending.appendleft(view[window:])
            data = view[:window]
        size += len(data)
        ended = last and not pending
        conn.send_data(number, data, end_stream=ended)
    return size, ended
