"""Questions that are not about services: asked of the host's name servers, in messages of this server's own.

A question has a socket and a random number of its own, so that an answer can be forged only by one who sees it or guesses both
(RFC 5452). Those of one instance, and of all, are bounded; one more gets no answer, and the client asks again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import struct
from collections import Counter

from krun.serve.names import message
from krun.serve.names.message import Query

_MOST, _MOST_OF_ONE, _FIRST = 512, 64, 2
_SECONDS = 2.0  # for an answer of one server; glibc's clients wait for 5
_SERVERS = 3  # as many as resolv.conf(5) reads
_LONGEST = 65535


def room(asking: Counter[str], client: str, most: int, most_of_one: int) -> bool:
    """Whether a client may have one more of what all clients share.

    A quarter of it is for the first two of each client (a resolver asks for A and AAAA): by the bound of one alone, 8 instances of one
    owner kept all 512, and no other instance got an answer.
    """
    free = most - asking.total()
    own = asking.get(client, 0)
    return free > 0 if own < _FIRST else free > most // 4 and own < most_of_one


class Forward:
    """Arguments: path, of the host's resolv.conf; port of its servers."""

    def __init__(self, path: str = "/etc/resolv.conf", port: int = 53) -> None:
        self._path = path
        self._port = port
        self._read_at = 0
        self._servers: list[str] = []
        self._asking: Counter[str] = Counter()

    def servers(self) -> list[str]:
        """Return the host's name servers, those on its loopback too; read again when the file has changed."""
        try:
            changed = os.stat(self._path).st_mtime_ns
            if changed != self._read_at:
                with open(self._path, encoding="utf-8", errors="replace") as file:
                    words = [line.split() for line in file.read(65536).splitlines()]
                found = [line[1] for line in words if line[:1] == ["nameserver"] and _is_address(line[1:])]
                self._servers, self._read_at = found[:_SERVERS], changed
        except OSError:
            return []
        return self._servers

    async def ask(self, query: Query, client: str, stream: bool) -> bytes | None:
        """Return an answer, SERVFAIL where no server gives one; None beyond the bounds. stream: the client can take a long one."""
        if not room(self._asking, client, _MOST, _MOST_OF_ONE):
            return None
        self._asking[client] += 1
        try:
            for server in self.servers():
                try:
                    async with asyncio.timeout(_SECONDS):
                        data = await _datagram(query, server, self._port)
                        if stream and message.truncated(data):
                            data = await _stream(query, server, self._port)
                    return data
                except (OSError, TimeoutError, EOFError, ValueError):
                    continue
        finally:
            self._asking[client] -= 1
            if not self._asking[client]:
                del self._asking[client]
        return message.answer(query, message.SERVFAIL, own=False)


def _is_address(words: list[str]) -> bool:
    """Whether a line has an address, with a zone or without: a name would be looked up, and block the server."""
    try:
        return bool(words) and bool(ipaddress.ip_address(words[0]))
    except ValueError:
        return False


def _socket(server: str, kind: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    return socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


async def _datagram(query: Query, server: str, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    number = secrets.randbits(16)
    with _socket(server, socket.SOCK_DGRAM) as sock:
        sock.connect((server, port))
        await loop.sock_sendall(sock, message.question(query, number))
        while True:
            found = message.passed(query, number, await loop.sock_recv(sock, _LONGEST))
            if found is not None:
                return found


async def _stream(query: Query, server: str, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    number = secrets.randbits(16)
    data = message.question(query, number)
    with _socket(server, socket.SOCK_STREAM) as sock:
        await loop.sock_connect(sock, (server, port))
        await loop.sock_sendall(sock, struct.pack("!H", len(data)) + data)
        (length,) = struct.unpack("!H", await _exactly(sock, 2))
        found = message.passed(query, number, await _exactly(sock, length))
    if found is None:
        raise ValueError("the answer is not one to this question")
    return found


async def _exactly(sock: socket.socket, length: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < length:
        part = await loop.sock_recv(sock, length - len(data))
        if not part:
            raise EOFError
        data += part
    return data
