"""Configuration -> a Revision for each change of its template; the newest one that is ready; garbage collection.

Sources: knative/serving pkg/reconciler/configuration (configuration.go, resources/revision.go), pkg/reconciler/gc/gc.go.
"""

import copy
import time
from typing import Any

from krun.serve.control.context import Context
from krun.serve.model import conditions, meta, names
from krun.serve.model.conditions import Conditions
from krun.serve.model.kinds import CONFIGURATION, REVISION
from krun.serve.model.status import ApiError
from krun.serve.model.values import parse_time

Object = dict[str, Any]


def reconcile(ctx: Context, config: Object) -> None:
    """Makes the Revision of the present generation if there is none, and reports on it."""
    status = dict(config.get("status") or {})
    found = Conditions(status).initialize()
    try:
        revision = _current(ctx, config)
        if revision is None:
            revision = ctx.store.create(REVISION, revision_of(ctx, config))
            text = f'Created Revision "{meta.name(revision)}"'
            ctx.event(CONFIGURATION, config, "Normal", "Created", text)
    except ApiError as error:
        text = f"Revision creation failed with message: {error.text}."
        found.false("Ready", "RevisionFailed", text)
        ctx.save(CONFIGURATION, config, status)
        return
    name = meta.name(revision)
    status["latestCreatedRevisionName"] = name
    if status.get("latestReadyRevisionName") != name:
        found.unknown("Ready")
    ready = conditions.find(revision.get("status"), "Ready") or {}
    if ready.get("status") == "False":
        text = f'Revision "{name}" failed with message: {ready.get("message", "")}.'
        if (found.get("Ready") or {}).get("message") != text:
            ctx.event(
                CONFIGURATION,
                config,
                "Warning",
                "LatestCreatedFailed",
                f'Latest created revision "{name}" has failed',
            )
        found.false("Ready", "RevisionFailed", text)
    _latest_ready(ctx, config, status, found)
    ctx.save(CONFIGURATION, config, status)
    collect(ctx, config, status.get("latestReadyRevisionName", ""))


def _latest_ready(ctx: Context, config: Object, status: Object, found: Conditions) -> None:
    before = status.get("latestReadyRevisionName", "")
    newest = _newest_ready(ctx, config, before)
    if newest and newest != before:
        if not before:
            ctx.event(CONFIGURATION, config, "Normal", "ConfigurationReady", "Configuration becomes ready")
        text = f'LatestReadyRevisionName updated to "{newest}"'
        ctx.event(CONFIGURATION, config, "Normal", "LatestReadyUpdate", text)
        status["latestReadyRevisionName"] = newest
    if newest and newest == status["latestCreatedRevisionName"]:
        found.true("Ready")


def _newest_ready(ctx: Context, config: Object, before: str) -> str:
    """Returns the ready revision of the highest generation, not older than the one that was the latest; "" if none."""
    named = (config["spec"]["template"].get("metadata") or {}).get("name")
    floor = 0
    revisions = ctx.store.owned(meta.uid(config), REVISION)
    for revision in revisions:
        if meta.name(revision) == before:
            floor = _generation(revision)
    best = [
        (meta.name(revision) == named, _generation(revision), meta.name(revision))
        for revision in revisions
        if conditions.is_ready(revision) and (_generation(revision) >= floor or meta.name(revision) == named)
    ]
    return max(best)[2] if best else ""


def _generation(revision: Object) -> int:
    text = meta.labels(revision).get(meta.GENERATION_LABEL, "")
    return int(text) if text.isdigit() else 0


def _current(ctx: Context, config: Object) -> Object | None:
    """Returns the Revision of the present generation, None if it is to be made. Errors: ApiError, its name is taken."""
    template = config["spec"]["template"]
    named = (template.get("metadata") or {}).get("name")
    if named:
        revision = ctx.store.get(REVISION, meta.namespace(config), named)
        if revision is None:
            return None
        mine = meta.controlled_by(revision, config)
        if mine and _generation(revision) == meta.generation(config):
            return revision
        if not mine or revision["spec"] != template.get("spec"):
            raise ApiError(409, "AlreadyExists", f'revisions.serving.knative.dev "{named}" already exists')
        return revision
    for revision in ctx.store.owned(meta.uid(config), REVISION):
        if _generation(revision) == meta.generation(config):
            return revision
    return None


def revision_of(ctx: Context, config: Object) -> Object:
    """Returns the Revision that a Configuration's template makes; the Configuration's own labels are not inherited."""
    template = config["spec"]["template"]
    data = template.get("metadata") or {}
    labels = dict(data.get("labels") or {})
    labels[meta.CONFIGURATION_LABEL] = meta.name(config)
    labels[meta.CONFIGURATION_UID] = meta.uid(config)
    labels[meta.GENERATION_LABEL] = str(meta.generation(config))
    labels[meta.ROUTING_STATE] = "pending"
    for key in (meta.SERVICE_LABEL, meta.SERVICE_UID):
        if meta.labels(config).get(key):
            labels[key] = meta.labels(config)[key]
    given = data.get("annotations") or {}
    notes = {key: item for key, item in given.items() if not key.startswith(meta.HIDDEN)}
    notes[meta.ROUTING_STATE_MODIFIED] = _stamp(ctx)
    source = meta.annotations(config)
    if meta.MODIFIER in source:
        notes[meta.CREATOR] = source[meta.MODIFIER]
    if meta.ROUTES in source:
        notes[meta.ROUTES] = source[meta.ROUTES]
        labels[meta.ROUTING_STATE] = "active"
    name = data.get("name") or names.child(meta.name(config), f"-{meta.generation(config):05d}")
    return {
        "metadata": {
            "name": name,
            "namespace": meta.namespace(config),
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [meta.owner_reference(CONFIGURATION, config)],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def _stamp(ctx: Context) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ctx.clock()))


def collect(ctx: Context, config: Object, latest: str) -> None:
    """Deletes old revisions that no route leads to (config-gc)."""
    settings = ctx.config()
    rules = (settings.gc_max, settings.gc_since_create, settings.gc_since_active)
    revisions = ctx.store.owned(meta.uid(config), REVISION)
    if rules == (None, None, None) or len(revisions) <= settings.gc_min:
        return
    idle = [one for one in revisions if not _active(one, latest)]
    idle.sort(key=_last_active)
    most = len(idle) - settings.gc_min
    gone = [one for one in idle if _stale(ctx, one)][: max(most, 0)]
    rest = [one for one in idle if one not in gone]
    if settings.gc_max is not None and len(rest) > settings.gc_max:
        gone += rest[: len(rest) - settings.gc_max]
    for revision in gone:
        ctx.store.delete(REVISION, meta.namespace(revision), meta.name(revision))


def _active(revision: Object, latest: str) -> bool:
    if meta.name(revision) == latest or meta.annotations(revision).get(meta.NO_GC, "").lower() == "true":
        return True
    return meta.labels(revision).get(meta.ROUTING_STATE) != "reserve"


def _last_active(revision: Object) -> float:
    stamp = meta.annotations(revision).get(meta.ROUTING_STATE_MODIFIED, "")
    return parse_time(stamp) or parse_time(revision["metadata"].get("creationTimestamp", ""))


def _stale(ctx: Context, revision: Object) -> bool:
    settings, now = ctx.config(), ctx.clock()
    created, active = settings.gc_since_create, settings.gc_since_active
    if created is None and active is None:
        return False
    if created is not None and now - parse_time(revision["metadata"]["creationTimestamp"]) < created:
        return False
    return active is None or now - _last_active(revision) >= active
