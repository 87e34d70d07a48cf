"""The ingress: listeners, hosts, probes, and what all requests share."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace

from krun.serve.http.front import Front
from krun.serve.http.memory import Memory
from krun.serve.http.stream import Incoming, Sink
from krun.serve.http.timers import Wheel
from krun.serve.http.types import Headers, Limits
from krun.serve.proxy.exchange import Exchange
from krun.serve.proxy.headers import Added
from krun.serve.proxy.metrics import Metrics
from krun.serve.proxy.room import Room
from krun.serve.proxy.routes import HostRoute, HostTable, Target

_PROBE = b"k-network-probe"
_HASH = b"k-network-hash"


class Ingress:
    """The data path's entry.  One object for all listeners."""

    def __init__(
        self,
        table: HostTable,
        *,
        limits: Limits | None = None,
        report: Callable[[str], None],
        access_log: Callable[[Exchange, float], None] | None = None,
        server_timing: bool = False,
        trace: bool = False,
        http2: bool = True,
    ) -> None:
        """`report` gets lines about failures of the proxy itself; `access_log` each request that has ended; `server_timing` adds that field
        to responses; `trace` adds a traceparent to requests without one.
        """
        loop = asyncio.get_running_loop()
        self.table = table
        self.limits = limits or Limits()
        self.wheel = Wheel(loop)
        self.memory = Memory(self.limits.memory)
        self.room = Room(self.limits.upstream)
        self.metrics = Metrics()
        self.server_timing = server_timing
        self.draining = False
        self.added: Added = {}
        self._report = report
        self._log = access_log
        self._trace = trace
        self._http2 = http2
        self._fronts: list[Front] = []
        self._inside: Front | None = None

    async def listen(
        self,
        address: tuple[str, int] | None = None,
        *,
        unix: str | None = None,
        sock: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
        local: bool = False,
        client: int = 0,
    ) -> int:
        """Adds a listener; `local`: it serves cluster-local hosts too; `client`: connections of one address, 0 for that of the limits.

        Returns the TCP port.  Raises OSError.
        """

        def on_request(incoming: Incoming) -> None:
            self.handle(incoming, local)

        front = Front(
            on_request,
            limits=replace(self.limits, client=client) if client else self.limits,
            report=self._report,
            on_refused=self.metrics.refused,
            http2=self._http2,
            wheel=self.wheel,
            memory=self.memory,
        )
        port = await front.listen(address, unix=unix, sock=sock, tls=tls)
        self._fronts.append(front)
        return port

    async def listen_inside(self, sock: socket.socket) -> None:
        """Serves the instances on a listening socket, in the place of the one that was given before. Raises OSError."""
        if self._inside is not None:
            self._inside.stop_listening()
        await self.listen(sock=sock, local=True, client=max(1, self.limits.connections // 8))
        self._inside = self._fronts[-1]

    async def close(self, grace: float = 0.0) -> int:
        """Stops listening; running requests have `grace` seconds. Returns the number of connections that were cut."""
        self.draining = True
        cut = await asyncio.gather(*(front.close(grace) for front in self._fronts))
        self.wheel.close()
        return sum(cut)

    def handle(self, incoming: Incoming, local: bool) -> None:
        """Takes a request."""
        head = incoming.head
        index = head.index
        if _PROBE in index:
            self._probe(incoming, index)
            return
        route = self.table.lookup(head.host)
        if route is None or (route.visibility != "external" and not local):
            _answer(incoming, 404, b"no service has this host\n")
            return
        if route.redirect_https and not incoming.tls and not local:
            host = (
                head.host.rpartition(b":")[0] if head.host[-1:].isdigit() and b":" in head.host else head.host
            )
            _answer(incoming, 301, b"", [(b"Location", b"https://" + host + head.target)])
            return
        extra: Headers = []
        target = self._tagged(route, index, extra) if route.tags else None
        if target is None:
            target = route.choose()
            if target is None:
                _answer(incoming, 404, b"the route has no traffic\n")
                return
        if self._trace and b"traceparent" not in index:
            # W3C Trace Context, section 3.2: a new trace, sampled.
            ids = random.getrandbits(128) | 1, random.getrandbits(64) | 1
            extra.append((b"traceparent", b"00-%032x-%016x-01" % ids))
        Exchange(self, incoming, route, target, extra, self.wheel.now()).begin()

    @staticmethod
    def _tagged(route: HostRoute, index: dict[bytes, bytes], extra: Headers) -> Target | None:
        """The target of the header Knative-Serving-Tag; an unknown tag goes to the default, marked."""
        tag = index.get(b"knative-serving-tag")
        if tag is None:
            return None
        target = route.tags.get(tag.decode("latin-1"))
        if target is None:
            extra.append((b"Knative-Serving-Default-Route", b"true"))
        return target

    def _probe(self, incoming: Incoming, index: dict[bytes, bytes]) -> None:
        """Knative's own probes are answered here and never passed on (networking: pkg/http/handler/probe_handler.go)."""
        kind = index[_PROBE]
        if self.draining:
            _answer(incoming, 503, b"shutting down\n")
        elif kind == b"probe":
            value = index.get(_HASH)
            if not value:
                _answer(incoming, 400, b"a probe request must contain a non-empty K-Network-Hash header\n")
            else:
                _answer(incoming, 200, b"", [(b"K-Network-Hash", value)])
        elif kind == b"queue":
            route = self.table.lookup(incoming.head.host)
            target = route.choose() if route is not None else None
            ready = target is not None and bool(target.queue.backends)
            _answer(incoming, 200 if ready else 503, b"queue" if ready else b"queue not ready\n")
        else:
            _answer(incoming, 400, b"unexpected probe header value\n")

    def finished(self, exchange: Exchange, now: float) -> None:
        """A request has ended: its counters and its line of the log."""
        self.metrics.observe(exchange, now)
        if self._log is not None:
            try:
                self._log(exchange, now)
            except Exception as error:
                self._report(f"the access log failed: {error}")


class _Discard(Sink):
    """The sink of a request that is answered at once."""

    __slots__ = ()


def _answer(incoming: Incoming, status: int, body: bytes, headers: Headers | None = None) -> None:
    incoming.consume(_Discard())
    fields: Headers = [(b"Content-Type", b"text/plain; charset=utf-8"), *(headers or [])]
    incoming.respond(status, fields, len(body), body, end=True)
