"""The containers that a check of a runtime runs: THE table of cases, with the probe's instructions.

A case is a container of a manifest as krun serve makes it (serve/run/bundle.py), with what an operator may add to its
config.json. The probe (probe.c) carries out the instructions; checks.py reads the answers by case and instruction.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

UID, GID, IMAGE_UID = 2020, 3030, 65532
PORT = "8801"
MEMORY, QUOTA, PERIOD = 128 << 20, 100_000, 100_000
WORDS = ["", "two words", 'a "quoted" one', "tab\tand $HOME", "caf\u00e9"]
MARK = "krun-conformance-mark"
EXIT = 7
DENIED_CALL, DENIED_ERRNO = (
    169,
    95,
)  # reboot(2), which no program of a container makes; EOPNOTSUPP, which it never returns
NOFILE, OOM_SCORE = (1000, 2000), 321
ANNOTATION = ("dev.krun.conformance", MARK)
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
ENVIRONMENT = {
    "PORT": PORT,
    "K_SERVICE": "conformance",
    "K_CONFIGURATION": "conformance",
    "K_REVISION": "conformance-00001",
}
# Devices of runtime-spec, config-linux.md, "Default Devices": name -> major, minor. /dev/ptmx is a link or a node.
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
SOCKETS = (
    "/run/docker.sock",
    "/run/containerd",
    "/run/runc",
    "/run/crun",
    "/run/krun",
    "/run/podman",
    "/dev/kvm",
)
LIMITS = (
    "memory/memory.limit_in_bytes",
    "cpu/cpu.cfs_period_us",
    "cpu/cpu.cfs_quota_us",
    "cpu/cpu.shares",
    "memory.max",
    "cpu.max",
    "cpu.weight",
)
GROUP = "/sys/fs/cgroup"
#: The files that the host reads in a container's control group.
CONTROLS = tuple(path.rpartition("/")[2] for path in LIMITS)

READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys")
DOMAIN = "write:/proc/sys/kernel/domainname (none)"

_LOOK = [
    "self:",
    "stdin:",
    "pipe:",
    *(f"stat:/dev/{name}" for name in DEVICES),
    *(f"link:{path}" for path in LINKS),
    *(f"stat:{path}" for path in ("/dev/ptmx", "/dev/console", "/dev/pts", "/dev/shm", "/tmp", "/var/log")),
    *(f"stat:{path}" for path in SOCKETS),
    *(f"stat:/etc/{name}" for name in ("hosts", "hostname", "resolv.conf")),
    *(f"read:/etc/{name}" for name in ("hosts", "hostname", "resolv.conf")),
    *(f"read:/proc/self/{name}" for name in ("status", "limits", "oom_score_adj", "mountinfo")),
    *(f"link:/proc/self/ns/{name}" for name in ("pid", "ipc", "uts", "mnt", "net")),
    "link:/proc/self/exe",
    "list:/dev",
    "make:/tmp",
    "make:/var/log",
    f"write:/dev/termination-log {MARK}",
    f"syslog:{MARK}",
    f"stderr:{MARK}-stderr",
    f"call:{DENIED_CALL}",
]
_ROOT = [
    "self:",
    *(f"read:{GROUP}/{name}" for name in LIMITS),
    f"stat:{GROUP}/cgroup.controllers",
    f"write:{GROUP}/memory/memory.limit_in_bytes 9",
    f"write:{GROUP}/memory.max 9",
    # The file belongs to the container's UTS namespace: a runtime that lets the write through changes nothing of the host.
    DOMAIN,
    *(f"stat:{path}" for path in READONLY),
    "read:/proc/kcore",
    "read:/proc/timer_list",
    "list:/sys/firmware",
    "read:/proc/self/mountinfo",
    "device:1:1",
    "device:1:3",
]


class Case(NamedTuple):
    """A container. Fields: the probe's instructions; user of the image; further fields of the manifest's container; change,
    what the operator adds to config.json; waits, the program runs until it is killed; pauses, it is paused and resumed before.
    """

    words: list[str]
    user: str = ""
    manifest: dict[str, Any] | None = None
    change: Callable[[dict[str, Any], str], None] | None = None
    waits: bool = False
    pauses: bool = False


def _operator(config: dict[str, Any], directory: str) -> None:
    """What only operators set (runtime contract, "Linux process", "Seccomp", "Rootfs mount propagation"), and annotations."""
    process = config["process"]
    process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": NOFILE[0], "hard": NOFILE[1]}]
    process["oomScoreAdj"] = OOM_SCORE
    process["noNewPrivileges"] = True
    process["capabilities"] = {"bounding": ["CAP_KILL", "CAP_CHOWN"], "effective": [], "permitted": []}
    config["linux"]["rootfsPropagation"] = "rprivate"
    config["linux"]["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": ["reboot"], "action": "SCMP_ACT_ERRNO", "errnoRet": DENIED_ERRNO}],
    }
    config["annotations"] = {ANNOTATION[0]: ANNOTATION[1]}


def _hooks(config: dict[str, Any], directory: str) -> None:
    """A hook of each kind writes its name into a file of the host, and reads the state to its end.

    The path of a startContainer hook is one of the container (runtime-spec, config.md, "startContainer"): it is the probe.
    """
    path = os.path.join(directory, "hooks")
    with open(path, "w"):
        os.chmod(path, 0o666)
    config["hooks"] = {
        kind: [{"path": "/bin/sh", "args": ["sh", "-c", f"cat >/dev/null; echo {kind} >>'{path}'"]}]
        for kind in HOOKS
    }
    config["hooks"]["startContainer"] = [
        {"path": "/probe", "args": ["probe", "append:/hooks startContainer\n"]}
    ]
    config["mounts"].append(
        {"destination": "/hooks", "type": "bind", "source": path, "options": ["bind", "rprivate", "rw"]}
    )


_LIMITED = {"resources": {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "125m"}}}
_AS_USER = {"securityContext": {"runAsUser": UID, "runAsGroup": GID}}

#: Name -> case, in the order in which they run.
CASES = {
    "user": Case([*_LOOK, f"exit:{EXIT}", *WORDS], manifest=_AS_USER, change=_operator),
    "image": Case(["self:"], user=str(IMAGE_UID)),
    "root": Case(_ROOT, manifest=_LIMITED),
    "readonly": Case(
        ["make:/", "make:/tmp", "read:/config/key", "write:/config/key x"],
        manifest={"securityContext": {"readOnlyRootFilesystem": True}},
    ),
    "life": Case(["signals:1"], change=_hooks, waits=True),
    "pause": Case(["signals:1"], waits=True, pauses=True),
}
