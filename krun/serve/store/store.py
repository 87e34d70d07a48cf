"""The store: objects with versions, owners, finalizers and watches.

An object is kept as its JSON text, packed (packing.py), with its labels and owners beside it: a thousand services take some 2 MB, as
dicts they would take 60. What has happened is in the file only. A reader always gets a fresh copy. Everything happens on the loop's
thread; SQLite below is db.py.

Rules: Kubernetes API conventions ("Resource versions", "Concurrency control"), "Owners and dependents", "Finalizers",
"Garbage collection".
"""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import intern
from typing import Any

from krun.errors import KrunError, one_line
from krun.serve.model import meta, names, status, values
from krun.serve.model.kinds import NAMESPACE, Kind, by_resource
from krun.serve.store import selectors
from krun.serve.store.db import Database, Record
from krun.serve.store.packing import pack, unpack
from krun.serve.store.watch import Event, Watch

Object = dict[str, Any]
Objects = list[Object]
Key = tuple[Kind, str, str]
Keys = list[tuple[str, str]]
Owned = list[Key]
Way = list[tuple[Kind | None, Object, Owned]]
#: Events that a watch can replay; the table in the file holds up to twice as many.
_RING = 2048
#: Bytes of their texts, since they were last made fewer.
_RING_BYTES = 256 << 20
_GENERATE_TRIES = 8
#: Bytes of an object: a body of 3 MiB, with six bytes for each character beyond ASCII, and what the server adds.
_LARGEST = 8 << 20
_NO_LABELS: dict[str, str] = {}


class _Row:
    """What is kept of an object in memory."""

    __slots__ = ("rv", "packed", "labels", "owners", "uid")

    def __init__(self, obj: Object, rv: int, text: bytes) -> None:
        data = obj["metadata"]
        self.rv = rv
        self.packed = pack(text)
        # Interned: the same few texts are in thousands of objects, and a uid is in its owner's children, too.
        labels = data.get("labels")
        self.labels = {intern(key): intern(value) for key, value in labels.items()} if labels else _NO_LABELS
        self.owners = tuple(intern(owner.get("uid", "")) for owner in data.get("ownerReferences") or ())
        self.uid: str = intern(data.get("uid", ""))

    @property
    def json(self) -> bytes:
        """The object's text."""
        return unpack(self.packed)


def _copy(obj: Object) -> Object:
    """Returns a copy of an object. Errors: ApiError 413: patches of 100 bytes make it larger, each by as much as it has."""
    text = json.dumps(obj)
    if len(text) > _LARGEST:
        raise status.too_large(f"an object has at most {_LARGEST} bytes, this one would have {len(text)}")
    copied: Object = json.loads(text)
    return copied


class Store:
    """The embedded store. Errors of writers: ApiError (409, 404, 422); KrunError, the file cannot be written."""

    def __init__(self, path: str) -> None:
        """Opens or makes the file `path` (":memory:" for tests) and loads it."""
        self._db = Database(path)
        self._subscribers: list[Callable[[Event], None]] = []
        self._watches: list[Watch] = []
        self._depth = 0
        self._written = 0  # bytes of events
        self._pending: list[Event] = []
        self._load()

    def _load(self) -> None:
        self._rows: dict[Kind, dict[tuple[str, str], _Row]] = {}
        self._owned: dict[str, set[Key]] = {}
        self._uids: set[str] = set()
        self.rv = self._db.last_rv()
        self._trimmed = self._db.first_rv() or self.rv + 1
        for record in self._db.objects():
            kind = by_resource(record.group, record.plural)
            row = _Row(json.loads(record.json), record.rv, record.json)
            self._index((kind, intern(record.namespace), intern(record.name)), row)

    def close(self) -> None:
        """Ends all watches and closes the file."""
        for watch in list(self._watches):
            watch.close()
        self._db.close()

    # -------------------------------------------------------------------------------------------------- reading

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Returns a copy of the object, or None."""
        row = self._rows.get(kind, {}).get((namespace, name))
        return json.loads(row.json) if row else None

    def need(self, kind: Kind, namespace: str, name: str) -> Object:
        """Returns a copy of the object. Errors: ApiError 404."""
        found = self.get(kind, namespace, name)
        if found is None:
            raise status.not_found(kind, name)
        return found

    def list(self, kind: Kind, namespace: str | None = None, labels: str = "", fields: str = "") -> Objects:
        """Returns copies of the objects of `kind`, of one namespace unless None, that match the selectors.

        The order is by namespace and name, so that pages of a list (limit, continue) fit together.
        """
        return list(self.each(kind, namespace, labels, fields))

    def each(
        self, kind: Kind, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> Iterator[Object]:
        """Yields copies of the same objects, one at a time: thousands of them, parsed together, would take 50 MB.

        The objects are those of the first step; the store may be changed meanwhile.
        """
        return (json.loads(text) for text in self.texts(kind, namespace, labels, fields))

    def keys(self, kind: Kind) -> Keys:
        """Returns (namespace, name) of all objects of `kind`, in order."""
        return sorted(self._rows.get(kind, {}))

    def texts(
        self, kind: Kind, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> Iterator[bytes]:
        """Yields the JSON text of the same objects: a large list is sent without being parsed."""
        by_label, by_field = selectors.labels(labels), selectors.fields(fields)
        for (own, _), row in sorted(self._rows.get(kind, {}).items()):
            if namespace is not None and own != namespace:
                continue
            if by_label is not None and not by_label({"metadata": {"labels": row.labels}}):
                continue
            if by_field is not None and not by_field(json.loads(row.json)):
                continue
            yield row.json

    def count(self, kind: Kind) -> int:
        """Returns how many objects of `kind` there are."""
        return len(self._rows.get(kind, {}))

    def owned(self, uid: str, kind: Kind | None = None) -> Objects:
        """Returns copies of the objects that name the owner `uid`, of `kind` unless None."""
        keys = sorted(self._owned.get(uid, ()), key=lambda key: (key[0].resource, key[1], key[2]))
        return [self.need(*key) for key in keys if kind is None or key[0] is kind]

    # -------------------------------------------------------------------------------------------------- writing

    def create(self, kind: Kind, obj: Object) -> Object:
        """Stores a new object and returns it with uid, times and version. Errors: ApiError 409, the name is taken; 413."""
        obj = _copy(obj)
        data = meta.meta(obj)
        namespace = data.get("namespace", "") if kind.namespaced else ""
        rows = self._rows.get(kind, {})
        if not data.get("name"):
            for _ in range(_GENERATE_TRIES):
                data["name"] = names.generate(data.get("generateName", ""))
                if (namespace, data["name"]) not in rows:
                    break
        name = data["name"]
        if (namespace, name) in rows:
            raise status.already_exists(kind, name)
        for key in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
            data.pop(key, None)
        data["uid"] = str(uuid.uuid4())
        data["creationTimestamp"] = values.now()
        if kind.namespaced:
            data["namespace"] = namespace
        if kind.generation:
            data["generation"] = 1
        obj["apiVersion"], obj["kind"] = kind.api_version(), kind.kind
        with self.batch():
            if kind.namespaced and namespace:
                self._need_namespace(namespace)
            self._put("ADDED", kind, obj)
        return obj

    def _need_namespace(self, name: str) -> None:
        if ("", name) not in self._rows.get(NAMESPACE, {}):
            labels = {"kubernetes.io/metadata.name": name}
            self.create(
                NAMESPACE, {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
            )

    def update(self, kind: Kind, obj: Object) -> Object:
        """Replaces metadata and spec of an object (of a kind without status: everything) and returns what is stored.

        A status that `obj` carries is ignored where status is a subresource. Nothing is written if nothing changes.
        Errors: ApiError 404; 409, obj.metadata.resourceVersion or uid is not the stored one; 413.
        """
        old = self._current(kind, obj)
        fresh = _copy(obj)
        data, known = meta.meta(fresh), old["metadata"]
        data.pop("selfLink", None)
        if "managedFields" not in data and "managedFields" in known:
            # The API says who manages what; a reconciler leaves it.
            data["managedFields"] = known["managedFields"]
        for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation"):
            data.pop(key, None)
            if key in known:
                data[key] = known[key]
        data["resourceVersion"] = known["resourceVersion"]
        fresh["apiVersion"], fresh["kind"] = kind.api_version(), kind.kind
        if kind.generation:
            fresh.pop("status", None)
            if "status" in old:
                fresh["status"] = old["status"]
            if fresh.get("spec") != old.get("spec"):
                data["generation"] = int(known.get("generation", 0)) + 1
        return self._replace(kind, old, fresh, durable=True)

    def update_status(self, kind: Kind, obj: Object, managed: Objects | None = None) -> Object:
        """Replaces the status of an object and returns what is stored. managed: the new managedFields. Errors as `update`."""
        old = self._current(kind, obj)
        fresh = dict(old)
        if obj.get("status"):
            fresh["status"] = json.loads(json.dumps(obj["status"]))
        else:
            fresh.pop("status", None)
        if managed is not None:
            fresh["metadata"] = {**old["metadata"], "managedFields": managed}
        return self._replace(kind, old, fresh, durable=False)

    def _current(self, kind: Kind, obj: Object) -> Object:
        data = obj.get("metadata", {})
        old = self.need(kind, data.get("namespace", "") if kind.namespaced else "", data.get("name", ""))
        wanted, known = data.get("resourceVersion"), old["metadata"]
        if wanted and wanted != known["resourceVersion"]:
            raise status.conflict(kind, meta.name(old))
        if data.get("uid") and data["uid"] != known["uid"]:
            raise status.conflict(
                kind,
                meta.name(old),
                f"Precondition failed: UID in precondition: {data['uid']}, UID in object meta: {known['uid']}",
            )
        return old

    def _replace(self, kind: Kind, old: Object, fresh: Object, durable: bool) -> Object:
        if fresh == old:
            return old
        with self.batch(durable):
            if fresh["metadata"].get("deletionTimestamp") and not fresh["metadata"].get("finalizers"):
                self._drop(kind, fresh)
            else:
                self._put("MODIFIED", kind, fresh)
        return fresh

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        propagation: str = "Background",
        preconditions: Object | None = None,
    ) -> Object:
        """Deletes an object, and what it owns unless `propagation` is Orphan; returns its last state.

        With finalizers left, the object gets a deletionTimestamp and stays until they are removed. Owned objects go in
        the same transaction: Background and Foreground differ in the order of the events only.
        Errors: ApiError 404; 409, a precondition (uid, resourceVersion) does not hold.
        """
        old = self.need(kind, namespace if kind.namespaced else "", name)
        for key, wanted in (preconditions or {}).items():
            if key in ("uid", "resourceVersion") and wanted and wanted != old["metadata"][key]:
                raise status.conflict(
                    kind, name, f"Precondition failed: {key} in precondition: {wanted}, in object meta:"
                    f" {old['metadata'][key]}"
                )  # fmt: skip
        with self.batch():
            if propagation == "Foreground":
                self._cascade(old, propagation)
            last = self._delete_one(kind, old)
            if propagation == "Orphan":
                self._orphan(old)
            elif propagation != "Foreground":
                self._cascade(old, propagation)
            if kind is NAMESPACE:
                self._empty(name)
        return last

    def _delete_one(self, kind: Kind, obj: Object) -> Object:
        data = obj["metadata"]
        if not data.get("finalizers"):
            return self._drop(kind, obj)
        if not data.get("deletionTimestamp"):
            data["deletionTimestamp"] = values.now()
            data["deletionGracePeriodSeconds"] = 0
            self._put("MODIFIED", kind, obj)
        return obj

    def _cascade(self, owner: Object, propagation: str) -> None:
        """Deletes what the object owns, and what that owns. Clients say who owns what: in circles, and in chains of any length."""
        foreground = propagation == "Foreground"
        going = {owner["metadata"]["uid"]}
        way: Way = [(None, owner, self._owned_keys(owner))]
        while way:
            kind, obj, keys = way[-1]
            if not keys:
                del way[-1]
                if kind is not None and foreground:
                    self._delete_one(kind, obj)
                continue
            key = keys.pop()
            child = self.get(*key)
            if child is None or child["metadata"]["uid"] in going:
                continue
            uid = obj["metadata"]["uid"]
            others = [one for one in child["metadata"].get("ownerReferences") or () if one.get("uid") != uid]
            if any(one.get("uid") in self._uids for one in others):
                child["metadata"]["ownerReferences"] = others
                self._put("MODIFIED", key[0], child)
                continue
            going.add(child["metadata"]["uid"])
            if not foreground:
                self._delete_one(key[0], child)
            way.append((key[0], child, self._owned_keys(child)))

    def _owned_keys(self, owner: Object) -> Owned:
        """Returns the keys of what an object owns, the first one at the end."""
        keys = self._owned.get(owner["metadata"]["uid"], ())
        return sorted(keys, key=lambda key: (key[0].resource, key[1], key[2]), reverse=True)

    def _orphan(self, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for kind, namespace, name in list(self._owned.get(uid, ())):
            obj = self.need(kind, namespace, name)
            kept = [one for one in obj["metadata"]["ownerReferences"] if one.get("uid") != uid]
            obj["metadata"]["ownerReferences"] = kept
            if not kept:
                del obj["metadata"]["ownerReferences"]
            self._put("MODIFIED", kind, obj)

    def _empty(self, namespace: str) -> None:
        for kind, rows in list(self._rows.items()):
            for own, name in [key for key in rows if key[0] == namespace and kind.namespaced]:
                obj = self.get(kind, own, name)
                if obj is not None:
                    self._delete_one(kind, obj)

    # -------------------------------------------------------------------------------------- versions and events

    @contextmanager
    def batch(self, durable: bool = True) -> Iterator[None]:
        """Several writes in one transaction (one sync). Events go out after the commit; an error undoes all of them.

        An inner batch belongs to the outer one.
        """
        if self._depth:
            yield
            return
        self._depth = 1
        before = self.rv
        try:
            self._db.begin(durable)
            yield
            if self.rv - self._trimmed > 2 * _RING or self._written > _RING_BYTES:
                self._trimmed = self.rv - min(_RING, (self.rv - self._trimmed) // 2)
                self._written //= 2
                self._db.trim(self._trimmed)
            self._db.commit()
        except BaseException as error:
            self._pending.clear()
            self._db.rollback()
            if self.rv != before:
                self._load()
            if isinstance(error, sqlite3.Error):
                raise KrunError(f"write store {self._db.path}: {one_line(str(error))}") from error
            raise
        finally:
            self._depth = 0
        events, self._pending = self._pending, []
        failed: Exception | None = None
        for event in events:
            for watch in list(self._watches):
                watch.offer(event)
            for callback in self._subscribers:
                try:
                    callback(event)
                except Exception as error:
                    # What is stored is told: the others, and the events that follow, have no other way.
                    failed = failed or error
        if failed is not None:
            raise failed

    def _put(self, type: str, kind: Kind, obj: Object) -> None:
        self.rv += 1
        data = obj["metadata"]
        data["resourceVersion"] = str(self.rv)
        text = json.dumps(obj, separators=(",", ":")).encode()
        key = (kind, intern(data.get("namespace", "") if kind.namespaced else ""), intern(data["name"]))
        record = Record(self.rv, type, kind.group, kind.plural, key[1], key[2], text)
        self._written += len(text)
        self._db.put(record)
        self._unindex(key)
        self._index(key, _Row(obj, self.rv, text))
        self._announce(record, kind, obj)

    def _drop(self, kind: Kind, obj: Object) -> Object:
        self.rv += 1
        data = obj["metadata"]
        data["resourceVersion"] = str(self.rv)
        key = (kind, data.get("namespace", "") if kind.namespaced else "", data["name"])
        text = json.dumps(obj, separators=(",", ":")).encode()
        record = Record(self.rv, "DELETED", kind.group, kind.plural, key[1], key[2], text)
        self._written += len(text)
        self._db.remove(record)
        self._unindex(key)
        self._announce(record, kind, obj)
        return obj

    def _announce(self, record: Record, kind: Kind, obj: Object) -> None:
        self._pending.append(Event(record.rv, record.type, kind, json.loads(record.json), len(record.json)))

    def _index(self, key: Key, row: _Row) -> None:
        self._rows.setdefault(key[0], {})[key[1], key[2]] = row
        self._uids.add(row.uid)
        for owner in row.owners:
            self._owned.setdefault(owner, set()).add(key)

    def _unindex(self, key: Key) -> None:
        row = self._rows.get(key[0], {}).pop((key[1], key[2]), None)
        if row is None:
            return
        self._uids.discard(row.uid)
        for owner in row.owners:
            keys = self._owned.get(owner, set())
            keys.discard(key)
            if not keys:
                self._owned.pop(owner, None)

    def subscribe(self, callback: Callable[[Event], None]) -> None:
        """Calls `callback` for every event after its commit. It must be short and must not raise: the writer would get the error."""
        self._subscribers.append(callback)

    def watch(self, kind: Kind, namespace: str | None, since: int) -> Watch:
        """Returns a watch of the events after the version `since`, older ones replayed.

        Errors: ApiError 410, events after `since` are no longer kept.
        """
        oldest = max(self._trimmed, self.rv + 1 - _RING)
        if since + 1 < oldest:
            raise status.expired(oldest)
        watch = Watch(kind, namespace, since, self._forget)
        for record in self._db.events(since):
            if record.plural == kind.plural and record.group == kind.group:
                watch.offer(Event(record.rv, record.type, kind, json.loads(record.json), len(record.json)))
            if watch.overrun:
                break
        watch.since = since
        self._watches.append(watch)
        return watch

    def _forget(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)
