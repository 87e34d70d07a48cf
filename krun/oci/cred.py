"""The payload's credentials: ids, groups, capabilities, no_new_privs, limits, umask."""

import os
from errno import EINVAL

from krun.errors import SysError
from krun.oci.fields import RLIMITS
from krun.oci.steps import Context, Step
from krun.sysio import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAP_AMBIENT_RAISE,
    PR_CAPBSET_DROP,
    PR_CAPBSET_READ,
    PR_SET_KEEPCAPS,
    PR_SET_NO_NEW_PRIVS,
    STACK_SOFT,
    capget,
    capset,
    check,
    die_with_parent,
    getrlimit,
    lib,
    prctl,
    set_undumpable,
    setgroups,
    setresgid,
    setresuid_apart,
    setrlimit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.log import Log
    from krun.oci.spec import Process, Rlimit

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
ALL = -1  # the sets of a process that enters a user namespace
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


def warn_unavailable(process: "Process", own: int, log: "Log") -> None:
    """Warns of capabilities that are unknown or not ours to give, not an error since runtime-spec 1.1, and of ambient ones that the
    kernel will not raise (capabilities(7): they must be permitted and inheritable). Not of the latter where nothing is inheritable:
    `runc spec` of runc 1.1 writes such sets, so no container of theirs has ever had one.
    """
    sets = {kind: (process.caps or {}).get(kind) or [] for kind in KINDS}
    wanted = {name for names in sets.values() for name in names}
    lost = {name for name in wanted if name not in NUMBERS or not own >> NUMBERS[name] & 1}
    if lost:
        log.warning(f"ignoring unknown or unavailable capabilities: [{' '.join(sorted(lost))}]")
    alone = set(sets["ambient"]) - lost - set(sets["permitted"]).intersection(sets["inheritable"])
    if alone and sets["inheritable"]:
        words = " ".join(sorted(alone))
        log.warning(
            f"cannot raise ambient capabilities: [{words}]: they must be permitted and inheritable, too"
        )


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
        # Until the exec, which makes the saved id that of the others: a process of the container's user cannot trace us.
        ctx.saved_uid = setresuid_apart(self.uid)
        prctl(PR_SET_KEEPCAPS, 0)
        _, own, _ = capget()
        permitted = sets["permitted"] & own
        inheritable = sets["inheritable"]
        # fs.suid_dumpable has a say when ids change, and from here on nothing else protects us: our sets are the container's.
        set_undumpable()
        die_with_parent()
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
    KR_BOOT_RLIMIT_STACK): during the exec it would move the monitor towards its payload. RLIMIT_FSIZE is noted too, for
    step 24: the boot block is a file in memory, which the limit binds as any other.
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
            if limit.type == "RLIMIT_FSIZE":
                ctx.file_limit = (soft, limit.hard)
                continue
            self.set_one(limit, soft)

    @staticmethod
    def set_one(limit: "Rlimit", soft: int) -> None:
        """Sets a limit. Raises SysError with the values and what to do."""
        number = RLIMITS[limit.type]
        try:
            setrlimit(number, soft, limit.hard, limit.type)
        except SysError as e:
            ours = getrlimit(number)[1]
            most = ours if ours < 1 << 63 else "none"
            text = f"krun's own hard limit is {most}; lower process.rlimits, or start the engine with more"
            raise SysError(
                e.op, f"{limit.type} (soft {limit.soft}, hard {limit.hard})", e.errno, text
            ) from None


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
