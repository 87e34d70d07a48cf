"""Foreground processes of `run` and `exec`: forwards signals, copies the terminal, returns the exit code."""

import os
from _signal import SIGCHLD, SIGPIPE, SIGURG, SIGWINCH

from krun.errors import SysError
from krun.sysio import (
    check,
    exit_code,
    ffi,
    lib,
    pidfd_send_signal,
    poll,
    recv_fd,
    signalfd_all,
    signalfd_read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.notify import Relay

_TERMIOS_SIZE = 256


class Foreground:
    """Signals are held back from construction on, so that none is lost while the container is made."""

    __slots__ = ("signals", "relay", "_saved", "_tty")

    def __init__(self) -> None:
        self.signals = signalfd_all()
        self.relay: Relay | None = None
        self._saved: object = None
        self._tty = -1

    def wait(self, pid: int, pidfd: int, console: int) -> int:
        """Stays until the process ends.

        Arguments: pid, pidfd of our child; console, socket that brings the terminal's master, -1 without a terminal.
        Returns its exit code, or 128 + signal. The terminal we were given is back in its old mode.
        """
        master = -1
        if console >= 0:
            _, master = recv_fd(console)
            os.close(console)
            self._raw(master)
        try:
            return self._loop(pid, pidfd, master)
        finally:
            self._restore()

    def _raw(self, master: int) -> None:
        if not lib.kr_isatty(0):
            return
        saved = ffi.new("unsigned char[]", _TERMIOS_SIZE)
        check(lib.kr_tty_raw(0, saved, _TERMIOS_SIZE), "set raw mode", "terminal")
        self._saved, self._tty = saved, 0
        self._resize(master)

    def _restore(self) -> None:
        if self._tty >= 0:
            lib.kr_tty_restore(self._tty, self._saved, _TERMIOS_SIZE)

    @staticmethod
    def _resize(master: int) -> None:
        size = ffi.new("unsigned short[2]")
        if lib.kr_tty_get_size(0, size) == 0:
            lib.kr_tty_set_size(master, size[0], size[1])

    def _loop(self, pid: int, pidfd: int, master: int) -> int:
        stdin = 0 if master >= 0 else -1
        relay = self.relay
        while True:
            # A negative descriptor is one that poll(2) leaves alone.
            notice = -1 if relay is None else relay.fileno()
            signal, ended, output, typed, said = poll((self.signals, pidfd, master, stdin, notice))
            if signal:
                self._forward(pidfd, master, pid)
            if said and relay is not None and relay.read():
                # As runc: the service's process is krun, which hands signals on. Told once: a payload that goes on
                # writing must not keep us from our work.
                relay.tell(os.getpid())
                relay.close()
                relay = None
            if output and not copy(master, 1):
                master = -1
            if typed and not copy(0, master):
                stdin = -1
            if ended and not output:
                # All that the terminal still holds has been copied: the slave is closed with the process.
                return self._collect(pid)
            if ended:
                while master >= 0 and poll((master,), 0)[0] and copy(master, 1):
                    pass
                return self._collect(pid)

    def _forward(self, pidfd: int, master: int, pid: int) -> None:
        while True:
            number, _ = signalfd_read(self.signals)
            if number == 0:
                return
            if number == SIGCHLD:
                reap_orphans(pid)
            elif number == SIGWINCH:
                if master >= 0:
                    self._resize(master)
            elif number not in (SIGURG, SIGPIPE):
                # In runc the Go run-time uses SIGURG; krun does not use it, but callers expect that it is not forwarded.
                try:
                    pidfd_send_signal(pidfd, number)
                except SysError:
                    pass  # it ended meanwhile

    @staticmethod
    def _collect(pid: int) -> int:
        while True:
            try:
                _, status = os.waitpid(pid, 0)
                return exit_code(status)
            except InterruptedError:
                continue


def copy(source: int, target: int) -> bool:
    """Copies what there is from one descriptor to another. Returns False at the end of either (EIO of a closed pty)."""
    try:
        data = os.read(source, 1 << 14)
        while data:
            data = data[os.write(target, data) :]
            if not data:
                return True
    except OSError:
        return False
    return False


def reap_orphans(pid: int) -> None:
    """As a subreaper we get the container's orphans; all but the process we wait for are collected here."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid == pid:
                return
            os.waitpid(found.si_pid, os.WNOHANG)
        except OSError:
            return
