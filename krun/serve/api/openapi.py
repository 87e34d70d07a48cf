"""/openapi/v3: the documents from which kubectl validates and explains.

kubectl needs, for each group version, a path with a `patch` operation that carries x-kubernetes-group-version-kind and a
query parameter `fieldValidation`: then it leaves the checking to the server (k8s.io/cli-runtime, query_param_verifier_v3).
"""

import hashlib
import json
from functools import cache
from typing import Any

from krun import __version__
from krun.serve.model import schema
from krun.serve.model.kinds import KINDS, Kind

Object = dict[str, Any]


def _documents() -> dict[str, tuple[str, str]]:
    out = {}
    for kind in KINDS:
        for version in kind.versions:
            name = f"apis/{kind.group}/{version}" if kind.group else f"api/{version}"
            out[name] = (kind.group, version)
    return out


def index() -> Object:
    """Returns /openapi/v3: the documents with a digest each, so that a client may cache them."""
    paths = {}
    for name in _documents():
        digest = hashlib.sha256(document(name) or b"").hexdigest().upper()
        paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
    return {"paths": paths}


@cache
def document(name: str) -> bytes | None:
    """Returns the JSON text of /openapi/v3/NAME, or None."""
    found = _documents().get(name)
    if found is None:
        return None
    group, version = found
    paths: Object = {}
    schemas: Object = {}
    for kind in KINDS:
        if kind.group == group and version in kind.versions:
            model = ".".join(reversed((group or "api.k8s.io").split("."))) + f".{version}.{kind.kind}"
            schemas[model] = _model(kind, version)
            base = "/" + name + ("/namespaces/{namespace}" if kind.namespaced else "") + "/" + kind.plural
            paths[base] = _operations(kind, version, model, ("get", "post"))
            paths[base + "/{name}"] = _operations(kind, version, model, ("get", "put", "patch", "delete"))
    out = {
        "openapi": "3.0.0",
        "info": {"title": "krun serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return json.dumps(out, separators=(",", ":")).encode()


def _identity(kind: Kind, version: str) -> Object:
    return {"group": kind.group, "version": version, "kind": kind.kind}


def _model(kind: Kind, version: str) -> Object:
    node = json.loads(json.dumps(schema.expanded(kind)))
    if version != kind.version:
        # The shapes of 2019 are checked by the server only.
        node["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    node["x-kubernetes-group-version-kind"] = [_identity(kind, version)]
    return dict(node)


_ACTIONS = {"get": "get", "post": "post", "put": "put", "patch": "patch", "delete": "delete"}


def _operations(kind: Kind, version: str, model: str, methods: tuple[str, ...]) -> Object:
    reference = {"$ref": f"#/components/schemas/{model}"}
    out: Object = {}
    for method in methods:
        operation: Object = {
            "x-kubernetes-action": _ACTIONS[method],
            "x-kubernetes-group-version-kind": _identity(kind, version),
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
                for name in ("dryRun", "fieldManager", "fieldValidation")
            ],
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": reference}}}
            },
        }
        if method in ("post", "put", "patch"):
            operation["requestBody"] = {"content": {"*/*": {"schema": reference}}}
        out[method] = operation
    return out
