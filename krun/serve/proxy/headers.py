"""The fields that the proxy adds, changes and drops on the way to an instance and back.

Contract: RFC 9110, section 7.6 (hop-by-hop fields), RFC 7239 (Forwarded), Knative's runtime contract, "Headers"; knative/serving,
pkg/http/handler and pkg/queue/forwarded_shim.go.
"""

from __future__ import annotations

from krun.serve.http.endpoint import field_lines
from krun.serve.http.head import CHUNKED, Head, tokens
from krun.serve.http.types import Headers

#: Fields of one connection.
_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te")
    + (b"transfer-encoding", b"upgrade", b"http2-settings")
)
CONNECTION = _HOP | {b"content-length"}
#: Fields between Knative's own parts: a client must not set them.
_PRIVATE = frozenset(
    (
        b"k-original-host",
        b"knative-serving-revision",
        b"knative-serving-namespace",
        b"k-network-probe",
        b"k-network-hash",
    )
)
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded"))

#: A request with any of these cannot be passed on as it came.
_REQUEST_CHANGES = _HOP | _PRIVATE | _FORWARDED
_RESPONSE_CHANGES = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te")
)

#: The lines that requests without any of these fields get, by client, host and TLS: one for each ingress.
Added = dict[tuple[str, bytes, bool], bytes]
_ADDED_MOST = 2048


def _node(address: str) -> bytes:
    """An address as a node of Forwarded: RFC 7239, section 6."""
    if not address:
        return b"unknown"
    return b'"[%b]"' % address.encode() if ":" in address else address.encode()


def _quoted(value: bytes) -> bytes:
    """A value of Forwarded: a token, or a quoted string where it holds a colon or brackets."""
    return value if all(c not in value for c in (b":", b"[", b'"', b"\\", b",", b";")) else b'"%b"' % value


def _proto(tls: bool) -> bytes:
    return b"https" if tls else b"http"


def _added(cache: Added, address: str, host: bytes, tls: bool) -> bytes:
    """The lines for a request that has none of them."""
    key = (address, host, tls)
    lines = cache.get(key)
    if lines is None:
        if len(cache) >= _ADDED_MOST:
            cache.clear()
        shown = address.encode() or b"unknown"
        lines = cache[key] = field_lines(
            [
                (b"X-Forwarded-For", shown),
                (b"X-Forwarded-Proto", _proto(tls)),
                (b"X-Forwarded-Host", host),
                (b"Forwarded", b"for=%b;host=%b;proto=%b" % (_node(address), _quoted(host), _proto(tls))),
            ]
        )
    return lines


def request_lines(head: Head, address: str, tls: bool, extra: Headers, cache: Added) -> bytes:
    """The field lines of a request to an instance that speaks HTTP/1.1, framing included."""
    if (
        _REQUEST_CHANGES.isdisjoint(head.index)
        and head.index.get(b"host") == head.host
        and (b"content-length" not in head.index or _canonical(head))
    ):
        lines = head.raw + _added(cache, address, head.host, tls)
    else:
        lines = field_lines(request_fields(head, address, tls))
        # Written from the framing that was parsed: a client may name Content-Length in Connection.
        if head.length >= 0 and b"content-length" in head.index:
            lines += b"Content-Length: %d\r\n" % head.length
        if is_upgrade(head):
            lines += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.index[b"upgrade"]
    if head.length == CHUNKED:
        lines += b"Transfer-Encoding: chunked\r\n"
    return lines + field_lines(extra) if extra else lines


def _canonical(head: Head) -> bool:
    """Whether Content-Length stands in the one form that no parser reads in another way: a blank, no zeros before, nothing behind.

    llhttp, as an example, does not take a tab behind a value of Transfer-Encoding for white space, as RFC 9110, section 5.5, does.
    """
    value = head.index[b"content-length"]
    if value[:1] == b"0" and value != b"0":
        return False
    raw = head.raw
    for name in (b"Content-Length: ", b"content-length: "):
        line = name + value + b"\r\n"
        if b"\r\n" + line in raw or raw.startswith(line):
            return True
    return False


def request_fields(head: Head, address: str, tls: bool) -> Headers:
    """The fields of a request to an instance, without framing; Host is the first one."""
    dropped = _HOP | _PRIVATE | _FORWARDED | head.connection | {b"host", b"content-length"}
    fields: Headers = [(b"Host", head.host)]
    fields += [(name, value) for name, value in head.headers if name.lower() not in dropped]
    if b"te" in head.index and b"trailers" in tokens(head.headers, b"te"):
        fields.append((b"TE", b"trailers"))
    return fields + _forwarded(head, address, tls)


def _forwarded(head: Head, address: str, tls: bool) -> Headers:
    """X-Forwarded-For grows by this hop; proto and host are those of this hop, because a client could claim any; Forwarded grows by
    an element, or is made from X-Forwarded-For.
    """
    chain = [value for name, value in head.headers if name.lower() == b"x-forwarded-for"]
    chain.append(address.encode() or b"unknown")
    shown = b", ".join(part for part in chain if part)
    proto, host = _proto(tls), _quoted(head.host)
    given = [value for name, value in head.headers if name.lower() == b"forwarded"]
    if given:
        element = b"for=%b;host=%b;proto=%b" % (_node(address), host, proto)
        forwarded = b", ".join([*given, element])
    else:
        nodes = [part.strip() for part in shown.split(b",")]
        elements = [b"for=" + _foreign_node(node) for node in nodes if node]
        elements[0] += b";host=%b;proto=%b" % (host, proto)
        forwarded = b", ".join(elements)
    return [
        (b"X-Forwarded-For", shown),
        (b"X-Forwarded-Proto", proto),
        (b"X-Forwarded-Host", head.host),
        (b"Forwarded", forwarded),
    ]


def _foreign_node(node: bytes) -> bytes:
    """A member of a client's X-Forwarded-For as a node; what is no address becomes an obfuscated identifier."""
    if all(c in b"0123456789abcdefABCDEF.:" for c in node):
        return b'"[%b]"' % node if node.count(b":") > 1 else (b'"%b"' % node if b":" in node else node)
    return b"unknown"


def is_upgrade(head: Head) -> bool:
    """Whether the request asks for another protocol that can be tunnelled.

    Not h2c: a tunnel would carry requests past the proxy ("h2c smuggling"), and RFC 9113 has given the upgrade up.
    """
    wanted = head.index.get(b"upgrade")
    if wanted is None or b"upgrade" not in head.connection or head.length:
        return False
    return not any(
        part in (b"h2c", b"h2") or part.startswith(b"http") for part in tokens(head.headers, b"upgrade")
    )


def response_lines(head: Head) -> bytes | None:
    """The field lines of an instance's response for an HTTP/1.1 client as they came, or None if fields must go or change."""
    if head.status == 204 or not _RESPONSE_CHANGES.isdisjoint(head.index):
        return None
    return head.raw if b"content-length" not in head.index or _canonical(head) else None


def response_fields(head: Head) -> Headers:
    """The fields of an instance's response, without those of its connection and of framing."""
    dropped = _RESPONSE_CHANGES | head.connection | {b"content-length"}
    return [(name, value) for name, value in head.headers if name.lower() not in dropped]


def tunnel_fields(head: Head) -> Headers:
    """The fields of an instance's 101."""
    fields = response_fields(head)
    return [*fields, (b"Connection", b"Upgrade"), (b"Upgrade", head.index.get(b"upgrade", b""))]
