"""Every field of config.json for Linux (runtime-spec 1.3), one row each: THE table.

`spec.load` walks the document along this table; `cli/features` and docs/spec-conformance.md come from it. A row:

    pointer pattern: (type, default, check, level, step, note)

* pattern: JSON pointer, `*` for any array item or map key;
* type: a key of TYPES;
* check: function(value, pointer) that raises ConfigError, or None;
* level: SERVED, REFUSED (a value other than empty is an error that names the field), IGNORED (by rule, the note says which);
* step: who serves it ("module.function or Step"), "" if none;
* note: for the generated document.

Keys without a row are unknown properties and ignored (config.md, "Extensibility").
"""

from krun.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], None]
    Row = tuple[str, Any, "Check | None", str, str, str]

SERVED = "served"
REFUSED = "refused"
IGNORED = "ignored"

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


def positive(value: int, pointer: str) -> None:
    """Check: more than nothing (a hook's timeout)."""
    if value <= 0:
        raise ConfigError(pointer, "must be greater than zero")


def semver(value: str, pointer: str) -> None:
    """Check: a version as of semver.org 2.0; which one does not matter, as with runc and crun."""
    core = value.partition("+")[0].partition("-")[0].split(".")
    if len(core) != 3 or not all(part.isascii() and part.isdigit() for part in core):
        raise ConfigError(pointer, f'"{value}" is not a version of the form 1.2.3')


def annotations(value: "dict[str, str]", pointer: str) -> None:
    """Check: keys must not be empty (config.md, "Annotations")."""
    if "" in value:
        raise ConfigError(pointer, "an annotation's key is empty")


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

_CG = "cgroups.create"
_OTHER = 'another platform\'s section (config.md, "Platform-specific configuration")'


def _id_maps(where: str, by: str, note: str) -> "dict[str, Row]":
    """Rows of uidMappings and gidMappings below `where`: who serves them, note of the arrays."""
    rows: dict[str, Row] = {}
    for name in ("uidMappings", "gidMappings"):
        rows[f"{where}/{name}"] = ("array", [], None, SERVED, by, note)
        rows[f"{where}/{name}/*"] = ("object", None, None, SERVED, by, "")
        for member in ("containerID", "hostID", "size"):
            rows[f"{where}/{name}/*/{member}"] = ("u32", 0, None, SERVED, by, "")
    return rows


FIELDS: "dict[str, Row]" = {
    "": ("object", None, None, SERVED, "spec.load", "config.json itself"),
    "/ociVersion": ("string", "", semver, SERVED, "spec.load", "any version is taken, as runc and crun do"),
    "/hostname": ("string", "", no_nul, SERVED, "namespaces.SetHostname", "needs a uts namespace"),
    "/domainname": ("string", "", no_nul, SERVED, "namespaces.SetDomainname", "needs a uts namespace"),
    "/annotations": (
        "stringmap",
        {},
        annotations,
        SERVED,
        "state",
        "kept in the state; org.systemd.property.* are the unit's properties (systemd driver); choose no path and no binary",
    ),
    "/root": ("object", None, None, SERVED, "rootfs", ""),
    "/root/path": ("string", "", no_nul, SERVED, "rootfs.BindRoot", "relative to the bundle"),
    "/root/readonly": ("bool", False, None, SERVED, "rootfs.ReadonlyRoot", ""),
    # mounts
    "/mounts": ("array", [], None, SERVED, "mounts.make", "in the order of the list"),
    "/mounts/*": ("object", None, None, SERVED, "mounts.make", ""),
    "/mounts/*/destination": ("string", "", no_nul, SERVED, "mounts.make", "relative ones are taken from /"),
    "/mounts/*/type": ("string", "", no_nul, SERVED, "mounts.make", ""),
    "/mounts/*/source": ("string", "", no_nul, SERVED, "mounts.make", ""),
    "/mounts/*/options": (
        "strings",
        [],
        no_nul_all,
        SERVED,
        "mounts.parse",
        "unknown words are the file system's",
    ),
    **_id_maps("/mounts/*", "mounts.BindMount", "idmapped mount"),
    # process
    "/process": ("object", None, None, SERVED, "init", ""),
    "/process/terminal": ("bool", False, None, SERVED, "console.OpenConsole", ""),
    "/process/consoleSize": ("object", None, None, SERVED, "console.OpenConsole", "ignored unless terminal"),
    "/process/consoleSize/height": ("u16", 0, None, SERVED, "console.OpenConsole", ""),
    "/process/consoleSize/width": ("u16", 0, None, SERVED, "console.OpenConsole", ""),
    "/process/cwd": (
        "string",
        "",
        no_nul,
        SERVED,
        "rootfs.EnterCwd",
        "made if missing; getcwd is checked (CVE-2024-21626)",
    ),
    "/process/env": ("strings", [], no_nul_all, SERVED, "init", ""),
    "/process/args": ("strings", [], no_nul_all, SERVED, "init", ""),
    "/process/commandLine": ("string", "", None, IGNORED, "", "Windows only"),
    "/process/user": ("object", None, None, SERVED, "cred.SetIds", ""),
    "/process/user/uid": ("id", 0, None, SERVED, "cred.SetIds", ""),
    "/process/user/gid": ("id", 0, None, SERVED, "cred.SetIds", ""),
    "/process/user/umask": ("u32", None, None, SERVED, "cred.SetUmask", ""),
    "/process/user/additionalGids": ("ids", [], None, SERVED, "cred.SetIds", ""),
    "/process/user/username": ("string", "", None, IGNORED, "", "Windows only"),
    "/process/capabilities": (
        "object",
        None,
        None,
        SERVED,
        "cred.SetCapabilities",
        "unknown names: a warning",
    ),
    "/process/capabilities/bounding": ("strings", [], None, SERVED, "cred.DropBounding", ""),
    "/process/capabilities/effective": ("strings", [], None, SERVED, "cred.SetCapabilities", ""),
    "/process/capabilities/permitted": ("strings", [], None, SERVED, "cred.SetCapabilities", ""),
    "/process/capabilities/inheritable": ("strings", [], None, SERVED, "cred.SetCapabilities", ""),
    "/process/capabilities/ambient": ("strings", [], None, SERVED, "cred.SetCapabilities", ""),
    "/process/rlimits": (
        "array",
        [],
        None,
        SERVED,
        "cred.SetRlimits",
        "a type that stands twice is an error",
    ),
    "/process/rlimits/*": ("object", None, None, SERVED, "cred.SetRlimits", ""),
    "/process/rlimits/*/type": ("string", "", one_of(*RLIMITS), SERVED, "cred.SetRlimits", ""),
    "/process/rlimits/*/soft": ("uint", 0, None, SERVED, "cred.SetRlimits", ""),
    "/process/rlimits/*/hard": ("uint", 0, None, SERVED, "cred.SetRlimits", ""),
    "/process/noNewPrivileges": ("bool", False, None, SERVED, "cred.SetNoNewPrivs", ""),
    "/process/apparmorProfile": (
        "string",
        "",
        no_nul,
        SERVED,
        "cred.SetAppArmor",
        "an error where AppArmor is off",
    ),
    "/process/selinuxLabel": (
        "string",
        "",
        no_nul,
        SERVED,
        "cred.SetSelinux",
        "an error where SELinux is off",
    ),
    "/process/oomScoreAdj": ("i32", None, None, SERVED, "cred.SetOomScore", "untouched unless given"),
    "/process/scheduler": ("object", None, None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/policy": ("string", "", one_of(*SCHEDULERS), SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/nice": ("i32", 0, None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/priority": ("i32", 0, None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/flags": ("strings", [], None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/runtime": ("uint", 0, None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/deadline": ("uint", 0, None, SERVED, "cred.SetScheduler", ""),
    "/process/scheduler/period": ("uint", 0, None, SERVED, "cred.SetScheduler", ""),
    "/process/ioPriority": ("object", None, None, SERVED, "cred.SetIoPriority", ""),
    "/process/ioPriority/class": (
        "string",
        "",
        one_of("IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE"),
        SERVED,
        "cred.SetIoPriority",
        "",
    ),
    "/process/ioPriority/priority": ("i32", 0, None, SERVED, "cred.SetIoPriority", "0 to 7"),
    "/process/execCPUAffinity": ("object", None, None, SERVED, "exec", "of exec only"),
    "/process/execCPUAffinity/initial": ("string", "", None, SERVED, "exec", ""),
    "/process/execCPUAffinity/final": ("string", "", None, SERVED, "exec", ""),
    # hooks
    "/hooks": ("object", None, None, SERVED, "hooks.run", ""),
    # linux
    "/linux": ("object", None, None, SERVED, "spec.load", ""),
    "/linux/namespaces": ("array", [], None, SERVED, "namespaces", "absent type: inherited"),
    "/linux/namespaces/*": ("object", None, None, SERVED, "namespaces", ""),
    "/linux/namespaces/*/type": ("string", "", one_of(*NAMESPACE_TYPES), SERVED, "namespaces", ""),
    "/linux/namespaces/*/path": (
        "string",
        "",
        no_nul,
        SERVED,
        "namespaces.Join",
        "absolute, and of that type",
    ),
    **_id_maps("/linux", "launch", ""),
    "/linux/timeOffsets": (
        "map",
        {},
        None,
        SERVED,
        "launch",
        "monotonic and boottime; with a new time namespace",
    ),
    "/linux/timeOffsets/*": ("object", None, None, SERVED, "launch", ""),
    "/linux/timeOffsets/*/secs": ("int", 0, None, SERVED, "launch", ""),
    "/linux/timeOffsets/*/nanosecs": ("u32", 0, None, SERVED, "launch", ""),
    "/linux/devices": ("array", [], None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*": ("object", None, None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/type": ("string", "", one_of("c", "b", "u", "p"), SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/path": ("string", "", absolute, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/major": ("int", 0, None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/minor": ("int", 0, None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/fileMode": ("u32", None, None, SERVED, "rootfs.MakeDevices", "0666 if absent"),
    "/linux/devices/*/uid": ("id", 0, None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/devices/*/gid": ("id", 0, None, SERVED, "rootfs.MakeDevices", ""),
    "/linux/netDevices": ("map", {}, None, SERVED, "network.move_devices", "needs a network namespace"),
    "/linux/netDevices/*": ("object", None, None, SERVED, "network.move_devices", ""),
    "/linux/netDevices/*/name": ("string", "", None, SERVED, "network.move_devices", ""),
    "/linux/cgroupsPath": ("string", "", no_nul, SERVED, _CG, ""),
    "/linux/resources": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/devices": ("array", [], None, SERVED, _CG, ""),
    "/linux/resources/devices/*": ("object", None, None, SERVED, _CG, ""),
    "/linux/resources/devices/*/allow": ("bool", False, None, SERVED, _CG, ""),
    "/linux/resources/devices/*/type": ("string", "a", one_of("a", "b", "c", ""), SERVED, _CG, ""),
    "/linux/resources/devices/*/major": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/devices/*/minor": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/devices/*/access": ("string", "", None, SERVED, _CG, ""),
    "/linux/resources/memory": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/memory/limit": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/memory/reservation": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/memory/swap": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/memory/kernel": (
        "int",
        None,
        None,
        IGNORED,
        "",
        "not recommended since 1.1; gone from kernels",
    ),
    "/linux/resources/memory/kernelTCP": (
        "int",
        None,
        None,
        IGNORED,
        "",
        "not recommended since 1.1; gone from kernels",
    ),
    "/linux/resources/memory/swappiness": ("uint", None, None, SERVED, _CG, ""),
    "/linux/resources/memory/disableOOMKiller": ("bool", False, None, SERVED, _CG, ""),
    "/linux/resources/memory/useHierarchy": ("bool", False, None, SERVED, _CG, ""),
    "/linux/resources/memory/checkBeforeUpdate": ("bool", False, None, SERVED, _CG, ""),
    "/linux/resources/cpu": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/cpu/shares": ("uint", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/quota": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/burst": ("uint", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/period": ("uint", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/realtimeRuntime": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/realtimePeriod": ("uint", None, None, SERVED, _CG, ""),
    "/linux/resources/cpu/cpus": ("string", "", None, SERVED, _CG, ""),
    "/linux/resources/cpu/mems": ("string", "", None, SERVED, _CG, ""),
    "/linux/resources/cpu/idle": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/pids": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/pids/limit": ("int", None, None, SERVED, _CG, "0 is a value since 1.3, -1 is max"),
    "/linux/resources/blockIO": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weight": ("u16", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/leafWeight": ("u16", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice": ("array", [], None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice/*": ("object", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice/*/major": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice/*/minor": ("int", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice/*/weight": ("u16", None, None, SERVED, _CG, ""),
    "/linux/resources/blockIO/weightDevice/*/leafWeight": ("u16", None, None, SERVED, _CG, ""),
    "/linux/resources/hugepageLimits": ("array", [], None, SERVED, _CG, ""),
    "/linux/resources/hugepageLimits/*": ("object", None, None, SERVED, _CG, ""),
    "/linux/resources/hugepageLimits/*/pageSize": ("string", "", None, SERVED, _CG, ""),
    "/linux/resources/hugepageLimits/*/limit": ("uint", 0, None, SERVED, _CG, ""),
    "/linux/resources/network": ("object", {}, None, SERVED, _CG, ""),
    "/linux/resources/network/classID": ("u32", None, None, SERVED, _CG, ""),
    "/linux/resources/network/priorities": ("array", [], None, SERVED, _CG, ""),
    "/linux/resources/network/priorities/*": ("object", None, None, SERVED, _CG, ""),
    "/linux/resources/network/priorities/*/name": ("string", None, no_nul, SERVED, _CG, ""),
    "/linux/resources/network/priorities/*/priority": ("u32", None, None, SERVED, _CG, ""),
    "/linux/resources/rdma": ("map", {}, None, SERVED, _CG, ""),
    "/linux/resources/rdma/*": ("object", None, None, SERVED, _CG, ""),
    "/linux/resources/rdma/*/hcaHandles": ("u32", None, None, SERVED, _CG, ""),
    "/linux/resources/rdma/*/hcaObjects": ("u32", None, None, SERVED, _CG, ""),
    "/linux/resources/unified": ("stringmap", {}, None, SERVED, _CG, "an error on pure v1"),
    "/linux/sysctl": ("stringmap", {}, None, SERVED, "rootfs.SetSysctls", "runc's allow-list"),
    "/linux/seccomp": ("object", None, None, SERVED, "seccomp.compile_filter", "evaluated by the monitor"),
    "/linux/seccomp/defaultAction": ("string", "", one_of(*SECCOMP_ACTIONS), SERVED, "seccomp", ""),
    "/linux/seccomp/defaultErrnoRet": ("u32", None, None, SERVED, "seccomp", ""),
    "/linux/seccomp/architectures": (
        "strings",
        [],
        None,
        SERVED,
        "seccomp",
        "the payload's calls are all x86-64",
    ),
    "/linux/seccomp/flags": (
        "strings",
        [],
        None,
        SERVED,
        "seccomp",
        "TSYNC and SPEC_ALLOW have no meaning here",
    ),
    "/linux/seccomp/listenerPath": (
        "string",
        "",
        None,
        IGNORED,
        "",
        "unless SCMP_ACT_NOTIFY is used, and that is refused: its descriptor is the host kernel's only",
    ),
    "/linux/seccomp/listenerMetadata": ("string", "", None, IGNORED, "", "goes with listenerPath only"),
    "/linux/seccomp/syscalls": (
        "array",
        [],
        None,
        SERVED,
        "seccomp",
        "checked where it is compiled, on a cache miss",
    ),
    "/linux/rootfsPropagation": ("string", "", one_of("", *PROPAGATIONS), SERVED, "rootfs.Propagation", ""),
    "/linux/maskedPaths": ("strings", [], absolute_all, SERVED, "rootfs.MaskPaths", ""),
    "/linux/readonlyPaths": ("strings", [], absolute_all, SERVED, "rootfs.ReadonlyPaths", ""),
    "/linux/mountLabel": ("string", "", None, SERVED, "mounts", "a warning where SELinux is off"),
    "/linux/personality": ("object", None, None, SERVED, "cred.SetPersonality", ""),
    "/linux/personality/domain": (
        "string",
        "LINUX",
        one_of("LINUX", "LINUX32"),
        SERVED,
        "cred.SetPersonality",
        "",
    ),
    "/linux/personality/flags": ("strings", [], None, REFUSED, "", "the specification defines none"),
    "/linux/intelRdt": (
        "object",
        None,
        None,
        SERVED,
        "resctrl.create",
        "an error where no resctrl is mounted",
    ),
    "/linux/intelRdt/closID": ("string", "", None, SERVED, "resctrl.check", "/ is the default class"),
    "/linux/intelRdt/schemata": ("strings", [], no_nul_all, SERVED, "resctrl.write_schemata", "written last"),
    "/linux/intelRdt/l3CacheSchema": ("string", "", no_nul, SERVED, "resctrl.write_schemata", ""),
    "/linux/intelRdt/memBwSchema": ("string", "", no_nul, SERVED, "resctrl.write_schemata", ""),
    "/linux/intelRdt/enableMonitoring": (
        "bool",
        False,
        None,
        SERVED,
        "resctrl.create",
        "a directory in mon_groups",
    ),
    "/linux/intelRdt/enableCMT": ("bool", False, None, IGNORED, "", "of 1.1; enableMonitoring since 1.3"),
    "/linux/intelRdt/enableMBM": ("bool", False, None, IGNORED, "", "of 1.1; enableMonitoring since 1.3"),
    "/linux/memoryPolicy": ("object", None, None, SERVED, "cred.SetMemoryPolicy", ""),
    "/linux/memoryPolicy/mode": ("string", "", one_of(*MPOL_MODES), SERVED, "cred.SetMemoryPolicy", ""),
    "/linux/memoryPolicy/nodes": ("string", "", None, SERVED, "cred.SetMemoryPolicy", ""),
    "/linux/memoryPolicy/flags": ("strings", [], None, SERVED, "cred.SetMemoryPolicy", ""),
    # other platforms
    "/windows": ("any", None, None, IGNORED, "", _OTHER),
    "/solaris": ("any", None, None, IGNORED, "", _OTHER),
    "/freebsd": ("any", None, None, IGNORED, "", _OTHER),
    "/zos": ("any", None, None, IGNORED, "", _OTHER),
    "/vm": (
        "object",
        None,
        None,
        REFUSED,
        "",
        "the monitor takes no kernel, image or path from a configuration",
    ),
}

for _kind in ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"):
    FIELDS[f"/hooks/{_kind}"] = ("array", [], None, SERVED, "hooks.run", "")
    FIELDS[f"/hooks/{_kind}/*"] = ("object", None, None, SERVED, "hooks.run", "")
    FIELDS[f"/hooks/{_kind}/*/path"] = ("string", "", absolute, SERVED, "hooks.run", "")
    FIELDS[f"/hooks/{_kind}/*/args"] = ("strings", [], no_nul_all, SERVED, "hooks.run", "")
    FIELDS[f"/hooks/{_kind}/*/env"] = ("strings", None, no_nul_all, SERVED, "hooks.run", "")
    FIELDS[f"/hooks/{_kind}/*/timeout"] = ("int", None, positive, SERVED, "hooks.run", "in seconds")

for _kind in ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS"):
    _at = f"/linux/resources/blockIO/throttle{_kind}Device"
    FIELDS[_at] = ("array", [], None, SERVED, _CG, "")
    FIELDS[f"{_at}/*"] = ("object", None, None, SERVED, _CG, "")
    FIELDS[f"{_at}/*/major"] = ("int", None, None, SERVED, _CG, "")
    FIELDS[f"{_at}/*/minor"] = ("int", None, None, SERVED, _CG, "")
    FIELDS[f"{_at}/*/rate"] = ("uint", None, None, SERVED, _CG, "")

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
