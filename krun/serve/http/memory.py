"""The memory that clients make the server hold: heads, bodies that wait for an instance, responses that wait for their reader.

Connections alone bound it badly: one of HTTP/2 has 250 streams, each with a head of 64 KiB and a body of 256 KiB.
"""

from __future__ import annotations

import socket


def client_of(peer: tuple | str) -> str:
    """Who counts as one client: an IPv4 address, the /64 of an IPv6 one, which is one host's to choose from; "" for a unix socket's."""
    if not isinstance(peer, tuple):
        return ""
    address: str = peer[0]
    if ":" not in address or address.startswith("::ffff:"):
        return address
    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()


class Memory:
    """The bytes of all listeners. One client (client_of) has half of them, so that it cannot keep out the others."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._clients: dict[str, int] = {}

    def share(self, peer: tuple | str) -> Share:
        """What one message of a peer holds: nothing yet."""
        return Share(self, client_of(peer))

    def change(self, client: str, size: int) -> bool:
        """Adds `size` bytes, negative for less, to those of a client. Returns whether there was room; less has always."""
        mine = self._clients.get(client, 0) + size
        if size > 0 and (self.held + size > self.total or (client and mine > self.total // 2)):
            return False
        self.held += size
        if mine:
            self._clients[client] = mine
        else:
            self._clients.pop(client, None)
        return True


class Share:
    """What one message holds. Its owner sets it to 0 at the end."""

    __slots__ = ("_memory", "client", "size")

    def __init__(self, memory: Memory, client: str) -> None:
        self._memory = memory
        self.client = client
        self.size = 0

    def set(self, size: int) -> bool:
        """Holds `size` bytes. Returns False, and holds what it held, if there is no room for them."""
        if size != self.size:
            if not self._memory.change(self.client, size - self.size):
                return False
            self.size = size
        return True
