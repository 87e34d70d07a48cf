"""The chunked coding, decoded strictly and incrementally (RFC 9112, section 7.1)."""

from __future__ import annotations

import re

from krun.serve.http.head import TOKEN, parse_trailers
from krun.serve.http.types import Headers, HttpError, Limits

#: chunk-size and chunk-ext; at most 15 digits: 2^60 bytes.  The "bad white space" of the grammar is refused.
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_EXT = rb";" + TOKEN + rb"(?:=(?:" + TOKEN + rb"|" + _QUOTED + rb"))?"
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:" + _EXT + rb")*")

_LINE_LIMIT = 1024


class Chunked:
    """A decoder.  `feed` until `done`; `rest` is then what follows the message."""

    __slots__ = ("_buffer", "_extra", "_left", "_limits", "_status", "_trailing", "done", "rest", "trailers")

    def __init__(self, limits: Limits, status: int = 400) -> None:
        """`status` is that of the HttpError: 400 for a request, 502 for a response."""
        self._limits = limits
        self._status = status
        self._buffer = b""
        #: Bytes left of the current chunk with its CRLF; 0: a size line is next.
        self._left = 0
        #: Bytes of extensions so far: many small chunks with large extensions are no way around the limits.
        self._extra = 0
        self._trailing = False
        self.done = False
        self.rest = b""
        self.trailers: Headers = []

    def feed(self, data: bytes) -> bytes:
        """Decodes `data` and returns the content in it.  Raises HttpError for anything outside of the grammar."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        parts: list[bytes] = []
        at, end = 0, len(data)
        while at < end and not self._trailing:
            if self._left > 2:
                take = min(self._left - 2, end - at)
                parts.append(data[at : at + take])
                self._left -= take
                at += take
            elif self._left:
                # The CRLF behind the content, one byte at a time.
                if data[at] != (13 if self._left == 2 else 10):
                    raise HttpError(self._status, "a chunk does not end with CRLF")
                self._left -= 1
                at += 1
            else:
                after = self._size(data, at)
                if not after:
                    self._buffer = data[at:]
                    return b"".join(parts)
                at = after
        if self._trailing:
            self._trailer(data[at:])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _size(self, data: bytes, at: int) -> int:
        """Reads a size line; returns the offset behind it, or 0 if it is not complete."""
        stop = data.find(b"\n", at, at + _LINE_LIMIT)
        if stop < 0:
            if len(data) - at >= _LINE_LIMIT:
                raise HttpError(self._status, f"a chunk's size line is longer than {_LINE_LIMIT} bytes")
            # What cannot begin a size line need not be waited for.
            if data[at] not in b"0123456789abcdefABCDEF":
                raise HttpError(self._status, "a chunk's size is malformed")
            return 0
        match = _SIZE.fullmatch(data, at, stop - 1)
        if match is None or data[stop - 1] != 13:
            raise HttpError(self._status, "a chunk's size line is malformed")
        self._extra += stop - 1 - match.end(1)
        if self._extra > self._limits.trailers:
            raise HttpError(
                self._status, f"the chunk extensions are longer than {self._limits.trailers} bytes"
            )
        size = int(match[1], 16)
        self._left = size + 2 if size else 0
        self._trailing = not size
        return stop + 1

    def _trailer(self, data: bytes) -> None:
        """Takes the part behind the last chunk: trailer fields and an empty line."""
        if data[:2] == b"\r\n":
            self.done, self.rest = True, data[2:]
            return
        end = data.find(b"\r\n\r\n", 0, self._limits.trailers + 4)
        if end < 0:
            if len(data) > self._limits.trailers:
                raise HttpError(
                    431 if self._status == 400 else self._status,
                    f"the trailer fields are longer than {self._limits.trailers} bytes",
                )
            self._buffer = data
            return
        self.trailers = parse_trailers(data[: end + 4], self._limits, self._status)
        self.done, self.rest = True, data[end + 4 :]


def chunk(data: bytes) -> bytes:
    """`data`, not empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(trailers: Headers) -> bytes:
    """The end of a chunked message, with its trailer fields."""
    if not trailers:
        return b"0\r\n\r\n"
    return b"0\r\n" + b"".join([b"%b: %b\r\n" % field for field in trailers]) + b"\r\n"
