"""What a Route's traffic means: targets resolved to ready revisions, or the reason why that cannot be done yet.

Source: knative/serving pkg/reconciler/route/traffic/traffic.go, errors.go.
"""

from typing import Any, NamedTuple

from krun.serve.control.context import Context
from krun.serve.model import conditions, meta
from krun.serve.model.kinds import CONFIGURATION, REVISION

Object = dict[str, Any]


class Problem(NamedTuple):
    """Why traffic cannot be assigned. `state` is False (a failure) or Unknown (wait)."""

    state: str
    reason: str
    message: str


class Resolved(NamedTuple):
    """Targets at the level of revisions, each with `revisionName`, `percent`, `tag`, `latestRevision`, `configurationName`."""

    targets: list[Object]
    problem: Problem | None


def resolve(ctx: Context, route: Object) -> Resolved:
    """Returns what route.spec.traffic means now. Everything it names is tracked, so that a change comes back here."""
    targets: list[Object] = []
    problem: Problem | None = None
    for target in route["spec"].get("traffic") or ():
        revision, wrong = _revision_of(ctx, route, target)
        if wrong is not None:
            if problem is None or wrong.state == "False":
                problem = wrong
            continue
        if revision is not None:
            _add(targets, {**target, "revisionName": meta.name(revision)})
    return Resolved([] if problem else targets, problem)


def _add(targets: list[Object], target: Object) -> None:
    for known in targets:
        if known.get("tag", "") == target.get("tag", "") and known["revisionName"] == target["revisionName"]:
            known["percent"] = known.get("percent", 0) + target.get("percent", 0)
            return
    targets.append(target)


def _revision_of(ctx: Context, route: Object, target: Object) -> tuple[Object | None, Problem | None]:
    name, namespace = target.get("revisionName", ""), meta.namespace(route)
    if not name:
        config_name = target.get("configurationName", "")
        ctx.track(namespace, CONFIGURATION, config_name, meta.name(route))
        config = ctx.store.get(CONFIGURATION, namespace, config_name)
        if config is None:
            return None, _missing("Configuration", config_name)
        name = (config.get("status") or {}).get("latestReadyRevisionName", "")
        if not name:
            return None, _unready_configuration(config)
    ctx.track(namespace, REVISION, name, meta.name(route))
    revision = ctx.store.get(REVISION, namespace, name)
    if revision is None:
        return None, _missing("Revision", name)
    if target.get("revisionName"):
        foreign = _foreign(route, revision)
        if foreign is not None:
            return None, foreign
    if not conditions.is_ready(revision):
        return None, _unready_revision(revision)
    return revision, None


def _missing(kind: str, name: str) -> Problem:
    return Problem("False", f"{kind}Missing", f'{kind} "{name}" referenced in traffic not found.')


def _unready_configuration(config: Object) -> Problem:
    name = meta.name(config)
    ready = conditions.find(config.get("status"), "Ready") or {}
    if ready.get("status") == "False":
        text = f'Configuration "{name}" does not have any ready Revision.'
        return Problem("False", "RevisionMissing", text)
    text = f'Configuration "{name}" is waiting for a Revision to become ready.'
    return Problem("Unknown", "RevisionMissing", text)


def _unready_revision(revision: Object) -> Problem:
    name = meta.name(revision)
    ready = conditions.find(revision.get("status"), "Ready") or {}
    if ready.get("status") == "False":
        return Problem("False", "RevisionMissing", f'Revision "{name}" failed to become ready.')
    return Problem("Unknown", "RevisionMissing", f'Revision "{name}" is not yet ready.')


def _foreign(route: Object, revision: Object) -> Problem | None:
    """A Service's route leads to revisions of the same Service only."""
    wanted = meta.labels(route).get(meta.SERVICE_LABEL, "")
    have = meta.labels(revision).get(meta.SERVICE_LABEL, "")
    if not wanted or wanted == have:
        return None
    name = meta.name(revision)
    text = f'Revision "{name}" does not belong to Service "{wanted}".'
    if have:
        text = f'Revision "{name}" belongs to Service "{have}", not Service "{wanted}".'
    return Problem("False", "RevisionNotOwned", text)
