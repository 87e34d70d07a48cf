"""Writes krun/serve/model/data/knative.json from the CRDs of knative.dev/serving (Apache-2.0; NOTICE).

Usage: tools/gen_knative_schema.py DIRECTORY, the folder config/core/300-resources of an unpacked knative.dev/serving
module (`go mod download -json knative.dev/serving@v0.51.0` prints where it is).

Descriptions are left out (61 KB of 76), and a sub-schema that occurs several times is stored once under `defs`.
"""

import hashlib
import json
import os
import sys
from typing import Any

import yaml

OUT = os.path.join(os.path.dirname(__file__), "..", "krun", "serve", "model", "data", "knative.json")
FILES = {
    "service": "services",
    "configuration": "configurations",
    "revision": "revisions",
    "route": "routes",
    "domain-mapping": "domainmappings",
}
#: Keys of a schema that the walker, the openapi document or kubectl use.
KEYS = (
    "type",
    "format",
    "pattern",
    "required",
    "default",
    "anyOf",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


def strip(node: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema `node` with the keys of KEYS only, at every depth."""
    out = {key: node[key] for key in KEYS if key in node}
    if "properties" in node:
        out["properties"] = {name: strip(child) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            out[key] = strip(node[key])
    return out


def share(node: dict[str, Any], defs: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
    """Returns `node` with every sub-schema that occurs more than once and is large replaced by a $ref into `defs`."""
    out = dict(node)
    if "properties" in node:
        out["properties"] = {name: share(child, defs, counts) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in node:
            out[key] = share(node[key], defs, counts)
    name = digest(node)
    if counts[name] > 1 and len(json.dumps(node)) > 120:
        defs[name] = out
        return {"$ref": name}
    return out


def digest(node: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:8]


def count(node: dict[str, Any], counts: dict[str, int]) -> None:
    counts[digest(node)] = counts.get(digest(node), 0) + 1
    for child in node.get("properties", {}).values():
        count(child, counts)
    for key in ("items", "additionalProperties"):
        if key in node:
            count(node[key], counts)


def main(folder: str) -> None:
    kinds: dict[str, Any] = {}
    for file, plural in FILES.items():
        with open(os.path.join(folder, file + ".yaml")) as stream:
            crd = yaml.safe_load(stream)
        for version in crd["spec"]["versions"]:
            if version["storage"]:
                kinds[plural] = strip(version["schema"]["openAPIV3Schema"])
    counts: dict[str, int] = {}
    for schema in kinds.values():
        count(schema, counts)
    defs: dict[str, Any] = {}
    shared = {plural: share(schema, defs, counts) for plural, schema in kinds.items()}
    with open(OUT, "w") as stream:
        json.dump({"kinds": shared, "defs": defs}, stream, separators=(",", ":"), sort_keys=True)
        stream.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
