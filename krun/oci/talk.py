"""The parent's side of the messages of oci/sync.py: serves the child's requests until its monitor is ready."""

import os
from errno import EBUSY, EPIPE

from krun.errors import KrunError, SysError
from krun.fileio import read_file, write_file
from krun.oci import hooks, sched, sync
from krun.oci.spawn import Launched, died, write_id_maps
from krun.oci.state import hook_state
from krun.sysio import lib, sched_setaffinity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.cgroup.group import Cgroup
    from krun.oci.container import Container
    from krun.oci.spec import IdMap, Spec
    from krun.oci.state import ContainerState


_ALL_CPUS = b"\xff" * 1024  # CONFIG_NR_CPUS is at most 8192; the kernel takes what there is


def reset_cpus(pid: int) -> None:
    """Gives a new process all processors of its cpuset: krun's own affinity is its caller's, and no limit of the container's (runc
    from 1.3 on). A refusal (SCHED_DEADLINE) leaves it as it is."""
    lib.kr_sched_setaffinity(pid, len(_ALL_CPUS), _ALL_CPUS)


class Conversation:
    """Serves the requests of one child until its monitor is ready. Subclassed by what a request means."""

    __slots__ = ("launched", "sock", "later")

    def __init__(self, launched: Launched, sock: int, later: "list[int] | None" = None) -> None:
        """Argument: later, descriptors to close while the child works."""
        self.later = [] if later is None else later
        self.launched = launched
        self.sock = sock

    def on_maps(self) -> None:
        """The child waits for its id maps."""
        raise KrunError("the child asked for id maps")

    def on_cgroup(self) -> None:
        """The child waits to be in its cgroup."""
        raise KrunError("the child asked for a cgroup")

    def on_hooks(self) -> None:
        """The child's environment is made; prestart and createRuntime hooks are due."""
        raise KrunError("the child asked for hooks")

    def run(self) -> None:
        """Serves until R. Raises the child's error (sync.ChildError), or KrunError if the child dies silently."""
        actions = {sync.MAPS: self.on_maps, sync.CGROUP: self.on_cgroup, sync.HOOKS: self.on_hooks}
        while True:
            kind, fields = sync.receive(self.sock)
            if kind in actions:
                actions[kind]()
                try:
                    sync.send(self.sock, sync.GO)
                except SysError as e:
                    if e.errno != EPIPE:
                        raise
                    # It has died: what it has said before, or how it went, is read next.
                while self.later:
                    os.close(self.later.pop())
            elif kind == sync.READY:
                self.launched.stages = sync.stages(fields)
                return
            elif kind == sync.ERROR:
                raise sync.error_of(fields)
            elif kind == sync.CLOSED:
                raise KrunError(died(self.launched.pid))
            else:
                raise KrunError(f"the container's process sent an unknown message {kind!r}")


class CreateTalk(Conversation):
    """Requests of a container's first process."""

    __slots__ = ("container", "joined")

    def __init__(
        self, container: "Container", launched: Launched, sock: int, joined: bool, later: "list[int]"
    ) -> None:
        super().__init__(launched, sock, later)
        self.container = container
        self.joined = joined

    def on_maps(self) -> None:
        spec = self.container.spec
        if spec.process:
            sched.set_oom_score_early(self.launched.pid, spec.process.oom_score_adj)
        write_id_maps(self.launched.pid, spec.uid_maps, spec.gid_maps)

    def on_cgroup(self) -> None:
        container, pid = self.container, self.launched.pid
        if container.cgroup is not None and not self.joined:
            container.cgroup.join(pid, self._unit_started)
            delegate(container.cgroup, container.spec)
        reset_cpus(pid)
        if container.state.intel_rdt:
            from krun.oci import resctrl

            resctrl.join(container.state, pid)
        if container.spec.net_devices:
            # Layer and cost: pyroute2 takes 80 ms to import, and hardly any container moves a device.
            from krun.oci import network

            network.move_devices(container.spec.net_devices, pid)

    def _unit_started(self) -> None:
        """A unit of systemd is ours from its start on: only now may a teardown, also another krun's, stop it."""
        container = self.container
        assert container.cgroup is not None
        container.state.cgroup_paths = container.cgroup.paths
        container.state.manager = container.cgroup.manager
        container.statedir.save(container.state)

    def on_hooks(self) -> None:
        container = self.container
        try:
            here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            # An ordinary user's krun in a directory of root's (setpriv, sudo -u): we could not come back to it.
            self._run_hooks(container)
            return
        try:
            os.chdir(container.spec.bundle)  # as with runc, which works there
            self._run_hooks(container)
        finally:
            os.fchdir(here)
            os.close(here)

    @staticmethod
    def _run_hooks(container: "Container") -> None:
        # A prestart hook has always read "created" (it ran in start until runtime-spec 1.1); createRuntime came later.
        for kind, status in (("prestart", "created"), ("createRuntime", "creating")):
            hooks.run(container.spec.hooks, kind, hook_state(container.state, status))


class ExecTalk(Conversation):
    """Requests of an exec's process."""

    __slots__ = ("reset_cpus", "final_cpus", "state", "late_cgroup")

    def __init__(
        self,
        launched: Launched,
        sock: int,
        reset_cpus: bool,
        final_cpus: "list[int]",
        state: "ContainerState",
        late_cgroup: str,
        later: "list[int]",
    ) -> None:
        super().__init__(launched, sock, later)
        self.reset_cpus = reset_cpus
        self.final_cpus = final_cpus
        self.state = state
        self.late_cgroup = late_cgroup

    def on_cgroup(self) -> None:
        if self.late_cgroup:
            self._join_late()
        if self.state.intel_rdt:
            from krun.oci import resctrl

            resctrl.join(self.state, self.launched.pid)
        if self.reset_cpus:
            reset_cpus(self.launched.pid)
        if self.final_cpus:
            # After the cpuset's own mask, which a move into it sets (config.md, "execCPUAffinity").
            sched_setaffinity(self.launched.pid, self.final_cpus)

    def _join_late(self) -> None:
        """Puts the process into the container's cgroup v2; where the container's processes (systemd, dockerd) have moved into groups below
        and given those controllers, nobody may be in the group itself (cgroups(7), "no internal processes"): into that of the
        container's init, as runc does. Raises SysError."""
        pid = str(self.launched.pid)
        try:
            write_file(f"{self.late_cgroup}/cgroup.procs", pid)
        except SysError as e:
            below = group_below(self.late_cgroup, self.state) if e.errno == EBUSY else ""
            if not below:
                raise
            write_file(f"{below}/cgroup.procs", pid)


def group_below(top: str, state: "ContainerState") -> str:
    """Returns the directory of the cgroup v2 of the container's init if it lies below that of the container, `top`; else "", also where
    `top` is one that the caller has chosen (--cgroup)."""
    # Cost: hardly any exec comes here.
    from krun.oci.cgroup.files import HYBRID, MOUNT

    if top not in (state.cgroup_paths.get(""), state.cgroup_paths.get("unified")):
        return ""
    lines = read_file(f"/proc/{state.pid}/cgroup").decode("utf-8", "surrogateescape").split("\n")
    path = next((line[3:] for line in lines if line.startswith("0::")), "")
    found = (HYBRID if top.startswith(f"{HYBRID}/") else MOUNT) + path
    return found if found.startswith(f"{top}/") else ""


def delegate(cgroup: "Cgroup", spec: "Spec") -> None:
    """Gives a cgroup v2 to the payload's user where it sees it writable and as its own root (config-linux.md, "Cgroup
    ownership"); never one of v1. Raises SysError."""
    if "" not in cgroup.paths or spec.namespaces.get("cgroup") != "" or cgroup.pending is not None:
        return
    if not any(mount.type in ("cgroup", "cgroup2") and "ro" not in mount.options for mount in spec.mounts):
        return
    process = spec.process
    uid = host_id(spec.uid_maps, process.uid if process else 0)
    gid = host_id(spec.gid_maps, process.gid if process else 0)
    if uid >= 0 and gid >= 0 and uid != 0:
        cgroup.delegate(uid, gid)


def host_id(maps: "list[IdMap]", number: int) -> int:
    """Returns the host's id for one of the container's; itself without maps, -1 if it is not mapped."""
    for line in maps:
        if line.container <= number < line.container + line.size:
            return line.host + number - line.container
    return -1 if maps else number
