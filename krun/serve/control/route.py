"""Route: its traffic, its hosts, the core/v1 Service that stands for it, and the state of what it routes to.

Source: knative/serving pkg/reconciler/route (route.go, resources/service.go), pkg/reconciler/labeler.
"""

import time
from typing import Any

from krun.serve import units
from krun.serve.control import domains, traffic
from krun.serve.control.context import Context
from krun.serve.model import conditions, meta, values
from krun.serve.model.conditions import Conditions
from krun.serve.model.kinds import CONFIGURATION, CORE_SERVICE, REVISION, ROUTE, Kind
from krun.serve.scale import rollout

Object = dict[str, Any]
_ROLLING = "A gradual rollout of the latest revision(s) is in progress."


class Rollouts:
    """The gradual rollouts under way: (namespace, route, tag, configuration) -> state. Lost on a restart: then they are over."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, str, str, str], rollout.Rollout] = {}

    def forget(self, namespace: str, name: str) -> None:
        """The route is gone."""
        for key in [key for key in self.states if key[:2] == (namespace, name)]:
            del self.states[key]


def reconcile(ctx: Context, route: Object, rollouts: Rollouts) -> None:
    """Assigns traffic if all targets are ready; else what was assigned before stays."""
    config = ctx.config()
    status = dict(route.get("status") or {})
    found = Conditions(status, "AllTrafficAssigned", "CertificateProvisioned", "IngressReady").initialize()
    if status.get("observedGeneration") != meta.generation(route):
        found.unknown("IngressReady", "IngressNotConfigured", "Ingress has not yet been reconciled.")
    status["url"] = domains.url(config, route)
    resolved = traffic.resolve(ctx, route)
    if resolved.problem is not None:
        problem = resolved.problem
        mark = found.false if problem.state == "False" else found.unknown
        mark("AllTrafficAssigned", problem.reason, problem.message)
        saved = ctx.save(ROUTE, route, status)
    elif taken := _taken(ctx, route, [*resolved.targets, *(status.get("traffic") or ())]):
        text = f'There is an existing placeholder Service "{min(taken)}" that we do not own.'
        found.false("IngressReady", "NotOwned", text)
        # What was assigned before stays, without the hosts that are another route's.
        status["traffic"] = _without(ctx, route, status.get("traffic") or [], taken)
        served = {**route, "status": status} if status["traffic"] else None
        ctx.hosts.set_route(meta.namespace(route), meta.name(route), served)
        saved = ctx.save(ROUTE, route, status)
    else:
        status["traffic"], rolling = _shares(ctx, route, resolved.targets, rollouts)
        found.true("AllTrafficAssigned")
        inside = domains.internal(config, meta.name(route), meta.namespace(route))[0]
        status["address"] = {"url": f"http://{inside}"}
        if domains.is_local(route):
            found.true("CertificateProvisioned", "TLSNotEnabled", "TLS is not enabled for cluster-local")
        else:
            found.true("CertificateProvisioned", "TLSNotEnabled", "external-domain-tls is not enabled")
        ctx.hosts.set_route(meta.namespace(route), meta.name(route), {**route, "status": status})
        if rolling:
            found.unknown("IngressReady", "RolloutInProgress", _ROLLING)
        else:
            found.true("IngressReady")
        _placeholders(ctx, route, status["traffic"])
        saved = ctx.save(ROUTE, route, status)
    label(ctx, saved)


def _duration(ctx: Context, route: Object) -> float:
    found = meta.first(meta.annotations(route), meta.ROLLOUT_DURATION)
    try:
        return units.seconds(found[1]) if found and found[1] else ctx.config().rollout_duration
    except ValueError:
        return 0.0


def _shares(
    ctx: Context, route: Object, targets: list[Object], rollouts: Rollouts
) -> tuple[list[Object], bool]:
    """Returns status.traffic, with the shares of gradual rollouts, and whether one is under way."""
    config, now = ctx.config(), ctx.steady()
    key = (meta.namespace(route), meta.name(route))
    duration = _duration(ctx, route)
    out: list[Object] = []
    rolling = False
    moving = {
        (*key, one.get("tag", ""), one.get("configurationName", ""))
        for one in targets
        if one.get("latestRevision") and one.get("percent")
    }
    for one in [one for one in rollouts.states if one[:2] == key and one not in moving]:
        # What gets no traffic begins anew when it gets some: its revisions of that time are not those of now.
        del rollouts.states[one]
    for target in targets:
        tag, percent = target.get("tag", ""), target.get("percent", 0)
        shares: tuple[tuple[str, int], ...] = ((target["revisionName"], percent),)
        if target.get("latestRevision") and percent:
            own = (*key, tag, target.get("configurationName", ""))
            state = rollout.begin(rollouts.states.get(own), target["revisionName"], percent, duration, now)
            state = rollout.advance(rollout.live(state, duration, now), now)
            rollouts.states[own] = state
            shares = state.shares
            if state.running:
                rolling = True
                wait = (state.next_step or now + 1) - now
                ctx.later(max(wait, 0.1), (ROUTE, *key))
        for revision, share in shares:
            entry: Object = {"revisionName": revision, "percent": share}
            if "latestRevision" in target:
                entry["latestRevision"] = target["latestRevision"]
            if tag:
                entry["tag"] = tag
                entry["url"] = domains.url(config, route, tag)
            out.append(entry)
    return out, rolling


def _placeholder(ctx: Context, route: Object, tag: str = "") -> str:
    """Returns the name of the core/v1 Service that stands for a route, or for one of its tags."""
    return domains.tagged(ctx.config(), meta.name(route), tag)


def _taken(ctx: Context, route: Object, targets: list[Object]) -> set[str]:
    """Returns which of the route's placeholders are another route's: the hosts of tag `a` of `b` are those of `a-b`, too."""
    namespace, found = meta.namespace(route), set()
    for name in {_placeholder(ctx, route, tag) for tag in ("", *(one.get("tag", "") for one in targets))}:
        service = ctx.store.get(CORE_SERVICE, namespace, name)
        if service is not None and not meta.controlled_by(service, route):
            ctx.track(namespace, CORE_SERVICE, name, meta.name(route))
            found.add(name)
    return found


def _without(ctx: Context, route: Object, traffic: list[Object], taken: set[str]) -> list[Object]:
    """Returns status.traffic without the tags whose placeholders are `taken`; nothing if the route's own is."""
    if _placeholder(ctx, route) in taken:
        return []
    return [
        {key: item for key, item in one.items() if key not in ("tag", "url")}
        if one.get("tag") and _placeholder(ctx, route, one["tag"]) in taken
        else one
        for one in traffic
    ]


def _placeholders(ctx: Context, route: Object, targets: list[Object]) -> None:
    """Keeps one core/v1 Service for the route and one for each tag. Labels that a route loses stay on them, as upstream."""
    config = ctx.config()
    name, namespace = meta.name(route), meta.namespace(route)
    wanted = {
        _placeholder(ctx, route, tag): tag
        for tag in ["", *(target["tag"] for target in targets if target.get("tag"))]
    }
    for service in ctx.store.owned(meta.uid(route), CORE_SERVICE):
        if meta.name(service) not in wanted:
            ctx.store.delete(CORE_SERVICE, namespace, meta.name(service))
    for own, tag in wanted.items():
        existing = ctx.store.get(CORE_SERVICE, namespace, own)
        labels = {**meta.labels(existing or {}), **meta.labels(route), meta.ROUTE_LABEL: name}
        notes = {
            **meta.annotations(existing or {}),
            **{
                key: value
                for key, value in meta.annotations(route).items()
                if key != meta.LAST_APPLIED and not key.startswith(meta.HIDDEN)
            },
        }
        fresh: Object = {
            "metadata": {
                "name": own,
                "namespace": namespace,
                "labels": labels,
                "annotations": notes,
                "ownerReferences": [meta.owner_reference(ROUTE, route)],
            },
            "spec": {
                "type": "ExternalName",
                "externalName": domains.internal(config, name, namespace, tag)[0],
                "sessionAffinity": "None",
                "ports": [
                    {"name": "http2", "port": 80, "protocol": "TCP", "targetPort": 80, "appProtocol": "kubernetes.io/h2c"}
                ],
            },
        }  # fmt: skip
        if existing is None:
            ctx.store.create(CORE_SERVICE, fresh)
        else:
            ctx.store.update(CORE_SERVICE, fresh)


def label(ctx: Context, route: Object) -> None:
    """Marks what the route refers to with its name and the state `active`, and what it no longer refers to with `reserve`."""
    name, namespace = meta.name(route), meta.namespace(route)
    revisions, configs = _referred(ctx, route)
    settled = conditions.is_ready(route) or conditions.is_failed(route)
    for kind, listed in ((REVISION, revisions), (CONFIGURATION, configs)):
        for one in listed:
            _mark(ctx, kind, namespace, one, name, True)
        if settled:
            _clear(ctx, kind, namespace, name, listed)


def unlabel(ctx: Context, namespace: str, name: str) -> None:
    """The route is gone: nothing refers to it any more."""
    for kind in (REVISION, CONFIGURATION):
        _clear(ctx, kind, namespace, name, set())


def _clear(ctx: Context, kind: Kind, namespace: str, route: str, kept: set[str]) -> None:
    text = f'"{meta.ROUTES}":"'.encode()
    for raw in list(ctx.store.texts(kind, namespace)):
        # Nearly all objects of a namespace belong to other routes: the text says so before it is parsed.
        if text not in raw or route.encode() not in raw:
            continue
        obj = values.parse_json(raw)
        if route in meta.names_of(meta.annotations(obj).get(meta.ROUTES)) and meta.name(obj) not in kept:
            _mark(ctx, kind, namespace, meta.name(obj), route, False)


def _referred(ctx: Context, route: Object) -> tuple[set[str], set[str]]:
    revisions: set[str] = set()
    configs: set[str] = set()
    namespace = meta.namespace(route)
    listed = [*((route.get("status") or {}).get("traffic") or ()), *(route["spec"].get("traffic") or ())]
    for target in listed:
        config_name = target.get("configurationName", "")
        revision = ctx.store.get(REVISION, namespace, target.get("revisionName", ""))
        if revision is not None:
            revisions.add(meta.name(revision))
            owner = meta.controller(revision)
            if owner and owner.get("kind") == "Configuration":
                config_name = owner["name"]
        config = ctx.store.get(CONFIGURATION, namespace, config_name) if config_name else None
        if config is None:
            continue
        configs.add(config_name)
        latest = (config.get("status") or {}).get("latestCreatedRevisionName")
        if latest and target.get("latestRevision"):
            revisions.add(latest)
    return revisions, configs


def _mark(ctx: Context, kind: Kind, namespace: str, name: str, route: str, refers: bool) -> None:
    obj = ctx.store.get(kind, namespace, name)
    if obj is None:
        return
    notes = dict(meta.annotations(obj))
    routes = meta.names_of(notes.get(meta.ROUTES))
    routes = routes | {route} if refers else routes - {route}
    if routes:
        notes[meta.ROUTES] = ",".join(sorted(routes))
    else:
        notes.pop(meta.ROUTES, None)
    data = {**obj["metadata"], "annotations": notes}
    if kind is REVISION:
        state = "active" if routes else "reserve"
        if meta.labels(obj).get(meta.ROUTING_STATE) != state:
            data["labels"] = {**meta.labels(obj), meta.ROUTING_STATE: state}
            notes[meta.ROUTING_STATE_MODIFIED] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ctx.clock()))
    ctx.store.update(kind, {**obj, "metadata": data})
