"""Copies bytes from one descriptor to another without ever waiting in read(2) or write(2): the caller waits, for everything at once.

The reader of krun's output may stop without closing it. A write(2) that waits for it would keep krun from signals and from the end of
the container. poll(2) alone does not prevent that: a terminal or a socket is ready as soon as there is room for a part of the bytes.
"""

import os
from errno import EAGAIN
from select import POLLIN, POLLOUT
from stat import S_ISCHR, S_ISFIFO, S_ISSOCK

from krun.sysio import lib

_PIECE = 1 << 14
_PIPE_BUF = 4096  # a write of so much does not wait where poll(2) says that a pipe is ready (pipe(7))


class Target:
    """A descriptor of the caller's that is written without waiting.

    O_NONBLOCK is a flag of the open file, which the caller shares: so the file is opened anew where that is possible.
    """

    __slots__ = ("fd", "_own", "_socket", "_most")

    def __init__(self, fd: int, own: bool = False) -> None:
        """Arguments: fd; own, whether the open file is ours alone, and ours to close."""
        self.fd = fd
        self._own = own
        self._socket = False
        self._most = _PIECE
        if own:
            os.set_blocking(fd, False)
            return
        mode = os.fstat(fd).st_mode
        if S_ISSOCK(mode):
            self._socket = True
        elif S_ISFIFO(mode) or S_ISCHR(mode) and lib.kr_isatty(fd):
            self._open_anew(_PIPE_BUF if S_ISFIFO(mode) else 1)

    def _open_anew(self, most: int) -> None:
        """Argument: most, the bytes of a write if the file cannot be opened: another user's, or a name that is not the file."""
        if lib.kr_pty_number(self.fd) < 0:  # the master of a pty is no file that could be opened twice
            try:
                self.fd = os.open(
                    f"/proc/self/fd/{self.fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                )
                self._own = True
                return
            except OSError:
                pass
        self._most = most

    def write(self, data: bytes) -> int:
        """Writes what there is room for. Returns the number of bytes, 0 if there is none. Raises OSError."""
        if self._socket:
            count = lib.kr_send_now(self.fd, data, len(data))
            if count < 0 and count != -EAGAIN:
                raise OSError(-count, os.strerror(-count))
            return max(count, 0)
        try:
            return os.write(self.fd, data[: self._most])
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Closes what was opened anew or is ours; the caller's descriptor stays open. A second call does nothing."""
        if self._own:
            os.close(self.fd)
            self._own = False


def own_source(fd: int) -> int:
    """Opens a pipe or terminal that the caller has given as input anew, because others may read from it between poll(2) and our
    read(2). Returns a descriptor that is ours, or -1: another kind of file, or one that cannot be opened."""
    mode = os.fstat(fd).st_mode
    if not S_ISFIFO(mode) and not (S_ISCHR(mode) and lib.kr_isatty(fd) and lib.kr_pty_number(fd) < 0):
        return -1
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1


class Flow:
    """One direction: a source, a target, and the bytes that have been read and not written yet."""

    __slots__ = ("source", "target", "left", "open", "_own")

    def __init__(self, source: int, target: "Target | None", own: bool = False) -> None:
        """Arguments: source, a descriptor; target, None for a flow that is closed from the beginning; own, whether the open file of
        source is ours alone, and closed with the flow: who writes there hears that nobody reads."""
        self.source = source
        self.target = target
        self.left = b""
        self.open = target is not None
        self._own = own
        if own:
            os.set_blocking(source, False)

    def wanted(self) -> "tuple[int, int]":
        """Returns what poll(2) waits for: (descriptor, events); (-1, 0) if the flow is closed."""
        if not self.open or self.target is None:
            return -1, 0
        return (self.target.fd, POLLOUT) if self.left else (self.source, POLLIN)

    def go_on(self) -> None:
        """Reads or writes once, after poll(2) has said that what is wanted is there. The end of either side closes the flow (EIO of
        a pty whose other side is closed)."""
        if not self.open or self.target is None:
            return
        try:
            if not self.left:
                self.left = os.read(self.source, _PIECE)
                # Not written before poll(2) has been asked about the target.
                if not self.left:
                    self.close()
            else:
                self.left = self.left[self.target.write(self.left) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        """Ends the flow. What could not be written is dropped: nobody waits for it any more."""
        self.open = False
        self.left = b""
        if self._own:
            self._own = False
            os.close(self.source)
        if self.target is not None:
            self.target.close()
