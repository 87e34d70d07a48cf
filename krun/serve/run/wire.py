"""Messages between the server and its worker: JSON objects over a SOCK_SEQPACKET socket, with descriptors beside them.

A message that is too long for a packet travels in a memfd, whose descriptor is then the first one.
"""

import array
import errno
import json
import os
import socket
from typing import Any

_INLINE = 32 << 10
_MOST_FDS = 16
_LARGEST = 64 << 20
VERSION = 1  # of this protocol: a server does not take over the worker of another one


def send(sock: socket.socket, message: dict[str, Any], fds: "tuple[int, ...] | list[int]" = ()) -> None:
    """Send a message. The caller keeps its descriptors. Raises OSError."""
    data = json.dumps(message, separators=(",", ":")).encode()
    memfd = -1
    try:
        if len(data) > _LARGEST:
            raise OSError(errno.EMSGSIZE, "Message too long")  # the receiver would read a part of it
        if len(data) > _INLINE:
            memfd = os.memfd_create("krun-serve-message", os.MFD_CLOEXEC)
            with open(memfd, "wb", closefd=False) as file:
                file.write(data)
            fds = [memfd, *fds]
            data = b'{"memfd":true}'
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sock.sendmsg([data], control)
    finally:
        if memfd >= 0:
            os.close(memfd)


def receive(sock: socket.socket) -> "tuple[dict[str, Any], list[int]] | None":
    """Receive a message with its descriptors (close-on-exec; the caller owns them), or None at the end. Raises OSError."""
    data, control, _, _ = sock.recvmsg(_INLINE + 1, socket.CMSG_SPACE(_MOST_FDS * 4), socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            fds.extend(numbers)
    if not data:
        for fd in fds:
            os.close(fd)
        return None
    message = json.loads(data)
    if message.get("memfd"):
        with open(fds.pop(0), "rb") as file:
            file.seek(0)
            message = json.loads(file.read(_LARGEST))
    return message, fds
