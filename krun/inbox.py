"""Datagrams that a payload sends to krun (its readiness, its /dev/log), read by a thread that does nothing else.

A datagram may bring descriptors (unix(7), SCM_RIGHTS). Nobody here takes them, so recv(2) closes them, and so does the close of a socket
with datagrams in its queue. Who closes a TCP socket waits as long as SO_LINGER says (socket(7)): hours, if the payload wants it. The wait
ends with a signal or with the process, so a thread that waits holds up nothing else.
"""

import _thread
import os
import select
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 64 << 10


class Inbox:
    """A bound datagram socket. Arguments: sock, the inbox's own from now on; take, called in the thread with each datagram, returns
    whether there is to be another one; over, called in the thread at its end, whatever the reason.

    The lock holds the descriptor: the thread gives it back, while another thread may shut it down.
    """

    __slots__ = ("_fd", "_lock", "_take", "_over", "_begun", "_ending", "_closed", "_thread")

    def __init__(
        self,
        sock: socket.socket,
        take: "Callable[[bytes], bool]",
        over: "Callable[[], None]" = lambda: None,
    ) -> None:
        sock.setblocking(True)
        self._fd = sock.detach()
        self._lock = _thread.allocate_lock()
        self._take = take
        self._over = over
        self._begun = self._ending = self._closed = False
        self._thread = 0  # 0: there is none, or it is about to end

    def fileno(self) -> int:
        """Return the descriptor, which can be read as soon as there is a datagram; -1 when it has been given back."""
        return self._fd

    def start(self) -> None:
        """Begin to read; a second call does nothing."""
        if not self._begun:
            self._begun = True
            with self._lock:  # the thread forgets itself at its end, behind this
                self._thread = _thread.start_new_thread(self._run, ())

    def finish(self) -> None:
        """Take no datagram more; those that have come are read before the end. From any thread."""
        self._ending = True
        with self._lock:
            if self._fd >= 0:
                with socket.socket(fileno=self._fd) as sock:
                    try:
                        sock.shutdown(socket.SHUT_RD)
                    finally:
                        sock.detach()

    def close(self) -> None:
        """Give the socket back, now or when the thread comes back; what has not been read is lost. From any thread. Idempotent."""
        self._closed = True
        if self._begun:
            self.finish()
        elif self._waits():
            self.start()  # the close of a socket with datagrams may wait
        else:
            self._shut()

    def interrupt(self, number: int) -> bool:
        """Send the thread a signal for which the process has a handler: it ends all waits of one close. From any thread.

        Return whether there is a thread. To be called, after `close`, until there is none: it may be about to wait.
        """
        import signal

        with self._lock:
            if self._thread:
                signal.pthread_kill(self._thread, number)
            return bool(self._thread)

    def _waits(self) -> bool:
        """Return whether there is a datagram."""
        if self._fd < 0:
            return False
        waiter = select.poll()
        waiter.register(self._fd, select.POLLIN)
        return bool(waiter.poll(0))

    def _run(self) -> None:
        try:
            sock = socket.socket(fileno=self._fd)
            try:
                while not self._closed:
                    data = sock.recv(_LONGEST)
                    if self._closed or (not data and self._ending) or not self._take(data):
                        break
            finally:
                sock.detach()
        except OSError:
            pass
        finally:
            self._over()
            self._shut()
            with self._lock:
                self._thread = 0

    def _shut(self) -> None:
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
