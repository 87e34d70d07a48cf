"""Writes one line per event to standard error or to the file of --log, in runc's two formats (text, json).

Readers of the file: containerd takes the last line of a JSON log whose level is error; podman unmarshals the whole file
as ONE object. Therefore --log FILE gets errors only, unless --debug is on.
"""

import os
import time

from krun.errors import KrunError, SysError, one_line
from krun.jsonio import dumps


def rfc3339(nanoseconds: int, fraction: bool = False) -> str:
    """Return a wall-clock time as RFC 3339 in UTC.

    Arguments: nanoseconds since the epoch (time.time_ns()); fraction: with the nanoseconds (Go's
    RFC3339Nano).
    """
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    tail = (f".{rest:09d}".rstrip("0")).rstrip(".") if fraction else ""
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{tail}Z"


class Log:
    """Where one command's (or one container's) lines go. Made for standard error, warnings and errors; `setup` directs it."""

    __slots__ = ("_fd", "_json", "_debug", "_to_file", "_socket_path", "_level")

    def __init__(self) -> None:
        self._fd = 2
        self._json = False
        self._debug = False
        self._to_file = False
        self._socket_path = ""
        self._level = 2  # 1 error, 2 warning, 3 debug

    def setup(self, path: str | None, fmt: str | None, debug: bool, level: str | None = None) -> None:
        """Direct the log. Called once, before anything is written.

        Arguments: path, a file (appended; also crun's "file:PATH", "journald:ID", "syslog:ID"), None or "" =
        standard error; fmt, "text" or "json", None = text; debug, write everything; level, crun's --log-level
        error|warning|debug.
        Errors: KrunError for an unknown format or level, SysError when the file cannot be opened.
        """
        if fmt not in (None, "", "text", "json"):
            raise KrunError(f'invalid log format "{fmt}", use text or json')
        if level not in (None, "", "error", "warning", "debug"):
            raise KrunError(f'invalid log level "{level}", use error, warning or debug')
        self._json = fmt == "json"
        self._debug = debug or level == "debug"
        self._level = 3 if self._debug else 1 if level == "error" else 2
        if not path:
            return
        if path.startswith(("journald:", "syslog:")):
            # Both end in syslog(3)'s socket, which journald serves as well.
            self._socket_path = "/dev/log"
            return
        if path.startswith("file:"):
            path = path[5:]
        try:
            # Opened now: after pivot_root the child could not reach the path any more, and a log that cannot be
            # written must be an error of the command, not of its first warning. 0644 as runc.
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SysError.of("open log file", error, path) from None
        self._to_file = True

    def close(self) -> None:
        """Close the file of the log, if there is one; lines go to standard error again."""
        if self._to_file:
            os.close(self._fd)
            self._fd, self._to_file = 2, False

    def fileno(self) -> int:
        """Return the descriptor that log lines go to (2 = standard error)."""
        return self._fd

    def debugging(self) -> bool:
        """Return whether debug lines are written (to spare the work of making them)."""
        return self._debug

    def error(self, msg: str) -> None:
        """Log an error; with --log FILE the bare message goes to standard error as well, where conmon and people
        look.
        """
        self._emit("error", msg)
        if self._to_file or self._socket_path:
            self._write(2, one_line(msg) + "\n")

    def warning(self, msg: str) -> None:
        """Log a warning; not into a --log file unless --debug (podman reads that file as one object)."""
        if self._level >= 2 and (self._debug or not self._to_file):
            self._emit("warning", msg)

    def debug(self, msg: str) -> None:
        """Log a debug line, with --debug only."""
        if self._debug:
            self._emit("debug", msg)

    def _emit(self, level: str, msg: str) -> None:
        msg = one_line(msg)
        stamp = rfc3339(time.time_ns())
        if self._json:
            line = dumps({"level": level, "msg": msg, "time": stamp})
        else:
            quoted = msg.replace("\\", "\\\\").replace('"', '\\"')
            line = f'time="{stamp}" level={level} msg="{quoted}"'
        if self._socket_path and self._syslog(level, msg):
            return
        self._write(self._fd, line + "\n")

    @staticmethod
    def _write(fd: int, text: str) -> None:
        """Write, and let a broken or full log pass: reporting must never change what the command does."""
        try:
            os.write(fd, text.encode("utf-8", "surrogateescape"))
        except OSError:
            pass

    def _syslog(self, level: str, msg: str) -> bool:
        """Send one datagram to the system log; False when there is none."""
        import _socket

        priority = {"error": 3, "warning": 4, "debug": 7}[level] | 3 << 3  # facility daemon
        try:
            sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
            try:
                sock.connect(self._socket_path)
                sock.send(f"<{priority}>krun: {msg}".encode("utf-8", "surrogateescape"))
            finally:
                sock.close()
        except OSError:
            return False
        return True
