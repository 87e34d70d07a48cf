"""Who manages which fields of an object (metadata.managedFields), and the conflicts of server-side apply.

Sources: Kubernetes documentation, "Server-Side Apply"; structured-merge-diff, merge/update.go; k8s.io/apimachinery
pkg/util/managedfields/internal (stripmeta.go, conflict.go, managers.go). A field is a path of FieldsV1's own words
("f:spec", 'k:{"uid":"x"}', 'v:"x"'). Maps and structs are merged field by field; a list is one value, except those of _LISTS,
because the schema of Knative's kinds names no other one.
"""

import copy
import json
from typing import Any

from krun.serve.model.status import ApiError, bad_request, too_large

Object = dict[str, Any]
Path = tuple[str, ...]
Entry = dict[str, Any]

#: Lists that are merged: by the keys of their items, or () for sets (meta/v1 ObjectMeta).
_LISTS: dict[Path, tuple[str, ...]] = {
    ("f:metadata", "f:ownerReferences"): ("uid",),
    ("f:metadata", "f:finalizers"): (),
}
#: What nobody manages (stripmeta.go).
_STRIPPED = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
#: Managers whose updates are told apart; the oldest of more are one entry (managers.go, MaxUpdateManagers).
_MOST = 10
_ANCIENT = "ancient-changes"
#: Entries of an object, and items of a list that is merged.
_ENTRIES, _ITEMS = 100, 32
#: Bounds of a name (apimachinery, meta/v1 validation).
_LONGEST = 128
#: Annotations that the server writes itself.
_OWN = "f:internal.serve.krun.dev/"


def manager_of(given: str, agent: str) -> str:
    """Returns the manager of a write that is no apply: fieldManager, else the first word of the user agent.

    Errors: ApiError 400, the name is too long or cannot be printed.
    """
    if len(given) > _LONGEST or not given.isprintable():
        raise bad_request(
            f"fieldManager: Invalid value: must be printable and have no more than {_LONGEST} characters"
        )
    word = "".join(char for char in agent.partition("/")[0] if char.isprintable())
    return given or word[:_LONGEST] or "unknown"


# ------------------------------------------------------------------------------------------------------- paths


def fields(obj: Object, status: bool = False) -> set[Path]:
    """Returns the paths of all fields of an object that somebody can manage: of its status, or of the rest."""
    if status:
        return _leaves(obj["status"], ("f:status",)) if obj.get("status") is not None else set()
    found: set[Path] = set()
    for key, value in obj.items():
        if key in ("apiVersion", "kind", "status"):
            continue
        if key == "metadata":
            value = {name: one for name, one in (value or {}).items() if name not in _STRIPPED}
            if not value:
                continue
        found |= _leaves(value, (f"f:{key}",))
    return {path for path in found if not (len(path) == 3 and path[2].startswith(_OWN))}


def _leaves(value: Any, path: Path) -> set[Path]:
    if value is None:
        return set()
    found: set[Path] = set()
    if isinstance(value, dict) and value:
        for name, one in value.items():
            found |= _leaves(one, (*path, f"f:{name}"))
        return found
    if _merged(path, value):
        for item in value:
            own = (*path, _word(item, _LISTS[path]))
            found |= {own} | (_leaves(item, own) if isinstance(item, dict) else set())
        return found
    return {path}


def _merged(path: Path, value: Any) -> bool:
    """Whether a list is merged item by item. A long one is one value: each item is looked for among all."""
    return isinstance(value, list) and path in _LISTS and len(value) <= _ITEMS


def _word(item: Any, keys: tuple[str, ...]) -> str:
    if keys and isinstance(item, dict):
        value = {key: item.get(key) for key in keys}
        return "k:" + json.dumps(value, separators=(",", ":"), sort_keys=True)
    return "v:" + json.dumps(item, separators=(",", ":"), sort_keys=True)


def _find(value: Any, path: Path, at: Path = ()) -> tuple[bool, Any]:
    """Returns whether there is a value at a path, and the value."""
    for word in path:
        if _merged(at, value):
            found = [item for item in value if _word(item, _LISTS[at]) == word]
            if not found:
                return False, None
            value = found[0]
        elif isinstance(value, dict) and word[2:] in value and word.startswith("f:"):
            value = value[word[2:]]
        else:
            return False, None
        at = (*at, word)
    return value is not None, value


def _differ(one: Object, other: Object, path: Path) -> bool:
    """Whether two objects differ in a field. An item with a key is there or not: its fields are fields of their own."""
    a, b = _find(one, path), _find(other, path)
    return a[0] != b[0] if path[-1].startswith("k:") else a != b


def _remove(obj: Object, path: Path, kept: set[Path]) -> None:
    """Removes the value at a path, and what is empty above it, unless it is in `kept`."""
    for length in range(len(path), 0, -1):
        parent_there, parent = _find(obj, path[: length - 1])
        if not parent_there:
            return
        word = path[length - 1]
        there, value = _find(obj, path[:length])
        if length < len(path) and (not there or value or path[:length] in kept or length == 1):
            return
        if isinstance(parent, dict):
            parent.pop(word[2:], None)
        elif isinstance(parent, list):
            parent[:] = [item for item in parent if _word(item, _LISTS[path[: length - 1]]) != word]


def text_of(path: Path) -> str:
    """Returns a path as people read it (structured-merge-diff, fieldpath/path.go)."""
    out = ""
    for word in path:
        kind, value = word[:2], word[2:]
        if kind == "f:":
            out += f".{value}"
        elif kind == "k:":
            pairs = json.loads(value)
            out += "[" + ",".join(f"{key}={json.dumps(pairs[key])}" for key in sorted(pairs)) + "]"
        else:
            out += f"[={value}]"
    return out


def _items_above(paths: set[Path]) -> set[Path]:
    """Returns the items of lists below which there is a path."""
    return {path[:end] for path in paths for end in range(1, len(path)) if path[end - 1][:2] in ("k:", "v:")}


def encode(paths: set[Path]) -> Object:
    """Returns a set of paths as FieldsV1. An item of a list that is managed itself has "."."""
    out: Object = {}
    above = _items_above(paths)
    for path in sorted(paths):
        node = out
        for word in path:
            node = node.setdefault(word, {})
        if path in above:
            node["."] = {}
    return out


def decode(tree: Object) -> set[Path]:
    """Returns the paths of FieldsV1."""
    found: set[Path] = set()

    def walk(node: Object, path: Path) -> None:
        for word, child in node.items():
            if word == ".":
                found.add(path)
            elif child:
                walk(child, (*path, word))
            else:
                found.add((*path, word))

    walk(tree, ())
    return found


# ----------------------------------------------------------------------------------------------------- entries


class Managers:
    """The entries of an object. Arguments: obj, as it is stored, None for one that is made; now, the time for entries that change."""

    def __init__(self, obj: Object | None, now: str) -> None:
        self.now = now
        self.entries: list[tuple[Entry, set[Path]]] = [
            ({**entry}, decode(entry.get("fieldsV1") or {}))
            for entry in ((obj or {}).get("metadata") or {}).get("managedFields") or []
        ]

    def stored(self) -> list[Entry]:
        """Returns metadata.managedFields; a manager without a field has no entry."""
        kept = [(entry, paths) for entry, paths in self.entries if paths]
        return [{**entry, "fieldsType": "FieldsV1", "fieldsV1": encode(paths)} for entry, paths in kept]

    def _own(self, manager: str, operation: str, version: str, sub: str) -> int:
        """Returns the index of a manager's entry, which is made if there is none. An apply has one for all versions."""
        for index, (entry, _) in enumerate(self.entries):
            same = entry["manager"] == manager and entry["operation"] == operation
            if same and entry.get("subresource", "") == sub:
                if operation == "Apply" or entry["apiVersion"] == version:
                    return index
        if len(self.entries) >= _ENTRIES:
            raise too_large(f"metadata.managedFields: an object has at most {_ENTRIES} managers")
        entry = {"manager": manager, "operation": operation, "apiVersion": version, "time": self.now}
        self.entries.append((entry | ({"subresource": sub} if sub else {}), set()))
        return len(self.entries) - 1

    def _set(self, index: int, paths: set[Path], version: str) -> None:
        entry, before = self.entries[index]
        if paths != before:
            entry["time"] = self.now
        entry["apiVersion"] = version
        self.entries[index] = (entry, paths)

    def _take(self, paths: set[Path], but: int) -> None:
        """Takes fields from every manager except one; a field goes with what stands below it."""
        for index, (entry, own) in enumerate(self.entries):
            if index != but:
                left = {
                    path
                    for path in own
                    if not any(path[:length] in paths for length in range(1, len(path) + 1))
                }
                self.entries[index] = (entry, left)

    def update(
        self, manager: str, version: str, old: Object | None, new: Object, sub: str = ""
    ) -> list[Entry]:
        """Records a create, update or patch: whoever changes a field manages it, alone."""
        before, after = fields(old or {}, bool(sub)), fields(new, bool(sub))
        changed = {path for path in after if path not in before or _differ(old or {}, new, path)}
        removed = before - after
        if not changed and not removed:
            return self.stored()
        index = self._own(manager, "Update", version, sub)
        self._take(changed | removed, index)
        self._set(index, (self.entries[index][1] | changed) - removed, version)
        self._cap()
        return self.stored()

    def _cap(self) -> None:
        """Makes one entry of the oldest updates: a client that names itself anew each time does not fill the object."""
        updates = [entry for entry, paths in self.entries if entry["operation"] == "Update" and paths]
        if len(updates) <= _MOST:
            return
        updates.sort(key=lambda entry: str(entry.get("time", "")))
        old = updates[: len(updates) - _MOST + 1]
        paths = set().union(*(own for entry, own in self.entries if any(entry is one for one in old)))
        rest = [(entry, own) for entry, own in self.entries if not any(entry is one for one in old)]
        merged = {
            "manager": _ANCIENT,
            "operation": "Update",
            "apiVersion": old[-1]["apiVersion"],
            "time": old[-1]["time"],
        }
        self.entries = [*rest, (merged, paths)]

    def apply(
        self, manager: str, version: str, live: Object, wanted: Object, force: bool, sub: str = ""
    ) -> tuple[Object, list[Entry]]:
        """Returns the object with what a manager applies, and the entries. Errors: ApiError 409, a conflict without `force`.

        Fields that the manager applied before and leaves out now are removed, unless another one manages them too.
        """
        paths = fields(wanted, bool(sub))
        merged = _merge(live, {"status": wanted.get("status")} if sub else wanted, ())
        changed = {path for path in paths if _differ(live, merged, path)}
        index = self._own(manager, "Apply", version, sub)
        found = [
            (entry, path)
            for other, (entry, own) in enumerate(self.entries)
            if other != index
            for path in sorted(own & changed)
        ]
        if found and not force:
            raise _conflict(found)
        self._take(changed, index)
        others = set().union(*(own for other, (_, own) in enumerate(self.entries) if other != index))
        held, kept = others | _items_above(others), paths | others
        # An item goes before its fields, which say which item it is.
        for path in sorted(self.entries[index][1] - paths, key=len):
            if path not in held:
                _remove(merged, path, kept)
        self._set(index, paths, version)
        return merged, self.stored()


def _merge(live: Any, wanted: Any, path: Path) -> Any:
    """Returns `live` with the fields of `wanted`; neither is changed."""
    if isinstance(wanted, dict):
        out = copy.deepcopy(live) if isinstance(live, dict) else {}
        for name, value in wanted.items():
            if value is not None:
                out[name] = _merge(out.get(name), value, (*path, f"f:{name}"))
        return out
    if _merged(path, wanted) and _merged(path, live):
        keys, items = _LISTS[path], copy.deepcopy(live)
        for item in wanted:
            word = _word(item, keys)
            at = next((index for index, one in enumerate(items) if _word(one, keys) == word), None)
            if at is None:
                items.append(copy.deepcopy(item))
            else:
                items[at] = _merge(items[at], item, (*path, word))
        return items
    return copy.deepcopy(wanted)


def _printed(entry: Entry) -> str:
    text = json.dumps(entry["manager"], ensure_ascii=False)
    if entry.get("subresource"):
        text += f" with subresource {json.dumps(entry['subresource'])}"
    return f"{text} using {entry['apiVersion']}" if entry["operation"] == "Update" else text


def _conflict(found: list[tuple[Entry, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_printed(entry)}",
            "field": text_of(path),
        }
        for entry, path in found
    ]
    if len(found) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        by: dict[str, list[str]] = {}
        for entry, path in found:
            by.setdefault(_printed(entry), []).append(f"- {text_of(path)}")
        lines = [line for name in sorted(by) for line in (f"conflicts with {name}:", *by[name])]
        text = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, {"causes": causes})
