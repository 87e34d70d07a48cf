"""OCI bundles for tests: a root file system of busybox-static and a config.json to change before use."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from krun.oci import spec_cmd

BUSYBOX = Path("/bin/busybox")


def _config() -> dict[str, Any]:
    """What `krun spec` writes (and runc's, test_lifecycle.py compares), for a test instead of a person at a terminal."""
    config = spec_cmd.example(rootless=False)
    process, linux = config["process"], config["linux"]
    process["terminal"] = False
    process["args"] = ["true"]
    process["capabilities"]["ambient"] = process["capabilities"]["bounding"]
    config["root"]["readonly"] = False
    config["hostname"] = "krun-test"
    # What runc 1.1 knows.
    config["ociVersion"] = "1.0.2"
    linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "cgroup"]
    return copy.deepcopy(config)


CONFIG = _config()
CAPABILITIES = CONFIG["process"]["capabilities"]["bounding"]


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
