"""The server's side of a WebSocket (RFC 6455): the handshake, a strict parser of the client's frames, messages over a tunnel.

No extension is negotiated: a compressed message would be a way to make the server's memory grow.  A message is bounded, whatever
number of fragments it comes in; its declared length is checked before its bytes are kept.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Sequence

from krun.serve.http.types import ClientGone, Duplex, Headers, HttpError, Request

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

#: Opcodes (section 5.2).
CONTINUATION, TEXT, BINARY = 0, 1, 2
CLOSE, PING, PONG = 8, 9, 10

#: Status codes of a close frame (section 7.4.1).
NORMAL, PROTOCOL, TOO_BIG, INTERNAL = 1000, 1002, 1009, 1011

#: Bytes of a message; clients of Kubernetes send 32 KiB at a time.
LIMIT = 1 << 20
#: Seconds between pings: while the input of a program is full nothing is read, and only a write that fails tells that a client has gone.
_PING = 10.0
#: Messages of one client before the others get their turn.
_TURN = 64


class FrameError(Exception):
    """A frame that breaks the protocol or a limit.  `code` is the status of the close frame that answers it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def accept(request: Request, protocols: Sequence[str]) -> tuple[Headers, str]:
    """Checks a handshake.  Returns the fields for Tunnel, and the subprotocol: the first of `protocols` that the client offers.

    Raises HttpError 400, 426.
    """
    if b"websocket" not in _tokens(request, b"upgrade") or b"upgrade" not in _tokens(request, b"connection"):
        raise HttpError(400, "the request asks for no WebSocket")
    if request.header(b"sec-websocket-version") != b"13":
        raise HttpError(426, "the only version of the WebSocket protocol served is 13")
    if request.method != b"GET" or _has_body(request):
        raise HttpError(400, "a WebSocket begins with a GET without a body")
    key = request.header(b"sec-websocket-key") or b""
    try:
        whole = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        whole = False
    if not whole:
        raise HttpError(400, "the field Sec-WebSocket-Key is malformed")
    offered = _members(request, b"sec-websocket-protocol")
    chosen = next((name for name in protocols if name.encode() in offered), None)
    if chosen is None:
        raise HttpError(400, f"none of the WebSocket protocols {', '.join(protocols)} is offered")
    digest = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
    return [(b"sec-websocket-accept", digest), (b"sec-websocket-protocol", chosen.encode())], chosen


def _members(request: Request, name: bytes) -> list[bytes]:
    values = b",".join(value for key, value in request.headers if key.lower() == name)
    return [part.strip(b" \t") for part in values.split(b",")]


def _tokens(request: Request, name: bytes) -> list[bytes]:
    return [part.lower() for part in _members(request, name)]


def _has_body(request: Request) -> bool:
    return request.header(b"content-length") not in (None, b"0") or b"transfer-encoding" in request.index


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole message or control frame of the server: unmasked (section 5.1)."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
    return head + payload


class Frames:
    """The parser of what a client sends.  `limit`: bytes of a message."""

    __slots__ = ("_buffer", "_limit", "_opcode", "_parts", "_size")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        #: The message whose fragments have begun: its opcode, 0 for none; its parts and their size.
        self._opcode = 0
        self._parts = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Returns the messages and control frames that are complete: (opcode, payload).  Raises FrameError; no call follows it."""
        buffer = self._buffer
        buffer += data
        out: list[tuple[int, bytes]] = []
        at = 0
        while (found := self._head(at)) is not None:
            opcode, final, start, size = found
            if len(buffer) - start < size:
                break
            payload = _unmask(buffer[start : start + size], buffer[start - 4 : start])
            at = start + size
            if opcode >= CLOSE:
                out.append((opcode, payload))
                continue
            if opcode:
                self._opcode = opcode
            self._parts += payload
            if final:
                out.append((self._opcode, bytes(self._parts)))
                self._opcode = 0
                self._parts = bytearray()
        del buffer[:at]
        return out

    def _head(self, at: int) -> tuple[int, bool, int, int] | None:
        """Reads the head of the frame at an offset: opcode, FIN, offset and size of its payload; None if it is not complete."""
        buffer = self._buffer
        if len(buffer) - at < 2:
            return None
        first, second = buffer[at], buffer[at + 1]
        opcode, final, size = first & 0x0F, bool(first & 0x80), second & 0x7F
        if first & 0x70:
            raise FrameError(PROTOCOL, "a reserved bit is set")
        if not second & 0x80:
            raise FrameError(PROTOCOL, "a frame of the client is not masked")
        if opcode in (CLOSE, PING, PONG):
            if not final or size > 125:
                raise FrameError(PROTOCOL, "a control frame is fragmented or too long")
        elif opcode not in (CONTINUATION, TEXT, BINARY):
            raise FrameError(PROTOCOL, f"opcode {opcode} is not defined")
        elif (opcode == CONTINUATION) != bool(self._opcode):
            raise FrameError(PROTOCOL, "a fragment is out of order")
        wide = {126: 2, 127: 8}.get(size, 0)
        start = at + 2 + wide + 4
        if len(buffer) < start:
            return None
        if wide:
            size = int.from_bytes(buffer[at + 2 : at + 2 + wide], "big")
            if size < (126 if wide == 2 else 1 << 16):
                raise FrameError(PROTOCOL, "the length of a frame is not in its shortest form")
        if opcode < CLOSE and len(self._parts) + size > self._limit:
            raise FrameError(TOO_BIG, f"a message is longer than {self._limit} bytes")
        return opcode, final, start, size


def _unmask(payload: bytes | bytearray, mask: bytes | bytearray) -> bytes:
    size = len(payload)
    key = (bytes(mask) * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")


class WebSocket:
    """A WebSocket over a tunnel.  One task receives; any number send.  Use as `async with`: the exit closes it."""

    def __init__(self, tunnel: Duplex, limit: int = LIMIT) -> None:
        self._tunnel = tunnel
        self._frames = Frames(limit)
        self._messages: deque[bytes] = deque()
        self._turn = 0
        self._ended = False
        self._closed = False
        self._pings: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> WebSocket:
        self._pings = asyncio.get_running_loop().call_later(_PING, self._ping)
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if self._pings is not None:
            self._pings.cancel()
        if not isinstance(error, asyncio.CancelledError | ClientGone):
            self.close()

    def _ping(self) -> None:
        self._pings = asyncio.get_running_loop().call_later(_PING, self._ping)
        self._control(PING, b"")

    def _control(self, opcode: int, payload: bytes) -> None:
        """Sends a control frame, unless the client does not read: what it gets is bounded whatever it asks."""
        if not self._tunnel.stalled and not self._closed:
            self._tunnel.write(frame(opcode, payload))

    async def receive(self) -> bytes | None:
        """The next message, binary or text; None at the end.  A client that breaks the protocol is told, and at its end.

        Raises ClientGone.
        """
        while not self._messages:
            if self._ended:
                return None
            data = await self._tunnel.receive()
            if not data:
                self._ended = True
                continue
            try:
                self._take(self._frames.feed(data))
            except FrameError as error:
                self._ended = True
                self.close(error.code, str(error))
        self._turn += 1
        if self._turn % _TURN == 0:
            await asyncio.sleep(0)
        return self._messages.popleft()

    def _take(self, found: list[tuple[int, bytes]]) -> None:
        for opcode, payload in found:
            if self._ended:
                return
            if opcode == PING:
                self._control(PONG, payload)
            elif opcode == CLOSE:
                self._ended = True
            elif opcode != PONG:
                self._messages.append(payload)

    async def send(self, data: bytes) -> None:
        """Sends a binary message as soon as the client reads.  Raises ClientGone."""
        await self._tunnel.drained()
        if not self._closed:
            self._tunnel.write(frame(BINARY, data))

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Sends the close frame.  Idempotent; nothing is sent after it."""
        if not self._closed:
            self._closed = True
            self._tunnel.write(frame(CLOSE, code.to_bytes(2, "big") + reason.encode()[:100]))
