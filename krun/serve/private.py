"""Directories that only their owner enters, whatever the umask and whatever an earlier krun made them.

Below a data directory are the Secrets of the store, tokens, and the files of images: programs with set-user-ID bits and device
nodes that a hostile image brings would be any local user's (CVE-2021-41091).
"""

import os
import stat

from krun import ownpath
from krun.errors import KrunError, SysError


def directory(path: str) -> str:
    """Make a directory of mode 0700, or give this mode to one that is there; its parents are made with the caller's umask.

    Returns the path. Raises KrunError: the directory is another user's, who could give it back to himself, or one in which all
    users make files; or another user could put one of his own in the place of a directory on the way.
    """
    parent = os.path.dirname(os.path.abspath(path))
    try:
        there = parent
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        os.close(ownpath.open_directory(there, sticky=True))
        os.makedirs(parent, exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            mode = info.st_mode
            if not trusted(info.st_uid):
                raise KrunError(
                    f"use directory {path}: it belongs to user {info.st_uid}; give a directory of user {os.geteuid()}"
                )
            # A tmpfs of its own has the mode of /tmp, too.
            if mode & stat.S_ISVTX and not _is_own(path):
                raise KrunError(
                    f"use directory {path}: all users make files there; give a directory of its own"
                )
            if stat.S_IMODE(mode) != 0o700:
                os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)
    except OSError as error:
        raise SysError.of("make private directory", error, path) from None
    return path


def trusted(uid: int) -> bool:
    """Whether a user may have made what krun serve uses: root, and its own."""
    return uid in (0, os.geteuid())


def _is_own(path: str) -> bool:
    """Whether a directory is krun serve's, from the names in it, or an empty file system. Where all users make files, another
    user can have laid such a name.
    """
    names = set(os.listdir(path))
    laid = [os.path.join(path, name) for name in names & {"store.sqlite", "worker.lock", "worker.log"}]
    return not names - {"lost+found"} or any(trusted(os.lstat(one).st_uid) for one in laid)


def opener(path: str, flags: int) -> int:
    """The `opener` of open(): a new file is readable by its owner only. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
