"""Walks through a directory tree of any depth and width, by descriptors and without recursion.

A payload may make directories in some trees that krun reads and removes (its cgroup, the directory of the readiness socket). Their
paths may exceed PATH_MAX, and they may be nested more deeply than Python calls or than a process may have descriptors.
"""

import os
from errno import ELOOP, ENODEV, ENOENT, ENOTDIR, EXDEV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SHOWN = 200  # characters of a path in a message


class Cursor:
    """A position in a tree: one open directory, `fd`, and the way back. It never leaves the tree or its file system."""

    __slots__ = ("fd", "_top", "_way", "_here")

    def __init__(self, path: str) -> None:
        """Open the directory at `path`. Errors: OSError; a symbolic link is ENOTDIR."""
        self.fd = os.open(path, _FLAGS)
        self._top = path
        info = os.fstat(self.fd)
        self._here = (info.st_dev, info.st_ino)
        #: Of each directory above: the name by which the way went down from it, and what it is.
        self._way: list[tuple[str, tuple[int, int]]] = []

    def down(self, name: str) -> bool:
        """Enter a directory of this one. Return False when it is gone, no directory, or another file system. Errors: OSError."""
        try:
            fd = os.open(name, _FLAGS, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (ENOENT, ENODEV, ENOTDIR, ELOOP):
                return False
            raise
        info = os.fstat(fd)
        if info.st_dev != self._here[0]:
            os.close(fd)
            return False
        self._way.append((name, self._here))
        os.close(self.fd)
        self.fd, self._here = fd, (info.st_dev, info.st_ino)
        return True

    def up(self) -> str:
        """Go back to the directory above. Return the name of the one that is left.

        Errors: OSError; EXDEV when somebody has moved the directory meanwhile: ".." would lead out of the tree.
        """
        name, above = self._way[-1]
        fd = os.open("..", _FLAGS, dir_fd=self.fd)
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino) != above:
            os.close(fd)
            raise OSError(EXDEV, "the directory was moved while it was read", self.path())
        del self._way[-1]
        os.close(self.fd)
        self.fd, self._here = fd, above
        return name

    def path(self, name: str = "") -> str:
        """Return the path of this directory, or of a name in it, for a message: cut where it is very long."""
        text = "/".join([self._top, *(step for step, _ in self._way), *([name] if name else [])])
        if len(text) <= _SHOWN:
            return text
        return f"{text[:_SHOWN]}... ({len(self._way) + bool(name)} directories deep)"

    def directories(self) -> "list[str]":
        """Return the names of the directories in this one; [] when it has been removed. Errors: OSError."""
        try:
            with os.scandir(self.fd) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in (ENOENT, ENODEV):
                return []
            raise

    def close(self) -> None:
        """Close the directory."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def remove_tree(path: str) -> None:
    """Remove a directory with all in it, or what else is at `path`; links are not followed; gone already is no error.

    Errors: OSError.
    """
    try:
        cursor = Cursor(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(path)
        return
    try:
        todo = [_unlink_files(cursor)]
        while todo:
            if todo[-1]:
                if cursor.down(todo[-1].pop()):
                    todo.append(_unlink_files(cursor))
                continue
            del todo[-1]
            if todo:
                name = cursor.up()
                _gone(os.rmdir, name, cursor.fd)
    finally:
        cursor.close()
    os.rmdir(path)


def _unlink_files(cursor: Cursor) -> "list[str]":
    """Remove what is no directory; return the directories."""
    below = cursor.directories()
    for name in set(os.listdir(cursor.fd)).difference(below):
        _gone(os.unlink, name, cursor.fd)
    return below


def _gone(call: "Callable[..., None]", name: str, fd: int) -> None:
    try:
        call(name, dir_fd=fd)
    except FileNotFoundError:
        pass
