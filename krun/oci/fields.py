"""Every field of config.json for Linux (runtime-spec 1.3), one row each: THE table.

`spec.load` walks the document along this table; `cli/features` and docs/spec-conformance.md come from it. A row:

    pointer pattern: served(type, step, note, check) or refused(type, note) or ignored(type, note)

* pattern: JSON pointer, `*` for any array item or map key;
* type: a key of TYPES;
* step: the code that serves the field, a name below krun.oci ("module", "module.function" or "module.Step");
* note: for the generated document;
* check: function(value, pointer) that raises ConfigError, or None.

spec.py gives an absent field its default value. REQUIRED lists the fields that must be present. A key without a row is
an unknown property and ignored (config.md, "Extensibility").
"""

from krun.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], None]

SERVED = "served"
REFUSED = "refused"  # a value other than empty is an error that names the field
IGNORED = "ignored"  # by rule: the note says which


class Field:
    """A row of FIELDS. level: SERVED, REFUSED or IGNORED."""

    __slots__ = ("type", "level", "step", "note", "check")

    def __init__(self, type: str, level: str, step: str, note: str, check: "Check | None") -> None:
        self.type = type
        self.level = level
        self.step = step
        self.note = note
        self.check = check


def served(type: str, step: str, note: str = "", check: "Check | None" = None) -> Field:
    """Returns the row of a field that `step` serves."""
    return Field(type, SERVED, step, note, check)


def refused(type: str, note: str) -> Field:
    """Returns the row of a field that must be empty."""
    return Field(type, REFUSED, "", note, None)


def ignored(type: str, note: str) -> Field:
    """Returns the row of a field whose value is not looked at."""
    return Field(type, IGNORED, "", note, None)


# Name: (Python type, smallest, largest). Arrays and maps of one scalar type need no row for their items.
TYPES: "dict[str, tuple[type, int, int]]" = {
    "object": (dict, 0, 0),
    "map": (dict, 0, 0),
    "array": (list, 0, 0),
    "string": (str, 0, 0),
    "strings": (list, 0, 0),
    "stringmap": (dict, 0, 0),
    "bool": (bool, 0, 0),
    "int": (int, -(1 << 63), (1 << 63) - 1),
    "uint": (int, 0, (1 << 64) - 1),
    "i32": (int, -(1 << 31), (1 << 31) - 1),
    "u32": (int, 0, (1 << 32) - 1),
    "u16": (int, 0, (1 << 16) - 1),
    # 2^32 - 1 is "no change" to setresuid(2): not an id (containerd CVE-2024-40635).
    "id": (int, 0, (1 << 32) - 2),
    "ids": (list, 0, (1 << 32) - 2),
    "any": (object, 0, 0),
}


def below_root(rootfs: str, path: str) -> str:
    """Returns a mount's destination as a path of the container: one that begins with the root's path on the host means that file
    below it, as with runc (utils.StripRoot)."""
    return path[len(rootfs) :] if rootfs and path.startswith(rootfs + "/") else path


def absolute(value: str, pointer: str) -> None:
    """Check: an absolute path without NUL."""
    if not value.startswith("/"):
        raise ConfigError(pointer, f'"{value}" is not an absolute path')
    no_nul(value, pointer)


def no_nul(value: str, pointer: str) -> None:
    """Check: a string that the kernel can take."""
    if "\0" in value:
        raise ConfigError(pointer, "holds a NUL character")


def no_nul_all(value: "list[str]", pointer: str) -> None:
    """Check: strings that the kernel can take."""
    if "\0" in "".join(value):
        for index, word in enumerate(value):
            no_nul(word, f"{pointer}/{index}")


def absolute_all(value: "list[str]", pointer: str) -> None:
    """Check: absolute paths."""
    for index, path in enumerate(value):
        absolute(path, f"{pointer}/{index}")


def one_of(*words: str) -> "Check":
    """Returns a check for one of some words."""
    allowed = frozenset(words)

    def check(value: str, pointer: str) -> None:
        if value not in allowed:
            raise ConfigError(pointer, f'unknown value "{value}"')

    return check


def seconds(value: int, pointer: str) -> None:
    """Check: a hook's timeout, more than nothing, and no more than the boot block holds (136 years)."""
    if value <= 0:
        raise ConfigError(pointer, "must be greater than zero")
    if value > _U32:
        raise ConfigError(pointer, f"{value} s is too long: use {_U32} at most, or leave it out")


def at_most(largest: int, smallest: int = -(1 << 63)) -> "Check":
    """Returns a check for a number of a device, which the kernel would cut to fewer bits: then it is another device's."""

    def check(value: int, pointer: str) -> None:
        if not smallest <= value <= largest:
            words = f"use {smallest} to {largest}" if smallest >= 0 else f"use {largest} at most"
            raise ConfigError(pointer, f"{value} is not the number of a device: {words}")

    return check


_U32 = (1 << 32) - 1
# Bits of a dev_t (linux/kdev_t.h, MINORBITS): mknod(2) drops all others.
MAJOR, MINOR = at_most((1 << 12) - 1, 0), at_most((1 << 20) - 1, 0)


def semver(value: str, pointer: str) -> None:
    """Check: a version as of semver.org 2.0; which one does not matter, as with runc and crun."""
    core = value.partition("+")[0].partition("-")[0].split(".")
    if len(core) != 3 or not all(part.isascii() and part.isdigit() for part in core):
        raise ConfigError(pointer, f'"{value}" is not a version of the form 1.2.3')


# The annotations that turn completion of system calls inside the guest off for a container, and of those on TCP sockets (docs/calls.md).
CALLS_LOCAL = "io.krun.calls.local"
CALLS_SOCKETS = "io.krun.calls.sockets"


def annotations(value: "dict[str, str]", pointer: str) -> None:
    """Check: keys must not be empty (config.md, "Annotations"); our own annotations can only take away."""
    if "" in value:
        raise ConfigError(pointer, "an annotation's key is empty")
    for key in (CALLS_LOCAL, CALLS_SOCKETS):
        if value.get(key, "off") != "off":
            setting = key.removeprefix("io.krun.")
            text = f"{key} is {value[key]!r}; use off, or leave it out ({setting} in /etc/krun/krun.yaml turns it on)"
            raise ConfigError(pointer, text)


RLIMITS = {
    "RLIMIT_CPU": 0,
    "RLIMIT_FSIZE": 1,
    "RLIMIT_DATA": 2,
    "RLIMIT_STACK": 3,
    "RLIMIT_CORE": 4,
    "RLIMIT_RSS": 5,
    "RLIMIT_NPROC": 6,
    "RLIMIT_NOFILE": 7,
    "RLIMIT_MEMLOCK": 8,
    "RLIMIT_AS": 9,
    "RLIMIT_LOCKS": 10,
    "RLIMIT_SIGPENDING": 11,
    "RLIMIT_MSGQUEUE": 12,
    "RLIMIT_NICE": 13,
    "RLIMIT_RTPRIO": 14,
    "RLIMIT_RTTIME": 15,
}

NAMESPACE_TYPES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")
PROPAGATIONS = (
    "shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable",
)  # fmt: skip
SECCOMP_ACTIONS = (
    "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_TRAP", "SCMP_ACT_ERRNO",
    "SCMP_ACT_TRACE", "SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_NOTIFY",
)  # fmt: skip
SECCOMP_OPERATORS = (
    "SCMP_CMP_NE", "SCMP_CMP_LT", "SCMP_CMP_LE", "SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_MASKED_EQ",
)  # fmt: skip
SECCOMP_FLAGS = (
    "SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
)  # fmt: skip
SCHEDULERS = (
    "SCHED_OTHER",
    "SCHED_FIFO",
    "SCHED_RR",
    "SCHED_BATCH",
    "SCHED_ISO",
    "SCHED_IDLE",
    "SCHED_DEADLINE",
)
SCHED_FLAGS = (
    "SCHED_FLAG_RESET_ON_FORK", "SCHED_FLAG_RECLAIM", "SCHED_FLAG_DL_OVERRUN", "SCHED_FLAG_KEEP_POLICY",
    "SCHED_FLAG_KEEP_PARAMS", "SCHED_FLAG_UTIL_CLAMP_MIN", "SCHED_FLAG_UTIL_CLAMP_MAX",
)  # fmt: skip
MPOL_MODES = (
    "MPOL_DEFAULT", "MPOL_PREFERRED", "MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_LOCAL", "MPOL_PREFERRED_MANY",
    "MPOL_WEIGHTED_INTERLEAVE",
)  # fmt: skip
MPOL_FLAGS = ("MPOL_F_NUMA_BALANCING", "MPOL_F_RELATIVE_NODES", "MPOL_F_STATIC_NODES")

_CG = "cgroup.group.create"
_OTHER = 'another platform\'s section (config.md, "Platform-specific configuration")'


def _id_maps(where: str, by: str, note: str) -> "dict[str, Field]":
    """Rows of uidMappings and gidMappings below `where`: who serves them, note of the arrays."""
    rows: dict[str, Field] = {}
    for name in ("uidMappings", "gidMappings"):
        rows[f"{where}/{name}"] = served("array", by, note)
        rows[f"{where}/{name}/*"] = served("object", by)
        for member in ("containerID", "hostID", "size"):
            rows[f"{where}/{name}/*/{member}"] = served("u32", by)
    return rows


FIELDS: "dict[str, Field]" = {
    "": served("object", "spec.load", "config.json itself"),
    "/ociVersion": served(
        "string", "spec.load", "every version is accepted, as by runc and crun", check=semver
    ),
    "/hostname": served("string", "namespaces.SetHostname", "needs a uts namespace", check=no_nul),
    "/domainname": served("string", "namespaces.SetDomainname", "needs a uts namespace", check=no_nul),
    "/annotations": served(
        "stringmap",
        "state",
        "kept in the state; org.systemd.property.* set properties of the unit (systemd driver); io.krun.calls.local=off turns completed "
        "calls off, io.krun.calls.sockets=off those on TCP sockets; no annotation chooses a path or a program",
        check=annotations,
    ),
    "/root": served("object", "rootfs"),
    "/root/path": served("string", "rootfs.BindRoot", "relative to the bundle", check=no_nul),
    "/root/readonly": served("bool", "rootfs.ReadonlyRoot"),
    # mounts
    "/mounts": served("array", "mounts.make", "in the order of the list"),
    "/mounts/*": served("object", "mounts.make"),
    "/mounts/*/destination": served(
        "string", "mounts.make", "a relative path is relative to /", check=no_nul
    ),
    "/mounts/*/type": served("string", "mounts.make", "binfmt_misc is refused", check=no_nul),
    "/mounts/*/source": served("string", "mounts.make", check=no_nul),
    "/mounts/*/options": served(
        "strings", "mountopts.parse", "unknown words are options of the file system", check=no_nul_all
    ),
    **_id_maps("/mounts/*", "mounts.BindMount", "idmapped mount"),
    # process
    "/process": served("object", "init"),
    "/process/terminal": served("bool", "console.OpenConsole"),
    "/process/consoleSize": served("object", "console.OpenConsole", "ignored unless terminal"),
    "/process/consoleSize/height": served("u16", "console.OpenConsole"),
    "/process/consoleSize/width": served("u16", "console.OpenConsole"),
    "/process/cwd": served(
        "string", "cwd.enter_cwd", "made if missing; getcwd is checked (CVE-2024-21626)", check=no_nul
    ),
    "/process/env": served("strings", "init", check=no_nul_all),
    "/process/args": served("strings", "init", check=no_nul_all),
    "/process/commandLine": ignored("string", "Windows only"),
    "/process/user": served("object", "cred.SetCapabilities"),
    "/process/user/uid": served("id", "cred.SetCapabilities"),
    "/process/user/gid": served("id", "cred.SetCapabilities"),
    "/process/user/umask": served("u32", "cred.SetUmask"),
    "/process/user/additionalGids": served("ids", "cred.SetCapabilities"),
    "/process/user/username": ignored("string", "Windows only"),
    "/process/capabilities": served("object", "cred.SetCapabilities", "unknown names: a warning"),
    "/process/capabilities/bounding": served("strings", "cred.SetCapabilities"),
    "/process/capabilities/effective": served("strings", "cred.SetCapabilities"),
    "/process/capabilities/permitted": served("strings", "cred.SetCapabilities"),
    "/process/capabilities/inheritable": served("strings", "cred.SetCapabilities"),
    "/process/capabilities/ambient": served("strings", "cred.SetCapabilities"),
    "/process/rlimits": served("array", "cred.SetRlimits", "a type that stands twice is an error"),
    "/process/rlimits/*": served("object", "cred.SetRlimits"),
    "/process/rlimits/*/type": served("string", "cred.SetRlimits", check=one_of(*RLIMITS)),
    "/process/rlimits/*/soft": served("uint", "cred.SetRlimits"),
    "/process/rlimits/*/hard": served("uint", "cred.SetRlimits"),
    "/process/noNewPrivileges": served("bool", "cred.SetNoNewPrivs"),
    "/process/apparmorProfile": served(
        "string", "labels.SetAppArmor", "an error where AppArmor is off", check=no_nul
    ),
    "/process/selinuxLabel": served(
        "string", "labels.SetSelinux", "an error where SELinux is off", check=no_nul
    ),
    "/process/oomScoreAdj": served("i32", "sched.SetOomScore", "unchanged if absent"),
    "/process/scheduler": served("object", "sched.SetScheduler"),
    "/process/scheduler/policy": served("string", "sched.SetScheduler", check=one_of(*SCHEDULERS)),
    "/process/scheduler/nice": served("i32", "sched.SetScheduler"),
    "/process/scheduler/priority": served("i32", "sched.SetScheduler"),
    "/process/scheduler/flags": served("strings", "sched.SetScheduler"),
    "/process/scheduler/runtime": served("uint", "sched.SetScheduler"),
    "/process/scheduler/deadline": served("uint", "sched.SetScheduler"),
    "/process/scheduler/period": served("uint", "sched.SetScheduler"),
    "/process/ioPriority": served("object", "sched.SetIoPriority"),
    "/process/ioPriority/class": served(
        "string",
        "sched.SetIoPriority",
        check=one_of("IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE"),
    ),
    "/process/ioPriority/priority": served("i32", "sched.SetIoPriority", "0 to 7"),
    "/process/execCPUAffinity": served("object", "exec", "of exec only"),
    "/process/execCPUAffinity/initial": served("string", "exec"),
    "/process/execCPUAffinity/final": served("string", "exec"),
    # hooks
    "/hooks": served("object", "hooks.run"),
    # linux
    "/linux": served("object", "spec.load"),
    "/linux/namespaces": served("array", "namespaces", "a type without an entry is inherited"),
    "/linux/namespaces/*": served("object", "namespaces"),
    "/linux/namespaces/*/type": served("string", "namespaces", check=one_of(*NAMESPACE_TYPES)),
    "/linux/namespaces/*/path": served(
        "string", "namespaces.open_paths", "absolute, and of that type", check=no_nul
    ),
    **_id_maps("/linux", "spawn.write_id_maps", ""),
    "/linux/timeOffsets": served("map", "spawn", "monotonic and boottime; with a new time namespace"),
    "/linux/timeOffsets/*": served("object", "spawn"),
    "/linux/timeOffsets/*/secs": served("int", "spawn"),
    "/linux/timeOffsets/*/nanosecs": served("u32", "spawn"),
    "/linux/devices": served("array", "devices.MakeDevices"),
    "/linux/devices/*": served("object", "devices.MakeDevices"),
    "/linux/devices/*/type": served("string", "devices.MakeDevices", check=one_of("c", "b", "u", "p")),
    "/linux/devices/*/path": served("string", "devices.MakeDevices", check=absolute),
    "/linux/devices/*/major": served("int", "devices.MakeDevices", check=MAJOR),
    "/linux/devices/*/minor": served("int", "devices.MakeDevices", check=MINOR),
    "/linux/devices/*/fileMode": served("u32", "devices.MakeDevices", "0666 if absent"),
    "/linux/devices/*/uid": served("id", "devices.MakeDevices"),
    "/linux/devices/*/gid": served("id", "devices.MakeDevices"),
    "/linux/netDevices": served("map", "network.move_devices", "needs a network namespace"),
    "/linux/netDevices/*": served("object", "network.move_devices"),
    "/linux/netDevices/*/name": served("string", "network.move_devices"),
    "/linux/cgroupsPath": served("string", _CG, check=no_nul),
    "/linux/resources": served("object", _CG),
    "/linux/resources/devices": served("array", _CG),
    "/linux/resources/devices/*": served("object", _CG),
    "/linux/resources/devices/*/allow": served("bool", _CG),
    "/linux/resources/devices/*/type": served("string", _CG, check=one_of("a", "b", "c", "")),
    "/linux/resources/devices/*/major": served("int", _CG, "negative: any", check=at_most(_U32)),
    "/linux/resources/devices/*/minor": served("int", _CG, "negative: any", check=at_most(_U32)),
    "/linux/resources/devices/*/access": served("string", _CG),
    "/linux/resources/memory": served("object", _CG),
    "/linux/resources/memory/limit": served("int", _CG),
    "/linux/resources/memory/reservation": served("int", _CG),
    "/linux/resources/memory/swap": served("int", _CG),
    "/linux/resources/memory/kernel": ignored("int", "not recommended since 1.1; gone from kernels"),
    "/linux/resources/memory/kernelTCP": ignored("int", "not recommended since 1.1; gone from kernels"),
    "/linux/resources/memory/swappiness": served("uint", _CG),
    "/linux/resources/memory/disableOOMKiller": served("bool", _CG),
    "/linux/resources/memory/useHierarchy": served("bool", _CG),
    "/linux/resources/memory/checkBeforeUpdate": served("bool", _CG),
    "/linux/resources/cpu": served("object", _CG),
    "/linux/resources/cpu/shares": served("uint", _CG),
    "/linux/resources/cpu/quota": served("int", _CG),
    "/linux/resources/cpu/burst": served("uint", _CG),
    "/linux/resources/cpu/period": served("uint", _CG),
    "/linux/resources/cpu/realtimeRuntime": served("int", _CG),
    "/linux/resources/cpu/realtimePeriod": served("uint", _CG),
    "/linux/resources/cpu/cpus": served("string", _CG),
    "/linux/resources/cpu/mems": served("string", _CG),
    "/linux/resources/cpu/idle": served("int", _CG),
    "/linux/resources/pids": served("object", _CG),
    "/linux/resources/pids/limit": served("int", _CG, "0 is a value since 1.3, taken as 1; -1 is max"),
    "/linux/resources/blockIO": served("object", _CG),
    "/linux/resources/blockIO/weight": served("u16", _CG),
    "/linux/resources/blockIO/leafWeight": served("u16", _CG),
    "/linux/resources/blockIO/weightDevice": served("array", _CG),
    "/linux/resources/blockIO/weightDevice/*": served("object", _CG),
    "/linux/resources/blockIO/weightDevice/*/major": served("int", _CG),
    "/linux/resources/blockIO/weightDevice/*/minor": served("int", _CG),
    "/linux/resources/blockIO/weightDevice/*/weight": served("u16", _CG),
    "/linux/resources/blockIO/weightDevice/*/leafWeight": served("u16", _CG),
    "/linux/resources/hugepageLimits": served("array", _CG),
    "/linux/resources/hugepageLimits/*": served("object", _CG),
    "/linux/resources/hugepageLimits/*/pageSize": served("string", _CG),
    "/linux/resources/hugepageLimits/*/limit": served("uint", _CG),
    "/linux/resources/network": served("object", _CG),
    "/linux/resources/network/classID": served("u32", _CG),
    "/linux/resources/network/priorities": served("array", _CG),
    "/linux/resources/network/priorities/*": served("object", _CG),
    "/linux/resources/network/priorities/*/name": served("string", _CG, check=no_nul),
    "/linux/resources/network/priorities/*/priority": served("u32", _CG),
    "/linux/resources/rdma": served("map", _CG),
    "/linux/resources/rdma/*": served("object", _CG),
    "/linux/resources/rdma/*/hcaHandles": served("u32", _CG),
    "/linux/resources/rdma/*/hcaObjects": served("u32", _CG),
    "/linux/resources/unified": served("stringmap", _CG, "an error on pure v1"),
    "/linux/sysctl": served("stringmap", "procfs.SetSysctls", "runc's allow-list"),
    "/linux/seccomp": served("object", "seccomp.compile_filter", "evaluated by the monitor"),
    "/linux/seccomp/defaultAction": served("string", "seccomp", check=one_of(*SECCOMP_ACTIONS)),
    "/linux/seccomp/defaultErrnoRet": served("u32", "seccomp"),
    "/linux/seccomp/architectures": served("strings", "seccomp", "the payload's calls are all x86-64"),
    "/linux/seccomp/flags": served("strings", "seccomp", "TSYNC and SPEC_ALLOW have no meaning here"),
    "/linux/seccomp/listenerPath": served(
        "string",
        "listener.Listener",
        "used with SCMP_ACT_NOTIFY only (docs/architecture.md, Seccomp notifications)",
    ),
    "/linux/seccomp/listenerMetadata": served("string", "listener.Listener", "goes with listenerPath only"),
    "/linux/seccomp/syscalls": served("array", "seccomp", "checked by its compiler, on a cache miss"),
    "/linux/rootfsPropagation": served("string", "rootfs.Propagation", check=one_of("", *PROPAGATIONS)),
    "/linux/maskedPaths": served("strings", "masks.MaskPaths", check=absolute_all),
    "/linux/readonlyPaths": served("strings", "masks.ReadonlyPaths", check=absolute_all),
    "/linux/mountLabel": served("string", "mounts", "a warning where SELinux is off"),
    "/linux/personality": served("object", "sched.SetPersonality"),
    "/linux/personality/domain": served("string", "sched.SetPersonality", check=one_of("LINUX", "LINUX32")),
    "/linux/personality/flags": refused("strings", "the specification defines none"),
    "/linux/intelRdt": served("object", "resctrl.create", "an error where no resctrl is mounted"),
    "/linux/intelRdt/closID": served("string", "resctrl.check", "/ is the default class"),
    "/linux/intelRdt/schemata": served("strings", "resctrl.write_schemata", "written last", check=no_nul_all),
    "/linux/intelRdt/l3CacheSchema": served("string", "resctrl.write_schemata", check=no_nul),
    "/linux/intelRdt/memBwSchema": served("string", "resctrl.write_schemata", check=no_nul),
    "/linux/intelRdt/enableMonitoring": served("bool", "resctrl.create", "a directory in mon_groups"),
    "/linux/intelRdt/enableCMT": ignored("bool", "replaced by enableMonitoring in 1.3"),
    "/linux/intelRdt/enableMBM": ignored("bool", "replaced by enableMonitoring in 1.3"),
    "/linux/memoryPolicy": served("object", "sched.SetMemoryPolicy"),
    "/linux/memoryPolicy/mode": served("string", "sched.SetMemoryPolicy", check=one_of(*MPOL_MODES)),
    "/linux/memoryPolicy/nodes": served("string", "sched.SetMemoryPolicy"),
    "/linux/memoryPolicy/flags": served("strings", "sched.SetMemoryPolicy"),
    # other platforms
    "/windows": ignored("any", _OTHER),
    "/solaris": ignored("any", _OTHER),
    "/freebsd": ignored("any", _OTHER),
    "/zos": ignored("any", _OTHER),
    "/vm": refused("object", "the monitor takes no kernel, image or path from a configuration"),
}

for _kind in ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"):
    FIELDS[f"/hooks/{_kind}"] = served("array", "hooks.run")
    FIELDS[f"/hooks/{_kind}/*"] = served("object", "hooks.run")
    FIELDS[f"/hooks/{_kind}/*/path"] = served("string", "hooks.run", check=absolute)
    FIELDS[f"/hooks/{_kind}/*/args"] = served("strings", "hooks.run", check=no_nul_all)
    FIELDS[f"/hooks/{_kind}/*/env"] = served("strings", "hooks.run", check=no_nul_all)
    FIELDS[f"/hooks/{_kind}/*/timeout"] = served("int", "hooks.run", "in seconds", check=seconds)

for _kind in ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS"):
    _at = f"/linux/resources/blockIO/throttle{_kind}Device"
    FIELDS[_at] = served("array", _CG)
    FIELDS[f"{_at}/*"] = served("object", _CG)
    FIELDS[f"{_at}/*/major"] = served("int", _CG)
    FIELDS[f"{_at}/*/minor"] = served("int", _CG)
    FIELDS[f"{_at}/*/rate"] = served("uint", _CG)

# Members that an object must have where it is given at all; what has no row here may be absent, or is checked with its
# neighbours (spec.CHECKS).
REQUIRED: "dict[str, tuple[str, ...]]" = {
    "/process/ioPriority": ("class",),
    "/linux/devices/*": ("type", "path"),
    "/linux/personality": ("domain",),
    "/linux/resources/blockIO/weightDevice/*": ("major", "minor"),
    "/linux/resources/hugepageLimits/*": ("pageSize", "limit"),
    "/linux/resources/network/priorities/*": ("name", "priority"),
}
for _key in list(FIELDS):
    if _key.startswith("/hooks/") and _key.endswith("/*"):
        REQUIRED[_key] = ("path",)
    elif "/throttle" in _key and _key.endswith("/*"):
        REQUIRED[_key] = ("major", "minor", "rate")
