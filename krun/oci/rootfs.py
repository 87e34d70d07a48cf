"""The container's tree: propagation, root bind, devices, links, pivot, masked and read-only paths, sysctls, cwd."""

import os
from errno import EINVAL

from krun.errors import KrunError, SysError
from krun.mountio import (
    AT_RECURSIVE,
    MNT_DETACH,
    MOUNT_ATTR_RDONLY,
    MS_MOVE,
    MS_PRIVATE,
    MS_REC,
    MS_SHARED,
    MS_SLAVE,
    MS_UNBINDABLE,
    OPEN_TREE_CLONE,
    mount,
    mount_setattr,
    move_mount,
    open_tree,
    pivot_root,
    umount2,
)
from krun.oci.cwd import MakeCwd
from krun.oci.devices import MakeDevices
from krun.oci.masks import MaskPaths, OpenNull, ReadonlyPaths, SealBinfmt
from krun.oci.procfs import SetSysctls
from krun.oci.steps import PATH, Context, Step, clean, mounts_seen
from krun.sysio import (
    AT_FDCWD,
    CLONE_NEWNS,
    mount_id,
    setns,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from krun.oci.spec import Spec

PROPAGATION_FLAGS = {
    "shared": MS_SHARED,
    "slave": MS_SLAVE,
    "private": MS_PRIVATE,
    "unbindable": MS_UNBINDABLE,
    "rshared": MS_SHARED | MS_REC,
    "rslave": MS_SLAVE | MS_REC,
    "rprivate": MS_PRIVATE | MS_REC,
    "runbindable": MS_UNBINDABLE | MS_REC,
}


class Propagation(Step):
    """How the child's mount namespace hears from the host's: rslave unless rootfsPropagation says otherwise."""

    __slots__ = ("word", "rootfs")

    def __init__(self, word: str, rootfs: str) -> None:
        self.word = word or "rslave"
        self.rootfs = rootfs

    def describe(self) -> str:
        return f"propagation of / is {self.word}"

    def execute(self, ctx: Context) -> None:
        flags = PROPAGATION_FLAGS[self.word]
        # An unbindable tree could not be cloned below: that part comes after the pivot (RootPropagation).
        if flags & MS_UNBINDABLE:
            flags = MS_PRIVATE | MS_REC
        kept = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in ("/", ".", self.rootfs)]
        # The whole namespace, also outside of a chroot of the caller's: the pivot unmounts that part as well.
        take_namespace_root(ctx)
        mount(None, "/", None, flags)
        if flags & MS_SHARED:
            # The mount above the root must not be shared, or pivot_root(2) refuses and our mounts reach the host.
            mount(None, mount_point_of(ctx, kept[2]), None, MS_PRIVATE)
        # Paths of config.json are the caller's.
        os.fchdir(kept[0])
        os.chroot(".")
        os.fchdir(kept[1])
        for fd in kept:
            os.close(fd)


def take_namespace_root(ctx: Context) -> None:
    """Takes the root of our mount namespace as our root and working directory: the way out of a chroot that krun runs in.

    pivot_root(2) in a chroot exchanges the mount of the chroot only. The tree outside would stay in the container's mount namespace:
    setns(2), thus `exec`, takes the namespace's root, and a payload with CAP_SYS_CHROOT gets there by chroot(2) and "..".
    setns(2) into the own mount namespace does the same as into another (mntns_install() in fs/namespace.c). Raises SysError.
    """
    fd = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=ctx.proc)
    try:
        setns(fd, CLONE_NEWNS, "the root of the mount namespace, which takes CAP_SYS_CHROOT")
    finally:
        os.close(fd)


def path_of(ctx: Context, fd: int) -> str:
    """Returns the path of a descriptor as seen from our root. Raises OSError."""
    return os.readlink(f"self/fd/{fd}", dir_fd=ctx.proc)


def mount_point_of(ctx: Context, fd: int) -> str:
    """Returns the mount point that a descriptor's path lies on: the longest that is a prefix."""
    path = path_of(ctx, fd)
    best = "/"
    for row in mounts_seen(ctx):
        point = row.point
        if len(point) > len(best) and (path == point or path.startswith(point + "/")):
            best = point
    return best


class BindRoot(Step):
    """Makes root.path a mount of its own, with what is mounted below it, and keeps its descriptor."""

    __slots__ = ("path", "shared")

    def __init__(self, path: str, propagation: str) -> None:
        self.path = path
        self.shared = propagation.removeprefix("r") == "shared"

    def describe(self) -> str:
        return f"bind {self.path} on itself"

    def execute(self, ctx: Context) -> None:
        fd = ctx.sources.get(-1, -1)
        from_parent = fd >= 0
        if not from_parent:
            fd = open_tree(AT_FDCWD, self.path, OPEN_TREE_CLONE | AT_RECURSIVE)
        try:
            place = os.open(self.path, PATH | os.O_DIRECTORY)
        except OSError as e:
            raise SysError("open root", self.path, e.errno or 0) from None
        if self.shared:
            mount_setattr(fd, 0, 0, MS_PRIVATE, name=self.path)
        elif from_parent:
            mount_setattr(fd, 0, 0, MS_SLAVE, recursive=True, name=self.path)
        move_mount(fd, place, self.path)
        os.close(place)
        ctx.root = fd


class TakeRoot(Step):
    """The root of a container without a mount namespace: bound by the parent (attach_root), which must remember it."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def describe(self) -> str:
        return f"take {self.path}, bound on itself in the mount namespace that is inherited"

    def execute(self, ctx: Context) -> None:
        ctx.root = ctx.sources[-1]


def attach_root(path: str, remember: "Callable[[int], None]") -> int:
    """Binds the root on itself in our own mount namespace, for a container that inherits it.

    Arguments: path; remember, called with the number that detach_root wants: first, before anything is done, the
    negative one of the mount that is there now, then that of the new one. Returns the mount's descriptor.
    Private, so that the container's mounts are seen nowhere else. Raises SysError.
    """
    fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_RECURSIVE)
    try:
        place = os.open(path, PATH | os.O_DIRECTORY)
    except OSError as e:
        raise SysError("open root", path, e.errno or 0) from None
    remember(-mount_id(place))
    move_mount(fd, place, path)
    os.close(place)
    # After it is attached: a shared mount makes what is attached to it shared.
    mount_setattr(fd, 0, 0, MS_PRIVATE, recursive=True, name=path)
    remember(mount_id(fd))
    return fd


def detach_root(path: str, number: int) -> None:
    """Unmounts what attach_root has bound, with all that was mounted below it; nothing if it is not there (any more), or
    not in our mount namespace.

    Arguments: path; number, of the mount, negative: of the mount that it covered (create was killed between the two);
    0: the container has a mount namespace. Raises SysError.
    """
    if number == 0:
        return
    try:
        fd = os.open(path, PATH | os.O_DIRECTORY)
    except OSError:
        return
    try:
        there = mount_id(fd)
        if there == number or (number < 0 and there != -number):
            # By its descriptor: whatever the path leads to by now, only the mount that was looked at goes.
            umount2(f"/proc/self/fd/{fd}", MNT_DETACH)
    finally:
        os.close(fd)


def enter_root(path: str, number: int) -> None:
    """Makes the root of a container without a mount namespace ours, for exec. Raises SysError, KrunError."""
    try:
        fd = os.open(path, PATH | os.O_DIRECTORY)
    except OSError as e:
        raise SysError("open root", path, e.errno or 0) from None
    if mount_id(fd) != number:
        raise KrunError(f"the container's root is no longer mounted at {path}")
    os.fchdir(fd)
    os.chroot(".")
    os.close(fd)


class Pivot(Step):
    """Makes the bound tree the root and lets go of the host's (pivot_root(2), "pivot_root(".", ".")")."""

    __slots__ = ("no_pivot",)

    def __init__(self, no_pivot: bool) -> None:
        self.no_pivot = no_pivot

    def describe(self) -> str:
        return "move the root to / and chroot" if self.no_pivot else "pivot_root, detach the old root"

    def execute(self, ctx: Context) -> None:
        take_namespace_root(ctx)
        os.fchdir(ctx.root)
        if self.no_pivot:
            move_root(ctx)
            return
        old = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        pivot_root(".", ".")
        # The old root is stacked upon the new one now, and only its descriptor is sure to mean it. Slave first: with
        # rootfsPropagation shared the unmount would travel to the host.
        os.fchdir(old)
        os.close(old)
        mount(None, ".", None, MS_SLAVE | MS_REC)
        umount2(".", MNT_DETACH)
        os.chdir("/")


def move_root(ctx: Context) -> None:
    """The pivot of --no-pivot, for a root on ramfs, which cannot be pivoted: the tree at ctx.root, our working directory, moves
    onto / of the namespace. Raises SysError.

    Without the unmounts, a chroot is all that hides the host's /proc and /sys (runc CVE-2019-... class), so they go first.
    """
    root = path_of(ctx, ctx.root).rstrip("/") + "/"
    for row in mounts_seen(ctx):
        point = row.point
        if row.kind in ("proc", "sysfs") and not point.startswith(root) and point != "/":
            mount(None, point, None, MS_SLAVE | MS_REC)
            try:
                umount2(point, MNT_DETACH)
            except SysError as e:
                if e.errno != EINVAL:
                    raise
    mount(".", "/", None, MS_MOVE)
    os.chroot(".")
    os.chdir("/")


class Chroot(Step):
    """Replaces the pivot in a container without a mount namespace. A payload with CAP_SYS_CHROOT can reach the host's tree by
    chroot(2), as with runc."""

    __slots__ = ()

    def describe(self) -> str:
        return "chroot"

    def execute(self, ctx: Context) -> None:
        os.fchdir(ctx.root)
        os.chroot(".")
        os.chdir("/")


class RootPropagation(Step):
    """rootfsPropagation as the container sees it on its own /."""

    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        self.word = word

    def describe(self) -> str:
        return f"propagation of the container's / is {self.word}"

    def execute(self, ctx: Context) -> None:
        flags = PROPAGATION_FLAGS[self.word]
        mount_setattr(ctx.root, 0, 0, flags & ~MS_REC, recursive=bool(flags & MS_REC), name="/")


class ReadonlyRoot(Step):
    """root.readonly."""

    __slots__ = ()

    def describe(self) -> str:
        return "root is read-only"

    def execute(self, ctx: Context) -> None:
        mount_setattr(ctx.root, MOUNT_ATTR_RDONLY, name="/")


class ReadonlyMounts(Step):
    """File systems that are read-only for the payload, and into which krun has put files until now (mounts.FsMount)."""

    __slots__ = ()

    def describe(self) -> str:
        return "file systems with option ro are read-only"

    def execute(self, ctx: Context) -> None:
        for name, fd in ctx.read_only:
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=name)
            os.close(fd)
        ctx.read_only = []


def make_before_pivot(spec: "Spec") -> "list[Step]":
    """Steps for the tree between mounts and pivot. Pure."""
    steps: list[Step] = []
    host_dev = any(
        clean(m.destination) == "/dev" and ("bind" in m.options or "rbind" in m.options) for m in spec.mounts
    )
    if not host_dev:
        # A /dev that is bound from the host is the host's: nothing is made in it (runc's rule).
        steps.append(MakeDevices(spec.devices, "user" in spec.namespaces))
    if spec.masked:
        steps.append(OpenNull())
    steps.append(MakeCwd(spec.process.cwd if spec.process else "/"))
    return steps


def make_after_pivot(spec: "Spec") -> "list[Step]":
    """Steps for the tree once it is /. Pure."""
    steps: list[Step] = []
    if spec.propagation:
        steps.append(RootPropagation(spec.propagation))
    if spec.sysctl:
        steps.append(SetSysctls(spec.sysctl))
    if any("ro" in m.options for m in spec.mounts):
        steps.append(ReadonlyMounts())
    if spec.root_readonly:
        steps.append(ReadonlyRoot())
    if "mount" in spec.namespaces:
        # Before masks of ours may cover one.
        steps.append(SealBinfmt())
    if spec.readonly:
        steps.append(ReadonlyPaths(spec.readonly))
    if spec.masked:
        steps.append(MaskPaths(spec.masked))
    return steps
