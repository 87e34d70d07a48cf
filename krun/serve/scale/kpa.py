"""The Knative pod autoscaler: from samples of concurrency or requests a second to a number of instances.

Sources: knative/serving, pkg/autoscaler/scaling/autoscaler.go (decide), pkg/reconciler/autoscaling/kpa/scaler.go (bounds, to_zero),
pkg/reconciler/autoscaling/resources/target.go (target).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from krun.serve.scale.window import Average, Maximum

#: Seconds between two decisions.
TICK = 2.0
#: The least target of an instance.
TARGET_MIN = 0.01
#: Seconds beyond the progress deadline before a revision that does not become ready is scaled to zero.
ACTIVATION_BUFFER = 30.0


#: Numbers of a decision are an int32 in Knative. A target or a rate may be any finite float: their products may be infinite.
_MOST = 2**31 - 1


def up(value: float) -> int:
    """The least whole number that is not less than `value`, within the bounds of a decision's numbers."""
    return math.ceil(max(-_MOST, min(value, _MOST)))


def _down(value: float) -> int:
    return math.floor(max(-_MOST, min(value, _MOST)))


class Sample(NamedTuple):
    """What a revision did since the last sample."""

    #: The mean number of requests in the proxy for the revision, those that wait included.
    average_concurrency: float
    #: The part of it that waited.
    average_queued: float
    requests: int
    #: Seconds that the sample covers.
    seconds: float = 1.0


class Decision(NamedTuple):
    """A decision of the scaler.  Without `valid` there is nothing to act on."""

    desired: int
    #: Excess burst capacity: -1 for unlimited, 0 for none asked.
    ebc: int
    panic: bool
    valid: bool
    stable_value: float = 0.0
    panic_value: float = 0.0
    #: The number before the bounds.
    wanted: int = 0


class Bounds(NamedTuple):
    """Bounds of the number of instances; maximum 0: none."""

    minimum: int = 0
    maximum: int = 0


NO_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Spec:
    """The settings of a revision's scaler."""

    metric: str = "concurrency"
    #: Of the metric, for one instance: where the scaler wants it, and where the instance is full.
    target: float = 70.0
    total: float = 100.0
    burst_capacity: float = 211.0
    stable_window: float = 60.0
    panic_window_percentage: float = 10.0
    #: Desired instances over ready ones from which panic begins.
    panic_threshold: float = 2.0
    scale_up_rate: float = 1000.0
    scale_down_rate: float = 2.0
    activation_scale: int = 1
    #: Seconds.
    scale_down_delay: float = 0.0

    @property
    def panic_window(self) -> int:
        """Seconds, at least one; rounded half away from zero as Go's Duration.Round."""
        return max(1, math.floor(self.stable_window * self.panic_window_percentage / 100 + 0.5))


def target(
    *,
    metric: str,
    concurrency: int,
    annotation: float | None,
    utilization: float,
    default: float,
    rps_default: float,
) -> tuple[float, float]:
    """The (target, total) of an instance.

    Arguments: containerConcurrency; the annotation target; the target's share of the total (0 to 1); config-autoscaler's
    container-concurrency-target-default and requests-per-second-target-default.
    """
    if metric == "rps":
        total = rps_default
    else:
        total = float(concurrency) if concurrency else default
    if annotation is not None:
        total = min(annotation, float(concurrency)) if metric != "rps" and concurrency else annotation
    return max(TARGET_MIN, total * utilization), total


class Scaler:
    """The scaler of a revision.  Times are seconds of one clock."""

    def __init__(self, spec: Spec, now: float, ready: int = 0) -> None:
        """A scaler that begins with more than one ready instance begins in panic: its windows are empty, and it must not
        scale down for that reason.
        """
        self.spec = spec
        self._stable = Average(int(spec.stable_window)), Average(int(spec.stable_window))
        self._panic = Average(spec.panic_window), Average(spec.panic_window)
        self._panic_since: float | None = now if ready > 1 else None
        self._panic_most = ready
        self._delay = self._delay_of(spec)
        self._poked = 0

    @staticmethod
    def _delay_of(spec: Spec) -> Maximum | None:
        return Maximum(spec.scale_down_delay, TICK) if spec.scale_down_delay > 0 else None

    def update(self, spec: Spec) -> None:
        """New settings; the windows keep their samples."""
        if spec.scale_down_delay != self.spec.scale_down_delay:
            self._delay = self._delay_of(spec)
        self.spec = spec
        for window in self._stable:
            window.resize(int(spec.stable_window))
        for window in self._panic:
            window.resize(spec.panic_window)

    @property
    def panicking(self) -> bool:
        """Whether the scaler is in panic mode."""
        return self._panic_since is not None

    def poke(self, now: float) -> None:
        """A request has arrived and there is no instance: it counts at once, and not again in the next sample."""
        self._poked += 1
        self._record(now, 1.0, 0.0)

    def report(self, sample: Sample, now: float) -> None:
        """Takes the sample of about one second."""
        concurrency = sample.average_concurrency
        if self._poked:
            concurrency = max(0.0, concurrency - self._poked)
            self._poked = 0
        self._record(now, concurrency, sample.requests / sample.seconds if sample.seconds > 0 else 0.0)

    def _record(self, now: float, concurrency: float, rate: float) -> None:
        for windows in (self._stable, self._panic):
            windows[0].record(now, concurrency)
            windows[1].record(now, rate)

    def decide(
        self, ready: int, now: float, *, reachable: bool = True, bounds: Bounds = NO_BOUNDS, initial: int = 0
    ) -> Decision:
        """Decides on the number of instances.

        Arguments: the ready instances; whether a route leads to the revision; the bounds; initial, the initial scale of a revision that has
        not reached it, else 0.
        """
        spec = self.spec
        which = 1 if spec.metric == "rps" else 0
        if self._stable[which].empty(now):
            wanted = self._bounded(max(initial, 0), reachable, bounds, initial)
            return Decision(wanted, -1, self.panicking, False)
        stable, panic = self._stable[which].value(now), self._panic[which].value(now)
        base = float(max(1, ready))
        most = up(spec.scale_up_rate * base)
        down = _down(base / spec.scale_down_rate) if reachable else 0
        by_stable, by_panic = up(stable / spec.target), up(panic / spec.target)
        desired, in_panic = min(max(by_stable, down), most), min(max(by_panic, down), most)
        if spec.activation_scale > 1:
            desired = max(desired, spec.activation_scale) if by_stable > 0 else desired
            in_panic = max(in_panic, spec.activation_scale) if by_panic > 0 else in_panic
        self._watch_panic(by_panic / base >= spec.panic_threshold, now)
        if self._panic_since is not None:
            self._panic_most = max(self._panic_most, desired, in_panic)
            desired = self._panic_most
        if reachable and self._delay is not None:
            desired = self._delay.record(now, desired)
        wanted = self._bounded(desired, reachable, bounds, initial)
        return Decision(wanted, self._excess(ready, panic), self.panicking, True, stable, panic, desired)

    def _watch_panic(self, over: bool, now: float) -> None:
        """Panic begins and is extended above the threshold; it ends a whole stable window after the last time above."""
        if over:
            self._panic_since = now
        elif self._panic_since is not None and self._panic_since + self.spec.stable_window < now:
            self._panic_since = None
            self._panic_most = 0

    def _excess(self, ready: int, panic: float) -> int:
        capacity = self.spec.burst_capacity
        if capacity == 0:
            return 0
        return _down(ready * self.spec.total - capacity - panic) if capacity > 0 else -1

    @staticmethod
    def _bounded(desired: int, reachable: bool, bounds: Bounds, initial: int) -> int:
        """Minimum (of a revision that is routed), initial scale, maximum."""
        least = max(bounds.minimum if reachable else 0, initial)
        most = max(bounds.maximum, initial) if bounds.maximum else 0
        desired = max(desired, least)
        return min(desired, most) if most else desired


class ToZero(NamedTuple):
    """What becomes of a wish for no instance."""

    #: The number to apply; None: leave it as it is.
    scale: int | None
    #: Whether the revision is to be marked inactive (NoTraffic) now.
    inactive: bool
    #: Seconds after which to ask again; 0: no need.
    again: float


@dataclass(frozen=True, slots=True)
class ZeroSpec:
    """Settings of scale to zero; times are seconds."""

    enabled: bool = True
    stable_window: float = 60.0
    #: Since the revision was marked inactive.  The proxy is always in the path, so Knative's grace period, which waits for
    #: the activator, is over from the beginning (scaler.go: "Fast path scaling to 0").
    retention: float = 0.0
    progress_deadline: float = 600.0


def to_zero(activity: str, since: float, now: float, spec: ZeroSpec) -> ToZero:
    """Whether a revision for which the scaler wants no instance loses its last one.

    Arguments: activity, the condition Active: "activating" (Unknown), "active" (True) or "inactive" (False), and its time.
    """
    if not spec.enabled:
        return ToZero(1, False, 0.0)
    age = now - since
    if activity == "activating":
        limit = spec.progress_deadline + ACTIVATION_BUFFER
        return ToZero(0, True, 0.0) if age >= limit else ToZero(None, False, limit - age)
    if activity == "active":
        if age < spec.stable_window:
            return ToZero(1, False, spec.stable_window - age)
        return ToZero(None if spec.retention > 0 else 0, True, spec.retention)
    if age >= spec.retention:
        return ToZero(0, False, 0.0)
    return ToZero(None, False, spec.retention - age)
