"""The container's tree: propagation, root bind, devices, links, pivot, masked and read-only paths, sysctls, cwd."""

import os
from errno import EEXIST, EINVAL, ENOENT, ENOTDIR, EPERM
from stat import S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT, S_ISCHR, S_ISLNK

from krun.errors import KrunError, SysError
from krun.oci.spec import normal_sysctl
from krun.oci.steps import PATH, Context, Step, clean, find_in_root, is_dir, labelled, make_dir, make_file
from krun.sysio import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_RECURSIVE,
    MNT_DETACH,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    MS_MOVE,
    MS_PRIVATE,
    MS_REC,
    MS_SHARED,
    MS_SLAVE,
    MS_UNBINDABLE,
    OPEN_TREE_CLONE,
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
    mknodat,
    mount,
    mount_setattr,
    move_mount,
    new_mount,
    open_tree,
    openat2,
    pivot_root,
    read_file,
    try_openat2,
    umount2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from krun.oci.spec import Device, Spec

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

# config-linux.md, "Default Devices": name: (major, minor), all character devices with mode 0666.
DEFAULT_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
# runtime-linux.md, "Dev symbolic links".
DEV_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
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
        mount(None, "/", None, flags)
        if flags & MS_SHARED:
            # The mount above the root must not be shared, or pivot_root(2) refuses and our mounts reach the host.
            mount(None, mount_point_of(os.path.realpath(self.rootfs)), None, MS_PRIVATE)


def mount_point_of(path: str) -> str:
    """Returns the mount point that `path` lies on: the longest that is a prefix (proc(5), mountinfo)."""
    best = "/"
    for line in read_file("/proc/self/mountinfo").decode("utf-8", "surrogateescape").splitlines():
        point = line.split(" ", 5)[4]
        if "\\" in point:
            point = (
                point.replace("\\040", " ")
                .replace("\\011", "\t")
                .replace("\\012", "\n")
                .replace("\\134", "\\")
            )
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


def mount_id(fd: int) -> int:
    """Returns the number of the mount that a descriptor lies on, as mountinfo has it (proc(5), fdinfo). Raises SysError."""
    for line in read_file(f"/proc/self/fdinfo/{fd}").split(b"\n"):
        if line.startswith(b"mnt_id:"):
            return int(line[7:])
    return 0


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


def open_dev(ctx: Context) -> int:
    """Opens the container's /dev. It must be a directory, not a link of the image's (CVE-2026-41579)."""
    fd = find_in_root(ctx.root, "/dev", PATH | os.O_NOFOLLOW)
    if fd == -ENOENT:
        return make_dir(ctx.root, "/dev")
    if fd < 0:
        raise SysError("open", "/dev", -fd)
    if S_ISLNK(os.fstat(fd).st_mode) or not is_dir(fd):
        os.close(fd)
        raise KrunError("devices cannot be made: the image's /dev is not a directory")
    return fd


class MakeDevices(Step):
    """Default and listed devices, and the links of /dev. `bind`: nodes of the host are bound (user namespaces)."""

    __slots__ = ("devices", "bind")

    def __init__(self, devices: "list[Device]", bind: bool) -> None:
        self.devices = devices
        self.bind = bind

    def describe(self) -> str:
        names = [f"/dev/{name}" for name in DEFAULT_DEVICES] + [device.path for device in self.devices]
        return f"{'bind' if self.bind else 'make'} devices {' '.join(names)}"

    def execute(self, ctx: Context) -> None:
        dev = open_dev(ctx)
        listed = {clean(device.path) for device in self.devices}
        try:
            # A umask of the caller's must not take bits from 0666.
            umask = os.umask(0)
            for name, (major, minor) in DEFAULT_DEVICES.items():
                if f"/dev/{name}" not in listed:
                    self._make(ctx, dev, name, f"/dev/{name}", S_IFCHR | 0o666, major, minor, 0, 0)
            for device in self.devices:
                self._make_listed(ctx, device)
            os.umask(umask)
            for name, target in DEV_LINKS.items():
                link(dev, name, target)
            if self._has_core():
                link(dev, "core", "/proc/kcore")
            self._ptmx(dev)
        finally:
            os.close(dev)

    @staticmethod
    def _has_core() -> bool:
        return os.access("/proc/kcore", os.F_OK)

    def _make_listed(self, ctx: Context, device: "Device") -> None:
        path = clean(device.path)
        folder, _, name = path.rpartition("/")
        if not name:
            raise KrunError("a device cannot be made at /")
        if path == "/dev/ptmx":
            return  # the link to pts/ptmx is the container's own (runc does the same)
        kind = {"c": S_IFCHR, "u": S_IFCHR, "b": S_IFBLK, "p": S_IFIFO}[device.type]
        parent = make_dir(ctx.root, folder or "/")
        try:
            self._make(
                ctx,
                parent,
                name,
                path,
                kind | device.mode,
                device.major,
                device.minor,
                device.uid,
                device.gid,
            )
        finally:
            os.close(parent)

    def _make(
        self,
        ctx: Context,
        parent: int,
        name: str,
        path: str,
        mode: int,
        major: int,
        minor: int,
        uid: int,
        gid: int,
    ) -> None:
        if self.bind and S_IFMT(mode) != S_IFIFO:
            self._bind(ctx, path)
            return
        try:
            mknodat(parent, name, mode, 0 if S_IFMT(mode) == S_IFIFO else major, minor)
        except SysError as e:
            if e.errno == EPERM and _is_device(path, mode, major, minor):
                # Root of a user namespace that is not the container's own (rootless podman's) makes no devices either.
                self._bind(ctx, path)
                return
            if e.errno != EEXIST:
                raise SysError("mknod", path, e.errno) from None
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if S_IFMT(info.st_mode) != S_IFMT(mode) or (
                S_IFMT(mode) != S_IFIFO and (os.major(info.st_rdev), os.minor(info.st_rdev)) != (major, minor)
            ):
                raise KrunError(f"make device {path}: another kind of file is there already") from None
            return
        if uid or gid:
            os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)

    @staticmethod
    def _bind(ctx: Context, path: str) -> None:
        place = make_file(ctx.root, path)
        fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE)
        move_mount(fd, place, path)
        os.close(fd)
        os.close(place)

    @staticmethod
    def _ptmx(dev: int) -> None:
        """/dev/ptmx is the container's own (config-linux.md); what the image has there is replaced, as by runc."""
        try:
            os.unlink("ptmx", dir_fd=dev)
        except OSError as e:
            if e.errno != ENOENT:
                raise SysError("remove", "/dev/ptmx", e.errno or 0) from None
        link(dev, "ptmx", "pts/ptmx")


def _is_device(path: str, mode: int, major: int, minor: int) -> bool:
    """Tells whether the host has just this device at `path`."""
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return S_IFMT(info.st_mode) == S_IFMT(mode) and info.st_rdev == os.makedev(major, minor)


def link(dirfd: int, name: str, target: str) -> None:
    """Makes a symlink unless something is there."""
    try:
        os.symlink(target, name, dir_fd=dirfd)
    except OSError as e:
        if e.errno != EEXIST:
            raise SysError("symlink", f"/dev/{name}", e.errno or 0) from None


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


class Pivot(Step):
    """Makes the bound tree the root and lets go of the host's (pivot_root(2), "pivot_root(".", ".")")."""

    __slots__ = ("no_pivot",)

    def __init__(self, no_pivot: bool) -> None:
        self.no_pivot = no_pivot

    def describe(self) -> str:
        return "move the root to / and chroot" if self.no_pivot else "pivot_root, detach the old root"

    def execute(self, ctx: Context) -> None:
        os.fchdir(ctx.root)
        if self.no_pivot:
            # For a root on ramfs, which cannot be pivoted: without the unmounts, a chroot is all that hides the host's
            # /proc and /sys (runc CVE-2019-... class), so they go first.
            for line in read_file("/proc/self/mountinfo").decode("utf-8", "surrogateescape").splitlines():
                fields = line.partition(" - ")
                point = fields[0].split(" ", 5)[4]
                kind = fields[2].split(" ", 1)[0]
                inside = point.startswith(ctx.spec.rootfs.rstrip("/") + "/")
                if kind in ("proc", "sysfs") and not inside and point != "/":
                    mount(None, point, None, MS_SLAVE | MS_REC)
                    try:
                        umount2(point, MNT_DETACH)
                    except SysError as e:
                        if e.errno != EINVAL:
                            raise
            mount(".", "/", None, MS_MOVE)
            os.chroot(".")
            os.chdir("/")
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


class ReadonlyPaths(Step):
    """linux.readonlyPaths: each is bound on itself, read-only with all below it."""

    __slots__ = ("paths",)

    def __init__(self, paths: "list[str]") -> None:
        self.paths = paths

    def describe(self) -> str:
        return f"read-only paths {' '.join(self.paths)}"

    def execute(self, ctx: Context) -> None:
        for path in self.paths:
            place = find_in_root(ctx.root, path)
            if place in (-ENOENT, -ENOTDIR):
                continue
            if place < 0:
                raise SysError("open", path, -place)
            fd = open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE, path)
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=path)
            move_mount(fd, place, path)
            os.close(fd)
            os.close(place)


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
        for path in self.paths:
            place = find_in_root(ctx.root, path)
            if place in (-ENOENT, -ENOTDIR):
                continue
            if place < 0:
                raise SysError("open", path, -place)
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
            os.close(place)
        if empty >= 0:
            os.close(empty)


class SetSysctls(Step):
    """linux.sysctl, written through our own procfs: nothing can be mounted over it (CVE-2025-52881)."""

    __slots__ = ("values",)

    def __init__(self, values: "dict[str, str]") -> None:
        self.values = values

    def describe(self) -> str:
        return "sysctl " + " ".join(f"{key}={value}" for key, value in self.values.items())

    def execute(self, ctx: Context) -> None:
        beneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV
        for key, value in self.values.items():
            fd = openat2(ctx.proc, "sys/" + normal_sysctl(key), os.O_WRONLY, beneath, name=f"sysctl {key}")
            try:
                os.write(fd, value.encode("utf-8", "surrogateescape"))
            except OSError as e:
                raise SysError("set sysctl", key, e.errno or 0) from None
            finally:
                os.close(fd)


class OpenProc(Step):
    """A procfs of the container's pid namespace that is attached nowhere: what the monitor and we ourselves use."""

    __slots__ = ()

    def describe(self) -> str:
        return "open a detached procfs of the pid namespace"

    def execute(self, ctx: Context) -> None:
        attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
        ctx.proc = new_mount("proc", (), attrs, "detached")


def enter_cwd(cwd: str) -> None:
    """Changes to the payload's working directory and makes sure that it lies inside the container.

    No magic link is followed, so that /proc/self/fd/7 leads nowhere (CVE-2024-21626); were one followed, getcwd(2)
    would answer "(unreachable)" or ENOENT. Raises SysError, KrunError.
    """
    what = f'("{cwd}") set in config.json failed'
    fd = try_openat2(AT_FDCWD, cwd, PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS)
    if fd < 0:
        raise SysError("chdir to cwd", what, -fd)
    try:
        os.fchdir(fd)
    except OSError as e:
        raise SysError("chdir to cwd", what, e.errno or 0) from None
    finally:
        os.close(fd)
    try:
        here = os.getcwd()
    except OSError as e:
        raise SysError(
            "getcwd", cwd, e.errno or 0, "current working directory is outside of container"
        ) from None
    if not here.startswith("/"):
        raise KrunError(f'current working directory "{cwd}" is outside of container mount namespace root')


class MakeCwd(Step):
    """Makes process.cwd where it is missing, as root of the container, as runc does."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def describe(self) -> str:
        return f"make {self.path} if it is missing"

    def execute(self, ctx: Context) -> None:
        # A cwd that leads through a magic link is not made, only entered and then refused by enter_cwd.
        fd = find_in_root(ctx.root, self.path)
        if fd == -ENOENT:
            fd = make_dir(ctx.root, self.path)
        if fd >= 0:
            os.close(fd)


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
    if spec.root_readonly:
        steps.append(ReadonlyRoot())
    if spec.readonly:
        steps.append(ReadonlyPaths(spec.readonly))
    if spec.masked:
        steps.append(MaskPaths(spec.masked))
    return steps
