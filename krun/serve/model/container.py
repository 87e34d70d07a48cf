"""Validation of one container, with Knative's words: environment, image, ports, probes, resources, security context.

Source: knative/serving pkg/apis/serving/k8s_validation.go.
"""

from typing import Any

from krun.serve import reference, units
from krun.serve.model import fields, names, volumes
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    disallowed,
    invalid_value,
    missing,
    missing_one_of,
    multiple_one_of,
    out_of_bounds,
    quote,
)
from krun.serve.model.options import Options

Object = dict[str, Any]
MAX_INT32 = 2**31 - 1
RESERVED_ENV = ("PORT", "K_SERVICE", "K_CONFIGURATION", "K_REVISION")
RESERVED_PORTS = (8008, 8012, 8013, 8022, 9090, 9091)
PORT_NAMES = ("", "h2c", "http1")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = (
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "successThreshold",
    "failureThreshold",
)
_HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")


def user_container(container: Object, known: dict[str, Object], port_name: str, options: Options) -> Errors:
    """Returns the errors of a serving container. `known`: the volumes; `port_name`: the serving port's, http if empty."""
    errors = Errors()
    for key in PROBES:
        if key in container:
            errors.add(_probe_of(key, container[key], port_name).at(key))
    return errors.add(_common(container, known, options, RESERVED_ENV))


def sidecar(container: Object, known: dict[str, Object], options: Options) -> Errors:
    """Returns the errors of a container that does not serve."""
    errors = Errors()
    for key in PROBES:
        if key not in container:
            continue
        if options.enabled("multi-container-probing"):
            errors.add(_probe_of(key, container[key], None).at(key))
        else:
            # A handler is an inlined part of the probe: it is named by the probe.
            names = sorted(
                {
                    "" if name in _HANDLERS else name
                    for name, item in container[key].items()
                    if fields.is_set(item)
                }
            )
            errors.add(Errors([disallowed(*names)] if names else []).at(key))
    return errors.add(_common(container, known, options, RESERVED_ENV[1:]))


def init_container(container: Object, known: dict[str, Object], options: Options) -> Errors:
    """Returns the errors of an init container."""
    errors = Errors(
        FieldError("field not allowed in an init container", [key]) for key in PROBES if key in container
    )
    return errors.add(_common(container, known, options, RESERVED_ENV[1:], init=True))


def _common(
    container: Object,
    known: dict[str, Object],
    options: Options,
    reserved: tuple[str, ...],
    init: bool = False,
) -> Errors:
    if not any(fields.is_set(item) for item in container.values()):
        return Errors([missing("")])
    errors = fields.check("container", container, options)
    name = container.get("name", "")
    if name and (wrong := names.label_1123(name)):
        # Not in Knative's webhook: the API server refuses the Pod later; here there is no later. A directory has the name.
        errors.add(invalid_value(name, "name", wrong[0]))
    if container.get("name") == "queue-proxy":
        errors.add(FieldError('"queue-proxy" is a reserved container name', ["name"]))
    errors.add(_env(container.get("env") or [], reserved, options).at("env"))
    errors.add(_env_from(container.get("envFrom") or [], options))
    errors.add(_image(container.get("image", "")))
    errors.add(_ports(container.get("ports") or [], init, options).at("ports"))
    errors.add(_resources(container.get("resources") or {}, options).at("resources"))
    errors.add(security(container.get("securityContext") or {}, options).at("securityContext"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("", "File", "FallbackToLogsOnError"):
        errors.add(invalid_value(policy, "terminationMessagePolicy"))
    mounted = volumes.mounts(container.get("volumeMounts") or [], known, options)
    return errors.add(mounted.at("volumeMounts"))


def _image(image: str) -> Errors:
    if not image:
        return Errors([missing("image")])
    wrong = reference.weak_problem(image)
    if not wrong:
        return Errors()
    details = f"image: {quote(image)}, error: {wrong}"
    return Errors([FieldError("Failed to parse image reference", ["image"], details)])


def _env(listed: list[Object], reserved: tuple[str, ...], options: Options) -> Errors:
    errors = Errors()
    for index, item in enumerate(listed):
        own = fields.check("env", item, options)
        name = item.get("name", "")
        if not name:
            own.add(missing("name"))
        elif name in reserved:
            own.add(FieldError(f"{quote(name)} is a reserved environment variable", ["name"]))
        elif "=" in name or "\0" in name:
            own.add(invalid_value(name, "name"))
        if "\0" in item.get("value", ""):
            own.add(invalid_value("a NUL byte", "value"))
        own.add(fields.check("valueFrom", item.get("valueFrom") or {}, options).at("valueFrom"))
        errors.add(own.at(index))
    return errors


def _env_from(listed: list[Object], options: Options) -> Errors:
    errors = Errors()
    for index, item in enumerate(listed):
        errors.add(fields.check("envFrom", item, options).at("envFrom", index))
        given = [key for key in ("configMapRef", "secretRef") if key in item]
        # The webhook puts no index before these paths.
        if not given:
            errors.add(Errors([missing_one_of("configMapRef", "secretRef")]).at("envFrom"))
        elif len(given) > 1:
            errors.add(Errors([multiple_one_of(*given)]).at("envFrom"))
    return errors


def _ports(listed: list[Object], init: bool, options: Options) -> Errors:
    errors = Errors()
    for port in listed if init else listed[:1]:
        errors.add(fields.check("containerPort", port, options))
        number = port.get("containerPort", 0)
        if number in RESERVED_PORTS:
            text = f"{number} is a reserved port"
            errors.add(invalid_value(text, "containerPort", f"{text}, please use a different value"))
        if not 0 <= number <= 65535:
            errors.add(out_of_bounds(number, 0, 65535, "containerPort"))
        if init:
            continue
        if port.get("protocol", "") not in ("", "TCP"):
            errors.add(invalid_value(port["protocol"], "protocol"))
        if port.get("name", "") not in PORT_NAMES:
            errors.add(
                FieldError(
                    f"Port name {port['name']} is not allowed",
                    [""],
                    "Name must be empty, or one of: 'h2c', 'http1'",
                )
            )
    return errors


def _resources(resources: Object, options: Options) -> Errors:
    errors = fields.check("resources", resources, options)
    for key in ("limits", "requests"):
        for name, value in (resources.get(key) or {}).items():
            try:
                negative = units.quantity(value) < 0
            except ValueError:
                negative = True
            if negative:
                errors.add(Errors([invalid_value(value, "")]).key(name).at(key))
    return errors


def security(context: Object, options: Options) -> Errors:
    """Returns the errors of a container's securityContext (paths below it)."""
    errors = fields.check("securityContext", context, options)
    if context.get("privileged"):
        errors.add(disallowed("privileged"))
    capabilities = context.get("capabilities") or {}
    added = capabilities.get("add")
    if added and not options.enabled("kubernetes.containerspec-addcapabilities"):
        secure = options.feature("secure-pod-defaults") in ("Enabled", "AllowRootBounded")
        if not (secure and added == ["NET_BIND_SERVICE"]):
            errors.add(Errors([disallowed("add")]).at("capabilities"))
    return errors.add(identity(context))


def identity(context: Object) -> Errors:
    """Returns the errors of runAsUser and runAsGroup."""
    errors = Errors()
    for key in ("runAsUser", "runAsGroup"):
        number = context.get(key)
        if number is not None and not 0 <= number <= MAX_INT32:
            errors.add(out_of_bounds(number, 0, MAX_INT32, key))
    return errors


def _probe_of(key: str, probe: Object, port_name: str | None) -> Errors:
    errors = _probe(probe, port_name)
    if key == "readinessProbe":
        return errors.add(_readiness(probe))
    for name in _PROBE_NUMBERS:
        if probe.get(name, 0) < 0:
            # Not in Knative's webhook: the API server refuses the Pod later; here there is no later.
            errors.add(out_of_bounds(probe[name], 0, MAX_INT32, name))
    return errors


def _probe(probe: Object, port_name: str | None) -> Errors:
    """`port_name`: the name that a named port must have; None: a sidecar's probe, which must have a port."""
    errors = Errors()
    for handler in ("httpGet", "tcpSocket"):
        if handler not in probe:
            continue
        port = probe[handler].get("port", 0)
        if port_name is None:
            if port in (0, ""):
                errors.add(invalid_value(port, f"{handler}.port", "Probe port must be specified"))
        elif isinstance(port, str) and port and port != port_name:
            errors.add(invalid_value(port, f"{handler}.port", "Probe port must match container port"))
    given = [handler for handler in _HANDLERS if handler in probe]
    if not given:
        errors.add(missing_one_of(*_HANDLERS))
    elif len(given) > 1:
        errors.add(multiple_one_of(*("gRPC" if handler == "grpc" else handler for handler in given)))
    return errors


def _readiness(probe: Object) -> Errors:
    errors = Errors()
    period = probe.get("periodSeconds", 0)
    for key, low in (("periodSeconds", 0), ("initialDelaySeconds", 0), ("successThreshold", 1)):
        if probe.get(key, 0) < low:
            errors.add(out_of_bounds(probe.get(key, 0), low, MAX_INT32, key))
    for key in ("failureThreshold", "timeoutSeconds"):
        number = probe.get(key, 0)
        if period == 0:
            if number != 0:
                errors.add(FieldError(f"{key} is disallowed when periodSeconds is zero", [key]))
        elif number < 1:
            errors.add(out_of_bounds(number, 1, MAX_INT32, key))
    return errors
