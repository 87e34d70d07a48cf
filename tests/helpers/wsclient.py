"""A WebSocket client for tests of krun serve (RFC 6455), and the SPDY frames that kubectl's port-forward puts into it."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from typing import Any
from urllib.parse import urlencode

from krun.serve.http.spdy import DICTIONARY


def masked(opcode: int, payload: bytes, final: bool = True, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A frame of a client."""
    size = len(payload)
    head = bytes(((0x80 if final else 0) | opcode,))
    if size < 126:
        head += bytes((0x80 | size,))
    elif size < 1 << 16:
        head += b"\xfe" + size.to_bytes(2, "big")
    else:
        head += b"\xff" + size.to_bytes(8, "big")
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def handshake(path: str, protocols: str, **fields: str) -> bytes:
    words = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        "Sec-WebSocket-Protocol": protocols,
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in words.items() if value)
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


class Client:
    """A connection. `status` is that of the answer, `text` its body if it is not 101; `head` its lower-case field lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status, self.text, self.head = 0, "", ""

    @classmethod
    async def connect(cls, port: int, path: str, protocols: str, **fields: str) -> Client:
        made = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 16))
        made.writer.write(handshake(path, protocols, **fields))
        head = (await made.reader.readuntil(b"\r\n\r\n")).decode()
        made.head = head.lower()
        made.status = int(head.split()[1])
        if made.status != 101:
            size = next(line for line in made.head.split("\r\n") if line.startswith("content-length"))
            made.text = (await made.reader.readexactly(int(size.split(":")[1]))).decode()
            made.writer.close()
        return made

    def send(self, data: bytes, opcode: int = 2) -> None:
        self.writer.write(masked(opcode, data))

    async def message(self) -> tuple[int, bytes]:
        """The next frame: (opcode, payload); (8, b"") at the end of the connection."""
        try:
            first, size = await self.reader.readexactly(2)
            if size > 125:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            return first & 0x0F, await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return 8, b""

    async def channels(self) -> tuple[dict[int, bytes], dict[str, Any]]:
        """Reads to the close frame: what each channel brought, and the Status of channel 3."""
        found: dict[int, bytes] = {}
        while True:
            opcode, payload = await self.message()
            if opcode == 8:
                break
            if opcode == 2:
                found[payload[0]] = found.get(payload[0], b"") + payload[1:]
        self.writer.close()
        return found, json.loads(found.pop(3, b"{}"))

    def close(self) -> None:
        self.writer.close()


def exec_path(pod: str, *argv: str, sub: str = "exec", **flags: str) -> str:
    """The path of an exec or attach with the flags of core/v1 PodExecOptions."""
    query = [("command", word) for word in argv] + list(flags.items())
    return f"/api/v1/namespaces/default/pods/{pod}/{sub}?{urlencode(query)}"


class Spdy:
    """What kubectl sends for forwarded connections."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def syn(self, stream: int, fin: bool = False, **headers: str) -> bytes:
        text = len(headers).to_bytes(4, "big")
        for word in (word for pair in headers.items() for word in pair):
            text += len(word).to_bytes(4, "big") + word.encode()
        block = self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = stream.to_bytes(4, "big") + bytes(6) + block
        return b"\x80\x03\x00\x01" + bytes((int(fin),)) + len(body).to_bytes(3, "big") + body

    def pair(self, first: int, id: str, port: int) -> bytes:
        """The two streams of a connection: `first` and `first` + 2."""
        both = {"port": str(port), "requestid": id}
        error = self.syn(first, streamtype="error", **both) + first.to_bytes(4, "big") + b"\x01\0\0\0"
        return error + self.syn(first + 2, streamtype="data", **both)


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    """The SPDY frames of a message: (type or 0, stream or 0, body)."""
    out = []
    while data:
        size = int.from_bytes(data[5:8], "big")
        word = int.from_bytes(data[:4], "big")
        out.append((word & 0xFFFF, 0, data[8 : 8 + size]) if word >> 31 else (0, word, data[8 : 8 + size]))
        data = data[8 + size :]
    return out
