"""Drives the autoscaler of each revision: samples each second, decisions each two, arrivals at once.

A revision at zero without requests costs nothing here: it is in no list until a request arrives (1000 services at zero).

Sources: knative/serving pkg/autoscaler/scaling, pkg/reconciler/autoscaling/kpa (kpa.go, scaler.go).
"""

import math
from collections import deque
from typing import Any

from krun.serve import units
from krun.serve.control.config import Config
from krun.serve.control.pool import Pool
from krun.serve.control.revision import reachable
from krun.serve.model import annotations, idle, meta
from krun.serve.scale import kpa

Object = dict[str, Any]


def _text(notes: dict[str, str], keys: tuple[str, str]) -> str:
    found = meta.first(notes, keys)
    return found[1] if found else ""


def _number(notes: dict[str, str], keys: tuple[str, str], default: float) -> float:
    text = _text(notes, keys)
    try:
        number = float(text) if text else default
    except ValueError:
        return default
    return number if math.isfinite(number) else default


def _whole(notes: dict[str, str], keys: tuple[str, str], default: int) -> int:
    return kpa.up(_number(notes, keys, default))


def _seconds(notes: dict[str, str], keys: tuple[str, str], default: float) -> float:
    text = _text(notes, keys)
    try:
        return units.seconds(text) if text else default
    except ValueError:
        return default


def spec_of(revision: Object, config: Config) -> kpa.Spec:
    """Returns the autoscaler's settings of a revision: its annotations over config-autoscaler."""
    notes = meta.annotations(revision)
    metric = _text(notes, annotations.METRIC) or "concurrency"
    metric = metric if metric in ("concurrency", "rps") else "concurrency"
    share = _number(notes, annotations.TARGET_UTILIZATION, config.target_percentage)
    target, total = kpa.target(
        metric=metric,
        concurrency=int(revision["spec"].get("containerConcurrency", 0)),
        annotation=_number(notes, annotations.TARGET, 0.0) or None,
        utilization=share / 100,
        default=config.target_default,
        rps_default=config.rps_default,
    )
    return kpa.Spec(
        metric=metric,
        target=target,
        total=total,
        burst_capacity=_number(notes, annotations.TARGET_BURST, config.burst_capacity),
        stable_window=_seconds(notes, annotations.WINDOW, config.stable_window),
        panic_window_percentage=_number(notes, annotations.PANIC_WINDOW, config.panic_window_percentage),
        panic_threshold=_number(notes, annotations.PANIC_THRESHOLD, config.panic_threshold_percentage) / 100,
        scale_up_rate=config.max_scale_up_rate,
        scale_down_rate=config.max_scale_down_rate,
        activation_scale=_whole(notes, annotations.ACTIVATION_SCALE, config.activation_scale),
        scale_down_delay=_seconds(notes, annotations.SCALE_DOWN_DELAY, config.scale_down_delay),
    )


class Autoscaler:
    """The autoscaler of one revision. Times are the loop's."""

    def __init__(self, pool: Pool, revision: Object, config: Config, now: float) -> None:
        self.pool = pool
        self.update(revision, config)
        self.scaler = kpa.Scaler(self.spec, now, pool.ready)
        self.since = now
        self._began = now
        #: The last one, for metrics.
        self.decision: kpa.Decision | None = None
        #: (time, ready instances, requests in flight or waiting) of the last minutes, for the status page.
        self.history: deque[tuple[float, int, int]] | tuple[()] = ()
        pool.queue.on_arrival = lambda queue: self.arrival()

    def update(self, revision: Object, config: Config) -> None:
        """Takes new annotations, labels or configuration."""
        notes = meta.annotations(revision)
        self.spec = spec_of(revision, config)
        if hasattr(self, "scaler"):
            self.scaler.update(self.spec)
        high = _whole(notes, annotations.MAX_SCALE, config.max_scale)
        if config.max_scale_limit:
            high = min(high or config.max_scale_limit, config.max_scale_limit)
        self.bounds = kpa.Bounds(_whole(notes, annotations.MIN_SCALE, config.min_scale), high)
        self.initial = _whole(notes, annotations.INITIAL_SCALE, config.initial_scale)
        self.reachable = reachable(revision)
        self.pool.full = max(1.0, self.spec.total)
        self._set_floor()
        self.idle = idle.of(notes, config.idle)
        keeps = self.idle.policy == idle.FREEZE and self.reachable
        if keeps != self.pool.keeps:
            self.pool.keeps = keeps
            self.pool.scale(self.pool.state.wanted)
        deadline = _seconds(notes, meta.PROGRESS_DEADLINE, config.progress_deadline)
        self.zero = kpa.ZeroSpec(
            enabled=config.enable_scale_to_zero,
            stable_window=self.spec.stable_window,
            retention=_seconds(notes, annotations.RETENTION, config.retention),
            progress_deadline=deadline,
        )

    @property
    def awake(self) -> bool:
        """Whether the revision has something to be looked at: instances, a wish for some, requests."""
        pool = self.pool
        return bool(
            any(not one.frozen for one in pool.members.values())
            or pool.state.wanted
            or pool.queue.in_flight
            or pool.queue.queued
            or self._wants()
        )

    def _wants(self) -> bool:
        return (
            self._initial() > 0 and not self.pool.state.expired or self.reachable and self.bounds.minimum > 0
        )

    def _initial(self) -> int:
        """The initial scale while it has not been reached."""
        return 0 if self.pool.state.initialized else self.initial

    def _set_floor(self) -> None:
        self.pool.floor = max(self._initial(), self.bounds.minimum if self.reachable else 0)

    def begin(self, now: float) -> None:
        """The images are there: the first instances may start."""
        self._began = self.since = now
        if self.initial == 0:
            self.pool.state.initialized = True
        self._set_floor()
        least = self.pool.floor
        self._activity("activating" if least else "inactive", now)
        if least:
            self._apply(least, now)

    def arrival(self) -> None:
        """A request waits: an instance is wanted now, not at the next tick."""
        pool, now = self.pool, self.pool.loop.time()
        if pool.closed or pool.state.digests is None:
            return
        pool.wake()
        waiting = pool.queue.in_flight + pool.queue.queued
        if pool.state.wanted == 0:
            self.scaler.poke(now)
            if pool.state.expired:
                # A request tries again, and the new instance has the whole deadline, as the first one.
                pool.state.expired, self._began = False, now
            wanted = max(1, self.spec.activation_scale, self.bounds.minimum if self.reachable else 0)
        else:
            wanted = pool.state.wanted
        limit = pool.queue.config.concurrency
        if limit:
            # Every slot is taken: one instance more for each `limit` requests, as soon as they are there. The rate and the
            # maximum bound this as they bound a decision (kpa.Scaler.decide).
            most = kpa.up(self.spec.scale_up_rate * max(1, pool.ready))
            wanted = max(wanted, min(math.ceil(waiting / limit), most))
        if self.bounds.maximum:
            wanted = min(wanted, max(self.bounds.maximum, self._initial()))
        if wanted > pool.state.wanted:
            self._apply(wanted, now)
        else:
            # The instance may have been ended for another service; it is needed again.
            pool.capacity.schedule()
            self._woken(now)

    def sample(self, now: float) -> None:
        """Takes the sample of the last second."""
        self.scaler.report(self.pool.queue.stats(now), now)
        queue = self.pool.queue
        if not isinstance(self.history, deque):
            self.history = deque(maxlen=300)
        self.history.append((now, self.pool.ready, queue.in_flight + queue.queued))
        self._settle(now)
        if self.idle.policy == idle.FREEZE and self.pool.state.initialized:
            self.pool.rest(now, self.idle.delay)

    def _idle(self, now: float) -> bool:
        """Whether the policy is stop, and its delay is over."""
        queue = self.pool.queue
        if self.idle.policy != idle.STOP or queue.in_flight or queue.queued or self._initial():
            return False
        # An instance that started for no request has its time, too; at zero nothing begins anew.
        since = max(queue.used, self.since) if self.pool.state.wanted else queue.used
        return now - since >= self.idle.delay

    def _settle(self, now: float) -> None:
        """Follows the instances: the initial scale is reached, the deadline is over, the revision is active."""
        pool, state = self.pool, self.pool.state
        ready = pool.ready
        if not state.initialized and ready >= max(1, self.initial):
            state.initialized = True
            state.expired = False
            self._set_floor()
            pool.on_change(pool)
        if ready and state.wanted and state.activity == "activating":
            self._activity("active", now)
        late = now - self._began > self.zero.progress_deadline
        if not state.initialized and late and not state.expired and state.wanted:
            state.expired = True
            self._activity("inactive", now)
            self._apply(0, now)

    def changed(self, now: float) -> None:
        """An instance has become ready or has ended."""
        self._settle(now)

    def decide(self, now: float) -> None:
        """The decision of a tick."""
        pool, state = self.pool, self.pool.state
        if pool.closed or state.digests is None or state.expired:
            return
        found = self.scaler.decide(
            pool.ready, now, reachable=self.reachable, bounds=self.bounds, initial=self._initial()
        )
        if self._idle(now):
            # Before the autoscaler's windows are over.
            if self.pool.floor == 0:
                self._activity("inactive", now) if state.wanted else None
            if state.wanted != self.pool.floor:
                self.pool.scale(self.pool.floor)
            return
        self.decision = found
        desired = found.desired
        if not found.valid:
            # No sample within the window: only the bounds speak.
            desired = max(self._initial(), self.bounds.minimum if self.reachable else 0)
        if pool.queue.in_flight or pool.queue.queued:
            # A container that handles a request is active (runtime contract), however old its sample.
            desired = max(desired, 1)
        if desired and state.activity == "inactive":
            # Traffic came back while the last instance was kept (retention).
            self._activity("activating", now)
        if desired == 0:
            self._to_zero(now)
        elif desired != state.wanted:
            self._apply(desired, now)

    def _to_zero(self, now: float) -> None:
        state = self.pool.state
        if state.wanted == 0:
            return
        answer = kpa.to_zero(state.activity, self.since, now, self.zero)
        if answer.inactive:
            self._activity("inactive", now)
        if answer.scale is not None and answer.scale != state.wanted:
            self._apply(answer.scale, now)

    def _apply(self, wanted: int, now: float) -> None:
        # What the whole machine could not hold is no number to wait for. One is: the pool says why it cannot start.
        self.pool.scale(min(wanted, max(1, self.pool.capacity.most(self.pool.each))))
        # After the order to start: the loop runs what it is told in order, and the reconcilers write to the disk.
        if wanted:
            self._woken(now)

    def _woken(self, now: float) -> None:
        if self.pool.state.activity == "inactive":
            self._activity("activating", now)

    def _activity(self, word: str, now: float) -> None:
        if self.pool.state.activity != word:
            self.pool.state.activity = word
            self.since = now
            self.pool.on_change(self.pool)
