"""Revision: the conditions that its instances give.

Source: knative/serving pkg/reconciler/revision (revision.go, reconcile_resources.go), revision_lifecycle.go. There is no
Deployment and no PodAutoscaler here: RevisionState carries what those would tell.
"""

from typing import Any

from krun.serve.control.context import Context, RevisionState
from krun.serve.model import meta
from krun.serve.model.conditions import Conditions
from krun.serve.model.kinds import REVISION

Object = dict[str, Any]
_BUFFERED = "Requests to the target are being buffered as resources are provisioned."


def reconcile(ctx: Context, revision: Object) -> None:
    """Makes the revision's pool and writes what it tells."""
    state = ctx.revisions.ensure(revision)
    status = dict(revision.get("status") or {})
    found = Conditions(status, "ResourcesAvailable", "ContainerHealthy").initialize()
    was_ready = found.state("Ready") == "True"
    if state.digests is None:
        if state.missing:
            found.false("ContainerHealthy", "ContainerMissing", state.missing)
        else:
            found.unknown("ResourcesAvailable", "ResolvingDigests")
    else:
        status["containerStatuses"] = [
            {"name": name, "imageDigest": digest} if digest else {"name": name}
            for name, digest in state.digests.items()
        ]
        _health(found, state)
        _activity(found, state)
        status["actualReplicas"] = state.ready
        status["desiredReplicas"] = state.wanted
    if not was_ready and found.state("Ready") == "True":
        text = "Revision becomes ready upon all resources being ready"
        ctx.event(REVISION, revision, "Normal", "RevisionReady", text)
    status.setdefault("logUrl", "")
    if not status["logUrl"]:
        del status["logUrl"]
    ctx.save(REVISION, revision, status)


def _health(found: Conditions, state: RevisionState) -> None:
    if state.ready > 0 and state.initialized:
        found.true("ResourcesAvailable")
        found.true("ContainerHealthy")
    elif state.failure is not None:
        condition, reason, message = state.failure
        found.false(condition, reason, message)
        other = "ContainerHealthy" if condition == "ResourcesAvailable" else "ResourcesAvailable"
        if found.state(other) != "True" and not state.initialized:
            found.unknown(other, "Deploying")
    elif state.expired:
        text = "Initial scale was never achieved"
        found.false("ResourcesAvailable", "ProgressDeadlineExceeded", text)
    elif state.initialized:
        # Scaled to zero, or on the way up again: what was healthy stays so.
        found.true("ResourcesAvailable")
        found.true("ContainerHealthy")
    else:
        found.unknown("ResourcesAvailable", "Deploying")
        found.unknown("ContainerHealthy", "Deploying")


def _activity(found: Conditions, state: RevisionState) -> None:
    if state.activity == "active":
        found.true("Active")
    elif state.activity == "inactive":
        found.false("Active", "NoTraffic", "The target is not receiving traffic.")
    else:
        found.unknown("Active", "Queued", _BUFFERED)


def reachable(revision: Object) -> bool:
    """Whether a route leads to the revision, or may soon."""
    return meta.labels(revision).get(meta.ROUTING_STATE) != "reserve"
