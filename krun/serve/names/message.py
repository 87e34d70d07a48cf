"""DNS messages: one question is read, strictly; an answer is built. Pure functions of bytes.

Sources: RFC 1035, section 4; RFC 6891 (EDNS); RFC 9619 (one question). Of a query only header, question and EDNS record are
read: nothing in it is a pointer or a list, so the time to read one is bounded by its 255 bytes of name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = 0, 1, 2, 3, 4, 5
A, SOA, OPT, IXFR, AXFR, ANY = 1, 6, 41, 251, 252, 255
IN = 1
#: What this server sends in a datagram at most, whatever the client takes: no fragments (RFC 9715).
LARGEST = 1232
_SMALLEST = 512
_HEADER = 12
_QR, _OPCODE, _AA, _TC, _RD, _RA, _CD = 0x8000, 0x7800, 0x0400, 0x0200, 0x0100, 0x0080, 0x0010
_NAME = 255


class Refused(Exception):
    """A message that is not served. Fields: code, of the answer; head, the first bytes of the message."""

    def __init__(self, code: int, head: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.head = head

    def answer(self) -> bytes:
        """The answer: a header without a question."""
        (number, flags) = struct.unpack("!HH", self.head[:4])
        return struct.pack("!6H", number, _QR | (flags & (_OPCODE | _RD)) | self.code, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Query:
    """A question. `name` is in lower case; `question` is as it came; `size` is what the client takes in a datagram; `edns`, whether
    it sent an EDNS record; `secure` is that record's DO bit.
    """

    number: int
    flags: int
    question: bytes
    name: tuple[bytes, ...]
    kind: int
    size: int
    edns: bool
    secure: bool


def parse(data: bytes) -> Query | None:
    """Return the question of a message; None for one that gets no answer. Raises Refused."""
    if len(data) < _HEADER:
        return None
    number, flags, questions, answers, authority, more = struct.unpack("!6H", data[:_HEADER])
    if flags & _QR:
        return None  # an answer to an answer could go on for ever
    if flags & _OPCODE:
        raise Refused(NOTIMP, data[:4])
    if questions != 1 or answers or authority or more > 1 or flags & _TC:
        raise Refused(FORMERR, data[:4])
    name, end = _name(data)
    if len(data) < end + 4:
        raise Refused(FORMERR, data[:4])
    kind, group = struct.unpack_from("!HH", data, end)
    end += 4
    size, edns, secure = _SMALLEST, False, False
    if more:
        size, secure = _edns(data, end)
        edns = True
    if group != IN or kind in (IXFR, AXFR, OPT):
        raise Refused(REFUSED, data[:4])
    return Query(number, flags, data[_HEADER:end], name, kind, size, edns, secure)


def _name(data: bytes) -> tuple[tuple[bytes, ...], int]:
    """The labels of the question's name, and its end. A pointer is refused: there is nothing before it to point to."""
    labels = []
    at = _HEADER
    while True:
        length = data[at] if at < len(data) else 64
        at += 1
        if length == 0:
            break
        if length > 63 or at + length - _HEADER >= _NAME:
            raise Refused(FORMERR, data[:4])
        labels.append(data[at : at + length].lower())
        at += length
    return tuple(labels), at


def _edns(data: bytes, at: int) -> tuple[int, bool]:
    """The size and the DO bit of an EDNS record, which is the last of the message; its options are not read."""
    if len(data) < at + 11 or data[at : at + 3] != b"\0\0\x29":
        raise Refused(FORMERR, data[:4])
    size, extended, version, flags, length = struct.unpack_from("!HBBHH", data, at + 3)
    if len(data) != at + 11 + length or extended:
        raise Refused(FORMERR, data[:4])
    if version:
        raise Refused(NOTIMP, data[:4])  # BADVERS would need a record of ours; nobody speaks another version
    return max(_SMALLEST, min(size, LARGEST)), bool(flags & 0x8000)


def record(kind: int, seconds: int, content: bytes, owner: bytes = b"\xc0\x0c") -> bytes:
    """Return a record; its owner is the question's name unless another one is given, in wire form."""
    return owner + struct.pack("!HHIH", kind, IN, seconds, len(content)) + content


def wire(name: str) -> bytes:
    """Return a name of this server's own in wire form."""
    labels = [label.encode("ascii") for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def answer(
    query: Query,
    code: int,
    records: tuple[bytes, ...] = (),
    authority: tuple[bytes, ...] = (),
    *,
    own: bool = True,
) -> bytes:
    """Return the answer to a question. own: the server is the authority (AA)."""
    flags = _QR | _RA | (_AA if own else 0) | (query.flags & (_RD | _CD)) | code
    counts = (1, len(records), len(authority), int(query.edns))
    return (
        struct.pack("!6H", query.number, flags, *counts)
        + query.question
        + b"".join(records)
        + b"".join(authority)
        + (_opt(False) if query.edns else b"")
    )


def question(query: Query, number: int) -> bytes:
    """Return a message of this server's own that asks the same: nothing else of the client's bytes is passed on."""
    flags = query.flags & (_RD | _CD)
    return (
        struct.pack("!6H", number, flags, 1, 0, 0, int(query.edns))
        + query.question
        + (_opt(query.secure) if query.edns else b"")
    )


def passed(query: Query, number: int, data: bytes) -> bytes | None:
    """Return another server's answer to `question(query, number)` with the client's number; None for any other message."""
    head = query.question
    if (
        len(data) < _HEADER + len(head)
        or data[:2] != number.to_bytes(2)
        or not data[2] & 0x80
        or data[4:6] != b"\0\1"
    ):
        return None
    if data[_HEADER : _HEADER + len(head)].lower() != head.lower():
        return None
    return query.number.to_bytes(2) + data[2:]


def truncated(data: bytes) -> bool:
    """Whether an answer says that it was cut (TC)."""
    return bool(data[2] & 2)


def fit(query: Query, data: bytes) -> bytes:
    """Return an answer as it fits into a datagram: one that is too long becomes an empty one with TC, and the client asks by TCP."""
    if len(data) <= query.size:
        return data
    (flags,) = struct.unpack_from("!H", data, 2)
    return (
        struct.pack("!6H", query.number, flags | _TC, 1, 0, 0, int(query.edns))
        + query.question
        + (_opt(False) if query.edns else b"")
    )


def _opt(secure: bool) -> bytes:
    return b"\0" + struct.pack("!HHIH", OPT, LARGEST, 0x8000 if secure else 0, 0)
