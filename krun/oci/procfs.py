"""The detached procfs of the container's pid namespace: opened, written, then read-only. No mount of the image can cover it
(CVE-2019-16884, CVE-2025-52881).
"""

import os
from errno import EPERM

from krun.errors import SysError
from krun.mountio import (
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    mount_setattr,
    new_mount,
)
from krun.oci.spec import normal_sysctl
from krun.oci.steps import Context, Step
from krun.sysio import (
    RESOLVE_BENEATH,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
    openat2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


class OpenProc(Step):
    """A procfs of the container's pid namespace that is attached nowhere: what the monitor and we ourselves use."""

    __slots__ = ()

    def describe(self) -> str:
        return "open a detached procfs of the pid namespace"

    def execute(self, ctx: Context) -> None:
        if ctx.proc < 0:  # else open_of_host
            ctx.proc = open_detached()


def open_detached() -> int:
    """Makes a procfs of the caller's pid namespace. Returns the detached mount. Raises SysError."""
    return new_mount("proc", (), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "detached")


def open_of_host(ctx: Context, pid: bool) -> None:
    """Opens the procfs in the parent, for a child with a user namespace and our own pid namespace: only a process with CAP_SYS_ADMIN in
    the pid namespace's owner may make one. An ordinary user has no such right either, and the child's error says so.

    Argument: pid, whether the child has another pid namespace, whose procfs it makes itself. Raises SysError.
    """
    if pid:
        return
    try:
        ctx.proc = open_detached()
    except SysError as e:
        if e.errno != EPERM:
            raise


def write_proc(ctx: Context, path: str, text: str, op: str) -> None:
    """Writes a file of our own procfs, which nothing of the image lies over. Raises SysError."""
    # self and thread-self are ordinary symlinks of procfs; anything else is refused (CVE-2019-16884).
    fd = openat2(ctx.proc, path, os.O_WRONLY, RESOLVE_BENEATH, name=path)
    try:
        os.write(fd, os.fsencode(text))
    except OSError as e:
        raise SysError(op, text, e.errno or 0) from None
    finally:
        os.close(fd)


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


class SealProc(Step):
    """Our procfs becomes read-only: from here on it is the monitor's, which only reads it and keeps it while the payload runs."""

    __slots__ = ()

    def describe(self) -> str:
        return "detached procfs becomes read-only"

    def execute(self, ctx: Context) -> None:
        try:
            mount_setattr(ctx.proc, MOUNT_ATTR_RDONLY, name="procfs")
        except SysError as e:
            # A mount namespace that is not ours to change (an ordinary user's container without one of its own): such a
            # payload writes nothing in /proc that its user may not.
            if e.errno != EPERM:
                raise
