"""serving.knative.dev/v1alpha1, the API of 2019: its shapes are converted to v1 when they arrive, and back when they leave.

One storage form, v1. An annotation keeps the posted spec, so that a client of 2019 reads the shape that it wrote
(runLatest, pinned, release, manual, revisionTemplate, container), as long as no client of v1 has changed the object.

Sources: knative/serving pkg/apis/serving/v1alpha1 of the branches release-0.5 (types and *_validation.go) and
release-0.9 (*_conversion.go).
"""

import contextlib
import copy
import json
from typing import Any

from krun.serve.model import meta, names, schema
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    disallowed,
    invalid_value,
    missing,
    missing_one_of,
    multiple_one_of,
    out_of_bounds,
)
from krun.serve.model.kinds import CONFIGURATION, REVISION, ROUTE, SERVICE, Kind
from krun.serve.model.values import parse_time

Object = dict[str, Any]
VERSION = "v1alpha1"
#: The posted spec, as JSON. It is not shown to clients and not copied to children.
SHAPE = meta.HIDDEN + "v1alpha1-spec"
MODES = ("manual", "pinned", "release", "runLatest")
LATEST = "@latest"
#: Kinds whose label names the route that leads to them.
_ROUTED = (CONFIGURATION, REVISION)
_LAST_PINNED = "serving.knative.dev/lastPinned"
_MAX_TIMEOUT = 300
_CPU_REQUEST = "400m"
_NO_BUILD = "krun serve has no builds; build the image before, and leave the field out"
_RESERVED_MOUNTS = ("/", "/dev", "/dev/log", "/tmp", "/var", "/var/log")
_RESERVED_PORTS = (8012, 8022, 9090)
_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Object = {"type": "string"}
_NUMBER: Object = {"type": "integer", "format": "int64"}


def is_manual(obj: Object) -> bool:
    """Whether a stored Service is in the mode `manual`: it owns neither Configuration nor Route."""
    return "template" not in (obj.get("spec") or {})


def _revision_schema() -> Object:
    node = schema.resolve(schema.of(REVISION)["properties"]["spec"])
    properties = dict(node["properties"])
    item = schema.resolve(schema.resolve(properties["containers"])["items"])
    container = {**item, "properties": {**item["properties"], "lifecycle": _ANY}}
    properties.update(
        container=container,
        concurrencyModel=_TEXT,
        buildName=_TEXT,
        buildRef=_ANY,
        servingState=_TEXT,
        generation=_NUMBER,
    )
    return {"type": "object", "properties": properties}


def _property(node: Object, *names: str) -> Object:
    """Returns the schema of a field of fields of an object with the schema `node`."""
    for name in names:
        node = schema.resolve(node)["properties"][name]
    return node


def _spec_schema(kind: Kind) -> Object:
    revision = _revision_schema()
    if kind is REVISION:
        return revision
    data = schema.resolve(_property(schema.of(CONFIGURATION), "spec", "template", "metadata"))
    template = {"type": "object", "properties": {"metadata": data, "spec": revision}}
    configuration = {
        "type": "object",
        "properties": {
            "generation": _NUMBER,
            "build": _ANY,
            "revisionTemplate": template,
            "template": template,
        },
    }
    if kind is CONFIGURATION:
        return configuration
    route = schema.resolve(schema.of(ROUTE)["properties"]["spec"])
    items = schema.resolve(schema.resolve(route["properties"]["traffic"])["items"])
    target = {**items, "properties": {**items["properties"], "name": _TEXT}}
    traffic = {"type": "array", "items": target}
    if kind is ROUTE:
        return {"type": "object", "properties": {"generation": _NUMBER, "traffic": traffic}}
    with_name = {"revisionName": _TEXT, "configuration": configuration}
    release = {
        "revisions": {"type": "array", "items": _TEXT},
        "rolloutPercent": _NUMBER,
        "configuration": configuration,
    }
    return {
        "type": "object",
        "properties": {
            "generation": _NUMBER,
            "runLatest": {"type": "object", "properties": {"configuration": configuration}},
            "pinned": {"type": "object", "properties": with_name},
            "release": {"type": "object", "properties": release},
            "manual": _ANY,
            "template": template,
            "traffic": traffic,
        },
    }


def prune(kind: Kind, obj: Object) -> tuple[Object, schema.Walk]:
    """Returns `obj` without unknown fields, and what was found: schema.prune for the shapes of 2019."""
    spec, walk = schema.prune_node(_spec_schema(kind), obj.get("spec") or {}, "spec")
    rest, others = schema.prune(
        kind, {key: item for key, item in obj.items() if key not in ("spec", "status")}
    )
    walk.unknown += others.unknown
    walk.causes += others.causes
    rest["spec"] = spec
    return rest, walk


def to_v1(kind: Kind, obj: Object) -> tuple[Object, Errors]:
    """Returns the v1 form of a pruned v1alpha1 object, which remembers its shape, and what is wrong with it.

    A field that v1 does not have is converted, or it is an error: nothing is lost without a word.
    """
    out = copy.deepcopy(obj)
    spec = out.get("spec") or {}
    errors = Errors()
    if kind is SERVICE:
        out["spec"] = _service(spec, errors)
    elif kind is CONFIGURATION:
        out["spec"] = _configuration(spec, errors)
    elif kind is ROUTE:
        out["spec"] = {"traffic": _traffic(spec.get("traffic") or [], errors)}
    elif kind is REVISION:
        out["spec"] = _revision(spec, errors)
    out["apiVersion"] = kind.api_version()
    if kind in _ROUTED:
        _unrouted(meta.meta(out))
    shape = json.dumps(obj.get("spec") or {}, separators=(",", ":"))
    meta.meta(out).setdefault("annotations", {})[SHAPE] = shape
    return out, errors.at("spec")


def _service(spec: Object, errors: Errors) -> Object:
    given = [mode for mode in MODES if mode in spec]
    inline = "template" in spec or "traffic" in spec
    if len(given) > 1 or given and inline:
        errors.add(multiple_one_of(*given, *(["template"] if inline else [])))
    elif not given and not inline:
        errors.add(missing_one_of(*MODES))
        return {}
    if not given:
        return {**_configuration(spec, errors), "traffic": _traffic(spec.get("traffic") or [], errors)}
    mode = given[0]
    if mode == "manual":
        return {}
    own = Errors()
    body = spec[mode]
    if "configuration" not in body:
        errors.add(missing(f"{mode}.configuration"))
        return {}
    out = _configuration(body["configuration"], own)
    errors.add(own.at(mode, "configuration"))
    if mode == "runLatest":
        out["traffic"] = [{"latestRevision": True, "percent": 100}]
    elif mode == "pinned":
        if not body.get("revisionName"):
            errors.add(missing("pinned.revisionName"))
        out["traffic"] = [_to(body.get("revisionName", ""), 100)]
    else:
        own = Errors()
        out["traffic"] = _release(body, own)
        errors.add(own.at("release"))
    return out


def _to(revision: str, percent: int, tag: str = "") -> Object:
    target: Object = {"percent": percent}
    if tag:
        target["tag"] = tag
    if revision == LATEST:
        return {**target, "latestRevision": True}
    return {**target, "revisionName": revision, "latestRevision": False}


def _release(body: Object, errors: Errors) -> list[Object]:
    revisions, percent = body.get("revisions") or [], body.get("rolloutPercent", 0)
    if not revisions:
        errors.add(missing("revisions"))
        return []
    if len(revisions) > 2:
        errors.add(out_of_bounds(len(revisions), 1, 2, "revisions"))
    for index, name in enumerate(revisions):
        if name != LATEST and (texts := names.label_1035(name)):
            errors.add(invalid_value(f"not a DNS 1035 label: {texts}", f"revisions[{index}]"))
    if len(revisions) < 2:
        if percent:
            errors.add(invalid_value(percent, "rolloutPercent"))
        return [_to(revisions[0], 100, "current"), _to(LATEST, 0, "latest")]
    if not 0 <= percent <= 99:
        errors.add(out_of_bounds(percent, 0, 99, "rolloutPercent"))
    return [
        _to(revisions[0], 100 - percent, "current"),
        _to(revisions[1], percent, "candidate"),
        _to(LATEST, 0, "latest"),
    ]


def _configuration(spec: Object, errors: Errors) -> Object:
    if "build" in spec:
        errors.add(FieldError("must not set the field(s)", ["build"], _NO_BUILD))
    both = [key for key in ("revisionTemplate", "template") if key in spec]
    if len(both) != 1:
        errors.add(multiple_one_of(*both) if both else missing_one_of("revisionTemplate", "template"))
        return {"template": {}}
    template = copy.deepcopy(spec[both[0]])
    own = Errors()
    data = template.get("metadata") or {}
    if both[0] == "revisionTemplate" and data.get("name"):
        own.add(disallowed("metadata.name"))
    inner = Errors()
    template["spec"] = _revision(template.get("spec") or {}, inner)
    errors.add(own.add(inner.at("spec")).at(both[0]))
    return {"template": template}


def _revision(spec: Object, errors: Errors) -> Object:
    out = {
        key: item
        for key, item in spec.items()
        if key not in ("container", "concurrencyModel", "buildName", "buildRef", "servingState", "generation")
    }
    for key in ("buildName", "buildRef"):
        if spec.get(key):
            errors.add(FieldError("must not set the field(s)", [key], _NO_BUILD))
    if "container" in spec and "containers" in spec:
        errors.add(multiple_one_of("container", "containers"))
    elif "container" in spec:
        own = Errors()
        container = _container(spec["container"], own)
        if not (spec.get("volumes") or ()) and container.get("volumeMounts"):
            own.add(FieldError("volumeMount has no matching volume", ["volumeMounts[0].name"]))
        errors.add(own.at("container"))
        out["containers"] = [container]
    elif "containers" not in spec:
        errors.add(missing("container"))
    model = spec.get("concurrencyModel", "")
    if model:
        known = {"Single": 1, "Multi": 0}
        if model not in known:
            errors.add(invalid_value(model, "concurrencyModel"))
        elif spec.get("containerConcurrency", known[model]) != known[model]:
            errors.add(multiple_one_of("containerConcurrency", "concurrencyModel"))
        else:
            out["containerConcurrency"] = known[model]
    timeout = spec.get("timeoutSeconds", 0)
    if not 0 <= timeout <= _MAX_TIMEOUT:
        errors.add(out_of_bounds(timeout, 0, _MAX_TIMEOUT, "timeoutSeconds"))
    return out


def _container(container: Object, errors: Errors) -> Object:
    if not container:
        errors.add(missing(""))
        return {}
    out = copy.deepcopy(container)
    errors.add(*(disallowed(key) for key in ("name", "lifecycle") if out.pop(key, None)))
    out.setdefault("resources", {}).setdefault("requests", {}).setdefault("cpu", _CPU_REQUEST)
    for index, port in enumerate(out.get("ports") or ()):
        number = port.get("containerPort", 0)
        if number in _RESERVED_PORTS:
            errors.add(invalid_value(number, f"ports[{index}].containerPort"))
        elif not 1 <= number <= 65535:
            errors.add(out_of_bounds(number, 1, 65535, f"ports[{index}].containerPort"))
    for index, mount in enumerate(out.get("volumeMounts") or ()):
        path = mount.get("mountPath", "")
        if path.rstrip("/") in _RESERVED_MOUNTS or path == "/":
            text = f'mountPath "{path}" is a reserved path'
            errors.add(FieldError(text, [f"volumeMounts[{index}].mountPath"]))
        given = [key for key in ("subPath", "mountPropagation") if mount.get(key)]
        errors.add(*(disallowed(f"volumeMounts[{index}].{key}") for key in given))
    for key in ("readinessProbe", "livenessProbe"):
        for handler in ("httpGet", "tcpSocket"):
            if (out.get(key) or {}).get(handler, {}).get("port"):
                errors.add(disallowed(f"{key}.{handler}.port"))
    return out


def _traffic(listed: list[Object], errors: Errors) -> list[Object]:
    out = []
    for index, target in enumerate(listed):
        fresh = dict(target)
        name = fresh.pop("name", "")
        if name and fresh.get("tag"):
            errors.add(multiple_one_of(f"traffic[{index}].name", f"traffic[{index}].tag"))
        elif name:
            fresh["tag"] = name
        out.append(fresh)
    return out


def from_v1(kind: Kind, obj: Object) -> Object:
    """Returns a stored object as a client of v1alpha1 reads it: the shape that was posted, else the v1 fields."""
    out = dict(meta.visible(obj))
    out["apiVersion"] = kind.api_version(VERSION)
    shape = meta.annotations(obj).get(SHAPE)
    if shape:
        with contextlib.suppress(
            ValueError, TypeError, AttributeError
        ):  # a template's annotation, of an earlier server
            posted = json.loads(shape)
            if _still(kind, {"spec": posted}, obj):
                out["spec"] = posted
    status = out.get("status")
    if isinstance(status, dict):
        out["status"] = _status(kind, status, out)
    if kind in _ROUTED:
        out["metadata"] = _routed(out["metadata"])
    return out


def _routed(data: Object) -> Object:
    """Returns the metadata with what the labeler of 2019 wrote: the label `route`, which holds one name, and the annotation lastPinned."""
    notes = data.get("annotations") or {}
    routes = meta.names_of(notes.get(meta.ROUTES))
    if routes:
        data = {**data, "labels": {**(data.get("labels") or {}), meta.ROUTE_LABEL: min(routes)}}
        stamp = parse_time(notes.get(meta.ROUTING_STATE_MODIFIED, ""))
        if stamp:
            data["annotations"] = {**notes, _LAST_PINNED: str(int(stamp))}
    return data


def _unrouted(data: Object) -> None:
    """Undoes `_routed` for a client that writes back what it has read."""
    (data.get("labels") or {}).pop(meta.ROUTE_LABEL, None)
    (data.get("annotations") or {}).pop(_LAST_PINNED, None)


def _still(kind: Kind, posted: Object, obj: Object) -> bool:
    """Whether every value that the posted shape converts to is still what is stored (defaults may have been added)."""
    converted, errors = to_v1(kind, posted)
    if errors:
        return False
    if not converted["spec"]:
        return not obj.get("spec")
    return _within(converted["spec"], obj.get("spec"))


def _within(small: Any, large: Any) -> bool:
    if isinstance(small, dict):
        return isinstance(large, dict) and all(_within(item, large.get(key)) for key, item in small.items())
    if isinstance(small, list):
        return (
            isinstance(large, list)
            and len(small) == len(large)
            and all(_within(one, other) for one, other in zip(small, large, strict=True))
        )
    return bool(small == large) or not small and large is None


def _status(kind: Kind, status: Object, obj: Object) -> Object:
    out = dict(status)
    if kind in (SERVICE, ROUTE) and status.get("url"):
        out["domain"] = str(status["url"]).split("://", 1)[-1]
    address = (status.get("address") or {}).get("url")
    if address:
        host = str(address).split("://", 1)[-1]
        out["address"] = {**status["address"], "hostname": host}
        out["domainInternal"] = host
    if "traffic" in status:
        out["traffic"] = [_shared(target) for target in status["traffic"]]
    if kind is REVISION:
        found = status.get("containerStatuses") or [{}]
        if found[0].get("imageDigest"):
            out["imageDigest"] = found[0]["imageDigest"]
        out.setdefault("serviceName", meta.name(obj))
    return out


def _shared(target: Object) -> Object:
    """Returns an entry of status.traffic: the tag as a name, too, and no share where it has none."""
    out = {key: value for key, value in target.items() if key != "percent" or value}
    if target.get("tag"):
        out["name"] = target["tag"]
    return out
