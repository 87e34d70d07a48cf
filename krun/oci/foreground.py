"""Foreground processes of `run` and `exec`: forwards signals, copies the terminal or stdio, returns the exit code."""

import os
from _signal import SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGURG, SIGWINCH
from select import POLLIN

from krun.errors import SysError
from krun.oci.console import is_null
from krun.oci.copying import Flow, Target, own_source
from krun.sysio import (
    check,
    exit_code,
    ffi,
    lib,
    pidfd_send_signal,
    poll_for,
    recv_fd,
    signalfd_all,
    signalfd_read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.notify import Relay

_TERMIOS_SIZE = 256
_ENDING = (SIGHUP, SIGINT, SIGQUIT, SIGTERM)
_PATIENCE_MS = 1000
_LAST = (
    1 << 20
)  # bytes of the terminal that are still read when the program has ended: others may write without end


class Foreground:
    """Signals are held back from construction on, so that none is lost while the container is made."""

    __slots__ = ("signals", "relay", "_saved", "_tty", "_outputs", "_input")

    def __init__(self) -> None:
        self.signals = signalfd_all()
        self.relay: Relay | None = None
        self._saved: object = None
        self._tty = -1
        self._outputs: list[Flow] = []
        self._input = Flow(0, None)

    def take_streams(self) -> "list[int]":
        """Makes pipes in place of standard input, output and error, which `wait` copies from and to.

        The caller's own are not for a payload: it opens a file anew for writing, changes its mode, and reads from the caller's
        terminal when krun has ended (runc has pipes, too). Output and error that are one file have one pipe, which keeps their order.
        Returns the program's ends by number, -1 for the null device, which stays. Raises OSError.
        """
        ends = [-1, -1, -1]
        if not is_null(0):
            ends[0], feeder = os.pipe()
            self._input = _from_caller(Target(feeder, True))
        for number in (1, 2):
            if is_null(number):
                continue
            if number == 2 and ends[1] >= 0 and os.path.samestat(os.fstat(1), os.fstat(2)):
                ends[2] = ends[1]
                continue
            source, ends[number] = os.pipe()
            self._outputs.append(Flow(source, Target(number), True))
        return ends

    def flush(self) -> None:
        """Copies what the pipes hold, for a program that will not begin: its monitor may have said why."""
        while any(ready := poll_for([flow.wanted() for flow in self._outputs], 0)):
            for flow, now in zip(self._outputs, ready, strict=True):
                if now:
                    flow.go_on()

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
        if master >= 0:
            # The file is ours alone: its other users were the child, which has closed it.
            os.set_blocking(master, False)
            self._outputs, self._input = [Flow(master, Target(1))], _from_caller(Target(master))
        try:
            return self._serve(pid, pidfd, master, self._outputs, self._input)
        finally:
            for flow in (self._input, *self._outputs):
                flow.close()

    def _serve(self, pid: int, pidfd: int, master: int, outputs: "list[Flow]", typed: Flow) -> int:
        """Returns the exit code, once all that terminal or pipes still held has been copied, at most _LAST bytes.

        The reader of our output decides how long that takes; but after a signal that asks for the end it has _PATIENCE_MS for each piece.
        """
        relay = self.relay
        code = -1
        ending = False
        late = 0
        while True:
            # A negative descriptor is one that poll(2) leaves alone.
            notice = -1 if relay is None else relay.fileno()
            wanted = (
                (self.signals, POLLIN),
                (pidfd if code < 0 else -1, POLLIN),
                (notice, POLLIN),
                typed.wanted(),
                *(flow.wanted() for flow in outputs),
            )
            left = any(flow.left for flow in outputs)
            # A process that has ended writes nothing more: what is not there now will not come. What is read waits for its reader.
            patience = -1 if code < 0 or (left and not ending) else _PATIENCE_MS if left else 0
            signal, ended, said, put, *out = poll_for(wanted, patience)
            if signal and self._forward(pidfd, master, pid):
                ending = True
            if relay is not None and (said or ended):
                if relay.read() if said else relay.last():
                    # As runc: the service's process is krun, which hands signals on. Told once: a payload that goes on
                    # writing must not keep us from our work.
                    relay.tell(os.getpid())
                relay.close()
                relay = None
            for flow, ready in zip(outputs, out, strict=True):
                if ready:
                    reading = not flow.left
                    flow.go_on()
                    if reading and code >= 0:
                        late += len(flow.left)
            if put:
                typed.go_on()
            if ended:
                code = self._collect(pid)
                typed.close()
            elif code >= 0 and (not (signal or any(out) or said) or (late >= _LAST and not left)):
                return code

    def _forward(self, pidfd: int, master: int, pid: int) -> bool:
        """Hands pending signals on. Returns whether one of them asks for the end of krun."""
        ending = False
        while True:
            number, _ = signalfd_read(self.signals)
            if number == 0:
                return ending
            if number == SIGCHLD:
                reap_orphans(pid)
            elif number == SIGWINCH:
                if master >= 0:
                    self._resize(master)
            elif number not in (SIGURG, SIGPIPE):
                ending = ending or number in _ENDING
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


def _from_caller(target: Target) -> Flow:
    source = own_source(0)
    return Flow(0 if source < 0 else source, target, source >= 0)


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
