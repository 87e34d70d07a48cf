"""The frames of SPDY/3.1, as far as Kubernetes' port-forward needs them: streams that a client opens, with headers and data.

Flow control is left to the connection below, as in the client's library (github.com/moby/spdystream): WINDOW_UPDATE is passed over.
Bounds: bytes of a frame, of a header block when it is decompressed, and number of streams (the user's).
Source: SPDY Protocol, draft 3.1, sections 2.2 and 2.6.
"""

from __future__ import annotations

import zlib

#: Types of control frames (section 2.6); DATA is the type of a data frame here.
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
DATA = 0
FIN = 1

#: Status codes of RST_STREAM (section 2.6.3).
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 3, 5

_VERSION = 3
_FRAME_LIMIT = 1 << 20
_HEADERS_LIMIT = 16 << 10

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization"
    " cache-control connection content-base content-encoding content-language content-length content-location content-md5 content-range"
    " content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since"
    " last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer"
    " transfer-encoding upgrade user-agent vary via warning www-authenticate method get status"
).split() + ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
_WORDS = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative Information"
    "204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error"
    "501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, "
    "Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: What header blocks are compressed with (section 2.6.10.1): names with their lengths, then words.
DICTIONARY = b"".join(len(name).to_bytes(4, "big") + name.encode() for name in _NAMES) + _WORDS.encode()


class SpdyError(Exception):
    """The client breaks the protocol or a limit; the connection cannot go on."""


class Frame:
    """A frame of the client. `type` is one of those above; headers: of SYN_STREAM; data: of DATA, and what PING carries."""

    __slots__ = ("data", "fin", "headers", "stream", "type")

    def __init__(
        self, type: int, stream: int, fin: bool, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.type = type
        self.stream = stream
        self.fin = fin
        self.data = data
        self.headers = headers or {}


class Frames:
    """The parser of what a client sends, and the maker of what the server answers: the compression has a state of each direction."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> list[Frame]:
        """Returns the frames that are complete and mean something here.  Raises SpdyError; no call follows it."""
        buffer = self._buffer
        buffer += data
        out = []
        at = 0
        while len(buffer) - at >= 8:
            size = int.from_bytes(buffer[at + 5 : at + 8], "big")
            if size > _FRAME_LIMIT:
                raise SpdyError(f"a frame is longer than {_FRAME_LIMIT} bytes")
            if len(buffer) - at - 8 < size:
                break
            word = int.from_bytes(buffer[at : at + 4], "big")
            found = self._frame(word, buffer[at + 4], bytes(buffer[at + 8 : at + 8 + size]))
            if found is not None:
                out.append(found)
            at += 8 + size
        del buffer[:at]
        return out

    def _frame(self, word: int, flags: int, body: bytes) -> Frame | None:
        fin = bool(flags & FIN)
        if not word >> 31:
            return Frame(DATA, word, fin, body)
        if word >> 16 & 0x7FFF != _VERSION:
            raise SpdyError("a frame is not of SPDY/3")
        type = word & 0xFFFF
        if type == SYN_STREAM:
            # Stream, associated stream, priority and slot.
            return Frame(type, self._stream(body, 10), fin, headers=self._headers(body[10:]))
        if type == HEADERS:
            # For the state of the compression only.
            self._stream(body, 4)
            self._headers(body[4:])
            return None
        if type == SYN_REPLY:
            raise SpdyError("a reply to a stream that the server has not opened")
        if type == RST_STREAM:
            return Frame(type, self._stream(body, 8), True)
        if type == PING:
            if len(body) != 4:
                raise SpdyError("a PING is malformed")
            return Frame(type, 0, False, body)
        if type == GOAWAY:
            return Frame(type, 0, False)
        return None

    @staticmethod
    def _stream(body: bytes, least: int) -> int:
        stream = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        if len(body) < least or not stream:
            raise SpdyError("a frame names no stream")
        return stream

    def _headers(self, block: bytes) -> dict[str, str]:
        """Decompresses a header block (section 2.6.10)."""
        try:
            text = self._inflate.decompress(block, _HEADERS_LIMIT + 1)
        except zlib.error:
            raise SpdyError("a header block cannot be decompressed") from None
        if len(text) > _HEADERS_LIMIT or self._inflate.unconsumed_tail or self._inflate.eof:
            raise SpdyError(f"a header block is longer than {_HEADERS_LIMIT} bytes")
        at = 4
        found = {}
        for _ in range(int.from_bytes(text[:4], "big")):
            pair = []
            for _ in range(2):
                size = int.from_bytes(text[at : at + 4], "big")
                if at + 4 + size > len(text):
                    raise SpdyError("a header block is malformed")
                pair.append(text[at + 4 : at + 4 + size].decode("latin-1"))
                at += 4 + size
            found[pair[0].lower()] = pair[1]
        return found

    def reply(self, stream: int) -> bytes:
        """SYN_REPLY without headers: the stream is accepted."""
        block = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, stream.to_bytes(4, "big") + block)


def _control(type: int, body: bytes) -> bytes:
    return (1 << 31 | _VERSION << 16 | type).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def data(stream: int, payload: bytes, fin: bool = False) -> bytes:
    """A data frame; `fin` says that it is the last of its stream."""
    return (
        stream.to_bytes(4, "big")
        + (FIN if fin else 0).to_bytes(1, "big")
        + len(payload).to_bytes(3, "big")
        + payload
    )


def reset(stream: int, code: int) -> bytes:
    """RST_STREAM: nothing more is sent or taken."""
    return _control(RST_STREAM, stream.to_bytes(4, "big") + code.to_bytes(4, "big"))


def pong(payload: bytes) -> bytes:
    """The answer to a PING."""
    return _control(PING, payload)
