"""Service -> Configuration and Route of the same name, and their conditions back.

Source: knative/serving pkg/reconciler/service (service.go, resources/).
"""

import copy
from typing import Any

from krun.serve.control.context import Context
from krun.serve.model import conditions, meta, v1alpha1
from krun.serve.model.conditions import Conditions
from krun.serve.model.kinds import CONFIGURATION, REVISION, ROUTE, SERVICE, Kind
from krun.serve.model.status import ApiError

Object = dict[str, Any]
_MANUAL = "Service is set to Manual, and is not managing underlying resources."
_NOT_MIGRATED = "Traffic is not yet migrated to the latest revision."


def reconcile(ctx: Context, service: Object) -> None:
    """Brings the children of a Service up to date and takes over their conditions."""
    status = dict(service.get("status") or {})
    found = Conditions(status, "ConfigurationsReady", "RoutesReady").initialize()
    if v1alpha1.is_manual(service):
        for name in ("ConfigurationsReady", "RoutesReady"):
            found.unknown(name, "Manual", _MANUAL)
    else:
        _children(ctx, service, status, found)
    ctx.save(SERVICE, service, status)


def _children(ctx: Context, service: Object, status: Object, found: Conditions) -> None:
    config = _child(ctx, service, CONFIGURATION, found)
    if config is None:
        return
    own = config.get("status") or {}
    named = (config["spec"]["template"].get("metadata") or {}).get("name")
    if own.get("observedGeneration") != meta.generation(config):
        text = "The Configuration is still working to reflect the latest desired specification."
        found.unknown("ConfigurationsReady", "OutOfDate", text)
        if named:
            # The revision's name decides what traffic means: first the Configuration, then the Route.
            return
    else:
        _copy(status, own, ("latestCreatedRevisionName", "latestReadyRevisionName"))
        found.copy("ConfigurationsReady", conditions.find(own, "Ready"))
    if named and not _name_is_ours(ctx, config, named):
        text = (
            f'The revision name "{named}" is taken by a conflicting Revision, so traffic will not be migrated'
        )
        found.false("RoutesReady", "RevisionNameTaken", text)
        return
    route = _child(ctx, service, ROUTE, found)
    if route is None:
        return
    own = route.get("status") or {}
    if own.get("observedGeneration") != meta.generation(route):
        text = "The Route is still working to reflect the latest desired specification."
        found.unknown("RoutesReady", "OutOfDate", text)
        return
    _copy(status, own, ("url", "address", "traffic"))
    found.copy("RoutesReady", conditions.find(own, "Ready"))
    if found.state("RoutesReady") == "True" and not _migrated(config, route):
        found.unknown("RoutesReady", "TrafficNotMigrated", _NOT_MIGRATED)


def _copy(status: Object, source: Object, names: tuple[str, ...]) -> None:
    for name in names:
        if name in source:
            status[name] = source[name]
        else:
            status.pop(name, None)


def _child(ctx: Context, service: Object, kind: Kind, found: Conditions) -> Object | None:
    """Returns the child of `kind`, made or brought up to date; None if another owner has the name."""
    name, namespace = meta.name(service), meta.namespace(service)
    existing = ctx.store.get(kind, namespace, name)
    make = configuration_of if kind is CONFIGURATION else route_of
    if existing is None:
        try:
            made = ctx.store.create(kind, make(service, None))
        except ApiError as error:
            ctx.event(
                SERVICE,
                service,
                "Warning",
                "CreationFailed",
                f'Failed to create {kind.kind} "{name}": {error.text}',
            )
            raise
        ctx.event(SERVICE, service, "Normal", "Created", f'Created {kind.kind} "{name}"')
        return made
    if not meta.controlled_by(existing, service):
        condition = "ConfigurationsReady" if kind is CONFIGURATION else "RoutesReady"
        text = f'There is an existing {kind.kind} "{name}" that we do not own.'
        found.false(condition, "NotOwned", text)
        return None
    wanted = make(service, existing)
    fresh = {**existing, "spec": wanted["spec"], "metadata": dict(existing["metadata"])}
    for key in ("labels", "annotations"):
        fresh["metadata"].pop(key, None)
        if wanted["metadata"].get(key):
            fresh["metadata"][key] = wanted["metadata"][key]
    return ctx.store.update(kind, fresh)


def _inherited(service: Object, without: tuple[str, ...]) -> dict[str, str]:
    return {
        key: value
        for key, value in meta.annotations(service).items()
        if key not in without and not key.startswith(meta.HIDDEN)
    }


def configuration_of(service: Object, existing: Object | None) -> Object:
    """Returns the Configuration that a Service wants; labels and annotations are exactly the Service's, and a few more."""
    notes = _inherited(service, (meta.LAST_APPLIED, *meta.ROLLOUT_DURATION))
    routes = meta.names_of(meta.annotations(existing or {}).get(meta.ROUTES)) | {meta.name(service)}
    notes[meta.ROUTES] = ",".join(sorted(routes))
    labels = {
        **meta.labels(service),
        meta.SERVICE_LABEL: meta.name(service),
        meta.SERVICE_UID: meta.uid(service),
    }
    return {
        "metadata": {
            "name": meta.name(service),
            "namespace": meta.namespace(service),
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [meta.owner_reference(SERVICE, service)],
        },
        "spec": {"template": copy.deepcopy(service["spec"]["template"])},
    }


def route_of(service: Object, existing: Object | None) -> Object:
    """Returns the Route that a Service wants: its traffic, with the Configuration where no revision is named."""
    traffic = [dict(target) for target in service["spec"].get("traffic") or ()]
    for target in traffic:
        if not target.get("revisionName"):
            target["configurationName"] = meta.name(service)
    return {
        "metadata": {
            "name": meta.name(service),
            "namespace": meta.namespace(service),
            "labels": {**meta.labels(service), meta.SERVICE_LABEL: meta.name(service)},
            "annotations": _inherited(service, (meta.LAST_APPLIED,)),
            "ownerReferences": [meta.owner_reference(SERVICE, service)],
        },
        "spec": {"traffic": traffic},
    }


def _name_is_ours(ctx: Context, config: Object, named: str) -> bool:
    revision = ctx.store.get(REVISION, meta.namespace(config), named)
    if revision is None:
        return True
    if not meta.controlled_by(revision, config):
        return False
    if meta.labels(revision).get(meta.GENERATION_LABEL) == str(meta.generation(config)):
        return True
    return bool(revision["spec"] == config["spec"]["template"].get("spec"))


def _migrated(config: Object, route: Object) -> bool:
    """Whether the Route's status is what its spec means with the newest ready revision."""
    latest = (config.get("status") or {}).get("latestReadyRevisionName", "")
    wanted = [
        (
            target.get("revisionName")
            or (latest if target.get("configurationName") == meta.name(config) else ""),
            target.get("percent", 0),
            target.get("tag", ""),
        )
        for target in route["spec"].get("traffic") or ()
    ]
    have = [
        (target.get("revisionName", ""), target.get("percent", 0), target.get("tag", ""))
        for target in (route.get("status") or {}).get("traffic") or ()
    ]
    return wanted == have
