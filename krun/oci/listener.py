"""The agent of linux.seccomp.listenerPath: the file that it gets, the relay's process (oci/relay.py), the message with the file.

Imported only for a profile with SCMP_ACT_NOTIFY.
"""

import os
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGPIPE, signal

from krun.errors import KrunError, SysError
from krun.jsonio import dumps
from krun.kvm import boot
from krun.oci import fusefile, relay
from krun.sysio import close_all_but, ffi, lib, prctl, send_fd, set_undumpable, socketpair, unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.oci.steps import Context

_PR_SET_NAME = 15
_KILLABLE = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"


class Listener:
    """What the agent of one container, or of one further process, gets. file: the descriptor of the file."""

    __slots__ = ("path", "metadata", "file")

    def __init__(self, profile: "dict[str, Any]") -> None:
        self.path = str(profile["listenerPath"])
        self.metadata = str(profile.get("listenerMetadata") or "")
        self.file = -1

    def send(self, state: "dict[str, Any]", version: str, pid: int) -> None:
        """Sends the file to the agent, in a ContainerProcessState (config-linux.md, "The Container Process State").

        Arguments: state, of the container; version, of its configuration; pid, of the process. Raises SysError.
        """
        # As runc writes it: Go leaves out what is empty.
        state = {key: value for key, value in state.items() if value}
        message = dumps(
            {
                "ociVersion": version,
                "fds": ["seccompFd"],
                "pid": pid,
                "metadata": self.metadata,
                "state": state,
            }
        ).encode()
        sock = -1
        try:
            sock = unix_connect(self.path)
            send_fd(sock, message, self.file)
        except SysError as e:
            raise SysError(
                "send the seccomp listener to",
                self.path,
                e.errno,
                "is the agent of linux.seccomp.listenerPath running?",
            ) from None
        finally:
            if sock >= 0:
                os.close(sock)
            self.close()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def make(ctx: "Context", profile: "dict[str, Any]") -> None:
    """Makes the file and starts the relay. ctx gets the monitor's end, and the agent's file. Raises KrunError, SysError."""
    listener = Listener(profile)
    device, mount = fusefile.mount()
    ours = theirs = -1
    try:
        ours, theirs = socketpair()
        _start(ours, device)
        os.close(device)  # the relay's alone: if it ends, the open fails, and does not wait for ever
        device = -1
        try:
            listener.file = os.open(f"/proc/self/fd/{mount}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as e:
            raise SysError("open", "the seccomp listener's file", e.errno or 0) from None
        ctx.listener = listener
        ctx.relay, theirs = theirs, -1
        ctx.flags |= boot.FLAG_NOTIFY
        if _KILLABLE in (profile.get("flags") or ()):
            ctx.flags |= boot.FLAG_KILLABLE
    finally:
        for fd in (device, mount, ours, theirs):
            if fd >= 0:
                os.close(fd)


def _start(sock: int, device: int) -> None:
    """Starts the relay, which outlives krun, as nobody's child that krun or its caller would wait for."""
    middle = os.fork()
    if middle == 0:
        code = 1
        try:
            set_undumpable()  # it has krun's rights
            relayed = os.fork()
            code = 0
            if relayed == 0:
                _be_relay(sock, device)
        finally:
            os._exit(code)
    _, status = os.waitpid(middle, 0)
    if status:
        raise KrunError("start the relay of seccomp notifications: no process could be made")


def _be_relay(sock: int, device: int) -> None:
    os.setsid()
    lib.kr_sigactions_default()
    for number in (SIGHUP, SIGINT, SIGPIPE):
        signal(number, SIG_IGN)
    lib.kr_sigmask_clear()  # krun in the foreground blocks all
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    close_all_but((sock, device))
    os.chdir("/")
    name = ffi.new("char[]", b"krun-notify")
    prctl(_PR_SET_NAME, int(ffi.cast("uintptr_t", name)))
    relay.Relay(sock, device).run()
