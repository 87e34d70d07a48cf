"""Validation of a RevisionSpec: the pod's fields, its containers together, time-outs, concurrency.

Source: knative/serving pkg/apis/serving/k8s_validation.go (ValidatePodSpec), pkg/apis/serving/v1/revision_validation.go.
"""

from typing import Any

from krun.serve.model import container, fields, names, volumes
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    disallowed,
    invalid_value,
    missing,
    out_of_bounds,
    quote,
)
from krun.serve.model.options import Options

Object = dict[str, Any]
_INSECURE = "Kubernetes default value is insecure, Knative may default this to secure in a future release"


def revision_spec(spec: Object, options: Options) -> Errors:
    """Returns the errors of a RevisionSpec (paths below `spec`)."""
    errors = _pod(spec, options)
    timeout = spec.get("timeoutSeconds", 0)
    if timeout and not 0 <= timeout <= options.max_timeout:
        errors.add(out_of_bounds(timeout, 0, options.max_timeout, "timeoutSeconds"))
    for key in ("responseStartTimeoutSeconds", "idleTimeoutSeconds"):
        if spec.get(key, 0) < 0:
            errors.add(out_of_bounds(spec[key], 0, options.max_timeout, key))
    concurrency = spec.get("containerConcurrency")
    low = 0 if options.allow_concurrency_zero else 1
    if concurrency is not None and not low <= concurrency <= options.concurrency_max:
        errors.add(out_of_bounds(concurrency, low, options.concurrency_max, "containerConcurrency"))
    return errors


def _pod(spec: Object, options: Options) -> Errors:
    errors = fields.check("pod", spec, options)
    if spec.get("automountServiceAccountToken"):
        errors.add(disallowed("automountServiceAccountToken"))
    pod_context = spec.get("securityContext") or {}
    if (
        pod_context
        and options.off("kubernetes.podspec-securitycontext")
        and options.off("secure-pod-defaults")
    ):
        errors.add(disallowed("securityContext"))
    errors.add(_pod_security(pod_context, options).at("securityContext"))
    serving = spec.get("containers") or []
    init = spec.get("initContainers") or []
    for key, listed in (("containers", serving), ("initContainers", init)):
        for index, item in enumerate(listed):
            own = _warnings(pod_context, item.get("securityContext") or {}, options)
            errors.add(own.at(key, index, "securityContext"))
    mounted = {
        mount.get("name", "") for item in [*init, *serving] for mount in item.get("volumeMounts") or ()
    }
    known, wrong = volumes.volumes(spec.get("volumes") or [], mounted, options)
    errors.add(wrong.at("volumes"))
    errors.add(_init(init, serving, known, options))
    port_name, wrong = _serving_port(serving)
    errors.add(wrong.at("containers[*]"))
    if not serving:
        errors.add(missing("containers"))
    elif len(serving) == 1:
        own = container.user_container(serving[0], known, port_name, options)
        errors.add(own.at("containers", 0))
    else:
        errors.add(_several(serving, known, port_name, options))
    account = spec.get("serviceAccountName", "")
    if account:
        errors.add(
            *(invalid_value(account, "serviceAccountName", text) for text in names.subdomain_1123(account))
        )
    return errors


def _serving_port(listed: list[Object]) -> tuple[str, Errors]:
    ports = [port for item in listed for port in item.get("ports") or ()]
    name = (ports[-1].get("name") if ports else "") or "http"
    if not ports and len(listed) > 1:
        return name, Errors([missing("ports")])
    if len(ports) > 1:
        details = "Only a single port is allowed across all containers"
        return name, Errors([FieldError("more than one container port is set", ["ports"], details)])
    return name, Errors()


def _several(listed: list[Object], known: dict[str, Object], port_name: str, options: Options) -> Errors:
    if not options.enabled("multi-container"):
        return Errors([FieldError(f"multi-container is off, but found {len(listed)} containers")])
    errors = Errors()
    seen: set[str] = set()
    for index, item in enumerate(listed):
        own = Errors()
        name = item.get("name", "")
        if name in seen:
            own.add(FieldError(f"duplicate container name {quote(name)}", ["name"]))
        seen.add(name)
        if item.get("ports"):
            own.add(container.user_container(item, known, port_name, options))
        else:
            own.add(container.sidecar(item, known, options))
        errors.add(own.at("containers", index))
    return errors


def _init(listed: list[Object], others: list[Object], known: dict[str, Object], options: Options) -> Errors:
    if not listed:
        return Errors()
    if not options.enabled("kubernetes.podspec-init-containers"):
        text = f"pod spec support for init-containers is off, but found {len(listed)} init containers"
        return Errors([FieldError(text)])
    errors = Errors()
    seen = {item.get("name", "") for item in others}
    for index, item in enumerate(listed):
        own = Errors()
        name = item.get("name", "")
        if name in seen:
            own.add(FieldError(f"duplicate container name {quote(name)}", ["name"]))
        seen.add(name)
        # The webhook says "containers" here as well.
        errors.add(own.add(container.init_container(item, known, options)).at("containers", index))
    return errors


def _pod_security(context: Object, options: Options) -> Errors:
    errors = Errors()
    secure = options.feature("secure-pod-defaults") in ("Enabled", "AllowRootBounded")
    profile = (context.get("seccompProfile") or {}).get("type")
    allowed_by_secure = secure and profile in ("RuntimeDefault", "Unconfined")
    rest = {k: v for k, v in context.items() if not (k == "seccompProfile" and allowed_by_secure)}
    errors.add(fields.check("podSecurityContext", rest, options))
    errors.add(container.identity(context))
    groups = [("fsGroup", context.get("fsGroup"))]
    groups += [
        (f"supplementalGroups[{i}]", gid) for i, gid in enumerate(context.get("supplementalGroups") or ())
    ]
    for path, gid in groups:
        if gid is not None and not 0 <= gid <= container.MAX_INT32:
            errors.add(out_of_bounds(gid, 0, container.MAX_INT32, path))
    return errors


def _warnings(pod: Object, own: Object, options: Options) -> Errors:
    """Settings that Kubernetes leaves insecure: warnings, as the webhook gives them."""
    if options.feature("secure-pod-defaults") in ("Enabled", "AllowRootBounded"):
        return Errors()
    paths = []
    if "runAsNonRoot" not in pod and "runAsNonRoot" not in own:
        paths.append("runAsNonRoot")
    if "allowPrivilegeEscalation" not in own:
        paths.append("allowPrivilegeEscalation")
    profiles = [context["seccompProfile"] for context in (own, pod) if "seccompProfile" in context]
    if not profiles:
        paths.append("seccompProfile")
    elif not any(profile.get("type") for profile in profiles):
        paths.append("seccompProfile.type")
    if "capabilities" not in own:
        paths.append("capabilities")
    elif "drop" not in own["capabilities"]:
        paths.append("capabilities.drop")
    errors = Errors(FieldError(_INSECURE, [path], warning=True) for path in paths)
    if (own.get("capabilities") or {}).get("drop", [""])[:1] == ["all"]:
        item = invalid_value("all", "capabilities.drop", "Must be spelled as 'ALL'")
        item.warning = True
        errors.add(item)
    return errors
