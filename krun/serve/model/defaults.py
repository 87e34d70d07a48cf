"""Defaults that Knative's mutating webhook sets, and the annotations of the user who writes.

Source: knative/serving pkg/apis/serving/v1/*_defaults.go, pkg/apis/serving/metadata_validation.go (SetUserInfo). A zero
value counts as absent: typed clients send `"name": ""`, `containerPort: 0`, `port: 0`.
"""

from typing import Any

from krun.serve.model import meta, names
from krun.serve.model.kinds import CONFIGURATION, DOMAIN_MAPPING, REVISION, ROUTE, SERVICE, Kind
from krun.serve.model.options import Options

Object = dict[str, Any]
_WRITABLE = ("emptyDir", "persistentVolumeClaim", "ephemeral")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HANDLERS = ("tcpSocket", "httpGet", "exec", "grpc")
_SECURE = ("Enabled", "AllowRootBounded")


def apply(kind: Kind, obj: Object, old: Object | None, options: Options, user: str = "") -> None:
    """Sets the defaults of `obj` in place.

    Arguments: old, the stored object of an update, None for a create; user, who writes ("" = nobody: a reconciler).
    """
    spec = obj.setdefault("spec", {}) if kind.generation else {}
    old_spec = (old or {}).get("spec")
    if kind in (SERVICE, CONFIGURATION):
        _template(spec, old_spec, options, old is None)
    if kind in (SERVICE, ROUTE):
        traffic(spec, with_default=kind is SERVICE)
    if kind is REVISION and old is None:
        revision_spec(spec, options, True)
    if kind is DOMAIN_MAPPING and not spec.get("ref", {}).get("namespace"):
        spec.setdefault("ref", {})["namespace"] = meta.namespace(obj)
    owned = bool(obj.get("metadata", {}).get("ownerReferences"))
    if user and kind in (SERVICE, CONFIGURATION, ROUTE, DOMAIN_MAPPING) and (kind is SERVICE or not owned):
        _user(obj, old, user)


def _user(obj: Object, old: Object | None, user: str) -> None:
    notes = meta.meta(obj).setdefault("annotations", {})
    if old is None:
        notes[meta.CREATOR] = user
    elif old.get("spec") == obj.get("spec"):
        return
    notes[meta.MODIFIER] = user


def _template(spec: Object, old_spec: Object | None, options: Options, create: bool) -> None:
    template = spec.setdefault("template", {})
    name = template.get("metadata", {}).get("name")
    if old_spec is not None and name and name == old_spec.get("template", {}).get("metadata", {}).get("name"):
        # The revision of this name exists already: a new default must not look like a change of it.
        return
    revision_spec(template.setdefault("spec", {}), options, create)


def traffic(spec: Object, with_default: bool) -> None:
    """Sets the defaults of spec.traffic: all to the latest revision, explicit latestRevision and percent."""
    if with_default and not spec.get("traffic"):
        spec["traffic"] = [{"percent": 100, "latestRevision": True}]
    for target in spec.get("traffic", ()):
        target.setdefault("latestRevision", not target.get("revisionName"))
        target.setdefault("percent", 0)


def revision_spec(spec: Object, options: Options, create: bool) -> None:
    """Sets the defaults of a RevisionSpec in place."""
    spec["timeoutSeconds"] = spec.get("timeoutSeconds") or options.timeout
    for key, value in (
        ("idleTimeoutSeconds", options.idle_timeout),
        ("responseStartTimeoutSeconds", options.response_start_timeout),
    ):
        if key not in spec and value and value < spec["timeoutSeconds"]:
            spec[key] = value
    spec.setdefault("containerConcurrency", options.concurrency)
    if create and options.enable_service_links is not None:
        spec.setdefault("enableServiceLinks", options.enable_service_links)
    containers = spec.get("containers") or []
    init = spec.get("initContainers") or []
    taken = {item.get("name", "") for item in [*containers, *init]}
    _container_names(containers, taken, options.container_name)
    _container_names(init, taken, options.init_container_name)
    writable = {
        volume.get("name") for volume in spec.get("volumes") or () if any(key in volume for key in _WRITABLE)
    }
    for container in containers:
        _container(container, len(containers) == 1, writable, options)
    for container in [*containers, *init]:
        _security(container, spec.get("securityContext") or {}, options)


def _container_names(containers: list[Object], taken: set[str], default: str) -> None:
    suffix = 0
    for container in containers:
        if container.get("name"):
            continue
        name = default
        if len(containers) > 1 or name in taken:
            while True:
                name = names.child(default, f"-{suffix}")
                suffix += 1
                if name not in taken:
                    break
        container["name"] = name


def _container(container: Object, alone: bool, writable: set[str | None], options: Options) -> None:
    resources = container.setdefault("resources", {})
    for key, defaults in (("requests", options.requests), ("limits", options.limits)):
        for resource in _RESOURCES:
            value = defaults.get(resource)
            if value is not None and resource not in resources.get(key, {}):
                resources.setdefault(key, {})[resource] = value
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    if alone or container.get("ports"):
        probe = container.get("readinessProbe") or {}
        container["readinessProbe"] = probe
        if not any(key in probe for key in _HANDLERS):
            probe["tcpSocket"] = {"port": 0}
    probe = container.get("readinessProbe")
    if probe is not None:
        probe["successThreshold"] = probe.get("successThreshold") or 1
        if probe.get("periodSeconds"):
            probe["failureThreshold"] = probe.get("failureThreshold") or 3
            probe["timeoutSeconds"] = probe.get("timeoutSeconds") or 1
    for key in ("readinessProbe", "livenessProbe", "startupProbe"):
        handlers = container.get(key) or {}
        for handler in ("httpGet", "tcpSocket"):
            if handler in handlers:
                # A probe without a port means the container's: the typed client's zero value.
                handlers[handler].setdefault("port", 0)
        if "grpc" in handlers:
            handlers["grpc"].setdefault("service", "")
    for mount in container.get("volumeMounts") or ():
        if mount.get("name") not in writable:
            mount["readOnly"] = True


def _security(container: Object, pod: Object, options: Options) -> None:
    """secure-pod-defaults: the settings of the `restricted` profile where the user set none."""
    mode = options.feature("secure-pod-defaults")
    if mode not in _SECURE:
        return
    context = container.setdefault("securityContext", {})
    context.setdefault("allowPrivilegeEscalation", False)
    if not pod.get("seccompProfile", {}).get("type"):
        profile = context.setdefault("seccompProfile", {})
        profile["type"] = profile.get("type") or "RuntimeDefault"
    if "capabilities" not in context:
        context["capabilities"] = {"drop": ["ALL"]}
        if any(port.get("containerPort", 0) < 1024 for port in container.get("ports") or ()):
            context["capabilities"]["add"] = ["NET_BIND_SERVICE"]
    if mode == "Enabled" and "runAsNonRoot" not in pod:
        context.setdefault("runAsNonRoot", True)
