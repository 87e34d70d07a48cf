"""The sockets by which instances reach the server: their services' front (HTTP) and their name server.

The worker makes them with the bridge and keeps them as long as the bridge: a server that starts again takes duplicates, and what
instances ask for meanwhile waits in the kernel. So no other program of the host ever gets what instances send to these ports.
Their own ports are any that are free, and the rules lead 80 and 53 there (firewall.py): the host's servers keep theirs.
"""

import os
import socket

_IP_FREEBIND = 15  # linux/in.h
_BACKLOG = 1024


class Doors:
    """The sockets, bound to an address that need not be there yet. Raises OSError; nothing is left then."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._sockets: list[socket.socket] = []
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM):
                sock = socket.socket(socket.AF_INET, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
                self._sockets.append(sock)
                sock.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
                sock.bind((address, 0))
        except BaseException:
            self.close()
            raise

    @property
    def ports(self) -> "tuple[int, int, int]":
        """The ports of HTTP, of names by streams, of names by datagrams."""
        http, streams, datagrams = (int(sock.getsockname()[1]) for sock in self._sockets)
        return http, streams, datagrams

    def open(self, interface: str) -> None:
        """Listen, to what comes by an interface only: no machine that routes to the address gets in. The rules drop what the host's own
        programs send. Raises OSError.
        """
        for sock in self._sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            if sock.type == socket.SOCK_STREAM:
                sock.listen(_BACKLOG)

    def duplicates(self) -> "list[int]":
        """Return descriptors for a server, in the order of `ports`; the caller owns them. Raises OSError."""
        return [os.dup(sock.fileno()) for sock in self._sockets]

    def close(self) -> None:
        """Close the sockets. Idempotent."""
        for sock in self._sockets:
            sock.close()
