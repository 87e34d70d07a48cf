"""A container's root directory, seen from the host: no symlink of it leads out of it (openat2(2), RESOLVE_IN_ROOT)."""

import os
import stat

from krun.errors import SysError
from krun.sysio import RESOLVE_IN_ROOT, openat2

_LARGEST = 1 << 20


class RootDir:
    """An open root directory. A context manager; all paths are the container's."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> "RootDir":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of what a path leads to, or None."""
        try:
            fd = openat2(self.fd, path, os.O_PATH | os.O_CLOEXEC, RESOLVE_IN_ROOT)
        except SysError:
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> str:
        """Return a regular file's text of at most 1 MiB, "" where there is none."""
        status = self.stat(path)
        if status is None or not stat.S_ISREG(status.st_mode):
            return ""
        try:
            fd = openat2(
                self.fd, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, RESOLVE_IN_ROOT
            )
        except SysError:
            return ""
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            return file.read(_LARGEST).decode("utf-8", "replace")

    def open(self, path: str) -> int:
        """Open what a path leads to, with O_PATH. The caller owns the descriptor. Raises SysError."""
        return openat2(self.fd, path, os.O_PATH | os.O_CLOEXEC, RESOLVE_IN_ROOT)

    def make_directory(self, path: str, mode: int) -> None:
        """Make a directory with its parents, and give the last one the mode. Raises SysError, OSError."""
        done = ""
        parent = os.open(f"/proc/self/fd/{self.fd}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in path.strip("/").split("/"):
                done += f"/{name}"
                try:
                    os.mkdir(name, 0o755, dir_fd=parent)
                except FileExistsError:
                    pass
                child = openat2(self.fd, done, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, RESOLVE_IN_ROOT)
                os.close(parent)
                parent = child
            os.chmod(f"/proc/self/fd/{parent}", mode)
        finally:
            os.close(parent)
