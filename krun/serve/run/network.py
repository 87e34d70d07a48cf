"""The way from the server into an instance: a socket that is made inside the instance's network namespace.

An instance needs no address for its inbound traffic: the server connects to 127.0.0.1 in there. The namespace of a socket is
that of the thread at socket(2), so the thread goes in and comes back at once (40 us); nothing runs between.
"""

import os
import socket

from krun.errors import SysError
from krun.sysio import CLONE_NEWNET, setns


def connect_inside(netns: int, port: int) -> socket.socket:
    """Return a non-blocking socket that connects to 127.0.0.1:port in a namespace. Raises SysError, OSError.

    The connection is complete, or refused, when the socket becomes writable (connect(2), EINPROGRESS).
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        sock = _socket_inside(netns, own)
    finally:
        os.close(own)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex(("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


def _socket_inside(netns: int, own: int) -> socket.socket:
    """Return a socket of another network namespace; this thread is in `own` before and after."""
    setns(netns, CLONE_NEWNET, "network namespace of an instance")
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    finally:
        try:
            setns(own, CLONE_NEWNET, "network namespace of krun serve")
        except SysError:
            os._exit(70)  # a server in a tenant's network would listen and resolve there
