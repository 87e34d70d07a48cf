"""Makes a Plan (lists of steps) from Spec and options. Pure: no system call, so that a plan can be printed and tested.

The child's stages have the names of the rows of `init.ORDER`; `create --dry-run` prints them in that order.
"""

from krun.errors import KrunError
from krun.oci import console, cred, labels, mounts, namespaces, procfs, rootfs, sched
from krun.oci.seccomp import check as check_seccomp
from krun.oci.steps import clean
from krun.sysio import CLONE_NEWCGROUP, CLONE_NEWTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.mounts import BindMount
    from krun.oci.spec import Process, Spec
    from krun.oci.steps import Step

# Of a container whose config.json names none: runc's, whatever the caller's is.
_UMASK = 0o022

# Names of the child's stages that hold steps of a plan (the others are fixed code in init.py).
STAGES = ("session", "proc", "names", "propagation", "root", "mounts", "devices", "console", "pivot", "paths", "process",
          "stdio", "ids", "limits")  # fmt: skip


class Plan:
    """The actions for one process. clone_flags: new namespaces, without time (made before the clone, oci/spawn.py) and
    cgroup (made by the child, oci/init.py).

    joins: type to path. stages: the child's steps. sources: bind mounts whose source the parent must open. warnings: lines for the log.
    """

    __slots__ = (
        "clone_flags",
        "new_cgroup_ns",
        "new_time_ns",
        "joins",
        "stages",
        "parent_sources",
        "host",
        "warnings",
    )

    def __init__(self) -> None:
        self.clone_flags = 0
        self.new_cgroup_ns = False
        self.new_time_ns = False
        self.joins: dict[str, str] = {}
        self.stages: dict[str, list[Step]] = {name: [] for name in STAGES}
        self.parent_sources: list[BindMount] = []
        self.host: list[str] = []
        self.warnings: list[str] = []

    def describe(self) -> "list[str]":
        """Returns the plan as lines, parent's part first."""
        lines = [f"host: {text}" for text in self.host]
        for name in STAGES:
            lines += [f"{name}: {step.describe()}" for step in self.stages[name]]
        return lines


def build(spec: "Spec", no_pivot: bool = False, keyring: str = "") -> Plan:
    """Makes the plan for the first process of a container.

    Arguments: spec; no_pivot, --no-pivot; keyring, name of its session keyring, "": the caller's. Raises ConfigError, KrunError.
    """
    process = spec.process
    if process is None:
        raise KrunError("process property must not be empty")
    plan = Plan()
    stages = plan.stages
    spaces = spec.namespaces
    flags = namespaces.new_flags(spaces)
    # The cgroup namespace is made once the parent has moved the child; the time namespace before there is a child.
    plan.new_cgroup_ns = bool(flags & CLONE_NEWCGROUP)
    plan.new_time_ns = bool(flags & CLONE_NEWTIME)
    plan.clone_flags = flags & ~(CLONE_NEWCGROUP | CLONE_NEWTIME)
    plan.joins = {kind: spaces[kind] for kind in namespaces.JOIN_ORDER if spaces.get(kind)}
    if spec.seccomp and spec.seccomp.get("defaultAction"):
        check_seccomp(spec.seccomp)

    if keyring:
        stages["session"].append(labels.JoinKeyring(keyring, process.selinux))
    stages["proc"].append(procfs.OpenProc())
    if spaces.get("network") == "":
        stages["names"].append(namespaces.LoopbackUp())
    if spec.hostname:
        stages["names"].append(namespaces.SetHostname(spec.hostname))
    if spec.domainname:
        stages["names"].append(namespaces.SetDomainname(spec.domainname))
    if "mount" in spaces:
        stages["propagation"].append(rootfs.Propagation(spec.propagation, spec.rootfs))
        stages["root"].append(rootfs.BindRoot(spec.rootfs, spec.propagation))
    else:
        stages["root"].append(rootfs.TakeRoot(spec.rootfs))
    all_mounts = mounts.make(spec, plan.warnings)
    stages["mounts"] += all_mounts
    stages["devices"] += rootfs.make_before_pivot(spec)
    if process.terminal:
        has_dev = any(clean(m.destination) == "/dev" and not mounts.is_bind(m) for m in spec.mounts)
        stages["console"].append(console.OpenConsole(process.uid, process.console_size, has_dev))
    stages["pivot"].append(rootfs.Pivot(no_pivot) if "mount" in spaces else rootfs.Chroot())
    stages["paths"] += rootfs.make_after_pivot(spec)
    stages["process"] += _container_attributes(spec)
    _process(plan, process)
    # A user namespace's root may not reach what the caller's root can: then the parent opens the sources (and the root).
    user = "user" in spaces
    for step in all_mounts:
        if not isinstance(step, mounts.BindMount) or step.inside:
            continue
        if user or step.mount.uid_maps or step.options.idmap:
            plan.parent_sources.append(step)
    _describe_host(plan, spec)
    return plan


def build_exec(spec: "Spec", process: "Process", keyring: str = "") -> Plan:
    """Makes the plan for a further process of a running container.

    Arguments: spec, of the container; process; keyring, name of the container's session keyring, "": the caller's.
    """
    plan = Plan()
    if keyring:
        # Names of keyrings are those of the user namespace, which has been joined by now.
        plan.stages["process"].append(labels.JoinKeyring(keyring, process.selinux))
    plan.stages["proc"].append(procfs.OpenProc())
    if process.terminal:
        plan.stages["console"].append(console.OpenConsole(process.uid, process.console_size, False))
    plan.stages["process"] += _container_attributes(spec)
    _process(plan, process)
    return plan


def _process(plan: Plan, process: "Process") -> None:
    """The steps that a first and a further process share."""
    plan.stages["process"] += _attributes(process)
    if not process.terminal:
        plan.stages["stdio"].append(console.OwnNull())
        plan.stages["stdio"].append(console.OwnStdio(process.uid, process.gid))
    plan.stages["ids"].append(cred.SetCapabilities(process))
    if process.no_new_privs:
        plan.stages["ids"].append(cred.SetNoNewPrivs())
    plan.stages["limits"].append(cred.SetRlimits(process.rlimits))


def _attributes(process: "Process") -> "list[Step]":
    """Steps that set what the payload's process is, before ids change. Pure."""
    steps: list[Step] = []
    if process.scheduler is not None:
        steps.append(sched.SetScheduler(process.scheduler))
    if process.io_priority is not None:
        steps.append(sched.SetIoPriority(*process.io_priority))
    if process.oom_score_adj is not None:
        steps.append(sched.SetOomScore(process.oom_score_adj))
    if process.apparmor:
        steps.append(labels.SetAppArmor(process.apparmor))
    if process.selinux:
        steps.append(labels.SetSelinux(process.selinux))
    if process.umask is not None:
        steps.append(cred.SetUmask(process.umask))
    steps.append(procfs.SealProc())
    return steps


def _container_attributes(spec: "Spec") -> "list[Step]":
    """Steps that set what linux.* says of each process of a container. Pure."""
    steps: list[Step] = []
    if spec.process is not None and spec.process.umask is None:
        steps.append(cred.SetUmask(_UMASK))
    if spec.personality:
        steps.append(sched.SetPersonality(spec.personality))
    policy = spec.memory_policy
    if policy is not None:
        nodes = sched.number_list(policy.get("nodes") or "", "/linux/memoryPolicy/nodes")
        steps.append(sched.SetMemoryPolicy(policy["mode"], nodes, policy.get("flags") or []))
    return steps


def _describe_host(plan: Plan, spec: "Spec") -> None:
    host = plan.host
    host.append("open /dev/kvm and the monitor")
    host.append(f"cgroup {spec.cgroups_path or 'by id'}")
    kinds = sorted(spec.namespaces)
    host.append("new namespaces " + " ".join(kind for kind in kinds if not spec.namespaces[kind]))
    for kind, path in plan.joins.items():
        host.append(f"join {kind} namespace {path}")
    if spec.uid_maps:
        host.append(
            f"id maps uid {namespaces.map_text(spec.uid_maps).split()} gid {namespaces.map_text(spec.gid_maps).split()}"
        )
    for clock, offset in spec.time_offsets.items():
        host.append(f"time offset {clock} {offset.get('secs') or 0} s {offset.get('nanosecs') or 0} ns")
    for name in spec.net_devices:
        host.append(f"move network device {name}")
