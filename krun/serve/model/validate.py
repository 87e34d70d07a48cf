"""Validation of whole objects: what Knative's validating webhook and the API server refuse, in their words.

Sources: knative/serving pkg/apis/serving/v1/*_validation.go, v1beta1/domainmapping_validation.go; knative.dev/pkg
apis/metadata_validation.go; Kubernetes pkg/apis/core/validation (ConfigMap, Secret, Namespace, metadata).
"""

import base64
import binascii
from typing import Any

from krun.serve.model import annotations, fielderror, idle, meta, names, podspec
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    disallowed,
    invalid_key,
    invalid_value,
    missing,
    missing_one_of,
    multiple_one_of,
    out_of_bounds,
    quote,
)
from krun.serve.model.kinds import CONFIGURATION, DOMAIN_MAPPING, REVISION, ROUTE, SERVICE, SERVING, Kind
from krun.serve.model.options import Options

Object = dict[str, Any]
_DATA_LIMIT = 2**20
_ANNOTATIONS_LIMIT = 256 * 1024
_CLUSTER_DOMAIN = "cluster.local"
#: Targets of a Route. A reconciler is one turn of the loop, and each tag is an object and five hosts; Kubernetes' bound is
#: the size of an object, with which a turn would take minutes.
_TARGETS = 500


def webhook(kind: Kind, obj: Object, old: Object | None, options: Options) -> Errors:
    """Returns what the webhook has against `obj`; `old` is the stored object of an update."""
    if kind is SERVICE:
        errors = _metadata(obj).add(_rollout(obj)).at("metadata")
        errors.add(_template(obj, options).at("spec", "template"))
        errors.add(_traffic(obj["spec"].get("traffic") or [], True).at("spec", "traffic"))
        return errors.add(_user_notes(obj, old), _name_change(obj, old))
    if kind is CONFIGURATION:
        errors = _metadata(obj).add(_owner_label(obj, meta.SERVICE_LABEL, "Service")).at("metadata")
        errors.add(_template(obj, options).at("spec", "template"))
        owned = bool(obj["metadata"].get("ownerReferences"))
        return errors.add(None if owned else _user_notes(obj, old), _name_change(obj, old))
    if kind is ROUTE:
        errors = _metadata(obj).add(_owner_label(obj, meta.SERVICE_LABEL, "Service"))
        errors = errors.add(_rollout(obj)).at("metadata")
        errors.add(_traffic(obj["spec"].get("traffic") or [], False).at("spec", "traffic"))
        owned = bool(obj["metadata"].get("ownerReferences"))
        return errors.add(None if owned else _user_notes(obj, old))
    if kind is REVISION:
        return _revision(obj, old, options)
    if kind is DOMAIN_MAPPING:
        return _domain_mapping(obj, old)
    return Errors()


def _metadata(obj: Object, autoscaling: Options | None = None) -> Errors:
    errors = Errors()
    data = obj["metadata"]
    prefix = data.get("generateName", "")
    name = data.get("name", "")
    if prefix and (texts := names.label_1035(prefix, True)):
        errors.add(FieldError(f"not a DNS 1035 label prefix: {fielderror.go(texts)}", ["generateName"]))
    elif name and (texts := names.label_1035(name)):
        errors.add(FieldError(f"not a DNS 1035 label: {fielderror.go(texts)}", ["name"]))
    elif not prefix and not name:
        errors.add(FieldError("name or generateName is required", ["name"]))
    notes = meta.annotations(obj)
    if autoscaling is not None:
        errors.add(annotations.autoscaling(notes, autoscaling).at("annotations"))
        return errors.add(idle.errors(notes).at("annotations"))
    errors.add(annotations.misplaced(notes).at("annotations"))
    return errors.add(idle.misplaced(notes).at("annotations"))


def _rollout(obj: Object) -> Errors:
    return annotations.rollout_duration(meta.annotations(obj)).at("annotations")


def _owner_label(obj: Object, label: str, kind: str) -> Errors:
    value = meta.labels(obj).get(label)
    owners = obj["metadata"].get("ownerReferences") or ()
    if value is None or any(one.get("kind") == kind and one.get("name") == value for one in owners):
        return Errors()
    return Errors([missing(label)]).at("labels")


def _user_notes(obj: Object, old: Object | None) -> Errors:
    if old is None:
        return Errors()
    errors = Errors()
    before, after = meta.annotations(old), meta.annotations(obj)
    if before.get(meta.CREATOR) != after.get(meta.CREATOR):
        errors.add(FieldError("annotation value is immutable", [meta.CREATOR]))
    if old.get("spec") == obj.get("spec") and before.get(meta.MODIFIER) != after.get(meta.MODIFIER):
        errors.add(invalid_value(after.get(meta.MODIFIER, ""), meta.MODIFIER))
    return errors.at("metadata.annotations")


def _template(obj: Object, options: Options) -> Errors:
    template = obj["spec"].get("template") or {}
    errors = podspec.revision_spec(template.get("spec") or {}, options).at("spec")
    notes = meta.annotations(template)
    for found in (
        annotations.autoscaling(notes, options),
        annotations.networking(notes),
        annotations.queue_sidecar(notes),
        annotations.progress_deadline(notes),
        idle.errors(notes),
    ):
        errors.add(found.at("metadata.annotations"))
    return errors.add(_revision_name(template.get("metadata") or {}, obj["metadata"]))


def _revision_name(data: Object, parent: Object) -> Errors:
    prefix, name = data.get("generateName", ""), data.get("name", "")
    if prefix and (texts := names.label_1035(prefix, True)):
        text = f"not a DNS 1035 label prefix: {fielderror.go(texts)}"
        return Errors([invalid_value(text, "metadata.generateName")])
    if not name:
        return Errors()
    if texts := names.label_1035(name):
        text = f"not a DNS 1035 label: {fielderror.go(texts)}"
        return Errors([invalid_value(text, "metadata.name")])
    if not parent.get("name") and parent.get("generateName"):
        return Errors([disallowed("metadata.name")])
    wanted = parent.get("name", "") + "-"
    if not name.startswith(wanted):
        text = f"{quote(name)} must have prefix {quote(wanted)}"
        return Errors([invalid_value(text, "metadata.name")])
    return Errors()


def _name_change(obj: Object, old: Object | None) -> Errors:
    if old is None:
        return Errors()
    before, after = old["spec"].get("template") or {}, obj["spec"].get("template") or {}
    name = (after.get("metadata") or {}).get("name")
    if not name or name != (before.get("metadata") or {}).get("name"):
        return Errors()
    changes = difference(before, after, "{*v1.RevisionTemplateSpec}")
    if not changes:
        return Errors()
    text = "Saw the following changes without a name change (-old +new)"
    return Errors([FieldError(text, ["metadata.name"], changes)]).at("spec.template")


def difference(before: Any, after: Any, path: str) -> str:
    """Returns the changed leaves in the form of kmp.ShortDiff: path, then - and + lines."""
    if isinstance(before, dict) and isinstance(after, dict):
        out = ""
        for key in sorted({*before, *after}):
            label = key[:1].upper() + key[1:] if key.isalnum() else f'["{key}"]'
            joint = "" if label[0] == "[" else "."
            out += difference(before.get(key), after.get(key), f"{path}{joint}{label}")
        return out
    if isinstance(before, list) and isinstance(after, list):
        out = ""
        for index in range(max(len(before), len(after))):
            one = before[index] if index < len(before) else None
            other = after[index] if index < len(after) else None
            out += difference(one, other, f"{path}[{index}]")
        return out
    if before == after:
        return ""
    out = f"{path}:\n"
    if before is not None:
        out += f'\t-: "{fielderror.go(before)}"\n'
    if after is not None:
        out += f'\t+: "{fielderror.go(after)}"\n'
    return out


def _traffic(listed: list[Object], in_service: bool) -> Errors:
    errors = Errors()
    tags: dict[str, int] = {}
    total = 0
    for index, target in enumerate(listed):
        errors.add(_target(target, in_service).at(index))
        total += target.get("percent", 0)
        tag = target.get("tag", "")
        if not tag:
            continue
        if texts := names.label_1035(tag):
            text = f"not a DNS 1035 label: {fielderror.go(texts)}"
            errors.add(Errors([invalid_value(text, "")]).at("tag", index))
        if tag in tags:
            paths = [f"[{index}].tag", f"[{tags[tag]}].tag"]
            errors.add(FieldError(f"Multiple definitions for {quote(tag)}", paths))
        else:
            tags[tag] = index
    if total != 100:
        errors.add(FieldError(f"Traffic targets sum to {total}, want 100", [""]))
    if len(listed) > _TARGETS:
        errors.add(FieldError(f"{len(listed)} traffic targets, at most {_TARGETS} are taken", [""]))
    return errors


def _target(target: Object, in_service: bool) -> Errors:
    errors = Errors()
    revision, configuration = target.get("revisionName", ""), target.get("configurationName", "")
    latest = target.get("latestRevision")
    if latest is not None and bool(revision) == latest:
        text = f"may not set revisionName {quote(revision)} when latestRevision is {fielderror.go(latest)}"
        errors.add(FieldError(text, ["latestRevision"]))
    if in_service and configuration:
        errors.add(disallowed("configurationName"))
    elif revision and configuration:
        errors.add(multiple_one_of("revisionName", "configurationName"))
    elif revision:
        if texts := names.qualified(revision):
            errors.add(invalid_key(revision, "revisionName", *texts))
    elif configuration:
        if texts := names.qualified(configuration):
            errors.add(invalid_key(configuration, "configurationName", *texts))
    elif not in_service:
        errors.add(missing_one_of("revisionName", "configurationName"))
    percent = target.get("percent", 0)
    if not 0 <= percent <= 100:
        errors.add(out_of_bounds(percent, 0, 100, "percent"))
    if target.get("url"):
        errors.add(disallowed("url"))
        if not target.get("tag"):
            errors.add(disallowed("url"))
    return errors


def _revision(obj: Object, old: Object | None, options: Options) -> Errors:
    errors = _metadata(obj, options)
    errors = errors.add(_owner_label(obj, meta.CONFIGURATION_LABEL, "Configuration")).at("metadata")
    if old is None:
        return errors.add(podspec.revision_spec(obj["spec"], options).at("spec"))
    changes = difference(old.get("spec"), obj.get("spec"), "{v1.RevisionSpec}")
    if changes:
        errors.add(FieldError("Immutable fields changed (-old +new)", ["spec"], changes))
    return errors


def _domain_mapping(obj: Object, old: Object | None) -> Errors:
    errors = Errors()
    name = meta.name(obj)
    if obj["metadata"].get("generateName"):
        errors.add(Errors([disallowed("generateName")]).at("metadata"))
    texts = names.subdomain_1123(name)
    if not texts and "." not in name:
        texts = ["should be a domain with at least two segments separated by dots"]
    if texts:
        listed = ", ".join(f"name: Invalid value: {quote(name)}: {text}" for text in texts)
        errors.add(FieldError(f"invalid name {quote(name)}: {listed}", ["metadata.name"]))
    if name.endswith("." + _CLUSTER_DOMAIN):
        text = f"must not be a subdomain of cluster local domain {quote(_CLUSTER_DOMAIN)}"
        errors.add(FieldError(f"invalid name {quote(name)}: {text}", ["metadata.name"]))
    ref = obj["spec"].get("ref") or {}
    own = Errors(missing(key) for key in ("name", "kind") if not ref.get(key))
    if not ref.get("apiVersion") and not ref.get("group"):
        own.add(missing("apiVersion"))
    if ref.get("namespace") and ref["namespace"] != meta.namespace(obj):
        text = f"parent namespace: {quote(meta.namespace(obj))} does not match ref: {quote(ref['namespace'])}"
        own.add(FieldError("mismatched namespaces", ["namespace"], text))
    return errors.add(own.at("spec", "ref"), _user_notes(obj, old))


def server(kind: Kind, obj: Object) -> list[tuple[str, str]]:
    """Returns (path, text) of what the API server itself refuses in metadata and in core/v1 objects."""
    causes = _meta_causes(kind, obj)
    if kind.group == "" and kind.plural in ("configmaps", "secrets"):
        causes += _data_causes(kind, obj)
    return causes


def _meta_causes(kind: Kind, obj: Object) -> list[tuple[str, str]]:
    data = obj["metadata"]
    causes: list[tuple[str, str]] = []
    name = data.get("name", "")
    if not name:
        causes.append(("metadata.name", "Required value: name or generateName is required"))
    elif kind.group != SERVING or kind is DOMAIN_MAPPING:
        check = names.label_1123 if kind.plural == "namespaces" else names.subdomain_1123
        causes += [("metadata.name", f"Invalid value: {quote(name)}: {text}") for text in check(name)]
    elif len(name) > 63 or "/" in name:
        causes.append(
            ("metadata.name", f"Invalid value: {quote(name[:64])}: must be no more than 63 characters")
        )
    for key, value in (data.get("labels") or {}).items():
        for text in names.qualified(key):
            causes.append(("metadata.labels", f"Invalid value: {quote(key)}: {text}"))
        for text in names.label_value(value):
            causes.append(("metadata.labels", f"Invalid value: {quote(value)}: {text}"))
    size = 0
    for key, value in (data.get("annotations") or {}).items():
        size += len(key) + len(value)
        for text in names.qualified(key.lower()):
            causes.append(("metadata.annotations", f"Invalid value: {quote(key)}: {text}"))
    if size > _ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        causes.append(("metadata.annotations", text))
    for item in data.get("finalizers") or ():
        for text in names.qualified(item):
            causes.append(("metadata.finalizers", f"Invalid value: {quote(item)}: {text}"))
    return causes


def _data_causes(kind: Kind, obj: Object) -> list[tuple[str, str]]:
    causes: list[tuple[str, str]] = []
    size = 0
    encoded = "data" if kind.plural == "secrets" else "binaryData"
    for field in ("data", "binaryData", "stringData"):
        for key, value in (obj.get(field) or {}).items():
            path = f"{field}[{key}]"
            causes += [(path, f"Invalid value: {quote(key)}: {text}") for text in names.config_key(key)]
            size += len(value)
            if field == encoded:
                try:
                    base64.b64decode(value, validate=True)
                except (binascii.Error, ValueError):
                    causes.append((path, "Invalid value: illegal base64 data"))
    if size > _DATA_LIMIT * 4 // 3:
        causes.append(("data", f"Too long: may not be more than {_DATA_LIMIT} bytes"))
    return causes


def core_defaults(kind: Kind, obj: Object) -> None:
    """Sets what the API server sets in core/v1 objects: a Secret's stringData into data and its type."""
    if kind.plural == "secrets" and kind.group == "":
        obj.setdefault("type", "Opaque")
        for key, value in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    elif kind.plural == "namespaces":
        obj["status"] = {"phase": "Active"}
        obj.setdefault("metadata", {}).setdefault("labels", {})["kubernetes.io/metadata.name"] = meta.name(
            obj
        )
