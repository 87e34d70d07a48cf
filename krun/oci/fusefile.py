"""One file of a FUSE file system of its own: what is asked of it (ioctl, poll) comes as messages, and is answered when it suits.

The file system is mounted nowhere, and its root is the file (oci/listener.py makes it). fuse(4), include/uapi/linux/fuse.h of the kernel.
"""

import os
import struct
from errno import EIO, ENOENT, ENOSYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ROOM = 1 << 16  # FUSE_MIN_READ_BUFFER is 8 KiB

# enum fuse_opcode
FORGET = 2
GETATTR = 3
OPEN = 14
RELEASE = 18
INIT = 26
INTERRUPT = 36
DESTROY = 38
IOCTL = 39
POLL = 40
BATCH_FORGET = 42
_NOTIFY_POLL = 1
_SCHEDULE_NOTIFY = 1
_DIRECT_IO = 1

_HEAD_IN = struct.Struct("=IIQQIIIHH")
_HEAD_OUT = struct.Struct("=IiQ")
_IOCTL_IN = struct.Struct("=QIIQII")
_IOCTL_OUT = struct.Struct("=iIII")
_POLL_IN = struct.Struct("=QQII")
_VERSION = struct.Struct("=II")
_MINOR = 31


class Request:
    """An ioctl(2) that waits for its answer. unique: its number; pid: the caller's thread; cmd, data: the request and its bytes."""

    __slots__ = ("unique", "pid", "cmd", "data")

    def __init__(self, unique: int, pid: int, cmd: int, data: bytes) -> None:
        self.unique = unique
        self.pid = pid
        self.cmd = cmd
        self.data = data


class File:
    """Serves the file. on_ioctl: called with each Request; on_interrupt: with the number of one whose caller no longer waits;
    ready: returns the file's poll(2) events. closed: the file's last descriptor has been closed, or there is no file system any more."""

    __slots__ = ("device", "on_ioctl", "on_interrupt", "ready", "closed", "_waiting")

    def __init__(
        self,
        device: int,
        on_ioctl: "Callable[[Request], None]",
        on_interrupt: "Callable[[int], None]",
        ready: "Callable[[], int]",
    ) -> None:
        self.device = device
        self.on_ioctl = on_ioctl
        self.on_interrupt = on_interrupt
        self.ready = ready
        self.closed = False
        self._waiting: set[int] = set()  # pollers that want to be woken

    def serve(self) -> None:
        """Reads one message and acts. Precondition: the device has input."""
        try:
            message = os.read(self.device, _ROOM)
        except (InterruptedError, BlockingIOError):
            return
        except OSError as e:
            self.closed = e.errno != ENOENT  # ENOENT: that request was interrupted before it was read
            return
        _, opcode, unique, _, _, _, pid, _, _ = _HEAD_IN.unpack_from(message)
        body = message[_HEAD_IN.size :]
        if opcode == IOCTL:
            _, _, cmd, _, size, _ = _IOCTL_IN.unpack_from(body)
            self.on_ioctl(Request(unique, pid, cmd, body[_IOCTL_IN.size :][:size]))
        elif opcode == POLL:
            _, handle, flags, _ = _POLL_IN.unpack_from(body)
            if flags & _SCHEDULE_NOTIFY:
                self._waiting.add(handle)
            self._write(0, unique, struct.pack("=II", self.ready(), 0))
        elif opcode == INIT:
            major, minor = _VERSION.unpack_from(body)
            self._write(
                0,
                unique,
                struct.pack("=IIIIHHIIHHI28x", 7, min(minor, _MINOR), 0, 0, 16, 12, 4096, 1, 1, 0, 0)
                if major == 7
                else _VERSION.pack(7, _MINOR),
            )
        elif opcode == OPEN:
            self._write(0, unique, struct.pack("=QII", 0, _DIRECT_IO, 0))
        elif opcode == GETATTR:
            attributes = struct.pack(
                "=QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o100600, 1, 0, 0, 0, 4096, 0
            )
            self._write(0, unique, struct.pack("=QII", 3600, 0, 0) + attributes)
        elif opcode == RELEASE:
            self._write(0, unique, b"")
            self.closed = True
        elif opcode == INTERRUPT:
            self.on_interrupt(int.from_bytes(body[:8], "little"))
        elif opcode == DESTROY:
            self._write(0, unique, b"")
        elif opcode not in (FORGET, BATCH_FORGET):
            self._write(-ENOSYS, unique, b"")

    def answer(self, unique: int, result: int, data: bytes = b"") -> None:
        """Ends an ioctl(2) with a value or -errno, and the bytes that it writes."""
        self._write(0, unique, _IOCTL_OUT.pack(result, 0, 0, 0) + data)

    def wake(self) -> None:
        """The file's events may have changed: pollers look again."""
        for handle in self._waiting:
            self._write(_NOTIFY_POLL, 0, handle.to_bytes(8, "little"))
        self._waiting.clear()

    def _write(self, error: int, unique: int, data: bytes) -> None:
        try:
            os.write(self.device, _HEAD_OUT.pack(_HEAD_OUT.size + len(data), error, unique) + data)
        except OSError as e:
            # ENOENT: nobody waits any more. All else is the end of the file system.
            self.closed = self.closed or e.errno not in (ENOENT, EIO)
