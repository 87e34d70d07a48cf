"""NOTIFY_SOCKET (sd_notify(3)): forwards the payload's "READY=1" to the service manager that started krun.

As with runc (notify_socket.go), /run/notify in the container is a directory of the container's state directory. It holds
one datagram socket, which `start` or `run` makes and reads. The host's own socket is never in the container. The payload's
messages are hostile: krun looks for the line READY=1 only, and sends a message of its own with the pid that krun knows.
"""

import os
import socket
import time

from krun.errors import SysError
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
_ONCE = 64  # datagrams that are read before anything else has its turn


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
    """Both ends: `inner`, which the payload writes to, and `outer`, connected to the host's NOTIFY_SOCKET."""

    __slots__ = ("inner", "outer", "log")

    def __init__(self, state_path: str, host: str, log: "Log") -> None:
        """Raises OSError."""
        self.log = log
        self.outer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        # "@" stands for the abstract name space (sd_notify(3)).
        self.outer.connect("\0" + host[1:] if host.startswith("@") else host)
        self.inner = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        )
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
                self.inner.bind(f"/proc/self/fd/{folder}/{NAME}")
            finally:
                os.umask(umask)
        finally:
            os.close(folder)

    def fileno(self) -> int:
        """Returns the descriptor that has input when the payload has said something."""
        return self.inner.fileno()

    def read(self) -> bool:
        """Reads what has come. Returns whether READY=1 was among it. Descriptors that come along (BARRIER=1) are not
        taken, which closes them: that is the answer sd_notify_barrier(3) waits for."""
        for _ in range(_ONCE):
            try:
                data = self.inner.recv(4096)
            except OSError:
                return False
            if b"READY=1" in data.split(b"\n"):
                return True
        return False

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
        while True:
            said, ended = poll((self.fileno(), pidfd))
            if said and self.read():
                self.tell(main_pid)
                return
            if ended:
                return
            # A payload that only chatters must not take a whole CPU of the host's.
            time.sleep(0.01)

    def close(self) -> None:
        """Closes both ends; the payload's next word is refused (ECONNREFUSED), as with runc."""
        self.inner.close()
        self.outer.close()
