"""Directories that only their owner enters, whatever the umask and whatever an earlier krun made them.

Below a data directory are the Secrets of the store, tokens, and the files of images: programs with set-user-ID bits and device
nodes that a hostile image brings would be any local user's (CVE-2021-41091).
"""

import os
import stat

from krun.errors import KrunError, SysError


def directory(path: str) -> str:
    """Make a directory of mode 0700, or give this mode to one that is there; its parents are made with the caller's umask.

    Returns the path. Raises KrunError: the directory is another user's, or one in which all users make files.
    """
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            mode = os.fstat(fd).st_mode
            # A tmpfs of its own has the mode of /tmp, too.
            if mode & stat.S_ISVTX and not _is_own(set(os.listdir(path))):
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


def _is_own(names: "set[str]") -> bool:
    """Whether a directory is krun serve's, from the names in it, or an empty file system."""
    return not names - {"lost+found"} or bool(names & {"store.sqlite", "worker.lock", "worker.log"})


def opener(path: str, flags: int) -> int:
    """The `opener` of open(): a new file is readable by its owner only. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
