"""krun serve export: manifests that apply unchanged to a real cluster with Knative.

The objects come from the API of the running server; what the server set is left out (status, uid, creator, ...).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from krun.errors import KrunError
from krun.serve.model import meta
from krun.serve.request import Server, ask

Object = dict[str, Any]
_KEPT = ("name", "namespace", "labels", "annotations")
_SET_BY_SERVER = (meta.CREATOR, meta.MODIFIER, meta.LAST_APPLIED)


def clean(obj: Object) -> Object:
    """Returns an object as a client would write it."""
    data = {key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]}
    notes = {key: value for key, value in data.pop("annotations", {}).items() if key not in _SET_BY_SERVER}
    if notes:
        data["annotations"] = notes
    out = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": data}
    for key in ("spec", "data", "binaryData", "type"):
        if key in obj:
            out[key] = obj[key]
    return out


def main(args: list[str], server: Server) -> int:
    """Prints the Services that `args` names behind the word export (NAMESPACE/NAME or NAME), all without names."""
    if args[0] != "export":
        raise KrunError(f"krun serve {args[0]}: no such command; export and unit are")
    import yaml

    found = ask(server, "GET", "/apis/serving.knative.dev/v1/services")["items"]
    found += ask(server, "GET", "/apis/serving.knative.dev/v1beta1/domainmappings")["items"]
    wanted = {name if "/" in name else f"default/{name}" for name in args[1:]}
    chosen = [one for one in found if not wanted or f"{meta.namespace(one)}/{meta.name(one)}" in wanted]
    missing = wanted - {f"{meta.namespace(one)}/{meta.name(one)}" for one in chosen}
    if missing:
        raise KrunError(f"export {', '.join(sorted(missing))}: no such service")
    sys.stdout.write(
        yaml.safe_dump_all(json.loads(json.dumps([clean(one) for one in chosen])), sort_keys=False)
    )
    return 0
