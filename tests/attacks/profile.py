"""The seccomp profile that podman gives by default, as config.json has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Where containers-common, which podman needs, puts it.
FILE = Path("/usr/share/containers/seccomp.json")
ARCHITECTURES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]


def default(capabilities: list[str]) -> dict[str, Any]:
    """The profile for a container with this bounding set: rules for other processors and capabilities left out."""
    if not FILE.exists():
        raise FileNotFoundError(f"{FILE} is missing: run ./dev test, which installs podman")
    file, have, rules = json.loads(FILE.read_text()), set(capabilities), []
    for rule in file["syscalls"]:
        wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
        if wanted.get("arches") and not {"amd64", "x86"} & set(wanted["arches"]):
            continue
        if {"amd64"} & set(unwanted.get("arches") or ()) or have & set(unwanted.get("caps") or ()):
            continue
        if not set(wanted.get("caps") or ()) <= have:
            continue
        rules.append(
            {key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key) is not None}
        )
    return {
        "defaultAction": file["defaultAction"],
        "defaultErrnoRet": file["defaultErrnoRet"],
        "architectures": ARCHITECTURES,
        "syscalls": rules,
    }
