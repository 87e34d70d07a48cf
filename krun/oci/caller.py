"""The interface to krun's caller: inherited descriptors, the console socket, the pid file, the pidfd socket."""

import os

from krun.errors import KrunError, SysError
from krun.sysio import CLOSE_RANGE_CLOEXEC, close_range, send_fd, unix_connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Process


def seal_descriptors(preserve: "int | None", log_fd: int, activation: bool = True) -> "list[int]":
    """Marks all inherited descriptors except stdio close-on-exec, and finds those that the payload gets.

    Arguments: preserve, --preserve-fds; log_fd, the descriptor of our log; activation, whether LISTEN_FDS counts (not of
    exec, as with runc: its process is not the service). Returns the descriptors to hand on: those of LISTEN_FDS, then
    `preserve` more (sd_listen_fds(3); runc, "File descriptors"). Raises KrunError if one of them is not open. Callers leak
    descriptors (containerd 1.6 leaks a socket as 3); a reader at the other end of a leaked descriptor never sees
    end-of-file.
    """
    close_range(3, flags=CLOSE_RANGE_CLOEXEC)
    count = (listen_fds() if activation else 0) + (preserve or 0)
    keep = list(range(3, 3 + count))
    for fd in keep:
        try:
            # The log is opened before us and may have taken a free number: it is ours, not the caller's.
            if fd == log_fd:
                raise OSError
            os.fstat(fd)
        except OSError:
            raise KrunError(f"please check that preserved-fd {fd - 3} (of {count}) is present") from None
    return keep


def notify_socket() -> str:
    """Returns the socket of the service manager that started us (sd_notify(3)), "" without one."""
    return os.environ.get("NOTIFY_SOCKET", "")


def listen_fds() -> int:
    """Returns LISTEN_FDS if it was meant for us: LISTEN_PID says so (sd_listen_fds(3))."""
    count, pid = os.environ.get("LISTEN_FDS", ""), os.environ.get("LISTEN_PID", "")
    return int(count) if count.isdecimal() and pid == str(os.getpid()) else 0


def pass_listen_fds(process: "Process") -> None:
    """Tells the payload of socket activation: it is process 1 of its world."""
    count = listen_fds()
    if count:
        process.env += [f"LISTEN_FDS={count}", "LISTEN_PID=1"]


def check_terminal(process: "Process", detach: bool, console_socket: "str | None") -> None:
    """Raises KrunError in runc's words for a terminal without a socket, or a socket without a terminal."""
    if process.terminal and detach and not console_socket:
        raise KrunError("cannot allocate tty if krun will detach without setting console socket")
    if console_socket and not (process.terminal and detach):
        raise KrunError("cannot use console socket if krun will not detach or allocate tty")


def write_pid_file(path: str, pid: int) -> None:
    """Writes a pid file as runc does: `.NAME` made exclusively, then renamed, so that a reader never sees half of it.

    A relative path is relative to the caller's working directory. Raises SysError.
    """
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            fd = os.open(fresh, flags, 0o666)
        except FileExistsError:
            os.unlink(fresh)  # of a krun that was killed half-way
            fd = os.open(fresh, flags, 0o666)
        os.write(fd, str(pid).encode())
        os.close(fd)
        os.rename(fresh, path)
    except OSError as e:
        raise SysError("write pid file", path, e.errno or 0) from None


def send_pidfd(path: str, pidfd: int, payload: bytes) -> None:
    """Sends a pidfd over --pidfd-socket (runc 1.2: payload "standard" for a container, "setns" for an exec)."""
    sock = unix_connect(path)
    try:
        send_fd(sock, payload, pidfd)
    finally:
        os.close(sock)
