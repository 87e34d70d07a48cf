"""The payload's credentials and attributes in the kernel: ids, groups, capabilities, limits, scheduling, LSM labels, keyring."""

import os
from errno import EACCES, EINVAL, ENOENT, ENOSYS, EPERM

from krun import log
from krun.errors import ConfigError, KrunError, SysError
from krun.oci.fields import RLIMITS
from krun.oci.procfs import SealProc, write_proc
from krun.oci.steps import Context, Step
from krun.sysio import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAP_AMBIENT_RAISE,
    PR_CAPBSET_DROP,
    PR_CAPBSET_READ,
    PR_SET_KEEPCAPS,
    PR_SET_NO_NEW_PRIVS,
    RESOLVE_BENEATH,
    STACK_SOFT,
    capget,
    capset,
    check,
    enc,
    ffi,
    lib,
    openat2,
    prctl,
    set_undumpable,
    setgroups,
    setresgid,
    setresuid,
    setrlimit,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Process, Rlimit, Scheduler, Spec

# capabilities(7), in the order of their numbers.
CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
    "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
)  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(CAPABILITIES)}
KINDS = ("bounding", "effective", "permitted", "inheritable", "ambient")


def mask(names: "list[str]") -> int:
    """Returns the bit mask of capability names; unknown ones count for nothing (`unknown` finds them)."""
    bits = 0
    for name in names:
        number = NUMBERS.get(name)
        if number is not None:
            bits |= 1 << number
    return bits


def own_capabilities() -> int:
    """Returns what we may give away: our permitted set."""
    return capget()[1]


def warn_unavailable(process: "Process", own: int) -> None:
    """Warns of capabilities that are unknown or not ours to give; not an error since runtime-spec 1.1."""
    wanted = {name for kind in KINDS for name in (process.caps or {}).get(kind) or ()}
    lost = sorted(name for name in wanted if name not in NUMBERS or not own >> NUMBERS[name] & 1)
    if lost:
        log.warning(f"ignoring unknown or unavailable capabilities: [{' '.join(lost)}]")


class SetCapabilities(Step):
    """Ids, groups and the five capability sets, in the only order that works (capabilities(7), credentials(7)).

    Bounding first (needs CAP_SETPCAP), then the ids with PR_SET_KEEPCAPS, then the sets, then ambient, which must be a
    subset of permitted and inheritable. execve(2) then transforms the sets by the kernel's rules, as with runc.
    """

    __slots__ = ("uid", "gid", "groups", "sets")

    def __init__(self, process: "Process") -> None:
        caps = process.caps or {}
        self.uid = process.uid
        self.gid = process.gid
        self.groups = process.groups
        self.sets = {kind: mask(caps.get(kind) or []) for kind in KINDS}

    def describe(self) -> str:
        sets = " ".join(f"{kind}={bits:x}" for kind, bits in self.sets.items())
        groups = ",".join(map(str, self.groups)) or "none"
        return f"uid {self.uid} gid {self.gid} groups {groups} capabilities {sets}"

    def execute(self, ctx: Context) -> None:
        sets = self.sets
        for number in range(64):
            if sets["bounding"] >> number & 1:
                continue
            if number >= len(CAPABILITIES) and lib.kr_prctl(PR_CAPBSET_READ, number, 0, 0, 0) < 0:
                break
            result = lib.kr_prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
            if result < 0 and result != -EINVAL:
                check(result, "drop bounding capability", str(number))
        prctl(PR_SET_KEEPCAPS, 1)
        if self.groups or not ctx.groups_denied:
            setgroups(self.groups)
        setresgid(self.gid)
        setresuid(self.uid)
        prctl(PR_SET_KEEPCAPS, 0)
        _, own, _ = capget()
        permitted = sets["permitted"] & own
        inheritable = sets["inheritable"]
        # fs.suid_dumpable has a say when ids change, and from here on nothing else protects us: our sets are the container's.
        set_undumpable()
        # A set may only hold what is permitted, and inheritable only what is bounding (or inheritable already).
        capset(sets["effective"] & permitted, permitted, inheritable & (own | permitted))
        lib.kr_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        ambient = sets["ambient"]
        for number in range(len(CAPABILITIES)):
            if ambient >> number & 1:
                # Cannot be raised unless permitted and inheritable: as with runc, that is no error.
                lib.kr_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0)


class SetRlimits(Step):
    """process.rlimits. Last before the exec: a small RLIMIT_AS or RLIMIT_NOFILE must not hit krun itself.

    A soft RLIMIT_STACK above STACK_SOFT is noted and given to the monitor, which restores it (boot.h,
    KR_BOOT_RLIMIT_STACK): during the exec it would move the monitor towards its payload.
    """

    __slots__ = ("limits",)

    def __init__(self, limits: "list[Rlimit]") -> None:
        self.limits = limits

    def describe(self) -> str:
        words = [f"{limit.type}={limit.soft}:{limit.hard}" for limit in self.limits]
        return "rlimits " + (" ".join(words) or "as inherited")

    def execute(self, ctx: Context) -> None:
        for limit in self.limits:
            soft = limit.soft
            if limit.type == "RLIMIT_STACK" and soft > STACK_SOFT:
                ctx.stack_limit = soft
                soft = min(STACK_SOFT, limit.hard)
            setrlimit(RLIMITS[limit.type], soft, limit.hard, limit.type)


class SetOomScore(Step):
    """process.oomScoreAdj."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def describe(self) -> str:
        return f"oom_score_adj {self.value}"

    def execute(self, ctx: Context) -> None:
        # Once in a user namespace our files in /proc are the host root's, and a value cannot be lowered: done already then.
        fd = openat2(ctx.proc, "self/oom_score_adj", os.O_RDONLY, RESOLVE_BENEATH, name="self/oom_score_adj")
        try:
            found = os.read(fd, 16)
        finally:
            os.close(fd)
        if int(found) != self.value:
            write_proc(ctx, "self/oom_score_adj", str(self.value), "set oom_score_adj")


def set_oom_score_early(pid: "int | str", value: "int | None") -> None:
    """Sets the oom_score_adj of a process that is about to lose the right to it, because it gets other ids.

    Arguments: pid, or "self"; value, None for none. Raises SysError.
    """
    if value is None:
        return
    try:
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)
    except OSError as e:
        raise SysError("set oom_score_adj", str(value), e.errno or 0) from None


class SetNoNewPrivs(Step):
    """process.noNewPrivileges."""

    __slots__ = ()

    def describe(self) -> str:
        return "no_new_privs"

    def execute(self, ctx: Context) -> None:
        prctl(PR_SET_NO_NEW_PRIVS, 1, name="no_new_privs")


class SetUmask(Step):
    """process.user.umask."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def describe(self) -> str:
        return f"umask {self.value:04o}"

    def execute(self, ctx: Context) -> None:
        os.umask(self.value & 0o777)


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


def check_lsm(process: "Process", mount_label: str) -> str:
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


_POLICIES = {
    "SCHED_OTHER": 0, "SCHED_FIFO": 1, "SCHED_RR": 2, "SCHED_BATCH": 3, "SCHED_ISO": 4, "SCHED_IDLE": 5,
    "SCHED_DEADLINE": 6,
}  # fmt: skip
_SCHED_FLAGS = {
    "SCHED_FLAG_RESET_ON_FORK": 0x01, "SCHED_FLAG_RECLAIM": 0x02, "SCHED_FLAG_DL_OVERRUN": 0x04,
    "SCHED_FLAG_KEEP_POLICY": 0x08, "SCHED_FLAG_KEEP_PARAMS": 0x10, "SCHED_FLAG_UTIL_CLAMP_MIN": 0x20,
    "SCHED_FLAG_UTIL_CLAMP_MAX": 0x40,
}  # fmt: skip


class SetScheduler(Step):
    """process.scheduler (sched_setattr(2))."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler

    def describe(self) -> str:
        s = self.scheduler
        return f"scheduler {s.policy} nice {s.nice} priority {s.priority} flags {' '.join(s.flags) or 'none'}"

    def execute(self, ctx: Context) -> None:
        s = self.scheduler
        flags = 0
        for flag in s.flags:
            flags |= _SCHED_FLAGS[flag]
        policy = _POLICIES[s.policy]
        result = lib.kr_sched_setattr(0, policy, flags, s.nice, s.priority, s.runtime, s.deadline, s.period)
        check(result, "set scheduler", s.policy)


_IO_CLASSES = {"IOPRIO_CLASS_RT": 1, "IOPRIO_CLASS_BE": 2, "IOPRIO_CLASS_IDLE": 3}


class SetIoPriority(Step):
    """process.ioPriority, of the whole process group (ioprio_set(2))."""

    __slots__ = ("kind", "priority")

    def __init__(self, kind: str, priority: int) -> None:
        self.kind = kind
        self.priority = priority

    def describe(self) -> str:
        return f"io priority {self.kind} {self.priority}"

    def execute(self, ctx: Context) -> None:
        if self.kind:
            value = _IO_CLASSES[self.kind] << 13 | self.priority
            check(lib.kr_ioprio_set(2, 0, value), "set io priority", self.kind)


class SetPersonality(Step):
    """linux.personality."""

    __slots__ = ("domain",)

    def __init__(self, domain: str) -> None:
        self.domain = domain

    def describe(self) -> str:
        return f"personality {self.domain}"

    def execute(self, ctx: Context) -> None:
        check(lib.kr_personality(8 if self.domain == "LINUX32" else 0), "set personality", self.domain)


_MPOL_MODES = {
    "MPOL_DEFAULT": 0, "MPOL_PREFERRED": 1, "MPOL_BIND": 2, "MPOL_INTERLEAVE": 3, "MPOL_LOCAL": 4,
    "MPOL_PREFERRED_MANY": 5, "MPOL_WEIGHTED_INTERLEAVE": 6,
}  # fmt: skip
_MPOL_FLAGS = {
    "MPOL_F_NUMA_BALANCING": 1 << 13,
    "MPOL_F_RELATIVE_NODES": 1 << 14,
    "MPOL_F_STATIC_NODES": 1 << 15,
}


def number_list(text: str, pointer: str) -> "list[int]":
    """Returns the numbers of a list like "0-3,7" (cpuset(7), "List format"). Raises ConfigError."""
    numbers: list[int] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True) or not part.isascii():
            raise ConfigError(pointer, f'"{text}" is not a list like 0-3,7')
        low, high = int(first), int(last) if dash else int(first)
        if low > high or high > 65535:
            raise ConfigError(pointer, f'"{text}" is not a list like 0-3,7')
        numbers.extend(range(low, high + 1))
    return numbers


class SetMemoryPolicy(Step):
    """linux.memoryPolicy (set_mempolicy(2))."""

    __slots__ = ("mode", "nodes", "flags")

    def __init__(self, mode: str, nodes: "list[int]", flags: "list[str]") -> None:
        self.mode = mode
        self.nodes = nodes
        self.flags = flags

    def describe(self) -> str:
        return f"memory policy {self.mode} nodes {self.nodes} flags {' '.join(self.flags) or 'none'}"

    def execute(self, ctx: Context) -> None:
        mode = _MPOL_MODES[self.mode]
        for flag in self.flags:
            mode |= _MPOL_FLAGS[flag]
        words = max(self.nodes, default=0) // 64 + 1
        bits = ffi.new("unsigned long[]", words)
        for node in self.nodes:
            bits[node // 64] |= 1 << node % 64
        # maxnode counts one bit more than it uses (set_mempolicy(2), "BUGS" of the man page's history).
        result = lib.kr_set_mempolicy(
            mode, bits if self.nodes else ffi.NULL, words * 64 + 1 if self.nodes else 0
        )
        check(result, "set memory policy", self.mode)


class JoinKeyring(Step):
    """A session keyring of the container's own, so that the caller's keys stay the caller's (keyrings(7))."""

    __slots__ = ("name", "label")

    def __init__(self, name: str, label: str = "") -> None:
        self.name = name
        self.label = label

    def describe(self) -> str:
        return f"session keyring {self.name}"

    def execute(self, ctx: Context) -> None:
        # Keys have labels too; the container's program could not search one with krun's (SELinux only). Nothing of the
        # image is mounted yet: this /proc is the host's.
        if self.label:
            write_file("/proc/thread-self/attr/keycreate", self.label)
        self._join()
        if self.label:
            write_file("/proc/thread-self/attr/keycreate", "")

    def _join(self) -> None:
        key = lib.kr_join_keyring(enc(self.name))
        if key in (-ENOSYS, -EPERM, -EACCES):
            return  # a kernel without keyrings, or one whose policy forbids them: runc goes on as well
        check(key, "join session keyring", self.name)
        # The possessor may search it: with the default a changed uid could not (runc's choice of bits).
        lib.kr_keyring_setperm(key, 0x3F3F0000 | 0x00080000)


def make_process(process: "Process") -> "list[Step]":
    """Steps that set what the payload's process is, before ids change. Pure."""
    steps: list[Step] = []
    if process.scheduler is not None:
        steps.append(SetScheduler(process.scheduler))
    if process.io_priority is not None:
        steps.append(SetIoPriority(*process.io_priority))
    if process.oom_score_adj is not None:
        steps.append(SetOomScore(process.oom_score_adj))
    if process.apparmor:
        steps.append(SetAppArmor(process.apparmor))
    if process.selinux:
        steps.append(SetSelinux(process.selinux))
    if process.umask is not None:
        steps.append(SetUmask(process.umask))
    steps.append(SealProc())
    return steps


def make_container(spec: "Spec") -> "list[Step]":
    """Steps that only the first process of a container takes. Pure."""
    steps: list[Step] = []
    if spec.personality:
        steps.append(SetPersonality(spec.personality))
    policy = spec.memory_policy
    if policy is not None:
        nodes = number_list(policy.get("nodes") or "", "/linux/memoryPolicy/nodes")
        steps.append(SetMemoryPolicy(policy["mode"], nodes, policy.get("flags") or []))
    return steps
