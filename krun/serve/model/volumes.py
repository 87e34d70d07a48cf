"""Validation of volumes and volume mounts, with Knative's words.

Source: knative/serving pkg/apis/serving/k8s_validation.go (ValidateVolumes, validateVolumeMounts).
"""

import posixpath
from typing import Any

from krun.serve.model import fields, names
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    invalid_value,
    missing,
    missing_one_of,
    multiple_one_of,
    quote,
)
from krun.serve.model.options import Options
from krun.serve.units import quantity

Object = dict[str, Any]
_RESERVED_PATHS = ("/", "/dev", "/dev/log")
_ALWAYS = ("secret", "configMap", "projected")
_SOURCES = "secret configMap projected emptyDir persistentVolumeClaim hostPath csi ephemeral image".split()


def volumes(listed: list[Object], mounted: set[str], options: Options) -> tuple[dict[str, Object], Errors]:
    """Returns the volumes by name, and the errors of spec.volumes (paths below `volumes`)."""
    found: dict[str, Object] = {}
    errors = Errors()
    for index, volume in enumerate(listed):
        name = volume.get("name", "")
        own = Errors()
        if name in found:
            own.add(FieldError(f"duplicate volume name {quote(name)}", ["name"]))
        if name not in mounted:
            own.add(FieldError(f"volume with name {quote(name)} not mounted", ["name"]))
        own.add(_volume(volume, options))
        errors.add(own.at(index))
        found[name] = volume
    return found, errors


def _volume(volume: Object, options: Options) -> Errors:
    errors = Errors()
    claim = volume.get("persistentVolumeClaim")
    if claim is not None:
        name = claim.get("claimName", "")
        if not options.enabled("kubernetes.podspec-persistent-volume-claim"):
            errors.add(
                FieldError(
                    f"Persistent volume claim support is disabled, but found persistent volume claim {name}"
                )
            )
        if not claim.get("readOnly") and not options.enabled("kubernetes.podspec-persistent-volume-write"):
            errors.add(
                FieldError(
                    "Persistent volume write support is disabled, but found persistent volume claim "
                    f"{name} that is not read-only"
                )
            )
    for key, words in fields.VOLUME_WORDS.items():
        if key in volume and not options.enabled(str(fields.ALLOWED["volume"][key])):
            errors.add(FieldError(f"{words} {volume.get('name', '')}"))
    errors.add(fields.check("volume", volume, options))
    name = volume.get("name", "")
    if not name:
        errors = Errors([missing("name")])
    elif names.label_1123(name):
        errors = Errors([invalid_value(name, "name")])
    return errors.add(_source(volume, options))


def _source(volume: Object, options: Options) -> Errors:
    errors = Errors()
    for key in ("secret", "configMap"):
        errors.add(_items(volume.get(key) or {}))
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        errors.add(_projection(source, options).at("projected", index))
    if "emptyDir" in volume:
        errors.add(_empty_dir(volume["emptyDir"]).at("emptyDir"))
    given = [key for key in _SOURCES if key in volume]
    if not given:
        optional = [key for key in _SOURCES[3:] if options.enabled(str(fields.ALLOWED["volume"][key]))]
        errors.add(missing_one_of(*_ALWAYS, *optional))
    elif len(given) > 1:
        errors.add(multiple_one_of(*given))
    return errors


def _items(source: Object) -> Errors:
    errors = Errors()
    for index, item in enumerate(source.get("items") or ()):
        own = Errors()
        for key in ("key", "path"):
            if not item.get(key):
                own.add(missing(key))
        path = item.get("path", "")
        if path.startswith("/") or ".." in path.split("/"):
            # Not in Knative's webhook: the API server refuses the Pod later; here there is no later.
            own.add(invalid_value(path, "path", "must be a relative path without '..'"))
        errors.add(own.at("items", index))
    return errors


def _empty_dir(source: Object) -> Errors:
    errors = Errors()
    if source.get("medium", "") not in ("", "Memory"):
        errors.add(invalid_value(source["medium"], "medium"))
    limit = source.get("sizeLimit")
    if limit is not None:
        try:
            negative = quantity(limit) < 0
        except ValueError:
            negative = True
        if negative:
            errors.add(invalid_value(limit, "sizeLimit"))
    return errors


def _projection(source: Object, options: Options) -> Errors:
    errors = fields.check("projection", source, options)
    given = [key for key in fields.ALLOWED["projection"] if key in source]
    for key in ("secret", "configMap"):
        if key in source:
            own = _items(source[key])
            if not source[key].get("name"):
                own.add(missing("name"))
            errors.add(own.at(key))
    if "serviceAccountToken" in source:
        errors.add(_relative(source["serviceAccountToken"]).at("serviceAccountToken"))
    for index, item in enumerate((source.get("downwardAPI") or {}).get("items") or ()):
        own = _relative(item)
        if "fieldRef" not in item and "resourceFieldRef" not in item:
            own.add(missing_one_of("fieldRef", "resourceFieldRef"))
        elif "fieldRef" in item and "resourceFieldRef" in item:
            own.add(FieldError("Within a single item, cannot set both", ["resourceFieldRef", "fieldRef"]))
        errors.add(own.at("downwardAPI", "items", index))
    if not given:
        errors.add(missing_one_of("secret", "configMap", "serviceAccountToken", "downwardAPI"))
    elif len(given) > 1:
        errors.add(multiple_one_of(*given))
    return errors


def _relative(item: Object) -> Errors:
    path = item.get("path", "")
    if not path:
        return Errors([missing("path")])
    if path.startswith("/") or ".." in path.split("/"):
        return Errors([invalid_value(path, "path", "must be a relative path without '..'")])
    return Errors()


def mounts(listed: list[Object], known: dict[str, Object], options: Options) -> Errors:
    """Returns the errors of a container's volumeMounts (paths below `volumeMounts`)."""
    errors = Errors()
    seen: set[str] = set()
    for index, mount in enumerate(listed):
        errors.add(_mount(mount, known, seen, options).at(index))
    return errors


def _mount(mount: Object, known: dict[str, Object], seen: set[str], options: Options) -> Errors:
    errors = fields.check("volumeMount", mount, options)
    volume = known.get(mount.get("name", ""))
    if volume is None:
        errors.add(FieldError("volumeMount has no matching volume", ["name"]))
        volume = {}
    path = mount.get("mountPath", "")
    clean = posixpath.normpath(path) if path else ""
    clean = clean[1:] if clean.startswith("//") else clean
    if not path:
        errors.add(missing("mountPath"))
    elif clean in _RESERVED_PATHS:
        errors.add(FieldError(f"mountPath {quote(clean)} is a reserved path", ["mountPath"]))
    elif not path.startswith("/"):
        errors.add(invalid_value(path, "mountPath"))
    elif clean in seen:
        errors.add(invalid_value(f"{quote(path)} must be unique", "mountPath"))
    seen.add(clean)
    sub = mount.get("subPath", "")
    if sub.startswith("/") or ".." in sub.split("/"):
        errors.add(invalid_value(sub, "subPath", "must be a relative path without '..'"))
    writable = any(key in volume for key in ("emptyDir", "persistentVolumeClaim", "ephemeral"))
    if not writable and not mount.get("readOnly"):
        errors.add(FieldError("volume mount should be readOnly for this type of volume", ["readOnly"]))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if not options.enabled("kubernetes.podspec-volumes-mount-propagation"):
            errors.add(
                FieldError(
                    "Volume Mount Propagation support is disabled, but found volume mount "
                    f"{mount.get('name', '')} with mount propagation"
                )
            )
        if propagation not in ("None", "HostToContainer"):
            errors.add(
                FieldError("mount propagation should be set to None or HostToContainer", ["mountPropagation"])
            )
    if (volume.get("persistentVolumeClaim") or {}).get("readOnly") and not mount.get("readOnly"):
        errors.add(FieldError("volume is readOnly but volume mount is not", ["readOnly"]))
    return errors
