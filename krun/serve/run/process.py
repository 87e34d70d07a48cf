"""The init of a container, as the worker sees it: a pid that is its child, and a pidfd.

A pid may be signalled from one thread while another thread reaps it. Every use of the pidfd takes the lock, and no use comes
after `close`: a number that the kernel has given to another file is never signalled.
"""

import os
import select
import signal
import threading

from krun.errors import SysError
from krun.sysio import pidfd_open, pidfd_send_signal


class Process:
    """A process. Arguments: pid, of a child that nobody has reaped; memory, the directory of its memory cgroup. Raises SysError."""

    def __init__(self, pid: int, memory: str) -> None:
        self.pid = pid
        self.memory = memory
        self.pidfd = pidfd_open(pid)
        self._lock = threading.Lock()
        self._status: tuple[int, int] | None = None

    def signal(self, signo: int) -> None:
        """Send a signal; a no-op where the process has ended."""
        with self._lock:
            if self.pidfd >= 0:
                try:
                    pidfd_send_signal(self.pidfd, signo)
                except SysError:
                    pass  # ESRCH: it has just ended

    def end(self, seconds: float) -> bool:
        """Kill the process and wait for its end, at most `seconds`; returns whether it has ended. It is reaped then.

        A runtime's `delete --force` waits for the pid to go away, which a zombie does not (runc 1.1: 10 s).
        """
        self.signal(signal.SIGKILL)
        with self._lock:
            if self.pidfd < 0:
                return True
            waiter = select.poll()
            waiter.register(self.pidfd, select.POLLIN)
            if not waiter.poll(seconds * 1000):
                return False
            self._reap()
        return True

    def status(self) -> "tuple[int, int]":
        """Reap an ended process; returns its exit code and, where a signal ended it, the signal (waitid(2))."""
        with self._lock:
            self._reap()
            return self._status or (0, 0)

    def _reap(self) -> None:
        if self._status is not None or self.pidfd < 0:
            return
        try:
            info = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            self._status = (0, 0)  # the child of a runtime that stays: only the runtime knows the status
            return
        if info is not None:
            exited = info.si_code == os.CLD_EXITED
            self._status = (info.si_status, 0) if exited else (0, info.si_status)

    def close(self) -> None:
        """Give the pidfd back. Idempotent."""
        with self._lock:
            if self.pidfd >= 0:
                os.close(self.pidfd)
                self.pidfd = -1
