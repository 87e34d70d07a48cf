"""Terminals: opens a pty of the container's own devpts, sends the master to the caller, makes the slave stdio and /dev/console."""

import os
from errno import EEXIST
from stat import S_ISFIFO

from krun.errors import KrunError, SysError
from krun.mountio import (
    OPEN_TREE_CLONE,
    move_mount,
    open_tree,
)
from krun.oci.devices import open_dev
from krun.oci.steps import PATH, Context, Step, label_file, open_in_root
from krun.sysio import (
    AT_EMPTY_PATH,
    DEVPTS_SUPER_MAGIC,
    check,
    fs_magic,
    lib,
    send_fd,
)


def open_pty(
    root: int, uid: int, gid: "int | None", size: "tuple[int, int] | None"
) -> "tuple[int, int, str]":
    """Makes a pty on the devpts below `root`.

    Returns (master, slave, name of the slave inside). The slave is opened by TIOCGPTPEER, not by its path
    (CVE-2025-52565). Raises SysError; KrunError if /dev/pts is not a devpts.
    """
    ptmx = open_in_root(root, "/dev/pts/ptmx", PATH | os.O_NOFOLLOW)
    if fs_magic(ptmx, "/dev/pts") != DEVPTS_SUPER_MAGIC:
        raise KrunError("open terminal: the container's /dev/pts is not a devpts file system")
    try:
        # The descriptor is verified; reopening it by its number follows no name of the image where /proc is a procfs. It is
        # the container's here, so what was opened is compared with what was verified.
        master = os.open(f"/proc/self/fd/{ptmx}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        if not os.path.samestat(os.fstat(master), os.fstat(ptmx)):
            os.close(master)
            raise KrunError(
                "open terminal: the container's /proc leads to another file than its /dev/pts/ptmx"
            )
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
        master, slave, name = open_pty(ctx.root, self.uid, None, self.size)
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
            try:
                os.close(
                    os.open(
                        "console", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600, dir_fd=dev
                    )
                )
            except OSError as e:
                if e.errno != EEXIST:
                    raise SysError("make", "/dev/console", e.errno or 0) from None
            # Never through a link that the image may have put there (CVE-2026-88264).
            place = os.open("console", PATH | os.O_NOFOLLOW, dir_fd=dev)
            label_file(slave, ctx.mount_label, "/dev/console")
            fd = open_tree(slave, "", OPEN_TREE_CLONE | AT_EMPTY_PATH, "pty")
            move_mount(fd, place, "/dev/console")
            os.close(fd)
            os.close(place)
        finally:
            os.close(dev)


class OwnStdio(Step):
    """Gives stdio to the payload's user where that is a pipe, so that /dev/stdout can be opened again by it.

    Nothing else is ever chowned: /dev/null and regular files belong to the caller. crun 1.8 changes the owner of both
    (docs/security.md, "The classes of the past").
    """

    __slots__ = ("uid",)

    def __init__(self, uid: int) -> None:
        self.uid = uid

    def describe(self) -> str:
        return f"stdio that is a pipe belongs to uid {self.uid}"

    def execute(self, ctx: Context) -> None:
        for number in (0, 1, 2):
            try:
                info = os.fstat(number)
                if S_ISFIFO(info.st_mode) and info.st_uid != self.uid:
                    os.fchown(number, self.uid, -1)
            except OSError:
                pass  # closed, or not ours to give (user namespaces): as runc, no error
