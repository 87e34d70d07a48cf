"""Patches: JSON merge patch (RFC 7396), JSON patch (RFC 6902), apply with one owner for each field manager.

strategic-merge-patch is taken for core/v1 only, whose writable kinds hold maps and no lists: there it is a merge patch
(Kubernetes answers 415 for custom resources as well).
"""

import copy
import json
from typing import Any

from krun.serve.model.status import ApiError, bad_request, too_large

#: The bounds of the API server (apiserver, pkg/endpoints/handlers/patch.go; evanphx/json-patch, AccumulatedCopySizeLimit).
_OPERATIONS = 10000
_COPIED = 3 << 20


def merge(target: Any, patch: Any) -> Any:
    """Returns `target` with a merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merge(out.get(name), value)
    return out


def apply(live: dict[str, Any], last: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns `live` with what a manager applies: fields of `wanted` set, fields of `last` that it dropped removed.

    Lists are one value, as they are for a schema without list-type map.
    """
    out = dict(live)
    for name, value in last.items():
        if name not in wanted:
            if isinstance(value, dict) and isinstance(out.get(name), dict):
                out[name] = apply(out[name], value, {})
                if not out[name]:
                    del out[name]
            else:
                out.pop(name, None)
    for name, value in wanted.items():
        if isinstance(value, dict):
            before = out.get(name) if isinstance(out.get(name), dict) else {}
            old = last.get(name)
            out[name] = apply(before or {}, old if isinstance(old, dict) else {}, value)
        elif value is not None:
            out[name] = copy.deepcopy(value)
    return out


def json_patch(target: Any, operations: Any) -> Any:
    """Returns `target` with a JSON patch applied. Errors: ApiError 400, no patch; 413, too large; 422, an operation fails."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise bad_request("apply JSON patch: the body is no list of operations")
    if len(operations) > _OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {_OPERATIONS}, got {len(operations)}"
        )
    out = copy.deepcopy(target)
    copied = 0
    for index, operation in enumerate(operations):
        try:
            if operation.get("op") == "copy":
                # Copies of copies double: each is counted before it is made.
                copied += len(json.dumps(_get(out, _pointer(operation["from"]))))
                if copied > _COPIED:
                    raise too_large(f"apply JSON patch: the copies have more than {_COPIED} bytes")
            out = _operate(out, operation)
        except RecursionError:
            raise bad_request("apply JSON patch: the object is nested too deep") from None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            text = (
                f"the server rejected our request due to an error in our request: operation {index}: {error}"
            )
            raise ApiError(422, "Invalid", text) from None
    return out


def _operate(doc: Any, operation: dict[str, Any]) -> Any:
    name = operation.get("op")
    path = _pointer(operation["path"])
    if name in ("add", "replace", "test"):
        value = copy.deepcopy(operation["value"])
        if name == "test":
            if not _same(_get(doc, path), value):
                raise ValueError(f"test of {operation['path']} failed")
            return doc
        if name == "replace":
            _get(doc, path)
            return _put(doc, path, value, replace=True)
        return _put(doc, path, value)
    if name == "remove":
        return _remove(doc, path)
    if name in ("move", "copy"):
        source = _pointer(operation["from"])
        value = _get(doc, source)
        if name == "copy":
            value = copy.deepcopy(value)
        else:
            if path[: len(source)] == source and len(path) > len(source):
                raise ValueError("a value cannot be moved into itself")
            doc = _remove(doc, source)
        return _put(doc, path, value)
    raise ValueError(f"unknown operation {name!r}")


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where true is no number (RFC 6902, section 4.6)."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(items: list[Any], part: str, end: bool = False) -> int:
    if part == "-" and end:
        return len(items)
    if not part.isascii() or not part.isdigit() or len(part) > 9 or part != "0" and part[0] == "0":
        raise ValueError(f"{part!r} is no index")
    index = int(part)
    if index > len(items) - (0 if end else 1):
        raise IndexError(f"index {index} is beyond the list")
    return index


def _get(doc: Any, path: list[str]) -> Any:
    for part in path:
        doc = doc[_index(doc, part)] if isinstance(doc, list) else _child(doc, part)
    return doc


def _child(doc: Any, part: str) -> Any:
    if not isinstance(doc, dict):
        raise KeyError(f"no field {part!r}")
    return doc[part]


def _put(doc: Any, path: list[str], value: Any, replace: bool = False) -> Any:
    if not path:
        return value
    parent = _get(doc, path[:-1])
    if isinstance(parent, list):
        index = _index(parent, path[-1], end=not replace)
        parent[index : index + (1 if replace else 0)] = [value]
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise KeyError(f"no field {path[-1]!r}")
    return doc


def _remove(doc: Any, path: list[str]) -> Any:
    if not path:
        raise ValueError("the whole object cannot be removed")
    parent = _get(doc, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        _child(parent, path[-1])
        del parent[path[-1]]
    return doc
