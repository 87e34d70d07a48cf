"""The agent of linux.seccomp.listenerPath: the file that it gets, the relay's process (oci/relay.py), the message with the file.

Imported only for a profile with SCMP_ACT_NOTIFY.
"""

import os
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGPIPE, signal
from errno import ENOENT

from krun.errors import KrunError, SysError
from krun.jsonio import dumps
from krun.kvm import boot
from krun.mountio import MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, new_mount
from krun.oci.cgroup.group import in_user_namespace
from krun.sysio import close_all_but, ffi, lib, prctl, send_fd, set_undumpable, socketpair, unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.oci.steps import Context

DEVICE = "/dev/fuse"
_PR_SET_NAME = 15
_KILLABLE = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"


class Listener:
    """What the agent of one container, or of one further process, gets. mount: of the file system whose root is the file."""

    __slots__ = ("path", "metadata", "mount")

    def __init__(self, profile: "dict[str, Any]") -> None:
        self.path = str(profile["listenerPath"])
        self.metadata = str(profile.get("listenerMetadata") or "")
        self.mount = -1

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
        sock = file = -1
        try:
            file = os.open(f"/proc/self/fd/{self.mount}", os.O_RDWR | os.O_CLOEXEC)  # waits for the relay
            sock = unix_connect(self.path)
            send_fd(sock, message, file)
        except OSError as e:
            raise SysError(
                "open", "the seccomp listener's file", e.errno or 0, "its relay has ended"
            ) from None
        except SysError as e:
            text = "is the agent of linux.seccomp.listenerPath running?"
            raise SysError("send the seccomp listener to", self.path, e.errno, text) from None
        finally:
            for fd in (sock, file):
                if fd >= 0:
                    os.close(fd)
            self.close()

    def close(self) -> None:
        """Closes the mount; a second call does nothing."""
        if self.mount >= 0:
            os.close(self.mount)
            self.mount = -1


def mount() -> "tuple[int, int]":
    """Makes the file system. Returns its device's descriptor, which oci/fusefile.py serves, and the mount's. Raises KrunError, SysError."""
    if os.geteuid() != 0:
        raise KrunError(
            "an agent of linux.seccomp (SCMP_ACT_NOTIFY) needs a krun that is root, because the agent's file is a FUSE mount; "
            "run it as root, or take SCMP_ACT_NOTIFY out of the profile"
        )
    try:
        # Not blocking: a request that poll(2) has told of is gone if its caller is killed before it is read.
        device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        if e.errno == ENOENT:
            raise KrunError(f"{DEVICE} does not exist; load the kernel's module (modprobe fuse)") from None
        raise SysError(
            "open",
            DEVICE,
            e.errno or 0,
            "load the kernel's module (modprobe fuse), and be allowed to open it",
        ) from None
    options: list[tuple[str, str | None]] = [
        ("source", "seccomp-listener"),
        ("fd", str(device)),
        ("rootmode", "100600"),
        ("user_id", str(os.geteuid())),
        ("group_id", str(os.getegid())),
    ]
    if not in_user_namespace():
        # Else the kernel would let in nobody from outside of our user namespace; without it, whoever has our ids.
        options.append(("allow_other", None))
    try:
        attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
        return device, new_mount("fuse", options, attributes, "the seccomp listener")
    except BaseException:
        os.close(device)
        raise


def make(ctx: "Context", profile: "dict[str, Any]") -> None:
    """Makes the file and starts the relay. ctx gets the monitor's end, and the agent's file. Raises KrunError, SysError."""
    listener = Listener(profile)
    device, listener.mount = mount()
    ctx.listener = listener
    ours = theirs = -1
    try:
        ours, theirs = socketpair()
        _start(ours, device)
        ctx.relay, theirs = theirs, -1
        ctx.flags |= boot.FLAG_NOTIFY
        if _KILLABLE in (profile.get("flags") or ()):
            ctx.flags |= boot.FLAG_KILLABLE
    finally:
        # The relay alone has the device: if it ends, an open of the file fails, and does not wait for ever.
        for fd in (device, ours, theirs):
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
    # Cost: the parent goes on meanwhile.
    from krun.oci import relay

    relay.Relay(sock, device).run()
