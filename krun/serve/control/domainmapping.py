"""DomainMapping: a host of its own for a Service or Route. The first that was created has the host.

Source: knative/serving pkg/reconciler/domainmapping, pkg/apis/serving/v1beta1/domainmapping_lifecycle.go.
"""

from typing import Any

from krun.serve.control.context import Context
from krun.serve.model import conditions, meta
from krun.serve.model.conditions import Conditions
from krun.serve.model.kinds import CORE_SERVICE, DOMAIN_MAPPING, ROUTE
from krun.serve.model.values import parse_time

Object = dict[str, Any]


def reconcile(ctx: Context, mapping: Object) -> None:
    """Claims the host and points it at the route that spec.ref names."""
    config = ctx.config()
    status = dict(mapping.get("status") or {})
    found = Conditions(
        status, "DomainClaimed", "ReferenceResolved", "IngressReady", "CertificateProvisioned"
    ).initialize()
    host = meta.name(mapping)
    status["url"] = f"{config.scheme}://{host}"
    status["address"] = {"url": f"{config.scheme}://{host}"}
    found.true("CertificateProvisioned", "TLSNotEnabled", "external-domain-tls is not enabled")
    if not _first(ctx, mapping):
        text = "The domain name is already in use by another DomainMapping"
        found.false("DomainClaimed", "DomainAlreadyClaimed", text)
        found.unknown("IngressReady", "IngressNotConfigured", "Ingress has not yet been reconciled.")
        ctx.save(DOMAIN_MAPPING, mapping, status)
        return
    found.true("DomainClaimed")
    route, wrong = _route(ctx, mapping)
    if wrong:
        found.false("ReferenceResolved", "ResolveFailed", wrong)
        found.unknown("IngressReady", "IngressNotConfigured", "Ingress has not yet been reconciled.")
        ctx.hosts.set_mapping(host, meta.namespace(mapping), "")
    else:
        found.true("ReferenceResolved")
        ctx.hosts.set_mapping(host, meta.namespace(mapping), route)
        owner = ctx.hosts.owner(host)
        if owner:
            found.false("IngressReady", "HostOfRoute", f"The domain name is a host of the Route {owner}")
        else:
            found.true("IngressReady")
    ctx.save(DOMAIN_MAPPING, mapping, status)


def gone(ctx: Context, mapping: Object) -> None:
    """The mapping was deleted: its host goes to the next one that wants it."""
    host = meta.name(mapping)
    others = [one for one in ctx.store.list(DOMAIN_MAPPING) if meta.name(one) == host]
    if not others:
        ctx.hosts.set_mapping(host, meta.namespace(mapping), "")
    for other in others:
        ctx.enqueue((DOMAIN_MAPPING, meta.namespace(other), host))


def _order(mapping: Object) -> tuple[float, str, str]:
    data = mapping["metadata"]
    return parse_time(data["creationTimestamp"]), meta.namespace(mapping), meta.uid(mapping)


def _first(ctx: Context, mapping: Object) -> bool:
    host = meta.name(mapping)
    claimed = [
        one
        for one in ctx.store.list(DOMAIN_MAPPING, None, "", f"metadata.name={host}")
        if meta.uid(one) != meta.uid(mapping)
    ]
    for one in claimed:
        if (conditions.find(one.get("status"), "DomainClaimed") or {}).get("status") == "True":
            return False
    return all(_order(mapping) <= _order(one) for one in claimed)


def _route(ctx: Context, mapping: Object) -> tuple[str, str]:
    """Returns the route that spec.ref leads to, or why it leads to none."""
    ref, namespace = mapping["spec"]["ref"], meta.namespace(mapping)
    kind, name = ref.get("kind", ""), ref.get("name", "")
    ctx.track(namespace, DOMAIN_MAPPING, name, meta.name(mapping))
    if kind in ("Service", "Route") and str(ref.get("apiVersion", "")).startswith("serving.knative.dev/"):
        if ctx.store.get(ROUTE, namespace, name) is not None:
            return name, ""
        plural = "services" if kind == "Service" else "routes"
        return "", f'failed to get object {namespace}/{name}: {plural}.serving.knative.dev "{name}" not found'
    if kind == "Service" and ref.get("apiVersion") == "v1":
        service = ctx.store.get(CORE_SERVICE, namespace, name)
        if service is not None:
            return meta.labels(service).get(meta.ROUTE_LABEL, ""), ""
        return "", f'failed to get object {namespace}/{name}: services "{name}" not found'
    return "", f"{ref.get('apiVersion', '')} {kind} is no addressable object of krun serve"
