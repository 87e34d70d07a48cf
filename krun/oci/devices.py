"""The nodes and links of the container's /dev (config-linux.md, "Devices" and "Default Devices")."""

import os
from errno import EEXIST, ENOENT, EPERM
from stat import S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT, S_ISLNK

from krun.errors import KrunError, SysError
from krun.mountio import (
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    OPEN_TREE_CLONE,
    mount_setattr,
    move_mount,
    open_tree,
)
from krun.oci import places
from krun.oci.steps import PATH, Context, Step, clean, is_dir
from krun.sysio import AT_EMPTY_PATH, mknodat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Device

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


def open_dev(ctx: Context) -> int:
    """Opens the container's /dev. It must be a directory, not a link of the image's (CVE-2026-41579)."""
    fd = places.find(ctx, "/dev", PATH | os.O_NOFOLLOW)
    if fd == -ENOENT:
        return places.plain_directory(ctx, "/dev", "devices")
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
                    self._make(dev, name, f"/dev/{name}", S_IFCHR | 0o666, major, minor, 0, 0)
            for device in self.devices:
                self._make_listed(ctx, dev, device)
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

    def _make_listed(self, ctx: Context, dev: int, device: "Device") -> None:
        path = clean(device.path)
        folder, _, name = path.rpartition("/")
        if not name:
            raise KrunError("a device cannot be made at /")
        if path == "/dev/ptmx":
            return  # the link to pts/ptmx is the container's own (runc does the same)
        kind = {"c": S_IFCHR, "u": S_IFCHR, "b": S_IFBLK, "p": S_IFIFO}[device.type]
        # No second look at the name /dev: it has been opened, and is no link.
        parent = os.dup(dev) if folder == "/dev" else places.directory(ctx, folder or "/")
        try:
            self._make(
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
            bind_node(open_node(path, mode, major, minor), parent, name, path)
            return
        try:
            mknodat(parent, name, mode, 0 if S_IFMT(mode) == S_IFIFO else major, minor)
        except SysError as e:
            if e.errno == EPERM:
                # Root of a user namespace that is not the container's own (rootless podman's) makes no devices either.
                try:
                    node = open_node(path, mode, major, minor)
                except KrunError:
                    raise SysError("mknod", path, EPERM) from None
                bind_node(node, parent, name, path)
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
    def _ptmx(dev: int) -> None:
        """/dev/ptmx is the container's own (config-linux.md); what the image has there is replaced, as by runc."""
        try:
            os.unlink("ptmx", dir_fd=dev)
        except OSError as e:
            if e.errno != ENOENT:
                raise SysError("remove", "/dev/ptmx", e.errno or 0) from None
        link(dev, "ptmx", "pts/ptmx")


def open_node(path: str, mode: int, major: int, minor: int) -> int:
    """Opens the host's node of a device, whose name may lead to any other file of the host.

    Arguments: path; mode, whose type counts, S_IFCHR or S_IFBLK; major, minor. Returns an O_PATH descriptor, which has been looked at.
    Raises SysError; KrunError if another file is there.
    """
    try:
        fd = os.open(path, PATH)
    except OSError as e:
        raise SysError("open device", path, e.errno or 0) from None
    info = os.fstat(fd)
    if S_IFMT(info.st_mode) != S_IFMT(mode) or info.st_rdev != os.makedev(major, minor):
        os.close(fd)
        kind = "block" if S_IFMT(mode) == S_IFBLK else "character"
        raise KrunError(
            f"bind device {path}: the host's {path} is not {kind} device {major}:{minor}; correct linux.devices"
        )
    return fd


def bind_node(node: int, parent: int, name: str, path: str) -> None:
    """Binds a node of the host, which is closed, on a name in a directory of the container. Raises SysError, KrunError.

    The mount is read-only: the inode is the host's, and nobody in the container changes its mode, owner or times. The device itself
    can be written, because a read-only mount concerns the file system's data (inode_permission() of the kernel).
    """
    try:
        place = node_place(parent, name, path)
        fd = open_tree(node, "", OPEN_TREE_CLONE | AT_EMPTY_PATH, path)
        mount_setattr(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, name=path)
        move_mount(fd, place, path)
        os.close(fd)
        os.close(place)
    finally:
        os.close(node)


def node_place(parent: int, name: str, path: str) -> int:
    """Opens the file that a node is bound on, made where it is missing; never through a link of the image (CVE-2026-88264).

    Arguments: parent, a directory of the container; name in it; path, for errors. Returns an O_PATH descriptor. Raises SysError,
    KrunError.
    """
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=parent))
    except OSError as e:
        if e.errno != EEXIST:
            raise SysError("make", path, e.errno or 0) from None
    try:
        place = os.open(name, PATH | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as e:
        raise SysError("open", path, e.errno or 0) from None
    if S_ISLNK(os.fstat(place).st_mode):
        os.close(place)
        raise KrunError(f"bind device {path}: the image has a symbolic link there")
    return place


def link(dirfd: int, name: str, target: str) -> None:
    """Makes a symlink unless something is there."""
    try:
        os.symlink(target, name, dir_fd=dirfd)
    except OSError as e:
        if e.errno != EEXIST:
            raise SysError("symlink", f"/dev/{name}", e.errno or 0) from None
