"""The verbs on objects: get, list, watch, create, update, patch, delete, deletecollection; the forms of their answers.

Source: Kubernetes API concepts ("Resource URIs", "Dry-run", "Retrieving large results sets in chunks", "Server-side apply").
"""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from krun.serve.api import body, patch, protobuf, table, watching
from krun.serve.api.admission import Admission, check_type, place
from krun.serve.api.managed import Managers, manager_of
from krun.serve.http.types import Request, Response
from krun.serve.model import meta, schema, status, v1alpha1
from krun.serve.model.kinds import NAMESPACE, Kind
from krun.serve.model.names import label_1123
from krun.serve.model.options import Options
from krun.serve.model.values import now
from krun.serve.store.store import Store

Object = dict[str, Any]
_APPLIED = meta.HIDDEN + "applied."
#: Characters of all warnings of an answer (apiserver, pkg/endpoints/filters/warning.go): clients bound the head of an answer.
_WARNINGS = 4096
#: Values of an object that a patch has made, with those of its managedFields.
_PATCHED = 200000
_PROPAGATION = ("Background", "Foreground", "Orphan")
_READ_ONLY_NAMESPACES = ("default", "kube-system", "knative-serving")


_TEXT = {"type": "string"}
#: meta/v1 DeleteOptions.
_DELETE_OPTIONS = {
    "type": "object",
    "properties": {
        "kind": _TEXT,
        "apiVersion": _TEXT,
        "gracePeriodSeconds": {"type": "integer", "format": "int64"},
        "preconditions": {"type": "object", "properties": {"uid": _TEXT, "resourceVersion": _TEXT}},
        "orphanDependents": {"type": "boolean"},
        "propagationPolicy": _TEXT,
        "dryRun": {"type": "array", "items": _TEXT},
    },
}


class Target:
    """What a request's path names: kind, version, namespace (None: all), name, subresource."""

    __slots__ = ("kind", "version", "namespace", "name", "sub")

    def __init__(self, kind: Kind, version: str, namespace: str | None, name: str, sub: str) -> None:
        self.kind = kind
        self.version = version
        self.namespace = namespace
        self.name = name
        self.sub = sub


def dump(value: Any) -> bytes:
    """Returns the JSON text of an answer."""
    return json.dumps(value, separators=(",", ":")).encode()


def reply(value: Any, code: int = 200, warnings: Iterable[str] = ()) -> Response:
    """Returns an answer with a JSON body and Warning fields (RFC 9111, 5.5)."""
    headers = [(b"content-type", b"application/json")]
    left = _WARNINGS
    for text in warnings:
        line = "".join(char if " " <= char <= "~" and char not in '"\\' else "'" for char in text)[:256]
        if (left := left - len(line)) < 0:
            break
        headers.append((b"warning", f'299 - "{line}"'.encode()))
    return Response(code, headers, value if isinstance(value, bytes) else dump(value))


class Rest:
    """The verbs. `options` returns Knative's configuration of the moment; `check` see Admission."""

    def __init__(self, store: Store, options: Callable[[], Options]) -> None:
        self.store = store
        self.options = options
        self.check: Callable[[Kind, Object], None] = lambda kind, obj: None

    async def handle(self, request: Request, target: Target, user: str) -> Response:
        """Answers a request for objects. Errors: ApiError."""
        method = request.method.decode("latin-1")
        call = _Call(self, request, target, user)
        if target.name:
            verbs = {"GET": call.get, "PUT": call.put, "PATCH": call.patch, "DELETE": call.delete}
        else:
            verbs = {"GET": call.listed, "POST": call.post, "DELETE": call.delete_collection}
        if method not in verbs or not call.serves(method):
            raise status.not_allowed(method)
        return await verbs[method]()


_VERB_OF = {"PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}


class _Call:
    """One request."""

    def __init__(self, rest: Rest, request: Request, target: Target, user: str) -> None:
        self.store = rest.store
        self.request = request
        self.target = target
        self.kind = target.kind
        self.namespace = target.namespace or ""
        validation = self.query("fieldValidation") or "Warn"
        if validation not in ("Strict", "Warn", "Ignore"):
            raise status.bad_request(f"fieldValidation: {validation[:32]!r} is none of Strict, Warn, Ignore")
        self.admission = Admission(rest.options(), user, validation, rest.check)
        dry = self.query("dryRun")
        if dry not in ("", "All"):
            raise status.bad_request(f"dryRun: {dry[:32]!r} is not All")
        self.dry = bool(dry)
        #: Who writes: an entry of metadata.managedFields, with the version that it writes.
        agent = (request.header(b"user-agent") or b"").decode("latin-1")
        self.manager = manager_of(self.query("fieldManager"), agent)
        self.version = self.kind.api_version(target.version)

    def query(self, name: str) -> str:
        """Returns a parameter of the query, "" if it is not there."""
        return self.request.query.get(name, [""])[-1]

    def serves(self, method: str) -> bool:
        """Whether the kind (or its subresource) serves the method."""
        if self.target.sub:
            return self.target.sub == "status" and self.kind.generation and method in ("GET", "PUT", "PATCH")
        return method == "GET" or _VERB_OF[method] in self.kind.verbs

    def show(self, obj: Object) -> Object:
        """Returns a stored object as this client reads it."""
        if self.target.version == v1alpha1.VERSION:
            return v1alpha1.from_v1(self.kind, obj)
        return meta.visible(obj)

    def answer(self, obj: Object, code: int = 200) -> Response:
        """Returns the answer that carries one object, as a table if the client prefers one."""
        version = table.wanted(self.request.header(b"accept"))
        shown = self.show(obj)
        if version and code == 200 and self.request.method == b"GET":
            data = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            include = self.query("includeObject") or "Metadata"
            return reply(table.table(self.kind, [shown], version, include, data))
        return reply(shown, code, self.admission.warnings)

    # -------------------------------------------------------------------------------------------------- reading

    async def get(self) -> Response:
        found = self.store.get(self.kind, self.namespace, self.target.name)
        if found is None and self.kind is NAMESPACE:
            # Any namespace may be written to: it is made then. Clients look first.
            found = self._namespace(self.target.name)
        if found is None:
            raise status.not_found(self.kind, self.target.name)
        return self.answer(found)

    def _namespace(self, name: str) -> Object | None:
        if name not in _READ_ONLY_NAMESPACES:
            return None
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "resourceVersion": str(self.store.rv)},
            "status": {"phase": "Active"},
        }

    async def listed(self) -> Response:
        if self.query("watch") in ("true", "1"):
            return self.watch()
        version = table.wanted(self.request.header(b"accept"))
        texts, data = self._page()
        if not version and self.target.version == self.kind.version:
            head = dump(
                {
                    "kind": self.kind.kind + "List",
                    "apiVersion": self.kind.api_version(self.target.version),
                    "metadata": data,
                }
            )
            shown = (
                dump(meta.visible(json.loads(text))) if meta.HIDDEN.encode() in text else text
                for text in texts
            )
            return reply(head[:-1] + b',"items":[' + b",".join(shown) + b"]}")
        objects = [self.show(json.loads(text)) for text in texts]
        if version:
            include = self.query("includeObject") or "Metadata"
            return reply(table.table(self.kind, objects, version, include, data))
        out: Object = {
            "kind": self.kind.kind + "List",
            "apiVersion": self.kind.api_version(self.target.version),
            "metadata": data,
        }
        return reply({**out, "items": objects})

    def _page(self) -> tuple[list[bytes], Object]:
        """Returns the objects of one page (limit, continue) and the list's metadata."""
        labels, fields = self.query("labelSelector"), self.query("fieldSelector")
        found = list(self.store.texts(self.kind, self.target.namespace, labels, fields))
        data: Object = {"resourceVersion": str(self.store.rv)}
        start = self._continued()
        limit = self.query("limit")
        if limit and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
            raise status.bad_request(f"limit: {limit[:32]!r} is no number")
        size = int(limit or 0)
        rest = found[start:]
        if size and len(rest) > size:
            token = base64.urlsafe_b64encode(dump({"v": 1, "start": start + size})).decode()
            data["continue"] = token
            data["remainingItemCount"] = len(rest) - size
            rest = rest[:size]
        return rest, data

    def _continued(self) -> int:
        token = self.query("continue")
        if not token:
            return 0
        try:
            start = json.loads(base64.urlsafe_b64decode(token))["start"]
            if not isinstance(start, int) or start < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise status.bad_request(
                "continue key is not valid: it is not one that this server gave out"
            ) from None
        return int(start)

    def watch(self) -> Response:
        """Answers a list with watch=true."""
        version = table.wanted(self.request.header(b"accept"))
        include = self.query("includeObject") or "Metadata"
        first = True

        def as_table(obj: Object) -> Object:
            nonlocal first
            if "spec" not in obj and "k8s.io/initial-events-end" in meta.annotations(obj):
                return table.table(self.kind, [], version, include, obj["metadata"], header=False)
            data = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            out = table.table(self.kind, [self.show(obj)], version, include, data, header=first)
            first = False
            return out

        query = watching.WatchQuery(self.query)
        lines: AsyncIterator[bytes] = watching.stream(
            self.store, self.kind, self.target.namespace, query, as_table if version else self.show
        )
        return Response(200, [(b"content-type", b"application/json")], lines)

    # -------------------------------------------------------------------------------------------------- writing

    async def _read(self) -> Any:
        data = await self.request.body(body.LIMIT)
        media = body.media_type(self.request.header(b"content-type"))
        value, self.admission.duplicates = body.decode(data, media)
        return value

    async def post(self) -> Response:
        obj = await self._read()
        check_type(self.kind, self.target.version, obj)
        if self.kind.namespaced and self.target.namespace is None:
            raise status.bad_request("an object is created in a namespace")
        if (obj.get("metadata") or {}).get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        place(self.kind, obj, self.namespace)
        return self._create(obj)

    def _create(self, obj: Object, applied: tuple[str, str] | None = None, entries: Any = None) -> Response:
        """Makes an object. Arguments: applied, an annotation of the server's own; entries, its managedFields, None: of a create."""
        if self.kind.namespaced and label_1123(self.namespace):
            # A namespace is made when it is written to, except one that cannot be.
            raise status.not_found(NAMESPACE, self.namespace)
        fresh = self.admission.admit(self.kind, self.target.version, obj, None)
        if applied:
            meta.meta(fresh).setdefault("annotations", {})[applied[0]] = applied[1]
        if entries is None:
            entries = Managers(None, now()).update(self.manager, self.version, None, fresh)
        meta.meta(fresh)["managedFields"] = entries
        if self.dry:
            data = {**fresh["metadata"], "uid": "", "creationTimestamp": None, "generation": 1}
            if self.store.get(self.kind, self.namespace if self.kind.namespaced else "", meta.name(fresh)):
                raise status.already_exists(self.kind, meta.name(fresh))
            types = {"apiVersion": self.kind.api_version(), "kind": self.kind.kind}
            return self.answer({**types, **fresh, "metadata": data}, 201)
        return self.answer(self.store.create(self.kind, fresh), 201)

    async def put(self) -> Response:
        obj = await self._read()
        check_type(self.kind, self.target.version, obj)
        place(self.kind, obj, self.namespace, self.target.name)
        old = self.store.need(self.kind, self.namespace, self.target.name)
        return self._update(obj, old)

    def _update(self, obj: Object, old: Object, entries: Any = None) -> Response:
        """Stores `obj` in place of `old`, or shows what would be stored. entries: its managedFields, None: of an update."""
        if self.target.sub == "status":
            wanted = {**old, "status": self._status(obj.get("status"))}
            version = (obj.get("metadata") or {}).get("resourceVersion")
            if entries is None:
                entries = Managers(old, now()).update(self.manager, self.version, old, wanted, "status")
            wanted["metadata"] = {
                **old["metadata"], "resourceVersion": version or "", "managedFields": entries
            }  # fmt: skip
            return self.answer(wanted if self.dry else self.store.update_status(self.kind, wanted, entries))
        fresh = self.admission.admit(self.kind, self.target.version, obj, old)
        version = (obj.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise status.conflict(self.kind, self.target.name)
        if entries is None:
            entries = Managers(old, now()).update(self.manager, self.version, old, fresh)
        meta.meta(fresh)["managedFields"] = entries
        if self.dry:
            return self.answer(self._would_be(fresh, old))
        return self.answer(self.store.update(self.kind, fresh))

    def _status(self, value: Any) -> Any:
        """Returns a client's status without unknown fields. Errors: ApiError 422: readers of all clients rely on its form."""
        if value is None:
            return None
        node = schema.of(self.kind)["properties"].get("status", {})
        kept, walk = schema.prune_node(node, value, "status")
        causes = walk.causes or schema.required_of(node, kept, "status")
        if causes:
            raise status.invalid(self.kind, self.target.name, causes)
        return kept

    def _would_be(self, fresh: Object, old: Object) -> Object:
        out = {**fresh, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        kept = ("uid", "creationTimestamp", "resourceVersion", "generation", "namespace", "name")
        out["metadata"] = {
            **fresh["metadata"],
            **{key: old["metadata"][key] for key in kept if key in old["metadata"]},
        }
        if self.kind.generation and fresh.get("spec") != old.get("spec"):
            out["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if "status" in old:
            out["status"] = old["status"]
        return out

    async def patch(self) -> Response:
        media = body.media_type(self.request.header(b"content-type"))
        known = ("application/merge-patch+json", "application/json-patch+json", body.APPLY)
        if media not in known and not (media == body.STRATEGIC and not self.kind.group):
            raise status.unsupported(media or "no Content-Type")
        change = await self._read()
        if media == body.APPLY:
            return self._apply(change)
        old = self.store.need(self.kind, self.namespace, self.target.name)
        shown = self.show(old)
        if media == "application/json-patch+json":
            fresh = patch.json_patch(shown, change)
        elif isinstance(change, dict):
            fresh = patch.merge(shown, change)
        else:
            raise status.bad_request("apply merge patch: the body is no object")
        body.check(fresh, False, _PATCHED)
        check_type(self.kind, self.target.version, fresh)
        place(self.kind, fresh, self.namespace, self.target.name)
        return self._update(fresh, old)

    def _apply(self, wanted: Any) -> Response:
        """Server-side apply (managed.py). Errors: ApiError 409, another manager has a field that changes, and no `force`."""
        manager = self.query("fieldManager")
        if not manager or len(manager) > 128:
            raise status.bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: is required for apply patch"
            )
        check_type(self.kind, self.target.version, wanted)
        place(self.kind, wanted, self.namespace, self.target.name)
        if self.target.version == v1alpha1.VERSION:
            return self._apply_alpha(manager, wanted)
        old = self.store.get(self.kind, self.namespace, self.target.name)
        if old is None and self.target.sub:
            raise status.not_found(self.kind, self.target.name)
        managers, live = Managers(old, now()), self.show(old) if old is not None else {}
        force = self.query("force") in ("true", "1")
        fresh, entries = managers.apply(manager, self.version, live, wanted, force, self.target.sub)
        if old is None:
            return self._create(wanted, None, entries)
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise status.conflict(self.kind, self.target.name)
        return self._update(fresh, old, entries)

    def _apply_alpha(self, manager: str, wanted: Object) -> Response:
        """The same for the shapes of 2019, which have no fields in v1: the manager's last object says what it drops. No conflicts."""
        key = _APPLIED + hashlib.sha256(manager.encode()).hexdigest()[:16]
        text = json.dumps(wanted, separators=(",", ":"))
        old = self.store.get(self.kind, self.namespace, self.target.name)
        if old is None:
            return self._create(wanted, (key, text))
        last = json.loads(meta.annotations(old).get(key, "{}"))
        for one in (wanted, last):
            one.get("metadata", {}).pop("resourceVersion", None)
        fresh = patch.apply(self.show(old), last, wanted)
        marked = {**old, "metadata": {**old["metadata"], "annotations": {**meta.annotations(old), key: text}}}
        return self._update(fresh, marked)

    async def delete(self) -> Response:
        options = await self._delete_options()
        old = self.store.need(self.kind, self.namespace, self.target.name)
        if self.kind is NAMESPACE and self.target.name in _READ_ONLY_NAMESPACES:
            raise status.forbidden(self.kind, self.target.name, "this namespace may not be deleted")
        if self.dry or "All" in (options.get("dryRun") or ()):
            return self.answer(old)
        last = self.store.delete(
            self.kind,
            self.namespace,
            self.target.name,
            self._propagation(options),
            options.get("preconditions"),
        )
        if last["metadata"].get("finalizers"):
            return self.answer(last)
        return reply(status.success(self.kind, self.target.name, meta.uid(last)))

    async def delete_collection(self) -> Response:
        options = await self._delete_options()
        if "deletecollection" not in self.kind.verbs or self.kind is NAMESPACE:
            raise status.not_allowed("DELETE")
        labels, fields = self.query("labelSelector"), self.query("fieldSelector")
        found = self.store.list(self.kind, self.target.namespace, labels, fields)
        if not self.dry:
            with self.store.batch():
                for obj in found:
                    if self.store.get(self.kind, meta.namespace(obj), meta.name(obj)):
                        how = self._propagation(options)
                        self.store.delete(self.kind, meta.namespace(obj), meta.name(obj), how)
        data = {"resourceVersion": str(self.store.rv)}
        head = {"kind": self.kind.kind + "List", "apiVersion": self.kind.api_version(self.target.version)}
        return reply({**head, "metadata": data, "items": [self.show(obj) for obj in found]})

    async def _delete_options(self) -> Object:
        data = await self.request.body(body.LIMIT)
        if not data:
            return {}
        media = body.media_type(self.request.header(b"content-type")) or "application/json"
        value, _ = body.decode(data, media if media == protobuf.MEDIA else "application/json")
        if not isinstance(value, dict):
            raise status.bad_request("the body of a delete is no DeleteOptions")
        options, walk = schema.prune_node(_DELETE_OPTIONS, value, "")
        if walk.causes:
            raise status.bad_request(f"the body of a delete is no DeleteOptions: {walk.causes[0][1]}")
        found: Object = options
        if [one for one in found.get("dryRun") or () if one != "All"]:
            raise status.unsupported_dry_run(found["dryRun"])
        return found

    def _propagation(self, options: Object) -> str:
        how = options.get("propagationPolicy") or self.query("propagationPolicy")
        if not how:
            return "Orphan" if options.get("orphanDependents") else "Background"
        if how not in _PROPAGATION:
            raise status.bad_request(
                f"propagationPolicy: {str(how)[:32]!r} is none of {', '.join(_PROPAGATION)}"
            )
        return str(how)
