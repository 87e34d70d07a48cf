"""A container's control group, for every layout (v1, hybrid, v2) and both drivers (cgroupfs, systemd).

This is the package's interface. It imports only the modules that the host's layout needs.
Sources: cgroups(7); cgroup v1 and v2 in the kernel's admin guide; config-linux.md, "Control groups".
"""

import errno
import os
import time

from krun.errors import KrunError, SysError
from krun.fileio import read_file
from krun.oci.cgroup.devices import device_rules
from krun.oci.cgroup.files import clean, host_layout, put, read, unmake
from krun.oci.cgroup.tree import SIGKILL, Patience, enter, processes, remove, signal_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from krun.log import Log


def _driver(paths: "dict[str, str]") -> "Any":
    """Return the module that serves these paths: v2 has the one key ""."""
    if "" in paths:
        from krun.oci.cgroup import v2

        return v2
    from krun.oci.cgroup import v1

    return v1


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
    log: "Log",
    manager: str = "cgroupfs",
    rootless: bool = False,
    annotations: "dict[str, str] | None" = None,
) -> "Cgroup":
    """Make the container's cgroup, with its limits and device rules already set; no process is in it yet.

    Arguments: spec_cgroups_path, linux.cgroupsPath ("" = "/" + id relative to ours; systemd:
    "slice:prefix:name"); resources, linux.resources; log, of this container; manager, "cgroupfs", "systemd" or "disabled"; rootless,
    do without when we may not; annotations, whose org.systemd.property.* are properties of the unit.
    Returns the Cgroup; with systemd the unit is started by `join` (a scope needs a process).
    Errors: KrunError when the cgroup is frozen or not empty or a value is impossible, SysError when a file
    refuses; what was made is removed again.
    """
    if manager == "disabled":
        return Cgroup({}, log, "disabled")
    if manager == "systemd":
        from krun.oci.cgroup import properties, systemd

        asked = properties.from_annotations(annotations or {})
        unit, paths = systemd.place(spec_cgroups_path, id, rootless, host_layout() == "v2")
        cgroup = Cgroup(paths, log, "systemd:" + unit)
        cgroup.pending = (resources or {}, rootless, asked)
        return cgroup
    paths = locate(spec_cgroups_path, id)
    driver = _driver(paths)
    cgroup = Cgroup(paths, log)
    try:
        made = driver.make(paths, log)
    except SysError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)
        if refused and (rootless or in_user_namespace()):
            if _limits(resources):
                raise KrunError(
                    f"{error.message}; rootless limits need a cgroup delegated to this user"
                ) from None
            log.debug(f"no cgroup for a rootless container: {error.message}")
            return Cgroup({}, log, "disabled")
        raise
    try:
        cgroup._refuse_used(made)
        driver.limit(paths, resources or {}, log)
        driver.devices(paths, device_rules(resources), rootless, log)
    except BaseException:
        unmake(made)
        raise
    return cgroup


def _limits(resources: "dict[str, Any] | None") -> bool:
    """Return whether anything but device rules is asked for."""
    return any(value for name, value in (resources or {}).items() if name != "devices")


_KILL_ROUNDS = 20
_MOMENT = 0.5  # seconds


class Cgroup:
    """The directories of one container. paths: controller to absolute directory; v2: {"": directory}. log: where lines about them go."""

    __slots__ = ("paths", "log", "manager", "pending")

    def __init__(self, paths: "dict[str, str]", log: "Log", manager: str = "cgroupfs") -> None:
        self.paths = paths
        self.log = log
        self.manager = manager
        self.pending: tuple[dict[str, Any], bool, list[tuple[str, tuple[str, Any]]]] | None = None

    @classmethod
    def load(cls, paths: "dict[str, str]", log: "Log", manager: str = "cgroupfs") -> "Cgroup":
        """Return the cgroup of a saved container (ContainerState.cgroup_paths and .manager)."""
        return cls(dict(paths), log, manager)

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

    def _unit(self) -> str:
        """The name of the unit: manager is "systemd:UNIT", and ":INVOCATION" behind it once it has been started."""
        return self.manager.split(":")[1]

    def join(self, pid: int, started: "Callable[[], None]" = lambda: None) -> None:
        """Put a process into all directories (with systemd: start the scope with it).

        Arguments: pid; started, called once paths and manager name a unit that this container has started: before, it may be
        anybody's. Errors: SysError, KrunError.
        """
        if self.pending is not None:
            self._start_unit(pid, started)
            return
        for path in self.directories():
            enter(path, pid)

    def _start_unit(self, pid: int, started: "Callable[[], None]") -> None:
        from krun.oci.cgroup import systemd

        assert self.pending is not None
        resources, rootless, properties = self.pending
        unit = self._unit()
        invocation = systemd.start_scope(
            unit, pid, resources, rootless, self._main(), "" in self.paths, properties
        )
        self.pending = None
        self.manager = f"systemd:{unit}:{invocation}"
        driver = _driver(self.paths)
        try:
            started()
            # systemd puts the process into its own hierarchy (and the controllers it was told of); the rest
            # is ours.
            driver.make(self.paths, self.log)
            for path in self.directories():
                enter(path, pid)
            driver.limit(self.paths, resources, self.log)
            driver.devices(self.paths, device_rules(resources), rootless, self.log)
        except BaseException:
            systemd.stop_unit(unit, rootless, self.log)
            raise

    def apply(self, resources: "dict[str, Any]") -> None:
        """Set new limits (not device rules) on an existing cgroup: `update`. Errors: KrunError, SysError; the values in the control files
        and the unit's properties are the old ones then (runc puts back those of config.json only).
        """
        if not self.paths:
            if _limits(resources):
                raise KrunError("set limits: this container has no cgroup (manager disabled or rootless)")
            return
        from krun.oci.cgroup import limits

        before = limits.present(2 if "" in self.paths else 1, resources, self.paths)
        properties: list[tuple[str, tuple[str, Any]]] = []
        if self.manager.startswith("systemd:"):
            from krun.oci.cgroup import systemd

            properties = systemd.set_properties(self._unit(), resources, "" in self.paths)
        try:
            _driver(self.paths).limit(self.paths, resources, self.log)
        except KrunError:
            if properties:  # first: systemd writes the files, too
                systemd.put_back(self._unit(), properties, self.log)
            limits.put_back(before)
            raise

    def foreign(self) -> bool:
        """Tell whether the directories are a unit's that this container has not started: ours has ended, and another one has got
        its name. Then nothing in them is ours to kill or to remove."""
        if not self.manager.startswith("systemd:"):
            return False
        from krun.oci.cgroup import systemd

        invocation = self.manager.split(":")[2:]
        return systemd.is_foreign(self._unit(), "".join(invocation), os.geteuid() != 0, self.log)

    def destroy(self, wait: float = 5.0) -> None:
        """Remove the directories, those that the payload made below included; gone already is no error.

        Argument: wait, seconds to retry while busy (a killed process leaves its cgroup a moment after it is
        waitable).
        Errors: SysError with the directory that stays busy.
        """
        if self.manager.startswith("systemd:"):
            from krun.oci.cgroup import systemd

            systemd.stop_unit(self._unit(), os.geteuid() != 0, self.log)
        patience = Patience(wait)
        for path in self.directories():
            remove(path, patience)

    def kill(self, signal: int = SIGKILL, gone: bool = True) -> None:
        """Send a signal to every process inside; SIGKILL is repeated until no fork escapes it.

        Argument: gone, whether all must have ended; else those may stay that cannot end within _MOMENT (frozen from above, in an
        uninterruptible wait): with SIGKILL pending they do not fork. Errors: KrunError when others are left after 5 s.
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
        main = self._main()
        told: set[int] = set()
        if not signal_all(main, signal, told) or signal != SIGKILL:
            return
        if self.frozen():
            self.thaw()
        begin = time.monotonic()
        rounds = 0
        pause = 0.001
        while True:
            self.release()
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
            rounds += 1
            now: set[int] = set()
            left = signal_all(main, told=now)
            if not left:
                return
            spent = time.monotonic() - begin
            if not gone and spent > _MOMENT and left == len(now) and now <= told:
                return
            told = now  # of one round: in a longer time a number can be given to another process
            # One round takes as long as the payload's tree is large.
            if spent > 5.0 and rounds >= _KILL_ROUNDS:
                raise KrunError(f"kill all in cgroup {main}: {left} process(es) still there after 5 s")

    def release(self) -> None:
        """Let processes die that were killed while frozen: on cgroup v1 a frozen process does not die, and the payload can freeze
        groups below its own. Errors: SysError."""
        _driver(self.paths).release(self.paths)

    def freeze(self) -> None:
        """Stop every process inside and wait until all stand. Errors: KrunError, SysError."""
        self._need_paths("freeze")
        try:
            _driver(self.paths).freeze(self.paths, True)
        except OSError as error:  # it went meanwhile
            raise SysError.of("freeze cgroup", error, self._main()) from None

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
        return processes(main) if main else []

    def stats(self) -> "dict[str, Any]":
        """Return the data of `events --stats` in runc's shape (types/events.go), without networks and RDT."""
        if not self.paths:
            return {}
        from krun.oci.cgroup import stats

        return stats.collect(self.paths)

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed here for want of memory."""
        return _driver(self.paths).oom_kills(self.paths) if self.paths else 0

    def _need_paths(self, what: str) -> None:
        if not self.paths:
            raise KrunError(f"{what}: this container has no cgroup (manager disabled or rootless)")
