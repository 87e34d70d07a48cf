"""The access log: a line of JSON for each request and each session of a client in an instance (exec, attach, port-forward).

A request's line is in the shape of Cloud Logging's HttpRequest, which Knative's template has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from krun.log import rfc3339
from krun.serve.proxy.exchange import Exchange

#: Longest text of a client in a line.
_LONGEST = 2048
#: Most words of a command in a line.
_WORDS = 64


def line(exchange: Exchange, now: float) -> str:
    """The line of a request that has ended at `now` (loop.time()), without a line feed."""
    incoming = exchange.incoming
    head = incoming.head
    config = exchange.queue.config

    def value(name: bytes) -> str:
        return head.index.get(name, b"")[:_LONGEST].decode("utf-8", "replace")

    peer = incoming.peer
    request = {
        "requestMethod": head.method.decode("latin-1"),
        "requestUrl": head.target[:_LONGEST].decode("latin-1"),
        "requestSize": str(max(0, head.length)),
        "status": exchange.status,
        "responseSize": str(exchange.size),
        "userAgent": value(b"user-agent"),
        "remoteIp": peer[0] if isinstance(peer, tuple) else str(peer),
        "serverIp": exchange.backend.address if exchange.backend is not None else "",
        "referer": value(b"referer"),
        "latency": f"{now - exchange.start:.6f}s",
        "protocol": "HTTP/2.0" if incoming.multiplexed else f"HTTP/1.{head.minor}",
    }
    revision = {
        "namespace": config.key[0],
        "service": config.service,
        "configuration": config.configuration,
        "name": config.key[1],
        "podName": exchange.backend.name if exchange.backend is not None else "",
        "tag": exchange.tag,
    }
    entry = {
        "time": rfc3339(time.time_ns(), fraction=True),
        "httpRequest": request,
        "traceId": value(b"traceparent") or value(b"x-b3-traceid"),
        "host": head.host.decode("latin-1"),
        "revision": revision,
    }
    return json.dumps(entry, separators=(",", ":"))


def session(record: dict[str, object]) -> str:
    """The line of a session of a client in an instance (exec, attach, port-forward) that has ended, without a line feed."""
    entry = {"time": rfc3339(time.time_ns(), fraction=True), **record}
    return json.dumps(_cut(entry), separators=(",", ":"))


def _cut(value: object) -> object:
    """Bounds each text of a client, and the number of them."""
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, list):
        return [_cut(one) for one in value[:_WORDS]]
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in value.items()}
    return value


def writer(write: Callable[[str], object]) -> Callable[[Exchange, float], None]:
    """An access log for Ingress that gives each line to `write`."""

    def log(exchange: Exchange, now: float) -> None:
        write(line(exchange, now) + "\n")

    return log
