"""config.json of an instance's container: one row a field of the contract, from the container of the manifest and its image.

Sources: the runtime contract (knative/specs, specs/serving/runtime-contract.md; its sections are named in the rows), the
kubelet's and containerd's defaults, which the same images meet on a cluster. The developer's values never set namespaces,
devices, hooks, masked paths, sysctls, or a terminal: no row reads them.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from krun.serve.run import resources, seccomp, user
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Config
from krun.serve.run.rootdir import RootDir

# containerd, oci/spec.go, defaultUnixCaps.
_CAPABILITIES = (
    "CAP_CHOWN CAP_DAC_OVERRIDE CAP_FSETID CAP_FOWNER CAP_MKNOD CAP_NET_RAW CAP_SETGID CAP_SETUID CAP_SETFCAP CAP_SETPCAP "
    "CAP_NET_BIND_SERVICE CAP_SYS_CHROOT CAP_KILL CAP_AUDIT_WRITE"
).split()
_MASKED = (
    "/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats /proc/sched_debug "
    "/proc/scsi /sys/firmware /sys/devices/virtual/powercap"
).split()
_READONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()
_SPEC_VERSION = "1.0.2"  # crun of Debian 12 refuses later ones, and no row is newer
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Bytes of all strings of an execve(2), whatever the stack's limit is, and of one (fs/exec.c: 3/4 of _STK_LIM; linux/binfmts.h).
_STRINGS, _STRING = 6 << 20, 128 << 10
_OOM_SCORE = 900  # an instance goes before the server and its worker


class Place(NamedTuple):
    """What the platform gives to one container.

    hostname; environment: PORT, K_SERVICE, ... (wins over the image's, not over nothing of the developer's, because those
    names are reserved); rootfs: the merged directory; netns: a path of the network namespace; cgroup: cgroupsPath; files:
    destination in the container -> file of the host; mounts: those of volumes; pids: the most threads it may have.
    """

    hostname: str
    environment: dict[str, str]
    rootfs: str
    netns: str
    cgroup: str
    files: dict[str, str]
    mounts: list[dict[str, Any]]
    pids: int


class _Making(NamedTuple):
    container: dict[str, Any]
    image: Config
    place: Place
    root: RootDir
    user: dict[str, Any]

    @property
    def context(self) -> dict[str, Any]:
        return self.container.get("securityContext") or {}


def _args(m: _Making) -> list[str]:
    """command replaces ENTRYPOINT and drops CMD, args replaces CMD (kubelet, container/helpers.go). $(NAME) is expanded."""
    command, args = m.container.get("command") or [], m.container.get("args") or []
    words = [*command, *args] if command else [*m.image.entrypoint, *(args or m.image.command)]
    if not words:
        raise StartError(
            "CreateContainerError", "no command specified: neither the manifest nor the image names a program"
        )
    known = {name: value for name, _, value in (entry.partition("=") for entry in _env(m))}
    room = _Room()
    return [room.take(expand(word, known) if command or args else word) for word in words]


def _env(m: _Making) -> list[str]:
    """The image's environment, then the manifest's (already resolved: name and value), then the platform's names."""
    merged = {"PATH": _PATH, "HOSTNAME": m.place.hostname}
    room = _Room()
    for entry in m.image.env:
        name, _, value = entry.partition("=")
        merged[name] = value
    for own in m.container.get("env") or []:
        # A manifest's value may name variables that stand before it.
        merged[own["name"]] = room.take(expand(own.get("value") or "", merged))
    merged.update(m.place.environment)
    merged.setdefault("HOME", user.home(m.root, m.user["uid"]))
    return [f"{name}={value}" for name, value in merged.items()]


def _capabilities(m: _Making) -> dict[str, list[str]]:
    """containerd's set, less what the manifest drops, and what it adds (behind a feature flag of the platform)."""
    asked = m.context.get("capabilities") or {}
    drop = {_cap(name) for name in asked.get("drop") or []}
    kept = [] if "CAP_ALL" in drop else [name for name in _CAPABILITIES if name not in drop]
    kept += [name for name in map(_cap, asked.get("add") or []) if name not in kept]
    return {"bounding": kept, "effective": kept, "permitted": kept}


def _cap(name: str) -> str:
    return name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"


def _cwd(m: _Making) -> str:
    return os.path.normpath("/" + (m.container.get("workingDir") or m.image.working_dir or "/").lstrip("/"))


def _mounts(m: _Making) -> list[dict[str, Any]]:
    """The file systems of the contract ("Default filesystems", "Mounts"), the platform's files, then the volumes."""
    quiet = ["nosuid", "noexec", "nodev"]
    mounts: list[dict[str, Any]] = [
        _mount("/proc", "proc", quiet),
        _mount("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount(
            "/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
        ),
        _mount("/dev/mqueue", "mqueue", quiet),
        _mount("/dev/shm", "tmpfs", [*quiet, "mode=1777", "size=65536k"]),
        _mount("/sys", "sysfs", [*quiet, "ro"]),
        _mount("/sys/fs/cgroup", "cgroup", [*quiet, "relatime", "ro"]),
    ]
    if m.context.get("readOnlyRootFilesystem"):
        # "the top-level temporary directory MUST be read-write", also where the root is not.
        mounts.append(_mount("/tmp", "tmpfs", ["nosuid", "nodev", "mode=1777"]))
    for destination, source in m.place.files.items():
        mounts.append(
            {
                "destination": destination,
                "type": "bind",
                "source": source,
                "options": ["rbind", "rprivate", "rw"],
            }
        )
    return [*mounts, *m.place.mounts]


def _mount(destination: str, kind: str, options: list[str]) -> dict[str, Any]:
    source = "shm" if destination == "/dev/shm" else kind
    return {"destination": destination, "type": kind, "source": source, "options": options}


def _resources(m: _Making) -> dict[str, Any]:
    try:
        found = resources.cgroup_values(m.container.get("resources") or {})
    except ValueError as error:
        raise StartError("CreateContainerConfigError", str(error)) from None
    return {"devices": [{"allow": False, "access": "rwm"}], "pids": {"limit": m.place.pids}, **found}


def _seccomp(m: _Making) -> dict[str, Any] | None:
    return seccomp.profile(m.context.get("seccompProfile"), _capabilities(m)["effective"])


def _namespaces(m: _Making) -> list[dict[str, str]]:
    """Namespaces are the operator's: the instance's network, and new ones of all other kinds."""
    kinds = ["pid", "ipc", "uts", "mount", *(["cgroup"] if os.path.exists("/proc/self/ns/cgroup") else [])]
    return [{"type": "network", "path": m.place.netns}, *({"type": kind} for kind in kinds)]


class Row(NamedTuple):
    """A field of config.json: its pointer, the function that makes it (None leaves it out), why."""

    pointer: str
    make: Callable[[_Making], Any]
    why: str


ROWS = [
    Row("/ociVersion", lambda m: _SPEC_VERSION, "OCI runtime-spec"),
    Row("/process/terminal", lambda m: False, "Process: terminal SHOULD NOT be true"),
    Row("/process/user", lambda m: m.user, "User: the developer's uid, else the image's"),
    Row("/process/args", _args, "Process: args"),
    Row("/process/env", _env, "Environment: PORT, K_SERVICE, K_CONFIGURATION, K_REVISION"),
    Row("/process/cwd", _cwd, "Process: cwd"),
    Row("/process/capabilities", _capabilities, "Linux process: not the developer's, except to drop"),
    Row(
        "/process/noNewPrivileges",
        lambda m: m.context.get("allowPrivilegeEscalation") is False,
        "Linux process",
    ),
    Row("/process/oomScoreAdj", lambda m: _OOM_SCORE, "Linux process: the operator's"),
    Row("/root/path", lambda m: m.place.rootfs, "Root"),
    Row("/root/readonly", lambda m: bool(m.context.get("readOnlyRootFilesystem")), "Root: MAY be read-only"),
    Row("/hostname", lambda m: m.place.hostname, "Hostname"),
    Row("/mounts", _mounts, "Default filesystems, Mounts"),
    Row("/linux/resources", _resources, "Control groups: the operator's; the limits of the manifest"),
    Row("/linux/cgroupsPath", lambda m: m.place.cgroup, "Control groups"),
    Row("/linux/namespaces", _namespaces, "Namespaces: the operator's"),
    Row("/linux/maskedPaths", lambda m: _MASKED, "Masked paths: the operator's"),
    Row("/linux/readonlyPaths", lambda m: _READONLY, "Readonly paths: the operator's"),
    Row(
        "/linux/seccomp",
        _seccomp,
        "Seccomp: the operator's profile; securityContext.seccompProfile chooses it",
    ),
]


def make(container: dict[str, Any], image: Config, place: Place) -> dict[str, Any]:
    """Return config.json.

    Arguments: container, core/v1 Container with defaults applied and its `env` resolved to names and values; image; place.
    Raises StartError with a reason for the Revision's condition.
    """
    config: dict[str, Any] = {}
    with RootDir(place.rootfs) as root:
        own = user.of(root, image.user, container.get("securityContext") or {})
        making = _Making(container, image, place, root, own)
        for row in ROWS:
            value = row.make(making)
            if value is None:
                continue
            *parents, leaf = row.pointer.strip("/").split("/")
            where = config
            for name in parents:
                where = where.setdefault(name, {})
            where[leaf] = value
    return config


def prepare_root(rootfs: str, uid: int, readonly: bool) -> None:
    """Make the directories that the contract wants and an image may lack, in the container's own layer.

    "The top-level temporary directory MUST be read-write", "/var/log MUST be a directory with write permissions" (2019 text).
    Where /var/log is the image's and the program is not root, it becomes writable for all, as /tmp is. Raises SysError, OSError.
    """
    with RootDir(rootfs) as root:
        for path in ("/proc", "/sys", "/dev", "/etc"):
            if root.stat(path) is None:
                root.make_directory(path, 0o755)
        status = root.stat("/tmp")
        if status is None or (not readonly and status.st_mode & 0o7777 != 0o1777):
            root.make_directory("/tmp", 0o1777)
        status = root.stat("/var/log")
        if status is None or (uid and not readonly and not status.st_mode & 0o002):
            root.make_directory("/var/log", 0o1777)


def _too_long() -> StartError:
    return StartError("CreateContainerError", "arguments or environment: argument list too long")


class _Room:
    """What all strings of a kind may have together: values name values, and 40 short ones can stand for terabytes."""

    def __init__(self) -> None:
        self.left = _STRINGS

    def take(self, text: str) -> str:
        self.left -= len(text)
        if self.left < 0:
            raise _too_long()
        return text


def expand(text: str, known: "dict[str, str]") -> str:
    """Expand $(NAME) as Kubernetes does: $$ is a dollar sign, an unknown name stays (third_party/forked/golang/expansion).

    Raises StartError for what no program can be given.
    """
    out = []
    position = size = 0
    last = text.rfind(")")
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        if char == "$" and following == "$":
            out.append("$")
            position += 2
            continue
        if char == "$" and following == "(":
            if position < last:
                end = text.find(")", position)
                name = text[position + 2 : end]
                value = known.get(name, text[position : end + 1])
                size += len(value)
                if size > _STRING:
                    raise _too_long()
                out.append(value)
                position = end + 1
                continue
        out.append(char)
        position += 1
    return "".join(out)
