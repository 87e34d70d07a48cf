"""NOTIFY_SOCKET (sd_notify(3)): forwards the payload's "READY=1" to the service manager that started krun.

As with runc (notify_socket.go), /run/notify in the container is a directory of the container's state directory. It holds
one datagram socket, which `start` or `run` makes and reads. The host's own socket is never in the container. The payload's
messages are hostile: krun looks for the line READY=1 only, and sends a message of its own with the pid that krun knows. A thread
reads them (krun/inbox.py); the descriptors that come along are closed unseen, which is the answer that sd_notify_barrier(3) waits for.
"""

import os
import socket
import time

from krun.errors import SysError
from krun.inbox import Inbox
from krun.oci.spec import Mount
from krun.sysio import poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.log import Log
    from krun.oci.spec import Spec

DIRECTORY = "notify"
NAME = "notify.sock"
INSIDE = "/run/notify"
_BARRIER_MS = 30_000  # how long runc waits for the service manager to say that it has read everything
_ONCE = 64  # datagrams that are read before a rest: a payload that only chatters must not take a whole CPU of the host's
_REST = 0.01  # s
_LAST_MS = 1000  # for what the payload had said before its end


def add(spec: "Spec", state_path: str) -> None:
    """Gives the container the directory and its program the variable. Pure.

    Arguments: spec, changed in place; state_path, the container's state directory.
    """
    spec.mounts.append(
        Mount(
            {
                "destination": INSIDE,
                "type": "bind",
                "source": f"{state_path}/{DIRECTORY}",
                "options": ["bind", "nosuid", "noexec", "nodev", "ro"],
            }
        )
    )
    if spec.process is not None:
        spec.process.env.append(f"NOTIFY_SOCKET={INSIDE}/{NAME}")


def make_directory(state_path: str) -> None:
    """Makes the directory, to be entered by any user of the container. Raises SysError."""
    path = f"{state_path}/{DIRECTORY}"
    try:
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)  # whatever the umask is
    except OSError as e:
        raise SysError("make", path, e.errno or 0) from None


def open_relay(state_path: str, host: str, log: "Log") -> "Relay | None":
    """Makes the socket in the container's directory.

    Arguments: state_path, the container's state directory; host, the caller's NOTIFY_SOCKET; log.

    Returns None if the container was created without one (NOTIFY_SOCKET is then somebody else's affair), or if the
    host's socket is not there: a container must not fail to start because a variable was inherited.
    """
    if not os.path.isdir(f"{state_path}/{DIRECTORY}"):
        return None
    try:
        return Relay(state_path, host, log)
    except OSError as e:
        log.warning(f"notify socket {host}: {e.strerror or e}")
        return None


class Relay:
    """Both ends: the inbox, which the payload writes to, and `outer`, connected to the host's NOTIFY_SOCKET."""

    __slots__ = ("outer", "log", "_inbox", "_told")

    def __init__(self, state_path: str, host: str, log: "Log") -> None:
        """Raises OSError."""
        self.log = log
        self.outer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        # "@" stands for the abstract name space (sd_notify(3)).
        self.outer.connect("\0" + host[1:] if host.startswith("@") else host)
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        folder = os.open(
            f"{state_path}/{DIRECTORY}", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        )
        try:
            try:
                os.unlink(NAME, dir_fd=folder)
            except FileNotFoundError:
                pass
            # Any user of the container may write to it. Not by chmod(2), which follows a link: a payload with CAP_SYS_ADMIN can make
            # its view of the directory writable, and put one there as soon as the socket has its name.
            umask = os.umask(0)
            try:
                # By the descriptor: sockaddr_un holds 107 bytes, an id alone may have 1024.
                inner.bind(f"/proc/self/fd/{folder}/{NAME}")
            finally:
                os.umask(umask)
        finally:
            os.close(folder)
        # What the thread has to say: one byte for READY=1, and the end when it reads no more. The thread owns the second end.
        self._told, told = os.pipe()
        self._inbox = Inbox(inner, _Hearer(told), lambda: os.close(told))
        self._inbox.start()

    def fileno(self) -> int:
        """Returns the descriptor that has input when the payload is ready, or nothing more will be heard of it."""
        return self._told

    def read(self) -> bool:
        """Returns whether the payload is ready. Precondition: fileno() has input."""
        return bool(os.read(self._told, 1))

    def last(self) -> bool:
        """Returns whether the payload, which has ended, had said that it is ready."""
        self._inbox.finish()
        return poll((self._told,), _LAST_MS)[0] and self.read()

    def tell(self, main_pid: int) -> None:
        """Tells the host READY=1, and MAINPID unless it is 0, and waits until that was read (BARRIER=1)."""
        try:
            self.outer.send(b"READY=1\n")
            if main_pid:
                self.outer.send(b"MAINPID=%d\n" % main_pid)
            self._barrier()
        except OSError as e:
            self.log.warning(f"notify socket: {e.strerror or e}")

    def _barrier(self) -> None:
        ours, theirs = os.pipe()
        try:
            socket.send_fds(self.outer, [b"BARRIER=1"], [theirs])
            os.close(theirs)
            theirs = -1
            if not poll((ours,), _BARRIER_MS)[0]:
                self.log.warning(
                    "notify socket: the service manager has not read the notification within 30 s"
                )
        finally:
            os.close(ours)
            if theirs >= 0:
                os.close(theirs)

    def wait(self, pidfd: int, main_pid: int) -> None:
        """Waits until the payload is ready, and tells the host, or until it has ended."""
        said, ended = poll((self.fileno(), pidfd))
        if self.read() if said else ended and self.last():
            self.tell(main_pid)
        elif not ended:
            poll((pidfd,))

    def close(self) -> None:
        """Closes both ends; the payload's next word is refused (ECONNREFUSED), as with runc."""
        self._inbox.close()
        os.close(self._told)
        self.outer.close()


class _Hearer:
    """What the thread does with each datagram. Argument: told, the end of a pipe that gets a byte at READY=1."""

    __slots__ = ("told", "_count")

    def __init__(self, told: int) -> None:
        self.told = told
        self._count = 0

    def __call__(self, data: bytes) -> bool:
        if b"READY=1" in data.split(b"\n"):
            os.write(self.told, b"1")
            return False
        self._count += 1
        if self._count % _ONCE == 0:
            time.sleep(_REST)
        return True
