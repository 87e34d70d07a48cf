"""Decoding of the protobuf bodies that typed clients send for core/v1: answers are always JSON.

Sources: k8s.io/apimachinery pkg/runtime/serializer/protobuf (the envelope "k8s\\0" and runtime.Unknown), the .proto files of
k8s.io/api core/v1, authorization/v1 and of apimachinery meta/v1; protobuf.dev, "Encoding".
"""

import base64
from typing import Any

from krun.serve.model.status import bad_request

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_DEPTH = 8

#: Message -> field number -> (name, type). Types: str, bytes (base64 in JSON), int, bool, a message, [type] = repeated,
#: {type} = map from string.
_OWNER: dict[int, Any] = {
    1: ("kind", "str"),
    3: ("name", "str"),
    4: ("uid", "str"),
    5: ("apiVersion", "str"),
    6: ("controller", "bool"),
    7: ("blockOwnerDeletion", "bool"),
}
_META: dict[int, Any] = {
    1: ("name", "str"),
    2: ("generateName", "str"),
    3: ("namespace", "str"),
    5: ("uid", "str"),
    6: ("resourceVersion", "str"),
    7: ("generation", "int"),
    11: ("labels", {"str"}),
    12: ("annotations", {"str"}),
    13: ("ownerReferences", [_OWNER]),
    14: ("finalizers", ["str"]),
}
_ATTRIBUTES: dict[int, Any] = {
    1: ("namespace", "str"),
    2: ("verb", "str"),
    3: ("group", "str"),
    4: ("version", "str"),
    5: ("resource", "str"),
    6: ("subresource", "str"),
    7: ("name", "str"),
}
_PATH: dict[int, Any] = {1: ("path", "str"), 2: ("verb", "str")}
_REVIEW: dict[int, Any] = {
    1: ("metadata", _META),
    2: (
        "spec",
        {1: ("resourceAttributes", _ATTRIBUTES), 2: ("nonResourceAttributes", _PATH)},
    ),
}
MESSAGES: dict[tuple[str, str], dict[int, Any]] = {
    ("v1", "ConfigMap"): {
        1: ("metadata", _META),
        2: ("data", {"str"}),
        3: ("binaryData", {"bytes"}),
        4: ("immutable", "bool"),
    },
    ("v1", "Secret"): {
        1: ("metadata", _META),
        2: ("data", {"bytes"}),
        3: ("type", "str"),
        4: ("stringData", {"str"}),
        5: ("immutable", "bool"),
    },
    ("v1", "Namespace"): {
        1: ("metadata", _META),
        2: ("spec", {1: ("finalizers", ["str"])}),
        3: ("status", {1: ("phase", "str")}),
    },
    ("v1", "DeleteOptions"): {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", {1: ("uid", "str"), 2: ("resourceVersion", "str")}),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "str"),
        5: ("dryRun", ["str"]),
    },
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _REVIEW,
}


class _Broken(Exception):
    """The bytes are no message."""


def decode(body: bytes) -> dict[str, Any]:
    """Returns the JSON form of an object in Kubernetes' protobuf envelope. Errors: ApiError 400."""
    if not body.startswith(_MAGIC):
        raise bad_request("decode protobuf body: it does not begin with k8s\\0")
    try:
        envelope = _fields(body[len(_MAGIC) :])
        kind = _message({1: ("apiVersion", "str"), 2: ("kind", "str")}, _last(envelope, 1))
        kind = {"apiVersion": kind.get("apiVersion", ""), "kind": kind.get("kind", "")}
        table = MESSAGES.get((kind["apiVersion"], kind["kind"]))
        if table is None and kind["kind"] == "DeleteOptions":
            table = MESSAGES["v1", "DeleteOptions"]
        if table is None:
            raise bad_request(
                f"decode protobuf body: {kind['apiVersion']} {kind['kind']} is served as JSON only"
            )
        return {**kind, **_message(table, _last(envelope, 2))}
    except _Broken as error:
        raise bad_request(f"decode protobuf body: {error}") from None


def _last(found: list[tuple[int, int, Any]], number: int) -> bytes:
    for field, _, value in reversed(found):
        if field == number and isinstance(value, bytes):
            return value
    return b""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _Broken("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
    raise _Broken("a number is longer than 10 bytes")


def _fields(data: bytes) -> list[tuple[int, int, Any]]:
    out: list[tuple[int, int, Any]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5, 2):
            size, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            if size > len(data) - at:
                raise _Broken("a field is cut off")
            value, at = data[at : at + size], at + size
        else:
            raise _Broken(f"wire type {wire}")
        out.append((number, wire, value))
    return out


def _message(table: dict[int, Any], data: bytes, depth: int = 0) -> dict[str, Any]:
    if depth > _DEPTH:
        raise _Broken("messages are nested too deep")
    out: dict[str, Any] = {}
    for number, wire, raw in _fields(data):
        if number not in table:
            continue
        name, kind = table[number]
        if isinstance(kind, set):
            key, value = _pair(next(iter(kind)), raw, depth)
            out.setdefault(name, {})[key] = value
        elif isinstance(kind, list):
            out.setdefault(name, []).append(_scalar(kind[0], wire, raw, depth))
        else:
            out[name] = _scalar(kind, wire, raw, depth)
    return out


def _pair(kind: str, raw: Any, depth: int) -> tuple[str, Any]:
    if not isinstance(raw, bytes):
        raise _Broken("a map's entry is no message")
    entry = _message({1: ("key", "str"), 2: ("value", kind)}, raw, depth + 1)
    return entry.get("key", ""), entry.get("value", "")


def _scalar(kind: Any, wire: int, raw: Any, depth: int) -> Any:
    if kind in ("int", "bool"):
        if wire != 0:
            raise _Broken("a number has the wrong wire type")
        return bool(raw) if kind == "bool" else raw - 2**64 if raw >= 2**63 else raw
    if wire != 2:
        raise _Broken("a string has the wrong wire type")
    if isinstance(kind, dict):
        return _message(kind, raw, depth + 1)
    if kind == "bytes":
        return base64.b64encode(raw).decode()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _Broken("a string is not UTF-8") from None
