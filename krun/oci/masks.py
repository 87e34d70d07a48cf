"""Paths of the final tree: linux.maskedPaths and linux.readonlyPaths (config-linux.md), mounts of binfmt_misc."""

import os
from errno import ENOENT, ENOTDIR
from stat import S_ISCHR

from krun.errors import KrunError, SysError
from krun.mountio import (
    AT_RECURSIVE,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    OPEN_TREE_CLONE,
    mount_setattr,
    move_mount,
    new_mount,
    open_tree,
)
from krun.oci.steps import PATH, Context, Step, find_in_root, is_dir, labelled, mounts_seen
from krun.sysio import (
    AT_EMPTY_PATH,
    BINFMTFS_MAGIC,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_SYMLINKS,
    fs_magic,
    try_openat2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def places(root: int, paths: "list[str]") -> "Iterator[tuple[str, int]]":
    """Yields each of the paths that exists below `root`, with an O_PATH descriptor that is closed after its turn.

    Raises SysError for a path that cannot be opened.
    """
    for path in paths:
        place = find_in_root(root, path)
        if place in (-ENOENT, -ENOTDIR):
            continue
        if place < 0:
            raise SysError("open", path, -place)
        yield path, place
        os.close(place)


class OpenNull(Step):
    """Opens the host's /dev/null for masks: it must be the null device itself (CVE-2025-31133)."""

    __slots__ = ()

    def describe(self) -> str:
        return "verify /dev/null for masked paths"

    def execute(self, ctx: Context) -> None:
        fd = os.open("/dev/null", PATH | os.O_NOFOLLOW)
        info = os.fstat(fd)
        if not S_ISCHR(info.st_mode) or info.st_rdev != os.makedev(1, 3):
            raise KrunError("mask paths: the host's /dev/null is not the null device")
        ctx.null = open_tree(fd, "", OPEN_TREE_CLONE | AT_EMPTY_PATH, "/dev/null")
        os.close(fd)
        mount_setattr(ctx.null, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, name="/dev/null")


class ReadonlyPaths(Step):
    """linux.readonlyPaths: each is bound on itself, read-only; what is mounted below it stays as it is, as with runc."""

    __slots__ = ("paths",)

    def __init__(self, paths: "list[str]") -> None:
        self.paths = paths

    def describe(self) -> str:
        return f"read-only paths {' '.join(self.paths)}"

    def execute(self, ctx: Context) -> None:
        for path, place in places(ctx.root, self.paths):
            fd = open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE, path)
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=path)
            move_mount(fd, place, path)
            os.close(fd)


class MaskPaths(Step):
    """linux.maskedPaths: the null device over a file, an empty read-only tmpfs over a directory."""

    __slots__ = ("paths",)

    def __init__(self, paths: "list[str]") -> None:
        self.paths = paths

    def describe(self) -> str:
        return f"mask paths {' '.join(self.paths)}"

    def execute(self, ctx: Context) -> None:
        empty = -1
        attached: list[int] = []
        for path, place in places(ctx.root, self.paths):
            if is_dir(place):
                # One empty file system serves all directories: a clone of its mount for each.
                if empty < 0:
                    attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
                    options: list[tuple[str, str | None]] = [
                        ("mode", "755"),
                        ("size", "4k"),
                        ("nr_inodes", "2"),
                    ]
                    empty = new_mount("tmpfs", labelled(options, ctx.mount_label), attrs, path)
                source = empty
            else:
                source = ctx.null
            if source in attached:
                fd = open_tree(source, "", OPEN_TREE_CLONE | AT_EMPTY_PATH, path)
                move_mount(fd, place, path)
                os.close(fd)
            else:
                # Before Linux 6.15 only an attached mount can be cloned: the first place gets the mount itself.
                move_mount(source, place, path)
                attached.append(source)
        if empty >= 0:
            os.close(empty)


class SealBinfmt(Step):
    """Makes each binfmt_misc of the tree read-only: those of the host that came with a recursive bind (/proc, /) or with the root.

    An entry of it names the program that starts in place of a file, also in place of the monitor's: the image's would run natively.
    krun makes no such mount itself (mounts.make). One that another mount covers stays as it is: only CAP_SYS_ADMIN uncovers it.
    """

    __slots__ = ()

    def describe(self) -> str:
        return "binfmt_misc is read-only"

    def execute(self, ctx: Context) -> None:
        for point, kind in mounts_seen(ctx):
            if kind != "binfmt_misc":
                continue
            fd = try_openat2(ctx.root, point, PATH, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS)
            if fd < 0:
                continue
            if fs_magic(fd, point) == BINFMTFS_MAGIC:
                mount_setattr(fd, MOUNT_ATTR_RDONLY, name=point)
            os.close(fd)
