"""Stdio: a pty of the container's own devpts, its master for the caller, its slave as stdio and /dev/console; pipes; the null device."""

import os
from fcntl import F_GETFL, fcntl
from stat import S_IFCHR, S_ISCHR, S_ISFIFO

from krun.errors import KrunError, SysError
from krun.mountio import OPEN_TREE_CLONE, move_mount, new_mount, open_tree
from krun.oci import places
from krun.oci.devices import node_place, open_dev
from krun.oci.steps import PATH, Context, Step, find_in_root, label_file
from krun.sysio import (
    AT_EMPTY_PATH,
    DEVPTS_SUPER_MAGIC,
    check,
    fs_magic,
    lib,
    mknodat,
    send_fd,
)


def open_pty(
    ctx: Context, uid: int, gid: "int | None", size: "tuple[int, int] | None"
) -> "tuple[int, int, str]":
    """Makes a pty on the container's devpts.

    Returns (master, slave, name of the slave inside). The slave is opened by TIOCGPTPEER, not by its path
    (CVE-2025-52565). Raises SysError; KrunError if /dev/pts is not a devpts.
    """
    ptmx = check(places.find(ctx, "/dev/pts/ptmx", PATH | os.O_NOFOLLOW), "open", "/dev/pts/ptmx")
    if fs_magic(ptmx, "/dev/pts") != DEVPTS_SUPER_MAGIC:
        raise KrunError("open terminal: the container's /dev/pts is not a devpts file system")
    try:
        # The descriptor is verified, and reopening it by its number follows no name of the image: with exec, /proc is the
        # container's, where the opening alone may have an effect (a FIFO, a device).
        master = os.open(f"self/fd/{ptmx}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=ctx.proc)
    except OSError as e:
        raise SysError("open", "/dev/pts/ptmx", e.errno or 0) from None
    finally:
        os.close(ptmx)
    check(lib.kr_pty_unlock(master), "unlock", "pty")
    number = check(lib.kr_pty_number(master), "number of", "pty")
    slave = check(lib.kr_pty_peer(master, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC), "open slave of", "pty")
    if size is not None:
        check(lib.kr_tty_set_size(master, size[0], size[1]), "resize", "pty")
    os.fchown(slave, uid, -1 if gid is None else gid)
    os.fchmod(slave, 0o620)
    return master, slave, f"/dev/pts/{number}"


class OpenConsole(Step):
    """process.terminal: pty, /dev/console, the master to the console socket, the slave to stdio (runc, terminals.md)."""

    __slots__ = ("uid", "size", "dev_console")

    def __init__(self, uid: int, size: "tuple[int, int] | None", dev_console: bool) -> None:
        self.uid = uid
        self.size = size
        self.dev_console = dev_console

    def describe(self) -> str:
        return "open a terminal" + (" as /dev/console and stdio" if self.dev_console else " as stdio")

    def execute(self, ctx: Context) -> None:
        master, slave, name = open_pty(ctx, self.uid, None, self.size)
        if ctx.foreground:
            # krun's own output is what the program writes, and may be a file (runc, ClearONLCR). The program may set it again.
            check(lib.kr_tty_lf(slave), "set mode of", "pty")
        if self.dev_console:
            self._bind_console(ctx, slave)
        send_fd(ctx.console, name.encode(), master)
        os.close(master)
        for number in (0, 1, 2):
            os.dup2(slave, number)
        os.close(slave)
        check(lib.kr_tty_set_controlling(0), "set controlling terminal", name)

    @staticmethod
    def _bind_console(ctx: Context, slave: int) -> None:
        dev = open_dev(ctx)
        try:
            place = node_place(dev, "console", "/dev/console")
            label_file(slave, ctx.mount_label, "/dev/console")
            fd = open_tree(slave, "", OPEN_TREE_CLONE | AT_EMPTY_PATH, "pty")
            move_mount(fd, place, "/dev/console")
            os.close(fd)
            os.close(place)
        finally:
            os.close(dev)


class OwnNull(Step):
    """Replaces stdio that is the caller's null device by one of the container's.

    A descriptor gives its holder the inode: the owner (uid 0 without a user namespace) may change mode and owner of
    the host's /dev/null by it. runc replaces it at `create` only (reOpenDevNull()); krun replaces it at `exec`, too.
    """

    __slots__ = ()

    def describe(self) -> str:
        return "stdio that is the null device is the container's own"

    def execute(self, ctx: Context) -> None:
        numbers = [number for number in (0, 1, 2) if is_null(number)]
        if not numbers:
            return
        for find in (find_null, make_null):
            place = find(ctx)
            try:
                if (
                    place >= 0
                    and is_null(place)
                    and not os.path.samestat(os.fstat(place), os.fstat(numbers[0]))
                ):
                    for number in numbers:
                        reopen(ctx, place, number)
                    return
            except OSError:
                pass  # the container's device rules forbid it
            finally:
                if place >= 0:
                    os.close(place)


def is_null(fd: int) -> bool:
    """Whether the descriptor is open and is the null device, character device 1:3."""
    try:
        info = os.fstat(fd)
    except OSError:
        return False
    return S_ISCHR(info.st_mode) and info.st_rdev == os.makedev(1, 3)


def find_null(ctx: Context) -> int:
    """Opens whatever is the container's /dev/null, as a path only; a negative number if nothing is."""
    return find_in_root(ctx.root, "/dev/null", PATH | os.O_NOFOLLOW)


def make_null(ctx: Context) -> int:
    """Makes a null device in a file system that has no other file; -1 without the right to (user namespaces).

    The container's processes may have put another file in place of their /dev/null, or removed it.
    """
    try:
        mount = new_mount("tmpfs", [("size", "4k"), ("nr_inodes", "2")], 0, "null device")
    except SysError:
        return -1
    try:
        mknodat(mount, "null", S_IFCHR | 0o666, 1, 3)
        os.chmod("null", 0o666, dir_fd=mount)
        return os.open("null", PATH | os.O_NOFOLLOW, dir_fd=mount)
    except (SysError, OSError):
        return -1
    finally:
        os.close(mount)


def reopen(ctx: Context, place: int, number: int) -> None:
    """Replaces descriptor `number` by the file of the O_PATH descriptor `place`, with the same flags. Raises OSError."""
    flags = fcntl(number, F_GETFL) & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK)
    # No name of the image: the procfs is krun's, and the descriptor is verified.
    fd = os.open(f"self/fd/{place}", flags | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=ctx.proc)
    os.dup2(fd, number)
    os.close(fd)


class OwnStdio(Step):
    """Gives stdio to the payload's user and group where that is a pipe, so that /dev/stdout can be opened again by it.

    The group is crun's rule: a pipe whose mode names the group is the container's, not that of the caller's group. Nothing else
    is ever chowned: /dev/null and regular files belong to the caller. crun 1.8 changes the owner of both
    (docs/security.md, "The classes of the past").
    """

    __slots__ = ("uid", "gid")

    def __init__(self, uid: int, gid: int) -> None:
        self.uid = uid
        self.gid = gid

    def describe(self) -> str:
        return f"stdio that is a pipe belongs to {self.uid}:{self.gid}"

    def execute(self, ctx: Context) -> None:
        for number in (0, 1, 2):
            try:
                info = os.fstat(number)
                if S_ISFIFO(info.st_mode) and (info.st_uid, info.st_gid) != (self.uid, self.gid):
                    os.fchown(number, self.uid, self.gid)
            except OSError:
                pass  # closed, or not ours to give (user namespaces): as runc, no error
