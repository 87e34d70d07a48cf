"""Walks through a directory tree of any depth and width, by descriptors and without recursion.

A payload may make directories in some trees that krun reads and removes (its cgroup, the directory of the readiness socket). An image has
those that krun copies (tmpcopyup) and removes. Their paths may exceed PATH_MAX. They may be nested more deeply than Python calls,
or than the descriptors that a process may have.
"""

import os
from errno import ELOOP, ENODEV, ENOENT, ENOTDIR, EXDEV
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SHOWN = 200  # characters of a path in a message
_BATCH = 1000  # names of directories that one look takes
_PENDING = 100_000  # such names on all levels together: a tree of any shape is removed with some MB


class Cursor:
    """A position in a tree: one open directory, `fd`, and the way back. It never leaves the tree or its file system."""

    __slots__ = ("fd", "_top", "_way", "_here")

    def __init__(self, path: str, dir_fd: "int | None" = None) -> None:
        """Open the directory at `path`. Argument: dir_fd, where a relative path starts. Errors: OSError; a symbolic link is ENOTDIR."""
        self.fd = os.open(path, _FLAGS, dir_fd=dir_fd)
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


def make_directories(path: str) -> None:
    """Make a directory and those above it that are missing, with 0755. Not by os.makedirs, which makes all but the last with 0777:
    with a umask of 0 everybody could put another one in their place. Errors: OSError."""
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        pass
    except FileNotFoundError:
        make_directories(os.path.dirname(path))
        make_directories(path)


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
        pending, more = _unlink_files(cursor, _BATCH)
        # Of each level: the directories that are left of the last look, and whether the next look may find others.
        todo = [(pending, more)]
        count = len(pending)
        while todo:
            pending, more = todo[-1]
            if pending:
                name = pending.pop()
                count -= 1
                if cursor.down(name):
                    todo.append(_unlink_files(cursor, _room(count)))
                    count += len(todo[-1][0])
                else:
                    _gone(
                        os.rmdir, name, cursor.fd
                    )  # EBUSY for a mount point: no look finds it again and again
            elif more:
                todo[-1] = _unlink_files(cursor, _room(count))
                count += len(todo[-1][0])
            else:
                del todo[-1]
                if todo:
                    name = cursor.up()
                    _gone(os.rmdir, name, cursor.fd)
    finally:
        cursor.close()
    os.rmdir(path)


def _room(count: int) -> int:
    return min(_BATCH, max(1, _PENDING - count))


def _unlink_files(cursor: Cursor, most: int) -> "tuple[list[str], bool]":
    """Remove what is no directory, up to the `most`-th directory; return the directories, and whether there may be more.

    A name is removed while the directory is listed, so that a directory of any number of entries is never in memory as a whole.
    """
    below: list[str] = []
    try:
        with os.scandir(cursor.fd) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    _gone(os.unlink, entry.name, cursor.fd)
                    continue
                below.append(entry.name)
                if len(below) >= most:
                    return below, True
    except FileNotFoundError:
        pass  # the directory itself has been removed
    return below, False


def _gone(call: "Callable[..., None]", name: str, fd: int) -> None:
    try:
        call(name, dir_fd=fd)
    except FileNotFoundError:
        pass


def copy_tree(source: int, target: int) -> None:
    """Copy what is in a directory, given by descriptors of it and of the target: directories, files and symlinks with owner and
    mode. No link is followed; other kinds of file, and what is mounted below, are left out. Errors: OSError."""
    here = Cursor(".", source)
    there = None
    try:
        there = Cursor(".", target)
        todo = [_copy_files(here, there.fd)]
        while todo:
            if todo[-1]:
                name = todo[-1].pop()
                if here.down(name):
                    os.mkdir(name, 0o700, dir_fd=there.fd)
                    there.down(name)
                    todo.append(_copy_files(here, there.fd))
                continue
            del todo[-1]
            if todo:
                _own(there.fd, os.fstat(here.fd))
                here.up()
                there.up()
    finally:
        here.close()
        if there is not None:
            there.close()


def _copy_files(source: Cursor, target: int) -> "list[str]":
    """Copy the files and symlinks of one directory; return the directories."""
    below = []
    with os.scandir(source.fd) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                below.append(name)
            elif entry.is_symlink():
                info = entry.stat(follow_symlinks=False)
                os.symlink(os.readlink(name, dir_fd=source.fd), name, dir_fd=target)
                os.chown(name, info.st_uid, info.st_gid, dir_fd=target, follow_symlinks=False)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(name, source.fd, target)
    return below


def _copy_file(name: str, source: int, target: int) -> None:
    # Whoever shares the image can put another kind of file in its place. O_NONBLOCK: a FIFO would wait; a device may have no end.
    old = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
    try:
        info = os.fstat(old)
        if not S_ISREG(info.st_mode):
            return
        made = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=target
        )
        try:
            while data := os.read(old, 1 << 16):
                while data:  # a file system that is nearly full takes a part
                    data = data[os.write(made, data) :]
            _own(made, info)
        finally:
            os.close(made)
    finally:
        os.close(old)


def _own(fd: int, info: os.stat_result) -> None:
    """Give a copy the owner and the mode of its original; the owner first, because a change of it clears the set-id bits."""
    os.fchown(fd, info.st_uid, info.st_gid)
    os.fchmod(fd, info.st_mode & 0o7777)
