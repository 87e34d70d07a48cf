"""Mounts: Python wrappers of mount(2) and of the calls on detached mounts, as those of krun/sysio.py."""

import os

from krun.errors import SysError
from krun.sysio import AT_EMPTY_PATH, check, enc, ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# mount(2)
MS_MOVE = 8192
MS_REC = 16384
MS_UNBINDABLE = 1 << 17
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MNT_DETACH = 2

# open_tree(2), move_mount(2), mount_setattr(2), fsopen(2)
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x04
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MOUNT_ATTR_RDONLY = 0x01
MOUNT_ATTR_NOSUID = 0x02
MOUNT_ATTR_NODEV = 0x04
MOUNT_ATTR_NOEXEC = 0x08
MOUNT_ATTR_ATIME = 0x70
MOUNT_ATTR_NOATIME = 0x10
MOUNT_ATTR_STRICTATIME = 0x20
MOUNT_ATTR_NODIRATIME = 0x80
MOUNT_ATTR_IDMAP = 0x00100000
MOUNT_ATTR_NOSYMFOLLOW = 0x00200000
FSOPEN_CLOEXEC = 1
FSMOUNT_CLOEXEC = 1
FSCONFIG_SET_FLAG = 0
FSCONFIG_SET_STRING = 1
FSCONFIG_CMD_CREATE = 6
AT_RECURSIVE = 0x8000
AT_SYMLINK_NOFOLLOW = 0x100


def mount(
    source: "str | None", target: str, fstype: "str | None", flags: int, data: "str | None" = None
) -> None:
    """mount(2)."""
    null = ffi.NULL
    check(
        lib.kr_mount(
            null if source is None else enc(source),
            enc(target),
            null if fstype is None else enc(fstype),
            flags,
            null if data is None else enc(data),
        ),
        "mount",
        target,
    )


def umount2(target: str, flags: int) -> None:
    """umount2(2)."""
    check(lib.kr_umount2(enc(target), flags), "unmount", target)


def pivot_root(new_root: str, put_old: str) -> None:
    """pivot_root(2)."""
    check(lib.kr_pivot_root(enc(new_root), enc(put_old)), "pivot_root", new_root)


def open_tree(dirfd: int, path: str, flags: int, name: str = "") -> int:
    """open_tree(2) with OPEN_TREE_CLOEXEC. Returns a descriptor; `name` is what errors call the object."""
    return check(lib.kr_open_tree(dirfd, enc(path), flags | OPEN_TREE_CLOEXEC), "open_tree", name or path)


def move_mount(from_fd: int, to_fd: int, name: str) -> None:
    """Attaches the mount `from_fd` at the place `to_fd`, neither of them named by a path (move_mount(2))."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    check(lib.kr_move_mount(from_fd, b"", to_fd, b"", flags), "mount onto", name)


def mount_setattr(
    fd: int,
    set_: int,
    clear: int = 0,
    propagation: int = 0,
    userns_fd: int = -1,
    recursive: bool = False,
    name: str = "",
) -> None:
    """mount_setattr(2) on the mount that `fd` is the root of."""
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    check(lib.kr_mount_setattr(fd, b"", flags, set_, clear, propagation, userns_fd), "mount_setattr", name)


def new_mount(fstype: str, options: "Iterable[tuple[str, str | None]]", attrs: int, name: str) -> int:
    """A new, detached mount (fsopen(2), fsconfig(2), fsmount(2)).

    Arguments: options, pairs (key, value; None for a flag); attrs, MOUNT_ATTR_*; name, the destination, for
    errors.
    Returns the mount's descriptor. Raises SysError with the file system's own message where it leaves one.
    """
    fs = check(lib.kr_fsopen(enc(fstype), FSOPEN_CLOEXEC), f"mount {fstype} on", name)
    try:
        for key, value in options:
            if value is None:
                result = lib.kr_fsconfig(fs, FSCONFIG_SET_FLAG, enc(key), ffi.NULL, 0)
            else:
                result = lib.kr_fsconfig(fs, FSCONFIG_SET_STRING, enc(key), enc(value), 0)
            if result < 0:
                option = key if value is None else f"{key}={value}"
                raise SysError(f"mount {fstype} on", name, -result, _fs_message(fs) or f"option {option}")
        result = lib.kr_fsconfig(fs, FSCONFIG_CMD_CREATE, ffi.NULL, ffi.NULL, 0)
        if result < 0:
            raise SysError(f"mount {fstype} on", name, -result, _fs_message(fs))
        result = lib.kr_fsmount(fs, FSMOUNT_CLOEXEC, attrs)
        if result < 0:
            raise SysError(f"mount {fstype} on", name, -result, _fs_message(fs))
        return int(result)
    finally:
        os.close(fs)


def _fs_message(fs: int) -> str:
    """The last message in a file system context's log ("e tmpfs: Bad value for 'size'"), or ""."""
    text = ""
    try:
        while True:
            text = os.read(fs, 1024).decode("utf-8", "replace").strip()
    except OSError:
        pass
    return text[2:] if text[1:2] == " " else text
