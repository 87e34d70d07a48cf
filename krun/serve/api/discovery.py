"""Discovery: which groups, versions and kinds there are.  Source: Kubernetes API concepts, "API discovery"."""

from typing import Any

from krun import __version__
from krun.serve.model.kinds import KINDS, POD, Kind

Object = dict[str, Any]
#: Groups without a kind of the store: reviews are answered, not stored.
_REVIEWS = ("authorization.k8s.io", "v1")
#: Subresources of Pods that change the protocol, and the kinds of their options.
_STREAMS = (
    ("attach", "PodAttachOptions"),
    ("exec", "PodExecOptions"),
    ("portforward", "PodPortForwardOptions"),
)
#: The Kubernetes minor version whose behaviour is served: kubectl compares it with its own.
_MINOR = 32


def groups() -> dict[str, list[str]]:
    """Returns the versions of each group but core, the preferred one first."""
    out: dict[str, list[str]] = {}
    for kind in KINDS:
        for version in kind.versions:
            if kind.group and version not in out.setdefault(kind.group, []):
                out[kind.group].append(version)
    for versions in out.values():
        versions.sort(key=lambda version: (len(version), version))
    out[_REVIEWS[0]] = [_REVIEWS[1]]
    return out


def version() -> Object:
    """Returns /version."""
    return {
        "major": "1",
        "minor": str(_MINOR),
        "gitVersion": f"v1.{_MINOR}.0+krun.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def api_versions(address: str) -> Object:
    """Returns /api. `address` is the server's own, as the client named it."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group(name: str) -> Object | None:
    """Returns /apis/NAME, or None."""
    versions = groups().get(name)
    if versions is None:
        return None
    listed = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": listed,
        "preferredVersion": listed[0],
    }


def group_list() -> Object:
    """Returns /apis."""
    found = [group(name) or {} for name in groups()]
    for one in found:
        one.pop("kind")
        one.pop("apiVersion")
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources(name: str, version: str) -> Object | None:
    """Returns /apis/NAME/VERSION, or /api/v1 for the empty name; None if it is not served."""
    listed: list[Object] = []
    for kind in KINDS:
        if kind.group == name and version in kind.versions:
            listed += _entries(kind, version)
    if (name, version) == _REVIEWS:
        listed = [
            {
                "name": plural,
                "singularName": plural.removesuffix("s"),
                "namespaced": False,
                "kind": kind_name,
                "verbs": ["create"],
            }
            for plural, kind_name in (("selfsubjectaccessreviews", "SelfSubjectAccessReview"),)
        ]
    if not listed:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": listed,
    }


def _entries(kind: Kind, version: str) -> list[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    out = [entry]
    if kind.generation:
        verbs = ["get", "patch", "update"]
        out.append({**_sub(kind, "status"), "kind": kind.kind, "verbs": verbs})
    if kind is POD:
        out.append({**_sub(kind, "log"), "kind": kind.kind, "verbs": ["get"]})
        for name, options in _STREAMS:
            out.append({**_sub(kind, name), "kind": options, "verbs": ["create", "get"]})
    return out


def _sub(kind: Kind, name: str) -> Object:
    return {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
