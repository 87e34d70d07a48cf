"""The environment of a container: references of the manifest resolved to names and values (core/v1 EnvVar, EnvFromSource)."""

from typing import Any

from krun.serve.run import volumes as volume_plans
from krun.serve.run.errors import StartError


def environment(
    container: dict[str, Any], lookup: volume_plans.Lookup, pod: dict[str, Any]
) -> list[dict[str, str]]:
    """Return `env` as names and values: envFrom first, then env, whose later entries win (kubelet, makeEnvironmentVariables).

    Raises StartError (CreateContainerConfigError) for an object or a key that is missing and not optional.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key in source:
                obj = lookup(kind, source[key]["name"])
                if obj is None and not source[key].get("optional"):
                    raise StartError(
                        "CreateContainerConfigError", f'{kind.lower()} "{source[key]["name"]}" not found'
                    )
                for name, data in volume_plans.data_of(kind, obj or {}).items():
                    found[(source.get("prefix") or "") + name] = data.decode("utf-8", "surrogateescape")
    for entry in container.get("env") or []:
        value = _value(entry, lookup, pod)
        if value is not None:
            found.pop(entry["name"], None)
            found[entry["name"]] = value
    return [{"name": name, "value": value} for name, value in found.items()]


def _value(entry: dict[str, Any], lookup: volume_plans.Lookup, pod: dict[str, Any]) -> str | None:
    """Return the value of an entry, or None for a reference that is optional and missing."""
    source = entry.get("valueFrom")
    if not source:
        return str(entry.get("value") or "")
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in source:
            own = source[key]
            obj = lookup(kind, own["name"])
            data = volume_plans.data_of(kind, obj or {})
            if own["key"] in data:
                return data[own["key"]].decode("utf-8", "surrogateescape")
            if own.get("optional"):
                return None
            missing = (
                f"couldn't find key {own['key']} in {kind} {own['name']}"
                if obj
                else f'{kind.lower()} "{own["name"]}" not found'
            )
            raise StartError("CreateContainerConfigError", missing)
    if "fieldRef" in source:
        return volume_plans.field_text(pod, source["fieldRef"].get("fieldPath", ""))
    raise StartError(
        "CreateContainerConfigError", f"env {entry['name']}: {', '.join(source)} is not supported"
    )
