"""Counters of the data path and their Prometheus text.

Names: those of Knative's queue proxy and activator since 1.19 (OpenTelemetry, written with underscores), and the ones from before,
which dashboards still use (knative/serving, pkg/queue/stats and docs of its metrics).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from krun.serve.proxy.queue import RevisionQueue

if TYPE_CHECKING:
    from krun.serve.proxy.exchange import Exchange

#: (name, kind) of a family of metrics -> its lines.
Family = Callable[[str, str], list[str]]
#: Seconds; the last bucket is +Inf.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class Histogram:
    """Counts of latencies in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, labels: str) -> Iterable[str]:
        """Prometheus' lines of it; `labels` without braces."""
        running = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            running += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {running}'
        yield f"{name}_sum{{{labels}}} {self.total:.6f}"
        yield f"{name}_count{{{labels}}} {running}"


class Meter:
    """The counters of one revision."""

    __slots__ = ("app", "codes", "cold", "whole")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        #: From the arrival to the end; from the sending to the end; the wait of requests that found no instance.
        self.whole = Histogram()
        self.app = Histogram()
        self.cold = Histogram()


class Metrics:
    """The counters of the proxy."""

    def __init__(self) -> None:
        #: Status -> messages that were refused before they were requests.
        self.refusals: dict[int, int] = {}

    def refused(self, status: int, reason: str) -> None:
        """A message that broke the protocol or a limit."""
        self.refusals[status] = self.refusals.get(status, 0) + 1

    def observe(self, exchange: Exchange, now: float) -> None:
        """A request has ended."""
        queue = exchange.queue
        meter = queue.meter
        if meter is None:
            meter = queue.meter = Meter()
        status = exchange.status
        meter.codes[status] = meter.codes.get(status, 0) + 1
        meter.whole.add(now - exchange.start)
        if exchange.sent:
            meter.app.add(now - exchange.sent)
            if exchange.cold:
                meter.cold.add(exchange.sent - exchange.start)

    def text(
        self, queues: Iterable[RevisionQueue], more: Callable[[Family], None] = lambda family: None
    ) -> str:
        """The exposition of all revisions (Prometheus text format 0.0.4). `more` adds families of other parts."""
        described: dict[str, tuple[str, list[str]]] = {}

        def family(name: str, kind: str) -> list[str]:
            return described.setdefault(name, (kind, []))[1]

        for queue in queues:
            _revision(queue, family)
        more(family)
        lines = family("krun_http_refused_total", "counter")
        lines += [
            f'krun_http_refused_total{{http_response_status_code="{s}"}} {n}'
            for s, n in sorted(self.refusals.items())
        ]
        out = []
        for name, (kind, rows) in described.items():
            if rows:
                out += [f"# TYPE {name} {kind}", *rows]
        return "\n".join(out) + "\n"


def labels_of(queue: RevisionQueue) -> str:
    """The labels of a revision, without braces."""
    config = queue.config
    pairs = {
        "k8s_namespace_name": config.key[0],
        "kn_service_name": config.service,
        "kn_configuration_name": config.configuration,
        "kn_revision_name": config.key[1],
    }
    return ",".join(f'{name}="{escape(value)}"' for name, value in pairs.items())


def escape(value: str) -> str:
    """A label's value: backslash, quote and line feed are escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _revision(queue: RevisionQueue, family: Family) -> None:
    labels = labels_of(queue)
    gauges = {
        "kn_serving_queue_depth": queue.queued,
        "kn_revision_request_queued": queue.queued,
        "kn_revision_request_active": queue.in_flight,
        "kn_revision_request_concurrency": queue.in_flight + queue.queued,
        "revision_queue_depth": queue.queued,
        "activator_request_concurrency": queue.in_flight + queue.queued,
    }
    for name, value in gauges.items():
        family(name, "gauge").append(f"{name}{{{labels}}} {value}")
    connections = sum(backend.pool.count for backend in queue.backends if backend.pool is not None)
    family("krun_revision_connections", "gauge").append(
        f"krun_revision_connections{{{labels}}} {connections}"
    )
    name = "krun_revision_connections_refused_total"
    family(name, "counter").append(f"{name}{{{labels}}} {queue.crowded}")
    meter = queue.meter
    if meter is None:
        return
    for name in ("revision_request_count", "activator_request_count", "revision_app_request_count"):
        family(name, "counter").extend(
            f'{name}{{{labels},response_code="{code}",response_code_class="{code // 100}xx"}} {count}'
            for code, count in sorted(meter.codes.items())
        )
    family("http_server_request_duration_seconds", "histogram").extend(
        meter.whole.lines("http_server_request_duration_seconds", labels)
    )
    family("kn_serving_invocation_duration_seconds", "histogram").extend(
        meter.app.lines("kn_serving_invocation_duration_seconds", labels)
    )
    family("krun_revision_cold_start_wait_seconds", "histogram").extend(
        meter.cold.lines("krun_revision_cold_start_wait_seconds", labels)
    )
