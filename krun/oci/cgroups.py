"""A container's control group, whatever the host has: v1, hybrid, v2; the cgroupfs driver and systemd's.

This file knows what is common; cgroup_v1 and cgroup_v2 the files of each, systemd the D-Bus side; only what
the host needs is imported. cgroups(7), cgroup v1 and v2 in the kernel's admin guide, config-linux.md "Control
groups".
"""

import errno
import os
import time

from krun import log
from krun.errors import KrunError, SysError
from krun.oci.state import process_fields
from krun.sysio import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOUNT = "/sys/fs/cgroup"
SIGKILL = 9  # not from signal, whose enums cost 3 ms
HYBRID = "/sys/fs/cgroup/unified"

# What runc adds to every list of rules: a container that may not make its own /dev/null is of no use.
# (type, major, minor, access); None = any.
DEFAULT_DEVICES: "tuple[tuple[str, int | None, int | None, str], ...]" = (
    ("c", None, None, "m"),
    ("b", None, None, "m"),
    ("c", 1, 3, "rwm"),  # null
    ("c", 1, 5, "rwm"),  # zero
    ("c", 1, 7, "rwm"),  # full
    ("c", 1, 8, "rwm"),  # random
    ("c", 1, 9, "rwm"),  # urandom
    ("c", 5, 0, "rwm"),  # tty
    ("c", 5, 2, "rwm"),  # ptmx
    ("c", 136, None, "rwm"),  # pts
    ("c", 10, 200, "rwm"),  # net/tun
)


def host_layout() -> str:
    """Return "v2", "hybrid" (v1 controllers and a v2 tree beside them) or "v1"."""
    if os.path.exists(MOUNT + "/cgroup.controllers"):
        return "v2"
    return "hybrid" if os.path.exists(HYBRID + "/cgroup.procs") else "v1"


def device_rules(resources: "dict[str, Any] | None") -> "list[tuple[bool, str, int | None, int | None, str]]":
    """Return the ordered rules (allow, type, major, minor, access) of linux.resources.devices with runc's
    defaults.

    A rule without type, or with "a", and without numbers speaks of all devices, whatever its access (as in
    v1's files).
    Errors: KrunError for a type or access that is none.
    """
    # Nothing but what is listed, whether or not the list begins with the usual "deny all" (as runc).
    rules: list[tuple[bool, str, int | None, int | None, str]] = [(False, "a", None, None, "rwm")]
    for rule in (resources or {}).get("devices") or ():
        kind = rule.get("type") or "a"
        access = rule.get("access") or "rwm"
        if kind not in ("a", "b", "c", "u") or not set(access) <= set("rwm"):
            raise KrunError(f"device rule {rule}: type is one of a, b, c and access made of r, w, m")
        major, minor = rule.get("major"), rule.get("minor")
        rules.append(
            (
                bool(rule.get("allow")),
                "c" if kind == "u" else kind,
                None if major is None or major < 0 else major,
                None if minor is None or minor < 0 else minor,
                access,
            )
        )
    rules.extend((True, *default) for default in DEFAULT_DEVICES)
    return rules


def clean(path: str) -> str:
    """Return an absolute or relative cgroupsPath without "..", so that it cannot climb out of the mount
    point.
    """
    if not path:
        return ""
    inner = os.path.normpath("/" + path).replace("//", "/")
    return inner if path.startswith("/") else inner[1:]


def read(path: str) -> str:
    """Return a cgroup file's text without the final line end. Errors: OSError (callers know which are
    harmless).
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode().rstrip("\n")
    finally:
        os.close(fd)


def write(directory: str, name: str, value: "str | int") -> None:
    """Write one value into a cgroup file. Errors: SysError that names the file and the value."""
    path = f"{directory}/{name}"
    try:
        put(path, value)
    except OSError as error:
        hint = ""
        if error.errno == errno.ENOENT:
            hint = ", the kernel or the parent cgroup does not offer this controller or file"
        raise SysError("write cgroup file", path, error.errno or 0, f"value {str(value)!r}{hint}") from None


def put(path: str, value: "str | int") -> None:
    """Write one value into a file that exists. Errors: OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def own_paths() -> "dict[str, str]":
    """Return our own cgroups: controller to path, "" to the v2 one (cgroups(7), /proc/PID/cgroup)."""
    paths: dict[str, str] = {}
    for line in read("/proc/self/cgroup").split("\n"):
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    return paths


def _driver(paths: "dict[str, str]") -> "Any":
    """Return the module that serves these paths: v2 has the one key ""."""
    if "" in paths:
        from krun.oci import cgroup_v2

        return cgroup_v2
    from krun.oci import cgroup_v1

    return cgroup_v1


def locate(spec_cgroups_path: str, id: str) -> "dict[str, str]":
    """Return where `create` with the cgroupfs driver would put this container's cgroup; makes nothing."""
    found: dict[str, str] = _driver({"": ""} if host_layout() == "v2" else {}).place(
        clean(spec_cgroups_path) or id
    )
    return found


def in_user_namespace() -> bool:
    """Tell whether our ids are a user namespace's: root there (rootless podman's) is an ordinary user of the host."""
    try:
        return read_file("/proc/self/uid_map").split() != [b"0", b"0", b"4294967295"]
    except SysError:
        return False


def create(
    spec_cgroups_path: str,
    resources: "dict[str, Any] | None",
    id: str,
    manager: str = "cgroupfs",
    rootless: bool = False,
    annotations: "dict[str, str] | None" = None,
) -> "Cgroup":
    """Make the container's cgroup, with its limits and device rules already set; nobody is in it yet.

    Arguments: spec_cgroups_path, linux.cgroupsPath ("" = "/" + id relative to ours; systemd:
    "slice:prefix:name"); resources, linux.resources; manager, "cgroupfs", "systemd" or "disabled"; rootless,
    do without when we may not; annotations, whose org.systemd.property.* are properties of the unit.
    Returns the Cgroup; with systemd the unit is started by `join` (a scope needs a process).
    Errors: KrunError when the cgroup is frozen or not empty or a value is impossible, SysError when a file
    refuses; what was made is removed again.
    """
    if manager == "disabled":
        return Cgroup({}, "disabled")
    if manager == "systemd":
        from krun.oci import systemd, systemd_values

        properties = systemd_values.from_annotations(annotations or {})
        unit, paths = systemd.place(spec_cgroups_path, id, rootless, host_layout() == "v2")
        cgroup = Cgroup(paths, "systemd:" + unit)
        cgroup.pending = (resources or {}, rootless, properties)
        return cgroup
    paths = locate(spec_cgroups_path, id)
    driver = _driver(paths)
    cgroup = Cgroup(paths, "cgroupfs")
    try:
        made = driver.make(paths)
    except SysError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)
        if refused and (rootless or in_user_namespace()):
            if _limits(resources):
                raise KrunError(
                    f"{error.message}; rootless limits need a cgroup delegated to this user"
                ) from None
            log.debug(f"no cgroup for a rootless container: {error.message}")
            return Cgroup({}, "disabled")
        raise
    try:
        cgroup._refuse_used(made)
        driver.limit(paths, resources or {}, True)
        driver.devices(paths, device_rules(resources), rootless)
    except BaseException:
        unmake(made)
        raise
    return cgroup


def unmake(made: "list[str]") -> None:
    """Remove directories that were just made (deepest first); what cannot be removed stays."""
    for path in made:
        try:
            os.rmdir(path)
        except OSError:
            pass


def _limits(resources: "dict[str, Any] | None") -> bool:
    """Return whether anything but device rules is asked for."""
    return any(value for name, value in (resources or {}).items() if name != "devices")


class Cgroup:
    """The directories of one container. paths: controller to absolute directory; v2: {"": directory}."""

    __slots__ = ("paths", "manager", "pending")

    def __init__(self, paths: "dict[str, str]", manager: str = "cgroupfs") -> None:
        self.paths = paths
        self.manager = manager
        self.pending: tuple[dict[str, Any], bool, list[tuple[str, tuple[str, Any]]]] | None = None

    @classmethod
    def load(cls, paths: "dict[str, str]", manager: str = "cgroupfs") -> "Cgroup":
        """Return the cgroup of a saved container (ContainerState.cgroup_paths and .manager)."""
        return cls(dict(paths), manager)

    def directories(self) -> "list[str]":
        """Return the distinct directories."""
        return list(dict.fromkeys(self.paths.values()))

    def _main(self) -> str:
        """The directory whose process list is the container's: v2's, else one of v1's."""
        for name in ("", "freezer", "pids", "devices", "memory", "name=systemd"):
            if name in self.paths:
                return self.paths[name]
        return next(iter(self.paths.values()), "")

    def _refuse_used(self, made: "list[str]") -> None:
        """config-linux.md (1.1): a runtime may refuse an unfit cgroup; runc refuses frozen and non-empty
        ones.
        """
        if self._main() in made:
            return
        if self.frozen():
            raise KrunError(f"container's cgroup {self._main()} unexpectedly frozen, thaw it first")
        count = len(self.procs())
        if count:
            raise KrunError(f"container's cgroup {self._main()} is not empty: {count} process(es) found")

    def join(self, pid: int) -> None:
        """Put a process into all directories (with systemd: start the scope with it). Errors: SysError,
        KrunError.
        """
        if self.pending is not None:
            self._start_unit(pid)
            return
        for path in self.directories():
            _enter(path, pid)

    def _start_unit(self, pid: int) -> None:
        from krun.oci import systemd

        assert self.pending is not None
        resources, rootless, properties = self.pending
        unit = self.manager.partition(":")[2]
        systemd.start_scope(unit, pid, resources, rootless, self._main(), "" in self.paths, properties)
        self.pending = None
        driver = _driver(self.paths)
        try:
            # systemd puts the process into its own hierarchy (and the controllers it was told of); the rest
            # is ours.
            driver.make(self.paths)
            for path in self.directories():
                _enter(path, pid)
            driver.limit(self.paths, resources, True)
            driver.devices(self.paths, device_rules(resources), rootless)
        except BaseException:
            systemd.stop_unit(unit, rootless)
            raise

    def apply(self, resources: "dict[str, Any]") -> None:
        """Set new limits (not device rules) on an existing cgroup: `update`. Errors: KrunError, SysError."""
        if not self.paths:
            if _limits(resources):
                raise KrunError("set limits: this container has no cgroup (manager disabled or rootless)")
            return
        if self.manager.startswith("systemd:"):
            from krun.oci import systemd

            systemd.set_properties(self.manager[8:], resources, "" in self.paths)
        _driver(self.paths).limit(self.paths, resources, False)

    def destroy(self, wait: float = 5.0) -> None:
        """Remove the directories, those that the payload made below included; gone already is no error.

        Argument: wait, seconds to retry while busy (a killed process leaves its cgroup a moment after it is
        waitable).
        Errors: SysError with the directory that stays busy.
        """
        if self.manager.startswith("systemd:"):
            from krun.oci import systemd

            systemd.stop_unit(self.manager[8:], os.geteuid() != 0)
        deadline = time.monotonic() + wait
        for path in self.directories():
            _remove(path, deadline)

    def kill(self, signal: int = SIGKILL) -> None:
        """Send a signal to every process inside; SIGKILL is repeated until nobody forks away from it.

        Errors: KrunError when processes are left after 5 s.
        """
        if not self.paths:
            return
        if signal == SIGKILL:
            for name in ("", "unified"):
                path = self.paths.get(name)
                if path:
                    try:
                        put(path + "/cgroup.kill", "1")  # Linux 5.14: one write, race-free, frozen ones too
                    except OSError:
                        pass
        pids = self.procs()
        if signal != SIGKILL:
            for pid in pids:
                _kill(pid, signal)
            return
        if not pids:
            return
        if self.frozen():
            _signal_all(pids)
            self.thaw()
        deadline = time.monotonic() + 5.0
        pause = 0.001
        while pids:
            _signal_all(pids)
            if time.monotonic() > deadline:
                raise KrunError(
                    f"kill all in cgroup {self._main()}: {len(pids)} process(es) still there after 5 s"
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
            pids = self.procs()

    def freeze(self) -> None:
        """Stop every process inside and wait until all stand. Errors: KrunError, SysError."""
        self._need_paths("freeze")
        _driver(self.paths).freeze(self.paths, True)

    def thaw(self) -> None:
        """Let every process inside go on. Errors: KrunError, SysError."""
        self._need_paths("thaw")
        _driver(self.paths).freeze(self.paths, False)

    def delegate(self, uid: int, gid: int) -> None:
        """Give a cgroup v2 to the container's root, so that it can make groups below (config-linux.md,
        "Cgroup ownership"): the directory and the files of /sys/kernel/cgroup/delegate, nothing that holds a
        limit.

        Precondition: own cgroup namespace and a read-write cgroup mount; never for v1. Errors: SysError.
        """
        path = self.paths.get("")
        if path is None:
            return
        try:
            names = read("/sys/kernel/cgroup/delegate").split()
        except OSError:
            names = ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"]
        for name in ("", *names):
            try:
                os.chown(f"{path}/{name}", uid, gid, follow_symlinks=False)
            except FileNotFoundError:
                pass  # a file of a controller that is not on
            except OSError as error:
                raise SysError.of("chown cgroup", error, f"{path}/{name}") from None

    def frozen(self) -> bool:
        """Return whether the cgroup is (being) frozen; False when it does not exist."""
        return bool(self.paths) and _driver(self.paths).frozen(self.paths)

    def procs(self) -> "list[int]":
        """Return the pids inside, those in sub-groups included; [] when the cgroup is gone."""
        main = self._main()
        if not main:
            return []
        pids: list[int] = []
        _collect(main, pids)
        # Zombies stay listed until they are reaped in v1 only; they cannot be signalled away, so they do not
        # count.
        return [pid for pid in pids if pid > 0 and not _not_counted(pid)]

    def stats(self) -> "dict[str, Any]":
        """Return the data of `events --stats` in runc's shape (types/events.go), without networks and RDT."""
        found: dict[str, Any] = _driver(self.paths).stats(self.paths) if self.paths else {}
        return found

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed here for want of memory."""
        return _driver(self.paths).oom_kills(self.paths) if self.paths else 0

    def _need_paths(self, what: str) -> None:
        if not self.paths:
            raise KrunError(f"{what}: this container has no cgroup (manager disabled or rootless)")


def _enter(path: str, pid: int) -> None:
    deadline = 0.0
    while True:
        try:
            put(path + "/cgroup.procs", pid)
            return
        except OSError as error:
            # EINVAL: the task is between clone and its first run (kernel, cgroup_attach_task); runc retries
            # as well.
            now = time.monotonic()
            deadline = deadline or now + 0.1
            if error.errno != errno.EINVAL or now > deadline:
                raise SysError("join cgroup", path, error.errno or 0, f"pid {pid}") from None
            time.sleep(0.002)


def _collect(path: str, pids: "list[int]") -> None:
    try:
        pids.extend(map(int, read(path + "/cgroup.procs").split()))
    except OSError as error:
        # EOPNOTSUPP: a threaded sub-group; its processes stand in the domain above it.
        if error.errno == errno.ENOENT:
            return
        if error.errno not in (errno.ENODEV, errno.EOPNOTSUPP):
            raise SysError.of("read cgroup processes", error, path) from None
    for name in _children(path):
        _collect(f"{path}/{name}", pids)


def _children(path: str) -> "list[str]":
    try:
        # st_nlink is 2 + sub-directories: one stat instead of a directory of 40 files for the usual leaf.
        if os.stat(path).st_nlink <= 2:
            return []
        return [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove(path: str, deadline: float) -> None:
    pause = 0.001
    while True:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise SysError.of("remove cgroup", error, path) from None
            for name in _children(path):
                _remove(f"{path}/{name}", deadline)
            if time.monotonic() > deadline:
                try:
                    left = len(read(path + "/cgroup.procs").split())
                except OSError:
                    left = 0
                raise SysError("remove cgroup", path, error.errno, f"{left} process(es) inside") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


PF_KTHREAD = 0x00200000  # include/linux/sched.h; field 9 of /proc/PID/stat


def is_kernel_thread(fields: "list[bytes]") -> bool:
    """Tell whether state.process_fields() are those of a kernel thread (KVM's worker before Linux 6.14)."""
    return bool(int(fields[6]) & PF_KTHREAD)


def _not_counted(pid: int) -> bool:
    """Tell whether a member does not count: gone, a zombie, or a kernel thread."""
    fields = process_fields(pid)
    return not fields or fields[0] in (b"Z", b"X") or is_kernel_thread(fields)


def _signal_all(pids: "list[int]") -> None:
    for pid in pids:
        _kill(pid, SIGKILL)


def _kill(pid: int, signal: int) -> None:
    try:
        os.kill(pid, signal)
    except ProcessLookupError:
        pass
    except OSError as error:
        raise SysError.of("kill", error, f"pid {pid}") from None
