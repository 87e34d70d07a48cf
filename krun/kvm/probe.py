"""Finds the payload's program before `create` returns, as runc does: in the child after pivot_root(2), with the payload's credentials.

Errors have runc's words, because engines look for these words to choose the exit code 126 or 127. What is wrong inside the file
(its format, its interpreter) is found when the program starts (native/process/find.c), as execve(2) finds it.
"""

import os
from errno import EACCES, EISDIR
from stat import S_ISDIR, S_ISREG

from krun.errors import KrunError, strerror
from krun.sysio import AT_FDCWD, RESOLVE_NO_MAGICLINKS, lib, try_openat2


def _quote(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def open_image_file(path: str, flags: int = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) -> int:
    """Opens a file of the image by the image's own path, from inside: no magic link, no blocking, no terminal.

    Returns the descriptor or -errno. THE one way in which krun opens a path that the image or its processes choose:
    a magic link of /proc leads past the container's root (CVE-2024-21626), a FIFO waits for ever.
    """
    return try_openat2(AT_FDCWD, path, flags, RESOLVE_NO_MAGICLINKS)


def _executable(path: str) -> int:
    """0 if `path` is a regular file we may execute, else the errno that execve(2) would give."""
    fd = open_image_file(path, os.O_PATH)
    if fd < 0:
        return -fd
    try:
        mode = os.fstat(fd).st_mode
        if S_ISDIR(mode):
            return EISDIR
        if not S_ISREG(mode):
            return EACCES
        # For root, access(2) asks for any x bit, as execve(2) does; a noexec mount answers EACCES too.
        return 0 if lib.kr_faccess(fd, os.X_OK) == 0 else EACCES
    finally:
        os.close(fd)


def find_program(word: str, path_variable: "str | None") -> str:
    """Finds the program for args[0] as runc does.

    Arguments: word, args[0]; path_variable, PATH of the payload's environment, None if it has none.
    Returns its path. Raises KrunError in runc's words: not found, no such file, permission denied, is a directory.
    """
    if "/" in word:
        number = _executable(word)
        if number == 0:
            return word
        if number == EISDIR:
            # Podman looks for "permission denied" (126), dockerd for "is a directory" (126).
            raise KrunError(f"exec: {_quote(word)}: is a directory: permission denied")
        if number == EACCES:
            raise KrunError(f"exec: {_quote(word)}: permission denied")
        raise KrunError(f"exec: {_quote(word)}: stat {word}: {strerror(number)}")
    for folder in (path_variable or "").split(":") if path_variable is not None else ():
        path = f"{folder or '.'}/{word}"
        if _executable(path) == 0:
            return path
    # One that may not be executed counts as none, unlike in execvp(3): engines exit with 127, not 126.
    raise KrunError(f"exec: {_quote(word)}: executable file not found in $PATH")
