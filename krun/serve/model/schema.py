"""The schema of Knative's objects and the walker over it: unknown fields, types, required fields, defaults.

The schema is data/knative.json, made from the CRDs of knative.dev/serving by tools/gen_knative_schema.py. Rules:
structural schemas of CustomResourceDefinitions (Kubernetes documentation, "Specifying a structural schema", "Field
pruning"). One difference: a field that is null counts as absent everywhere, because typed clients send
`creationTimestamp: null`, and an absent field means the same.
"""

import json
import os
import re
from functools import cache
from typing import Any

from krun.serve.model.kinds import Kind

_META: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "selfLink": {"type": "string"},
        "uid": {"type": "string"},
        "resourceVersion": {"type": "string"},
        "generation": {"type": "integer", "format": "int64"},
        "creationTimestamp": {"type": "string"},
        "deletionTimestamp": {"type": "string"},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "name": {"type": "string"},
                    "uid": {"type": "string"},
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                },
            },
        },
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
#: core/v1 kinds that clients write. Their other fields are not theirs to set.
_CORE: dict[str, dict[str, Any]] = {
    "configmaps": {"data": _TEXTS, "binaryData": _TEXTS, "immutable": {"type": "boolean"}},
    "secrets": {
        "data": _TEXTS,
        "stringData": _TEXTS,
        "type": {"type": "string"},
        "immutable": {"type": "boolean"},
    },
    "namespaces": {
        "spec": {
            "type": "object",
            "properties": {"finalizers": {"type": "array", "items": {"type": "string"}}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


@cache
def _data() -> dict[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), "data", "knative.json"), encoding="utf-8") as stream:
        out: dict[str, Any] = json.load(stream)
    return out


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema node that `node` stands for: the definition if it is a reference."""
    ref = node.get("$ref")
    if ref is None:
        return node
    found: dict[str, Any] = _data()["defs"][ref]
    return found


@cache
def of(kind: Kind) -> dict[str, Any]:
    """Returns the schema of `kind`, metadata included; it must not be changed."""
    if kind.schema:
        properties = dict(_data()["kinds"][kind.schema]["properties"])
    else:
        properties = dict(_CORE.get(kind.plural, {}))
    properties.update({"metadata": _META, "apiVersion": {"type": "string"}, "kind": {"type": "string"}})
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if not kind.schema and kind.plural not in _CORE:
        out["x-kubernetes-preserve-unknown-fields"] = True
    return out


@cache
def expanded(kind: Kind) -> dict[str, Any]:
    """Returns the schema of `kind` without references, as an OpenAPI document holds it."""

    def walk(node: dict[str, Any]) -> dict[str, Any]:
        node = dict(resolve(node))
        if "properties" in node:
            node["properties"] = {name: walk(child) for name, child in node["properties"].items()}
        for key in ("items", "additionalProperties"):
            if key in node:
                node[key] = walk(node[key])
        return node

    return walk(of(kind))


class Walk:
    """What a walk over an object found: `unknown` paths (pruned), `causes`, a list of (path, what is wrong)."""

    __slots__ = ("unknown", "causes")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.causes: list[tuple[str, str]] = []


def prune(kind: Kind, obj: dict[str, Any]) -> tuple[dict[str, Any], Walk]:
    """Returns a copy of `obj` without unknown fields and nulls, with the schema's defaults, and what was found.

    Required fields are checked later, by `check_required`, because Knative's own defaults come in between.
    """
    walk = Walk()
    return _object(obj, of(kind), "", walk), walk


def prune_node(node: dict[str, Any], value: Any, path: str) -> tuple[Any, Walk]:
    """The same for a part of an object with the schema `node`."""
    walk = Walk()
    return _value(value, node, path, walk), walk


def check_required(kind: Kind, obj: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns (path, text) for every required field that `obj` lacks."""
    return required_of(of(kind), obj, "")


def required_of(node: dict[str, Any], value: Any, path: str) -> list[tuple[str, str]]:
    """The same for a part of an object with the schema `node`."""
    causes: list[tuple[str, str]] = []
    _required(value, node, path, causes)
    return causes


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _object(value: dict[str, Any], node: dict[str, Any], path: str, walk: Walk) -> dict[str, Any]:
    out: dict[str, Any] = {}
    known = node.get("properties", {})
    other = node.get("additionalProperties")
    keep = node.get("x-kubernetes-preserve-unknown-fields")
    for name, item in value.items():
        if item is None:
            continue
        child = known.get(name, other)
        if isinstance(child, dict):
            out[name] = _value(item, resolve(child), _join(path, name), walk)
        elif keep:
            out[name] = item
        else:
            walk.unknown.append(_join(path, name))
    for name, child in known.items():
        if name not in out and "default" in child:
            out[name] = child["default"]
    return out


def _value(value: Any, node: dict[str, Any], path: str, walk: Walk) -> Any:
    if node.get("x-kubernetes-int-or-string"):
        pattern = node.get("pattern")
        if isinstance(value, bool) or not isinstance(value, int | str):
            walk.causes.append((path, _wrong_type(value, path, "string or integer")))
        elif pattern and not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), str(value)[:256]):
            walk.causes.append(
                (path, f"Invalid value: {json.dumps(value)}: {path} in body should match '{pattern}'")
            )
        return value
    wanted = node.get("type")
    if wanted == "object":
        if isinstance(value, dict):
            return _object(value, node, path, walk)
    elif wanted == "array":
        if isinstance(value, list):
            items = resolve(node.get("items", {}))
            return [
                _value(item, items, f"{path}[{index}]", walk)
                for index, item in enumerate(value)
                if item is not None
            ]
    elif wanted == "string":
        if isinstance(value, str):
            return value
    elif wanted == "boolean":
        if isinstance(value, bool):
            return value
    elif wanted == "integer":
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            _bounds(value, node, path, walk)
            return value
    elif wanted == "number":
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    else:
        return value
    walk.causes.append((path, _wrong_type(value, path, str(wanted))))
    return {} if wanted == "object" else [] if wanted == "array" else None


def _bounds(value: int, node: dict[str, Any], path: str, walk: Walk) -> None:
    low, high = _BOUNDS.get(node.get("format", "int64"), _BOUNDS["int64"])
    if not low <= value <= high:
        walk.causes.append(
            (path, f"Invalid value: {value}: {path} in body should be between {low} and {high}")
        )


def _wrong_type(value: Any, path: str, wanted: str) -> str:
    found = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    name = found.get(type(value), "null")
    return f'Invalid value: "{name}": {path} in body must be of type {wanted}: "{name}"'


def _required(value: Any, node: dict[str, Any], path: str, causes: list[tuple[str, str]]) -> None:
    node = resolve(node)
    if isinstance(value, dict):
        for name in node.get("required", ()):
            if name not in value:
                causes.append((_join(path, name), "Required value"))
        known, other = node.get("properties", {}), node.get("additionalProperties")
        for name, item in value.items():
            child = known.get(name, other)
            if isinstance(child, dict) and isinstance(item, dict | list):
                _required(item, child, _join(path, name), causes)
    elif isinstance(value, list) and "items" in node:
        for index, item in enumerate(value):
            _required(item, node["items"], f"{path}[{index}]", causes)
