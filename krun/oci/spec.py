"""config.json, read once: parsed, walked along FIELDS, turned into plain slots, checked across fields.

No other code reads the document, with the exception of three subtrees that have their own readers and stay
dicts: `resources` (oci/cgroup/group.py), `seccomp` (oci/seccomp.py), `hooks` (oci/hooks.py).
"""

import os
from errno import ENOENT

from krun.errors import ConfigError, KrunError, SysError
from krun.fileio import read_file
from krun.jsonio import loads
from krun.oci.fields import FIELDS, IGNORED, MPOL_FLAGS, REFUSED, REQUIRED, SCHED_FLAGS, TYPES, below_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class IdMap:
    """One line of uidMappings or gidMappings."""

    __slots__ = ("container", "host", "size")

    def __init__(self, data: "dict[str, Any]") -> None:
        self.container: int = data.get("containerID") or 0
        self.host: int = data.get("hostID") or 0
        self.size: int = data.get("size") or 0


class Mount:
    """One item of mounts."""

    __slots__ = ("destination", "type", "source", "options", "uid_maps", "gid_maps")

    def __init__(self, data: "dict[str, Any]") -> None:
        self.destination: str = data.get("destination") or ""
        self.type: str = data.get("type") or ""
        self.source: str = data.get("source") or ""
        self.options: list[str] = data.get("options") or []
        self.uid_maps = [IdMap(item) for item in data.get("uidMappings") or ()]
        self.gid_maps = [IdMap(item) for item in data.get("gidMappings") or ()]


class Rlimit:
    """One item of process.rlimits."""

    __slots__ = ("type", "soft", "hard")

    def __init__(self, data: "dict[str, Any]") -> None:
        self.type: str = data.get("type") or ""
        self.soft: int = data.get("soft") or 0
        self.hard: int = data.get("hard") or 0


class Scheduler:
    """process.scheduler."""

    __slots__ = ("policy", "nice", "priority", "flags", "runtime", "deadline", "period")

    def __init__(self, data: "dict[str, Any]") -> None:
        self.policy: str = data.get("policy") or ""
        self.nice: int = data.get("nice") or 0
        self.priority: int = data.get("priority") or 0
        self.flags: list[str] = data.get("flags") or []
        self.runtime: int = data.get("runtime") or 0
        self.deadline: int = data.get("deadline") or 0
        self.period: int = data.get("period") or 0


class Process:
    """process: the payload; also the document that `exec --process` reads. `caps` is None or five lists of names."""

    __slots__ = (
        "terminal", "console_size", "cwd", "env", "args", "uid", "gid", "umask", "groups", "caps", "rlimits",
        "no_new_privs", "apparmor", "selinux", "oom_score_adj", "scheduler", "io_priority", "cpu_initial", "cpu_final",
    )  # fmt: skip

    def __init__(self, data: "dict[str, Any]") -> None:
        get = data.get
        user: dict[str, Any] = get("user") or {}
        size: dict[str, Any] | None = get("consoleSize")
        affinity: dict[str, Any] = get("execCPUAffinity") or {}
        io: dict[str, Any] | None = get("ioPriority")
        self.terminal: bool = get("terminal") or False
        self.console_size = (size.get("height") or 0, size.get("width") or 0) if size else None
        self.cwd: str = get("cwd") or ""
        self.env: list[str] = get("env") or []
        self.args: list[str] = get("args") or []
        self.uid: int = user.get("uid") or 0
        self.gid: int = user.get("gid") or 0
        self.umask: int | None = user.get("umask")
        self.groups: list[int] = user.get("additionalGids") or []
        self.caps: dict[str, list[str]] | None = get("capabilities")
        self.rlimits = [Rlimit(item) for item in get("rlimits") or ()]
        self.no_new_privs: bool = get("noNewPrivileges") or False
        self.apparmor: str = get("apparmorProfile") or ""
        self.selinux: str = get("selinuxLabel") or ""
        self.oom_score_adj: int | None = get("oomScoreAdj")
        self.scheduler = Scheduler(get("scheduler")) if get("scheduler") is not None else None  # type: ignore[arg-type]
        self.io_priority = (io.get("class") or "", io.get("priority") or 0) if io else None
        self.cpu_initial: str = affinity.get("initial") or ""
        self.cpu_final: str = affinity.get("final") or ""


class Device:
    """One item of linux.devices."""

    __slots__ = ("type", "path", "major", "minor", "mode", "uid", "gid")

    def __init__(self, data: "dict[str, Any]") -> None:
        mode = data.get("fileMode")
        self.type: str = data.get("type") or ""
        self.path: str = data.get("path") or ""
        self.major: int = data.get("major") or 0
        self.minor: int = data.get("minor") or 0
        self.mode: int = 0o666 if mode is None else mode & 0o7777
        self.uid: int = data.get("uid") or 0
        self.gid: int = data.get("gid") or 0


class Spec:
    """config.json of one bundle. `namespaces` maps each type named to its path, "" for a new one."""

    __slots__ = (
        "bundle", "version", "hostname", "domainname", "annotations", "rootfs", "root_readonly", "mounts", "process",
        "hooks", "namespaces", "uid_maps", "gid_maps", "time_offsets", "devices", "net_devices", "cgroups_path",
        "resources", "sysctl", "seccomp", "propagation", "masked", "readonly", "mount_label", "personality",
        "memory_policy", "raw", "intel_rdt",
    )  # fmt: skip

    def __init__(self, data: "dict[str, Any]", bundle: str, raw: bytes) -> None:
        get = data.get
        linux: dict[str, Any] = get("linux") or {}
        root: dict[str, Any] = get("root") or {}
        lget = linux.get
        path: str = root.get("path") or ""
        self.bundle = bundle
        self.raw = raw
        self.version: str = get("ociVersion") or ""
        self.hostname: str = get("hostname") or ""
        self.domainname: str = get("domainname") or ""
        self.annotations: dict[str, str] = get("annotations") or {}
        self.rootfs = path if path.startswith("/") or not path else f"{bundle}/{path}"
        self.root_readonly: bool = root.get("readonly") or False
        self.mounts = [Mount(item) for item in get("mounts") or ()]
        for mount in self.mounts:
            mount.destination = below_root(self.rootfs, mount.destination)
        process = get("process")
        self.process = Process(process) if process is not None else None
        self.hooks: dict[str, Any] = get("hooks") or {}
        self.namespaces: dict[str, str] = {
            item["type"]: item.get("path") or "" for item in lget("namespaces") or () if item.get("type")
        }
        self.uid_maps = [IdMap(item) for item in lget("uidMappings") or ()]
        self.gid_maps = [IdMap(item) for item in lget("gidMappings") or ()]
        self.time_offsets: dict[str, dict[str, int]] = lget("timeOffsets") or {}
        self.devices = [Device(item) for item in lget("devices") or ()]
        self.net_devices: dict[str, Any] = lget("netDevices") or {}
        self.cgroups_path: str = lget("cgroupsPath") or ""
        self.resources: dict[str, Any] = lget("resources") or {}
        self.sysctl: dict[str, str] = lget("sysctl") or {}
        self.seccomp: dict[str, Any] | None = lget("seccomp")
        self.propagation: str = lget("rootfsPropagation") or ""
        self.masked: list[str] = lget("maskedPaths") or []
        self.readonly: list[str] = lget("readonlyPaths") or []
        self.mount_label: str = lget("mountLabel") or ""
        self.personality: str = (lget("personality") or {}).get("domain") or ""
        self.memory_policy: dict[str, Any] | None = lget("memoryPolicy")
        self.intel_rdt: dict[str, Any] | None = lget("intelRdt")


def _walk(value: "Any", pattern: str, pointer: str) -> None:
    """Checks one value and what lies below it. `pattern` is the row's key, `pointer` the real place."""
    field = FIELDS[pattern]
    kind = field.type
    if field.level == IGNORED or value is None:
        return
    want: type
    want, low, high = TYPES[kind]
    if want is not object and type(value) is not want:
        raise ConfigError(pointer, f"want {_words(kind)}, have {_words_of(value)}")
    if want is int and not low <= value <= high:
        raise ConfigError(pointer, f"{value} is out of range")
    if field.level == REFUSED and value:
        raise ConfigError(pointer, f"not served by krun: {field.note}")
    if kind == "strings":
        for index, item in enumerate(value):
            if type(item) is not str:
                raise ConfigError(f"{pointer}/{index}", f"want a string, have {_words_of(item)}")
    elif kind == "object":
        for key in REQUIRED.get(pattern, ()):
            if value.get(key) in (None, ""):
                raise ConfigError(f"{pointer}/{key}", "is missing")
        for key, item in value.items():
            below = f"{pattern}/{key}"
            if below in FIELDS:
                _walk(item, below, f"{pointer}/{key}")
    elif kind == "array":
        below = pattern + "/*"
        if below in FIELDS:
            for index, item in enumerate(value):
                if item is None:
                    raise ConfigError(f"{pointer}/{index}", "is null")
                _walk(item, below, f"{pointer}/{index}")
    elif kind == "stringmap":
        for key, item in value.items():
            if type(item) is not str:
                raise ConfigError(f"{pointer}/{_escape(key)}", f"want a string, have {_words_of(item)}")
    elif kind == "map":
        below = pattern + "/*"
        for key, item in value.items():
            _walk(item, below, f"{pointer}/{_escape(key)}")
    elif kind == "ids":
        for index, item in enumerate(value):
            if type(item) is not int or not 0 <= item <= high:
                raise ConfigError(f"{pointer}/{index}", f"{item} is not a group id")
    if field.check is not None:
        field.check(value, pointer)


def _escape(key: str) -> str:
    """A key as a token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _words(kind: str) -> str:
    if kind in ("object", "map", "stringmap"):
        return "an object"
    if kind in ("array", "strings", "ids"):
        return "an array"
    return {"string": "a string", "bool": "true or false"}.get(kind, "a whole number")


def _words_of(value: "Any") -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", float: "a fraction"}
    return names.get(type(value), "a number")


def _check_version(spec: Spec) -> None:
    if not spec.version:
        raise ConfigError("/ociVersion", "is missing")


def _check_process(spec: Spec) -> None:
    if spec.process is None:
        # runtime.md, "Start", has this error at start. runc reports it at create, and callers of runc expect it there.
        raise ConfigError("", "process property must not be empty")
    check_process(spec.process, "/process")


def check_process(process: Process, at: str) -> None:
    """Cross-field checks of a process (of config.json, or of `exec`). Raises ConfigError in runc's words."""
    if not process.cwd:
        raise ConfigError(f"{at}/cwd", "Cwd property must not be empty")
    if not process.cwd.startswith("/"):
        raise ConfigError(f"{at}/cwd", "Cwd must be an absolute path")
    if not process.args:
        raise ConfigError(f"{at}/args", "args must not be empty")
    seen: set[str] = set()
    for index, limit in enumerate(process.rlimits):
        if not limit.type:
            raise ConfigError(f"{at}/rlimits/{index}/type", "is missing")
        if limit.type in seen:
            raise ConfigError(f"{at}/rlimits/{index}/type", f"{limit.type} stands twice")
        if limit.soft > limit.hard:
            raise ConfigError(
                f"{at}/rlimits/{index}/soft", f"{limit.soft} is more than the hard limit {limit.hard}"
            )
        seen.add(limit.type)
    if process.oom_score_adj is not None and not -1000 <= process.oom_score_adj <= 1000:
        raise ConfigError(f"{at}/oomScoreAdj", f"{process.oom_score_adj} is not within -1000 to 1000")
    if process.io_priority is not None and not 0 <= process.io_priority[1] <= 7:
        raise ConfigError(f"{at}/ioPriority/priority", f"{process.io_priority[1]} is not within 0 to 7")
    if process.scheduler is not None:
        _check_scheduler(process.scheduler, f"{at}/scheduler")


def _check_scheduler(scheduler: Scheduler, at: str) -> None:
    if not scheduler.policy:
        raise ConfigError(f"{at}/policy", "scheduler policy is required")
    for index, flag in enumerate(scheduler.flags):
        if flag not in SCHED_FLAGS:
            raise ConfigError(f"{at}/flags/{index}", f'unknown value "{flag}"')
    if not -20 <= scheduler.nice <= 19:
        raise ConfigError(f"{at}/nice", f"invalid scheduler.nice: {scheduler.nice}")
    real_time = scheduler.policy in ("SCHED_FIFO", "SCHED_RR")
    if scheduler.priority and not real_time:
        raise ConfigError(f"{at}/priority", "can only be specified for SchedFIFO or SchedRR policy")
    if scheduler.policy != "SCHED_DEADLINE" and (scheduler.runtime or scheduler.deadline or scheduler.period):
        raise ConfigError(at, "runtime, deadline and period are only for SCHED_DEADLINE")


def _check_root(spec: Spec) -> None:
    if not spec.rootfs:
        raise ConfigError("/root/path", "is missing")


def _check_namespaces(spec: Spec) -> None:
    spaces = spec.namespaces
    for kind, path in spaces.items():
        if path and not path.startswith("/"):
            raise ConfigError("/linux/namespaces", f'path "{path}" of the {kind} namespace is not absolute')
    if "mount" not in spaces:
        if spec.masked or spec.readonly:
            raise ConfigError(
                "/linux/maskedPaths", "unable to restrict sys entries without a private MNT namespace"
            )
        if "user" in spaces:
            # Its root has no rights over the mount namespace that is inherited.
            raise ConfigError("/linux/namespaces", "a user namespace needs a mount namespace of its own")
    if spec.hostname and "uts" not in spaces:
        raise ConfigError("/hostname", "unable to set hostname without a private UTS namespace")
    if spec.domainname and "uts" not in spaces:
        raise ConfigError("/domainname", "unable to set domainname without a private UTS namespace")
    if spec.net_devices and "network" not in spaces:
        raise ConfigError(
            "/linux/netDevices", "unable to move network devices without a private NET namespace"
        )
    if spec.time_offsets and spaces.get("time") != "":
        raise ConfigError(
            "/linux/timeOffsets", "time namespace offsets specified without a new time namespace"
        )
    for name in spec.time_offsets:
        if name not in ("monotonic", "boottime"):
            raise ConfigError(f"/linux/timeOffsets/{_escape(name)}", "unknown clock")


def _check_maps(spec: Spec) -> None:
    spaces = spec.namespaces
    if spaces.get("user") == "":
        if not spec.uid_maps or not spec.gid_maps:
            raise ConfigError("/linux/uidMappings", "user namespaces enabled, but no user mappings found")
    elif spec.uid_maps or spec.gid_maps:
        if "user" not in spaces:
            text = "user namespace mappings specified, but user namespace isn't enabled in the config"
            raise ConfigError("/linux/uidMappings", text)
    for field, maps in (("uidMappings", spec.uid_maps), ("gidMappings", spec.gid_maps)):
        check_maps(maps, f"/linux/{field}")


def check_maps(maps: "list[IdMap]", at: str) -> None:
    """Ranges of id maps must not be empty and must not reach beyond the last id. Raises ConfigError."""
    for index, line in enumerate(maps):
        if line.size == 0:
            raise ConfigError(f"{at}/{index}/size", "is 0")
        if line.container + line.size > 1 << 32 or line.host + line.size > 1 << 32:
            raise ConfigError(f"{at}/{index}", "reaches beyond the largest id")


def _check_mounts(spec: Spec) -> None:
    for index, mount in enumerate(spec.mounts):
        at = f"/mounts/{index}"
        if not mount.destination:
            raise ConfigError(f"{at}/destination", "is missing")
        if bool(mount.uid_maps) != bool(mount.gid_maps):
            raise ConfigError(f"{at}/uidMappings", "uidMappings and gidMappings go together")
        check_maps(mount.uid_maps, f"{at}/uidMappings")
        check_maps(mount.gid_maps, f"{at}/gidMappings")


# sysctls that belong to the ipc namespace; runc's list (libcontainer/configs/validate).
_IPC_SYSCTLS = frozenset(
    "kernel." + name
    for name in ("msgmax", "msgmnb", "msgmni", "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced")
)


def _check_sysctl(spec: Spec) -> None:
    spaces = spec.namespaces
    for key in spec.sysctl:
        at = f"/linux/sysctl/{_escape(key)}"
        # Both spellings exist: dots, or slashes for interface names that hold dots (sysctl.d(5)).
        name = normal_sysctl(key)
        if not all(part not in ("", ".", "..") for part in name.split("/")) or "\0" in name:
            raise ConfigError(at, f"sysctl {key} is not a name")
        dotted = name.replace("/", ".")
        if dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue."):
            if "ipc" not in spaces:
                raise ConfigError(at, f"sysctl {key} is not allowed in the hosts ipc namespace")
        elif dotted.startswith("net."):
            if "network" not in spaces:
                raise ConfigError(at, f"sysctl {key} not allowed in host network namespace")
        elif dotted.startswith("user."):
            if "user" not in spaces:
                raise ConfigError(at, f"sysctl {key} is not allowed without a user namespace")
        elif dotted == "kernel.domainname":
            if "uts" not in spaces:
                raise ConfigError(at, f"sysctl {key} is not allowed without a UTS namespace")
            if spec.domainname:
                raise ConfigError(at, f"sysctl {key} conflicts with domainname")
        elif dotted == "kernel.hostname":
            raise ConfigError(at, f"sysctl {key} is not allowed as it conflicts with the OCI hostname field")
        else:
            raise ConfigError(at, f"sysctl {key} is not in a separate kernel namespace")


def normal_sysctl(key: str) -> str:
    """Returns the path below /proc/sys for a sysctl's name: of `.` and `/`, the first to appear separates."""
    dot, slash = key.find("."), key.find("/")
    if slash >= 0 and (dot < 0 or slash < dot):
        return key
    return key.translate({46: "/", 47: "."})


def _check_memory_policy(spec: Spec) -> None:
    policy = spec.memory_policy
    if policy is None:
        return
    if not policy.get("mode"):
        raise ConfigError("/linux/memoryPolicy/mode", "is missing")
    for index, flag in enumerate(policy.get("flags") or ()):
        if flag not in MPOL_FLAGS:
            raise ConfigError(f"/linux/memoryPolicy/flags/{index}", f'unknown value "{flag}"')


CHECKS: "tuple[Callable[[Spec], None], ...]" = (
    _check_version,
    _check_process,
    _check_root,
    _check_namespaces,
    _check_maps,
    _check_mounts,
    _check_sysctl,
    _check_memory_policy,
)


def check_namespaces(spec: Spec) -> None:
    """Checks once more what depends on the container's own namespaces, after some have turned out to be inherited. Raises ConfigError."""
    for check in (_check_namespaces, _check_maps, _check_sysctl):
        check(spec)


def parse(raw: bytes, bundle: str, name: str = "config.json") -> Spec:
    """Makes a Spec of the bytes of a config.json.

    Arguments: raw, the document; bundle, absolute path that relative paths in it start from; name, of the file, for errors.
    Raises ConfigError with the JSON pointer of what is wrong (config.md; runtime-spec 1.3 schema/).
    """
    data = loads(raw, name)
    if type(data) is not dict:
        raise ConfigError("", f"{name} is not an object")
    _walk(data, "", "")
    seen: set[str] = set()
    for index, item in enumerate((data.get("linux") or {}).get("namespaces") or ()):
        kind = item.get("type")
        if not kind:
            raise ConfigError(f"/linux/namespaces/{index}/type", "is missing")
        if kind in seen:
            raise ConfigError(f"/linux/namespaces/{index}", f"duplicated ns {kind}")
        seen.add(kind)
    spec = Spec(data, bundle, raw)
    for check in CHECKS:
        check(spec)
    return spec


def load(bundle: str, path: "str | None" = None) -> Spec:
    """Reads the configuration of a bundle.

    Arguments: bundle, absolute path of the directory; path, another file than its config.json (crun's --config).
    Returns the Spec. Raises KrunError if there is none, ConfigError if it is wrong.
    """
    name = path or f"{bundle}/config.json"
    try:
        raw = read_file(name)
    except SysError as e:
        if not os.path.isdir(bundle):
            raise SysError("chdir to bundle", bundle, ENOENT) from None
        if e.errno == ENOENT:
            raise KrunError(
                f"JSON specification file {path or 'config.json'} not found in {bundle}"
            ) from None
        raise
    return parse(raw, bundle, name)


def parse_resources(raw: bytes, name: str = "resources") -> "dict[str, Any]":
    """Makes linux.resources of the document of `update --resources`, the file `name`, checked along FIELDS. Raises ConfigError."""
    data = loads(raw, name)
    if data is None:
        return {}  # as Go reads null
    if type(data) is not dict:
        raise ConfigError("", "resources: not a JSON object")
    _walk(data, "/linux/resources", "/linux/resources")
    return {key: value for key, value in data.items() if value is not None}


def parse_process(raw: bytes, name: str = "process") -> Process:
    """Makes a Process of the document of `exec --process`, the file `name`. Raises ConfigError."""
    data = loads(raw, name)
    if type(data) is not dict:
        raise ConfigError("", "the process document is not an object")
    _walk(data, "/process", "/process")
    process = Process(data)
    check_process(process, "/process")
    return process
