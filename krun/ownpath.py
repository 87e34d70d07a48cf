"""Directories whose path nobody but root and the caller can change: every directory and link on the way is looked at, by descriptors."""

import os
import stat
from errno import ELOOP

from krun.errors import KrunError

_LINKS = 40  # as the kernel (path_resolution(7))


def open_directory(path: str, sticky: bool = False) -> int:
    """Open the directory at `path`, in which nobody else may make or rename anything. Return its descriptor (O_PATH).
    Argument: sticky, whether the last one may have the sticky bit, too, where others make files but rename none of ours.

    A directory on the way to it may have the sticky bit instead (/tmp): nobody renames what another user has there. Besides root and the
    caller the owner of / is trusted: in a user namespace without the host's root it is the number of all unmapped users.

    Errors: KrunError, with the remedy, for a directory that others can change; OSError.
    """
    trusted = {0, os.geteuid(), os.stat("/").st_uid}
    todo = os.path.join(os.getcwd(), path).split("/")
    at, fd, links = "/", os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), 0
    try:
        while todo:
            name = todo.pop(0)
            if name in ("", "."):
                continue
            _judge(path, at, os.fstat(fd), trusted, stat.S_ISVTX)
            there = f"{at.rstrip('/')}/{name}"
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                links += 1
                if links > _LINKS:
                    raise OSError(ELOOP, os.strerror(ELOOP), path)
                _judge(path, there, info, trusted, 0o022)
                target = os.readlink(name, dir_fd=fd)
                todo[:0] = target.split("/")
                if not target.startswith("/"):
                    continue
                name, there = "/", "/"
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=fd)
            os.close(fd)
            at, fd = there, below
        _judge(path, at, os.fstat(fd), trusted, stat.S_ISVTX if sticky else 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _judge(path: str, at: str, info: os.stat_result, trusted: "set[int]", excuse: int) -> None:
    """Raise KrunError if others can change what is at `at`. Argument: excuse, the bit of the mode with which all may write there."""
    if info.st_uid in trusted and (not info.st_mode & 0o022 or info.st_mode & excuse):
        return
    where = "" if at == os.path.abspath(path) else f"{at} is "
    raise KrunError(
        f"use directory {path}: {where}owned by uid {info.st_uid}, mode {info.st_mode & 0o7777:04o}: others could change it; "
        "chown root:root and chmod go-w"
    )
