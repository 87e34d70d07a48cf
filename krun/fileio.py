"""Whole files by name: read, written, replaced. No state.

This file imports next to nothing, because it is on every hot path.
"""

import os

from krun.errors import KrunError, SysError


def write_file(path: str, text: str, dirfd: "int | None" = None) -> None:
    """Writes `text` with one write(2) into an existing file, as /proc and /sys want it. Raises SysError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dirfd)
    except OSError as e:
        raise SysError("open", path, e.errno or 0) from None
    try:
        os.write(fd, os.fsencode(text))
    except OSError as e:
        raise SysError("write", path, e.errno or 0) from None
    finally:
        os.close(fd)


def split_lines(text: str) -> "list[str]":
    """Returns the lines of a file of the kernel's. Not str.splitlines(): others choose names in it (of mount points, threads, files),
    and of what ends a line for Python (\\r, \\v, U+2028, ...) the kernel escapes the line feed only (mangle_path())."""
    return text.removesuffix("\n").split("\n") if text else []


def read_file(path: str, limit: int = 1 << 26, dirfd: "int | None" = None) -> bytes:
    """Returns the content of a file, at most `limit` bytes. Raises SysError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dirfd)
    except OSError as e:
        raise SysError("open", path, e.errno or 0) from None
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 1 << 20))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    except OSError as e:
        raise SysError("read", path, e.errno or 0) from None
    finally:
        os.close(fd)


def read_start(path: str) -> str:
    """Returns up to 4 KiB of a file, "" if it cannot be read. Another user may have chosen the path: a FIFO is not waited for, and a link,
    which may lead to a device, not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(fd, 4096).decode(errors="replace")
        finally:
            os.close(fd)
    except (OSError, ValueError):  # ValueError: the path has a NUL
        return ""


def check_owner(info: os.stat_result, path: str) -> None:
    """Refuses a container's state that is neither ours nor root's: it names processes to kill, groups and mounts to remove, hooks to run.

    Arguments: info, of the open file or directory; path. Raises KrunError.
    """
    if info.st_uid not in (0, os.geteuid()):
        raise KrunError(f"use {path}: it belongs to uid {info.st_uid}; run krun as this user")


def replace_file(path: str, data: bytes, dir_fd: "int | None" = None) -> None:
    """Puts a private file (0600) in place of `path`: a reader sees the old one or the new one, never half.

    The name of the new file until then is `path` with our pid. Raises OSError; the old file is then as it was.
    """
    fresh = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(fresh, flags, 0o600, dir_fd=dir_fd)
    except FileExistsError:  # of a process that was killed and had our pid
        os.unlink(fresh, dir_fd=dir_fd)
        fd = os.open(fresh, flags, 0o600, dir_fd=dir_fd)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.rename(fresh, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        try:
            os.unlink(fresh, dir_fd=dir_fd)
        except OSError:
            pass
        raise
