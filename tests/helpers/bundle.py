"""OCI bundles for tests: a root file system of busybox-static and a config.json to change before use."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")

CAPABILITIES = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"]

#: What `runc spec` writes, without the terminal.
CONFIG: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "process": {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": ["true"],
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"],
        "cwd": "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "ambient"), CAPABILITIES),
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "noNewPrivileges": True,
    },
    "root": {"path": "rootfs", "readonly": False},
    "hostname": "krun-test",
    "mounts": [
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
    ],
    "linux": {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")],
        "maskedPaths": [
            "/proc/acpi",
            "/proc/asound",
            "/proc/kcore",
            "/proc/keys",
            "/proc/latency_stats",
            "/proc/timer_list",
            "/proc/timer_stats",
            "/proc/sched_debug",
            "/sys/firmware",
            "/proc/scsi",
        ],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    },
}


def make_busybox_root(root: Path) -> None:
    """Fill `root` with busybox-static, a link for each of its commands, and the usual empty directories."""
    for name in ("bin", "dev", "etc", "home", "mnt", "proc", "root", "sys", "tmp", "usr", "var"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy2(BUSYBOX, root / "bin" / "busybox")
    for name in subprocess.check_output([str(BUSYBOX), "--list"], text=True).split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc" / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home:/bin/sh\n"
    )
    (root / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\n")


class Bundle:
    """A bundle directory; change `config`, then let the runtime fixture write it."""

    def __init__(self, path: Path, *, root: Path | None = None) -> None:
        self.path = path
        self.rootfs = path / "rootfs"
        self.config: dict[str, Any] = copy.deepcopy(CONFIG)
        path.mkdir(parents=True, exist_ok=True)
        if root is None:
            make_busybox_root(self.rootfs)
        else:
            self.config["root"]["path"] = str(root)
            self.rootfs = root

    @property
    def process(self) -> dict[str, Any]:
        return self.config["process"]

    @property
    def linux(self) -> dict[str, Any]:
        return self.config["linux"]

    def args(self, *args: str) -> Bundle:
        self.process["args"] = list(args)
        return self

    def shell(self, script: str) -> Bundle:
        return self.args("/bin/sh", "-c", script)

    def mount(
        self, destination: str, source: str | os.PathLike[str], *options: str, type: str = "bind"
    ) -> Bundle:
        self.config["mounts"].append(
            {"destination": destination, "type": type, "source": os.fspath(source), "options": list(options)}
        )
        return self

    def namespaces(self, *, add: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Bundle:
        kept = [n for n in self.linux["namespaces"] if n["type"] not in drop]
        self.linux["namespaces"] = kept + [{"type": t} for t in add]
        return self

    def namespace_path(self, type: str, path: str) -> Bundle:
        self.namespaces(drop=(type,))
        self.linux["namespaces"].append({"type": type, "path": path})
        return self

    def write(self) -> Path:
        (self.path / "config.json").write_text(json.dumps(self.config, indent=1))
        return self.path
