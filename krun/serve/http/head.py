"""Heads of HTTP/1.1 messages, strictly: the grammar of RFC 9112 without the leniencies that it permits.

Two parsers that disagree about a head let a sender smuggle a request past the first one.  Whatever has two readings is
therefore refused: obs-fold, a bare LF or CR, a blank before the colon, Content-Length beside Transfer-Encoding or twice, codings
other than chunked, NUL and other control characters.  The caller cuts the head at the first empty line.
"""

from __future__ import annotations

import re

from krun.serve.http.types import Headers, HttpError, Limits

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
#: VCHAR, obs-text, SP and HTAB (RFC 9110, section 5.5).
VALUE = rb"[\t\x20-\x7e\x80-\xff]*"

_FIELDS = re.compile(rb"(?:" + TOKEN + rb":" + VALUE + rb"\r\n)*")
_REQUEST = re.compile(rb"(" + TOKEN + rb") ([\x21\x22\x24-\x7e]+) HTTP/(\d)\.(\d)\r\n")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n")
_HOST = re.compile(
    rb"(?:[A-Za-z0-9._~!$&'()*+,;=%\-]+|\[[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~\-]+)?\])?(?::\d{0,5})?"
)
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?@]+)((?:[/?].*)?)", re.S)
_DIGITS = re.compile(rb"\d{1,18}")
_IS_TOKEN = re.compile(TOKEN)

#: Fields of which a second one makes the message ambiguous.
_SINGLE = frozenset((b"content-length", b"transfer-encoding", b"host"))

#: Framing of a body: its length in bytes, or one of these.
CHUNKED = -1
UNTIL_CLOSE = -2


class Head:
    """A parsed head.  `raw` holds the field lines as they came, each with its CRLF."""

    __slots__ = (
        "connection", "headers", "host", "index", "keep_alive", "length", "method", "minor", "raw", "reason", "status",
        "target",
    )  # fmt: skip

    method: bytes
    target: bytes
    host: bytes
    status: int
    reason: bytes
    minor: int
    raw: bytes
    headers: Headers
    #: Lower-case name -> value of the first such field.
    index: dict[bytes, bytes]
    #: Content-Length, 0, CHUNKED or UNTIL_CLOSE.
    length: int
    keep_alive: bool
    #: The options of Connection, lower case; empty without the field.
    connection: frozenset[bytes]


def parse_request(data: bytes, limits: Limits) -> Head:
    """Parses a request's head: `data` is the request line to the empty line, with its CRLF.

    Raises HttpError: 400 for what RFC 9112 forbids, 414, 417, 431, 501 and 505 as RFC 9110, section 15, names them.
    """
    line = _REQUEST.match(data)
    if line is None:
        raise HttpError(400, "the request line is malformed")
    head = Head()
    head.method, target, major, minor = line.groups()
    if major != b"1" or minor not in b"01":
        raise HttpError(505, "the version is neither HTTP/1.0 nor HTTP/1.1")
    if len(target) > limits.target:
        raise HttpError(414, f"the target is longer than {limits.target} bytes")
    if len(head.method) > 64:
        raise HttpError(501, "the method is not known")
    head.minor = int(minor)
    _fields(head, data, line.end(), limits, 400)
    index = head.index
    host = index.get(b"host")
    if host is None:
        if head.minor:
            raise HttpError(400, "the field Host is missing")
        host = b""
    elif not _HOST.fullmatch(host):
        raise HttpError(400, "the field Host is malformed")
    head.host = host
    head.target = target if target[0] == 0x2F else _other_form(head, target)
    _request_length(head)
    if b"expect" in index and (index[b"expect"].lower() != b"100-continue" or not head.minor):
        raise HttpError(417, "the only expectation served is 100-continue")
    return head


def _other_form(head: Head, target: bytes) -> bytes:
    """The origin form of a target that does not begin with "/" (RFC 9112, section 3.2); sets head.host."""
    if target == b"*" and head.method == b"OPTIONS":
        return target
    if head.method == b"CONNECT":
        raise HttpError(501, "CONNECT is not served")
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or not absolute[1] or not _HOST.fullmatch(absolute[1]):
        raise HttpError(400, "the target is malformed")
    # Section 3.2.2: the authority of the target replaces Host.
    head.host = absolute[1]
    rest = absolute[2]
    if rest[:1] != b"/":
        rest = b"/" + rest
    return rest


def parse_response(data: bytes, limits: Limits, method: bytes) -> Head:
    """Parses the head of a response to `method`.  Raises HttpError 502."""
    line = _STATUS.match(data)
    if line is None:
        raise HttpError(502, "the status line is malformed")
    head = Head()
    head.minor = int(line[1])
    head.status = status = int(line[2])
    head.reason = line[3] or b""
    head.method = method
    _fields(head, data, line.end(), limits, 502)
    index = head.index
    coding = index.get(b"transfer-encoding")
    # RFC 9112, section 6.3, in its order.
    length = index.get(b"content-length")
    if coding is not None:
        if coding.lower() != b"chunked" or not head.minor or length is not None:
            raise HttpError(502, "the transfer coding is not chunked alone")
        head.length = CHUNKED
    elif length is not None:
        if not _DIGITS.fullmatch(length):
            raise HttpError(502, "the field Content-Length is malformed")
        head.length = int(length)
    else:
        head.length = UNTIL_CLOSE
    if method == b"HEAD" or status in (204, 304) or status < 200:
        head.length = 0
    elif head.length == UNTIL_CLOSE:
        head.keep_alive = False
    return head


def _fields(head: Head, data: bytes, start: int, limits: Limits, status: int) -> None:
    """Parses the field lines from `start` to the empty line into `head`.  Raises HttpError `status` or 431."""
    fields = _FIELDS.match(data, start)
    end = fields.end() if fields else start
    if end != len(data) - 2 or data[end:] != b"\r\n":
        raise HttpError(status, "a field line is malformed")
    head.raw = raw = data[start:end]
    lines = raw.split(b"\r\n")
    lines.pop()
    if len(lines) > limits.fields:
        raise HttpError(431 if status == 400 else status, f"there are more than {limits.fields} fields")
    headers: Headers = []
    index: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.strip(b" \t")
        headers.append((name, value))
        name = name.lower()
        if name in index:
            if name in _SINGLE:
                raise HttpError(status, f"the field {name.decode()} is there twice")
        else:
            index[name] = value
    head.headers = headers
    head.index = index
    if b"connection" in index:
        _connection(head)
    else:
        head.connection = _NONE
        head.keep_alive = head.minor == 1


_NONE: frozenset[bytes] = frozenset()


def _connection(head: Head) -> None:
    options = tokens(head.headers, b"connection")
    head.connection = frozenset(options)
    head.keep_alive = b"close" not in options and (head.minor == 1 or b"keep-alive" in options)


def tokens(headers: Headers, name: bytes) -> list[bytes]:
    """The lower-case members of all fields `name` (lower case): a comma-separated list."""
    values = b",".join(value for key, value in headers if key.lower() == name)
    return [part.strip(b" \t").lower() for part in values.split(b",") if part.strip(b" \t")]


def _request_length(head: Head) -> None:
    """Framing of the request's body: RFC 9112, section 6.3, with everything ambiguous refused."""
    index = head.index
    coding = index.get(b"transfer-encoding")
    length = index.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise HttpError(400, "Content-Length stands beside Transfer-Encoding")
        if not head.minor:
            raise HttpError(400, "Transfer-Encoding stands in an HTTP/1.0 message")
        if coding.lower() != b"chunked":
            raise HttpError(501, "the only transfer coding served is chunked")
        head.length = CHUNKED
    elif length is not None:
        if not _DIGITS.fullmatch(length):
            raise HttpError(400, "the field Content-Length is malformed")
        head.length = int(length)
    else:
        head.length = 0


def check_field(name: bytes, value: bytes) -> bool:
    """Whether a field from another source (HTTP/2, a handler) can stand in an HTTP/1.1 head."""
    return bool(_IS_TOKEN.fullmatch(name)) and bool(_VALUE_ONLY.fullmatch(value))


_VALUE_ONLY = re.compile(VALUE)


def check_host(host: bytes) -> bool:
    """Whether `host` is an authority without user information (RFC 3986, section 3.2), or empty."""
    return bool(_HOST.fullmatch(host))


def parse_trailers(data: bytes, limits: Limits, status: int) -> Headers:
    """Parses trailer fields: `data` is field lines and the empty line.  Raises HttpError `status`.

    Fields that frame or route the message are refused (RFC 9110, section 6.5.1).
    """
    head = Head()
    head.minor = 1
    _fields(head, data, 0, limits, status)
    if not NOT_IN_TRAILERS.isdisjoint(head.index):
        raise HttpError(status, "a trailer field belongs into the head")
    return head.headers


NOT_IN_TRAILERS = frozenset(
    b"content-length transfer-encoding host connection te trailer upgrade authorization content-encoding content-type"
    b" content-range keep-alive proxy-connection expect".split()
)
