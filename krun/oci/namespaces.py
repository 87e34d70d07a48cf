"""Namespaces: clone flags, namespaces to join by path, names of the uts namespace (namespaces(7))."""

import os

from krun.errors import KrunError, SysError
from krun.oci.steps import Context, Step
from krun.sysio import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    check,
    enc,
    lib,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import IdMap

FLAGS = {
    "user": CLONE_NEWUSER,
    "cgroup": CLONE_NEWCGROUP,
    "ipc": CLONE_NEWIPC,
    "uts": CLONE_NEWUTS,
    "network": CLONE_NEWNET,
    "pid": CLONE_NEWPID,
    "mount": CLONE_NEWNS,
    "time": CLONE_NEWTIME,
}
# Names in /proc/PID/ns (pid and time: what children get).
FILES = {
    "user": "user", "cgroup": "cgroup", "ipc": "ipc", "uts": "uts", "network": "net", "pid": "pid", "mount": "mnt",
    "time": "time",
}  # fmt: skip
# Joined in this order: the user namespace gives the rights over those it owns; the mount namespace goes last, because
# it takes the host's paths away.
JOIN_ORDER = ("user", "cgroup", "ipc", "uts", "network", "pid", "time", "mount")


def new_flags(namespaces: "dict[str, str]") -> int:
    """Returns the clone flags for the new namespaces of a configuration."""
    flags = 0
    for kind, path in namespaces.items():
        if not path:
            flags |= FLAGS[kind]
    return flags


def open_paths(namespaces: "dict[str, str]") -> "dict[str, int]":
    """Opens the namespaces to join. Returns type to descriptor, in JOIN_ORDER.

    Raises SysError if a path cannot be opened, KrunError if it is no namespace or of another type (config-linux.md,
    "Namespaces": the runtime must generate an error).
    """
    found: dict[str, int] = {}
    for kind in JOIN_ORDER:
        path = namespaces.get(kind)
        if not path:
            continue
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as e:
            raise SysError(f"lstat {kind} namespace", path, e.errno or 0) from None
        found[kind] = fd
        text = ""
        if lib.kr_nstype(fd) != FLAGS[kind]:
            text = "it is not of that type"
        elif kind != "user" and _is_own(kind, fd):
            text = "it has become the host's since config.json was checked"
        if text:
            for opened in found.values():
                os.close(opened)
            raise KrunError(f"join {kind} namespace {path}: {text}")
    return found


def inherit_own(namespaces: "dict[str, str]") -> bool:
    """Takes away each path that leads to a namespace of our own, whatever its name ("/proc/self/ns/net", a bind mount): to join it is
    to inherit it. What config.json may ask for then follows from the container's own namespaces: sysctls and names of the host's
    are not the container's, and pivot_root(2) in our mount namespace would take the host's root from all who live there.

    Our own user namespace stays: setns(2) refuses it. A path that cannot be read stays, too, for open_paths to refuse. Returns
    whether there was one.
    """
    own = [kind for kind, path in namespaces.items() if path and kind != "user" and _is_own(kind, path)]
    for kind in own:
        del namespaces[kind]
    return bool(own)


def _is_own(kind: str, namespace: "str | int") -> bool:
    try:
        theirs, ours = os.stat(namespace), os.stat(f"/proc/self/ns/{FILES[kind]}")
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


class SetHostname(Step):
    """hostname."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        return f"hostname {self.name}"

    def execute(self, ctx: Context) -> None:
        name = enc(self.name)
        check(lib.kr_sethostname(name, len(name)), "sethostname", self.name)


class SetDomainname(Step):
    """domainname."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        return f"domainname {self.name}"

    def execute(self, ctx: Context) -> None:
        name = enc(self.name)
        check(lib.kr_setdomainname(name, len(name)), "setdomainname", self.name)


class LoopbackUp(Step):
    """Sets lo up in a new network namespace, which runc's callers count on."""

    __slots__ = ()

    def describe(self) -> str:
        return "loopback up"

    def execute(self, ctx: Context) -> None:
        check(lib.kr_loopback_up(), "set up", "lo")


def map_text(lines: "list[IdMap]") -> str:
    """Returns the content of uid_map or gid_map (user_namespaces(7))."""
    return "".join(f"{line.container} {line.host} {line.size}\n" for line in lines)
