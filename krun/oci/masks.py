"""Paths of the final tree: linux.maskedPaths and linux.readonlyPaths (config-linux.md), mounts of binfmt_misc."""

import os
from stat import S_ISCHR

from krun.errors import KrunError
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
from krun.oci import places
from krun.oci.steps import PATH, Context, MountRow, Step, is_dir, labelled, mounts_seen
from krun.sysio import (
    AT_EMPTY_PATH,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_SYMLINKS,
    mount_id,
    try_openat2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator


_LOOKS = 8  # how often SealBinfmt looks for mounts that somebody moves


def found(ctx: Context, paths: "list[str]") -> "Iterator[tuple[str, int]]":
    """Yields each of the paths that exists, with an O_PATH descriptor of the place, which is closed after its turn.

    Raises SysError for a path that cannot be opened.
    """
    for path in paths:
        there = places.find_all(ctx, path)
        for place in there:
            yield path, place
        places.close_all(there)


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
        for path, place in found(ctx, self.paths):
            fd = open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE, path)
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=path)
            places.attach(ctx, fd, place, path)
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
        for path, place in found(ctx, self.paths):
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
    krun makes no such mount itself (mounts.make). One that a mount of config.json covers stays as it is: only CAP_SYS_ADMIN uncovers it.
    """

    __slots__ = ()

    def describe(self) -> str:
        return "binfmt_misc is read-only"

    def execute(self, ctx: Context) -> None:
        # The path in mountinfo only leads to the mount, whose number decides: who renames directories meanwhile lets us
        # look again, and at last fail. Names begin at the nearest mount that krun has attached and keeps (oci/places.py): above it
        # another process may put the mount below a covered directory for the moment of our look.
        kept = {mount_id(fd): fd for _, fd in ctx.attached}
        for _ in range(_LOOKS):
            rows = mounts_seen(ctx)
            left = []
            for row in rows:
                if row.kind == "binfmt_misc" and row.writable:
                    way = way_up(row, rows, kept)
                    if not covered(way, rows):
                        left.append(row)
                        base = kept.get(way[-1].id, -1)
                        self._seal(row, ctx.root if base < 0 else base, "/" if base < 0 else way[-1].point)
            if not left:
                return
        raise KrunError(
            f"make binfmt_misc on {left[0].point} read-only: directories above it are renamed meanwhile; stop what does it"
        )

    @staticmethod
    def _seal(row: MountRow, base: int, above: str) -> None:
        """Closes one mount to writing, if its path leads to it. Arguments: base, a descriptor to begin at; above, the path of that."""
        rest = "/" + row.point[len(above) :].lstrip("/")
        fd = try_openat2(base, rest, PATH, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS)
        if fd < 0:
            return
        if mount_id(fd) == row.id:
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=row.point)
        os.close(fd)


def way_up(row: "MountRow", rows: "list[MountRow]", kept: "Container[int]" = ()) -> "list[MountRow]":
    """Returns the row of a mount and those of the mounts that it lies on, up to the first whose number is among `kept`, or to the
    root. Pure."""
    by_id = {other.id: other for other in rows}
    way = [row]
    while way[-1].id not in kept and way[-1].parent in by_id and by_id[way[-1].parent] not in way:
        way.append(by_id[way[-1].parent])
    return way


def covered(way: "list[MountRow]", rows: "list[MountRow]") -> bool:
    """Tells whether a mount cannot be reached by its path, because another mount lies on it or on a directory above it.

    Arguments: way, from way_up(): above its last mount nothing counts; rows, of all mounts, from the same look. Pure.
    """
    beside = [other for other in rows if other not in way]
    return any(
        # On the root of a mount of the way, or on a directory above the next mount of the way.
        (other.parent == part.id and other.point == part.point)
        or (
            part is not way[-1]
            and other.parent == part.parent
            and part.point.startswith(other.point.rstrip("/") + "/")
        )
        for part in way
        for other in beside
    )
