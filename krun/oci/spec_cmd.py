"""krun spec: writes a template of config.json, as runc does."""

import os
import sys

import krun
from krun.errors import KrunError, SysError
from krun.jsonio import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options

_CAPABILITIES = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"]
_MASKED = (
    "/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats "
    "/proc/sched_debug /sys/firmware /proc/scsi"
).split()
_READONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()


def main(opts: "Options") -> int:
    """Write config.json into opts.bundle (default: here), or opts.file ("-": standard output).

    Errors: KrunError when the file is there already, SysError when it cannot be written.
    """
    text = dumps(example(bool(opts.rootless) and opts.rootless != "false"), "\t") + "\n"
    if opts.file == "-":
        sys.stdout.write(text)
        return 0
    path = opts.file or "config.json"
    if opts.bundle:
        path = os.path.join(opts.bundle, path)
    try:
        with open(path, "x") as file:
            file.write(text)
    except FileExistsError:
        raise KrunError(f"file {path} exists, remove it first") from None
    except OSError as error:
        raise SysError.of("write", error, path) from None
    return 0


def example(rootless: bool) -> "dict[str, Any]":
    """Return the example configuration; `rootless`: for the calling user alone."""
    mounts = _mounts()
    namespaces = ["pid", "network", "ipc", "uts", "mount"]
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):  # runc: with cgroup v2 only
        namespaces.append("cgroup")
    linux: dict[str, Any] = {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "namespaces": [{"type": name} for name in namespaces],
        "maskedPaths": _MASKED,
        "readonlyPaths": _READONLY,
    }
    if rootless:
        # No network of its own (a user cannot configure it), the host's sysfs bound (a new one needs that
        # network), no gid=5 (it is not mapped), no limits.
        namespaces.remove("network")
        linux["namespaces"] = [{"type": name} for name in [*namespaces, "user"]]
        linux["uidMappings"] = [{"containerID": 0, "hostID": os.geteuid(), "size": 1}]
        linux["gidMappings"] = [{"containerID": 0, "hostID": os.getegid(), "size": 1}]
        del linux["resources"]
        mounts[2]["options"].remove("gid=5")
        mounts[5] = {
            "destination": "/sys",
            "type": "none",
            "source": "/sys",
            "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
        }
    return {
        "ociVersion": krun.SPEC_VERSION,
        "process": {
            "terminal": True,
            "user": {"uid": 0, "gid": 0},
            "args": ["sh"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"],
            "cwd": "/",
            "capabilities": {
                "bounding": _CAPABILITIES,
                "effective": _CAPABILITIES,
                "permitted": _CAPABILITIES,
            },
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "krun",
        "mounts": mounts,
        "linux": linux,
    }


def _mounts() -> "list[dict[str, Any]]":
    """The file systems that config-linux.md asks for ("Default Filesystems"), and those that runc spec adds."""
    return [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {
            "destination": "/dev/shm",
            "type": "tmpfs",
            "source": "shm",
            "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
        },
        {
            "destination": "/dev/mqueue",
            "type": "mqueue",
            "source": "mqueue",
            "options": ["nosuid", "noexec", "nodev"],
        },
        {
            "destination": "/sys",
            "type": "sysfs",
            "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", "ro"],
        },
        {
            "destination": "/sys/fs/cgroup",
            "type": "cgroup",
            "source": "cgroup",
            "options": ["nosuid", "noexec", "nodev", "relatime", "ro"],
        },
    ]
