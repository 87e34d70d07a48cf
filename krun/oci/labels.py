"""Labels of security modules and the session keyring: AppArmor, SELinux (config.md, "Linux Process"), keyrings(7)."""

import os
from errno import EACCES, ENOENT, ENOSYS, EPERM

from krun.errors import KrunError, SysError
from krun.oci.procfs import write_proc
from krun.oci.steps import Context, Step
from krun.sysio import (
    check,
    enc,
    lib,
    write_host_proc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.log import Log
    from krun.oci.spec import Process


class SetAppArmor(Step):
    """process.apparmorProfile: takes effect at the monitor's exec."""

    __slots__ = ("profile",)

    def __init__(self, profile: str) -> None:
        self.profile = profile

    def describe(self) -> str:
        return f"apparmor profile {self.profile}"

    def execute(self, ctx: Context) -> None:
        # Before Linux 5.8, and where AppArmor is the only module, the file without the module's name is its own.
        path = "self/attr/apparmor/exec"
        try:
            os.stat(path, dir_fd=ctx.proc)
        except OSError:
            path = "self/attr/exec"
        try:
            write_proc(ctx, path, f"exec {self.profile}", "")
        except SysError as e:
            text = f"the profile {self.profile} is not loaded" if e.errno == ENOENT else ""
            op = f"apparmor failed to apply profile: write /proc/{path}"
            raise SysError(op, "", e.errno, text) from None


class SetSelinux(Step):
    """process.selinuxLabel: takes effect at the monitor's exec."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def describe(self) -> str:
        return f"selinux label {self.label}"

    def execute(self, ctx: Context) -> None:
        try:
            write_proc(ctx, "self/attr/exec", self.label, "")
        except SysError as e:
            raise SysError("can't set process label: write /proc/self/attr/exec", "", e.errno) from None


def check_lsm(process: "Process", mount_label: str, log: "Log") -> str:
    """Raises KrunError if a label is asked for and its module is not on (config.md, "Linux Process").

    Returns the mount label to use: "" where SELinux is off.
    """
    if process.apparmor and not _apparmor_enabled():
        raise KrunError("apparmor: config provided but apparmor not supported")
    if (process.selinux or mount_label) and not os.access("/sys/fs/selinux/enforce", os.F_OK):
        if process.selinux:
            raise KrunError("selinux label is specified in config, but selinux is disabled or not supported")
        # A process label asks to be confined; a mount label only names files for a policy that is not there.
        log.warning("mount label is not used: selinux is disabled or not supported")
        return ""
    return mount_label


def _apparmor_enabled() -> bool:
    try:
        fd = os.open("/sys/module/apparmor/parameters/enabled", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, 8).startswith(b"Y")
    finally:
        os.close(fd)


def keyring_name(id: str) -> str:
    """Returns the name of a new container's session keyring: runc's, and a part that nobody guesses.

    All users of a user namespace have the same names of keyrings, and whoever may search a keyring joins it by its name. So a process
    of any user, of a container as well, could make the keyring first, and would read the container's keys.
    """
    return f"_ses.{id}.{os.urandom(8).hex()}"


class JoinKeyring(Step):
    """The container's session keyring, so that the caller's keys stay the caller's (keyrings(7)); made if there is none."""

    __slots__ = ("name", "label")

    def __init__(self, name: str, label: str = "") -> None:
        self.name = name
        self.label = label

    def describe(self) -> str:
        return f"session keyring {self.name.rpartition('.')[0]}"

    def execute(self, ctx: Context) -> None:
        # Keys have labels too; the container's program could not search one with krun's (SELinux only).
        self._label(ctx, self.label)
        self._join()
        self._label(ctx, "")

    def _label(self, ctx: Context, label: str) -> None:
        if not self.label:
            return
        if ctx.proc >= 0:
            # exec: /proc is the container's (CVE-2025-52881).
            write_proc(ctx, "thread-self/attr/keycreate", label, "label keys")
        else:
            # Nothing of the image is mounted yet: this /proc is the host's.
            write_host_proc("thread-self/attr/keycreate", label)

    def _join(self) -> None:
        key = lib.kr_join_keyring(enc(self.name))
        if key in (-ENOSYS, -EPERM, -EACCES):
            return  # a kernel without keyrings, or one whose policy forbids them: runc goes on as well
        check(key, "join session keyring", self.name)
        # The possessor may all; the owner may view, read and search it, because exec finds it by its name (runc's bits).
        lib.kr_keyring_setperm(key, 0x3F1B0000)
