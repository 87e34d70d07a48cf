"""Metrics of the autoscaler and of starts, beside those of the data path.

Names: knative/serving, pkg/autoscaler/scaling/metrics.go and pkg/reconciler/autoscaling/kpa/metrics.go since 1.19 (OpenTelemetry's, written
with underscores), and the ones from before, pkg/autoscaler/scaling/metrics.go of 1.18. Those of starts are krun's own: Knative
has none (knative/serving, issue 13459).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from krun.serve.proxy.metrics import Family, labels_of

if TYPE_CHECKING:
    from krun.serve.control.capacity import Capacity
    from krun.serve.control.pool import Pool
    from krun.serve.control.scaling import Autoscaler

_AT_ZERO = (
    "kn_revision_pods_desired",
    "kn_revision_pods_count",
    "autoscaler_desired_pods",
    "autoscaler_actual_pods",
)
STARTS = "krun_revision_start_duration_seconds"


def _counts(pool: Pool) -> dict[str, int]:
    members = list(pool.members.values())
    return {
        "ready": sum(one.ready and not one.leaving for one in members),
        "starting": sum(one.instance is None and not one.leaving for one in members),
        "unready": sum(one.instance is not None and not one.ready and not one.leaving for one in members),
        "leaving": sum(one.leaving for one in members),
        "frozen": sum(one.frozen for one in members),
        "waiting": max(0, pool.state.wanted - sum(not one.leaving for one in members)),
    }


def _pods(pool: Pool) -> dict[str, float]:
    found = _counts(pool)
    present = found["ready"] + found["starting"] + found["unready"]
    return {
        "kn_revision_pods_desired": pool.state.wanted,
        "kn_revision_pods_requested": pool.state.wanted,
        "kn_revision_pods_count": found["ready"],
        "kn_revision_pods_not_ready_count": found["unready"],
        "kn_revision_pods_pending_count": found["starting"] + found["waiting"],
        "kn_revision_pods_terminating_count": found["leaving"],
        "krun_revision_instances_frozen": found["frozen"],
        "autoscaler_desired_pods": pool.state.wanted,
        "autoscaler_requested_pods": present,
        "autoscaler_actual_pods": found["ready"],
        "autoscaler_not_ready_pods": found["unready"],
        "autoscaler_pending_pods": found["starting"] + found["waiting"],
        "autoscaler_terminating_pods": found["leaving"],
    }


def _decision(scaler: Autoscaler) -> dict[str, float]:
    """The last decision; nothing before the first one."""
    found = scaler.decision
    if found is None:
        return {}
    unit = "rps" if scaler.spec.metric == "rps" else "concurrency"
    old = "requests_per_second" if unit == "rps" else "request_concurrency"
    target = "target_requests_per_second" if unit == "rps" else "target_concurrency_per_pod"
    return {
        f"kn_revision_{unit}_stable": found.stable_value,
        f"kn_revision_{unit}_panic": found.panic_value,
        f"kn_revision_{unit}_target": scaler.spec.target,
        "kn_revision_capacity_excess": found.ebc,
        "kn_revision_panic_mode": int(found.panic),
        f"autoscaler_stable_{old}": found.stable_value,
        f"autoscaler_panic_{old}": found.panic_value,
        f"autoscaler_{target}": scaler.spec.target,
        "autoscaler_excess_burst_capacity": found.ebc,
        "autoscaler_panic_mode": int(found.panic),
    }


def write(family: Family, pools: Iterable[tuple[Pool, Autoscaler | None]], capacity: Capacity) -> None:
    """Adds the lines of all revisions, and of the machine's room."""
    for pool, scaler in pools:
        labels = labels_of(pool.queue)
        if not pool.members and not pool.state.wanted and (scaler is None or scaler.decision is None):
            # A thousand revisions that nobody has asked for yet: a scrape must not hold up the data path.
            values: dict[str, Any] = dict.fromkeys(_AT_ZERO, 0)
        else:
            values = {**_pods(pool), **(_decision(scaler) if scaler is not None else {})}
        for name, value in values.items():
            family(name, "gauge").append(f"{name}{{{labels}}} {value:.10g}")
        for (kind, stage), histogram in sorted(pool.starts.items()):
            family(STARTS, "histogram").extend(
                histogram.lines(STARTS, f'{labels},kind="{kind}",stage="{stage}"')
            )
    free = capacity.free
    for name, value in (
        ("krun_machine_instances_limit", capacity.room.instances),
        ("krun_machine_instances_free", free.instances),
        ("krun_machine_memory_limit_bytes", capacity.room.memory),
        ("krun_machine_memory_free_bytes", free.memory),
        ("krun_machine_revisions_waiting", capacity.waiting),
    ):
        family(name, "gauge").append(f"{name} {value}")
