"""The environment of a container: references of the manifest resolved to names and values (core/v1 EnvVar, EnvFromSource)."""

from typing import Any

from krun.serve.run import volumes as volume_plans
from krun.serve.run.errors import StartError

#: Bytes of the values: those of all strings of an execve(2) (fs/exec.c: bprm_stack_limits).
_MOST = 6 << 20


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def environment(
    container: dict[str, Any], lookup: volume_plans.Lookup, pod: dict[str, Any]
) -> list[dict[str, str]]:
    """Return `env` as names and values: envFrom first, then env, whose later entries win (kubelet, makeEnvironmentVariables).

    Raises StartError (CreateContainerConfigError) for an object or a key that is missing and not optional.
    """
    found: dict[str, str] = {}
    sources = volume_plans.Sources(lookup, _MOST, "the environment of a container")
    for source in container.get("envFrom") or []:
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key in source:
                data = sources.data(kind, source[key]["name"])
                if data is None and not source[key].get("optional"):
                    raise StartError(
                        "CreateContainerConfigError", f'{kind.lower()} "{source[key]["name"]}" not found'
                    )
                for name, value in (data or {}).items():
                    found[(source.get("prefix") or "") + name] = _text(sources.take(value))
    for entry in container.get("env") or []:
        text = _value(entry, sources, pod)
        if text is not None:
            sources.take(text.encode("utf-8", "surrogateescape"))
            found.pop(entry["name"], None)
            found[entry["name"]] = text
    return [{"name": name, "value": value} for name, value in found.items()]


def _value(entry: dict[str, Any], sources: volume_plans.Sources, pod: dict[str, Any]) -> str | None:
    """Return the value of an entry, or None for a reference that is optional and missing."""
    source = entry.get("valueFrom")
    if not source:
        return str(entry.get("value") or "")
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in source:
            own = source[key]
            data = sources.data(kind, own["name"])
            if data is not None and own["key"] in data:
                return _text(data[own["key"]])
            if own.get("optional"):
                return None
            missing = (
                f"couldn't find key {own['key']} in {kind} {own['name']}"
                if data is not None
                else f'{kind.lower()} "{own["name"]}" not found'
            )
            raise StartError("CreateContainerConfigError", missing)
    if "fieldRef" in source:
        return volume_plans.field_text(pod, source["fieldRef"].get("fieldPath", ""))
    raise StartError(
        "CreateContainerConfigError", f"env {entry['name']}: {', '.join(source)} is not supported"
    )
