"""The profile RuntimeDefault of securityContext.seccompProfile (core/v1 SeccompProfile): the host's containers/common profile.

/usr/share/containers/seccomp.json has the form of moby's profile: rules with conditions on capabilities, architecture and kernel
(containers/common, pkg/seccomp; moby, profiles/seccomp). `resolve` decides the conditions for one container.
"""

import json
import os
from typing import Any

from krun.serve.run.errors import StartError

_PLACES = ("/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json")
_ARCHES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]


def profile(wanted: "dict[str, Any] | None", capabilities: "list[str]") -> "dict[str, Any] | None":
    """Return linux.seccomp of a container, None for Unconfined and where nothing is asked for (Kubernetes' default).

    Arguments: wanted, the seccompProfile; capabilities, those the container has ("CAP_..."). Raises StartError
    (CreateContainerConfigError) for another type, and where the host has no profile.
    """
    kind = (wanted or {}).get("type") or "Unconfined"
    if kind == "Unconfined":
        return None
    if kind != "RuntimeDefault":
        raise _refused(f"seccompProfile type {kind} is not supported: use RuntimeDefault or Unconfined")
    for path in _PLACES:
        try:
            with open(path, "rb") as file:
                return resolve(json.load(file), set(capabilities), os.uname().release)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _refused(f"seccompProfile RuntimeDefault: cannot read {path}: {error}") from None
    raise _refused(
        f"seccompProfile RuntimeDefault: none of {', '.join(_PLACES)} is there; install containers-common"
    )


def resolve(source: dict[str, Any], capabilities: set[str], release: str) -> dict[str, Any]:
    """Return a profile of the runtime specification: the rules of a conditional profile that hold for x86-64.

    Arguments: source, the profile; capabilities; release, of the kernel ("6.1.0-9-amd64").
    """
    rules = []
    for rule in source["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if not _holds(includes, capabilities, release) or _met(excludes, capabilities):
            continue
        kept = {key: rule[key] for key in ("names", "action", "errnoRet") if rule.get(key) is not None}
        if rule.get("args"):
            kept["args"] = [{k: v for k, v in arg.items() if v is not None} for arg in rule["args"]]
        rules.append(kept)
    found = {"defaultAction": source["defaultAction"], "architectures": _ARCHES, "syscalls": rules}
    if source.get("defaultErrnoRet") is not None:
        found["defaultErrnoRet"] = source["defaultErrnoRet"]
    return found


def _holds(condition: dict[str, Any], capabilities: set[str], release: str) -> bool:
    """Whether all parts of `includes` are met; an architecture is met by amd64."""
    if condition.get("arches") and not {"amd64", "x86_64"} & set(condition["arches"]):
        return False
    if condition.get("minKernel") and _version(release) < _version(condition["minKernel"]):
        return False
    return all(name in capabilities for name in condition.get("caps") or [])


def _met(condition: dict[str, Any], capabilities: set[str]) -> bool:
    """Whether one part of `excludes` is met."""
    if {"amd64", "x86_64"} & set(condition.get("arches") or []):
        return True
    return any(name in capabilities for name in condition.get("caps") or [])


def _version(text: str) -> "tuple[int, int]":
    major, minor = (text.split("-")[0].split(".") + ["0"])[:2]
    return int(major), int(minor)


def _refused(text: str) -> StartError:
    return StartError("CreateContainerConfigError", text)
