"""The nodes and links of the container's /dev (config-linux.md, "Devices" and "Default Devices")."""

import os
from errno import EEXIST, ENOENT, EPERM
from stat import S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT, S_ISLNK

from krun.errors import KrunError, SysError
from krun.mountio import (
    OPEN_TREE_CLONE,
    move_mount,
    open_tree,
)
from krun.oci.steps import PATH, Context, Step, clean, find_in_root, is_dir, make_dir, make_file
from krun.sysio import (
    AT_FDCWD,
    mknodat,
)

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
