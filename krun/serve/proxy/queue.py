"""A revision's queue: which request may go to which instance, and when.

Each instance (Backend) has containerConcurrency slots; a request takes one before it is sent.  Requests that find none wait in order of
arrival.  Sources of the rules: knative/serving, pkg/queue/breaker.go and pkg/activator/net/throttler.go, lb_policy.go.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from krun.serve.scale.kpa import Sample

#: Requests that wait for one revision (the breaker of Knative's activator); one more is answered 503.
QUEUE_LIMIT = 10000
_FULL = "pending request queue full"
#: The newest of them, among which one is looked for that gives its place to another client.
_NEWEST = 100


class Waiter(Protocol):
    """A request that wants a slot."""

    @property
    def client(self) -> str:
        """Whose it is (http/memory.py: client_of)."""

    def attach(self, backend: Backend) -> None:
        """A slot of `backend` is the request's; RevisionQueue.release returns it."""

    def refuse(self, status: int, text: str) -> None:
        """There is no slot and there will be none."""


@dataclass(slots=True)
class RevisionConfig:
    """The settings of a revision that the proxy needs.  Times are seconds, 0: none."""

    #: (namespace, name)
    key: tuple[str, str]
    #: containerConcurrency: requests in one instance at a time, 0 for any number.
    concurrency: int = 0
    #: From the arrival to the end of the response; to its first byte; between two writes of it.
    timeout: float = 300.0
    response_start: float = 0.0
    idle: float = 0.0
    #: "http1" or "h2c": what the instance speaks.
    protocol: str = "http1"
    port: int = 8080
    #: Requests that may wait.
    queue: int = QUEUE_LIMIT
    #: A response that has begun when its time is over: False ends it cleanly with the text "request timeout", as Knative does; True
    #: aborts it, so that the client can tell.
    abort_on_timeout: bool = False
    #: For logs and metrics.
    service: str = ""
    configuration: str = ""
    labels: dict[str, str] = field(default_factory=dict)


class Backend:
    """An instance that can be sent requests."""

    __slots__ = (
        "address",
        "connect",
        "draining",
        "in_flight",
        "limit",
        "name",
        "pool",
        "removed",
        "started",
        "used",
    )

    def __init__(
        self, name: str, connect: Callable[[], socket.socket], limit: int = 0, address: str = ""
    ) -> None:
        """`connect` returns a non-blocking socket that is connecting to the instance; it may raise OSError.  `limit` is the number of
        slots, 0 for any number.
        """
        self.name = name
        self.connect = connect
        self.limit = limit
        self.address = address
        self.in_flight = 0
        self.draining = False
        #: Resolved when no request is in it any more.
        self.removed: asyncio.Future[None] | None = None
        #: The proxy's connections to it.
        self.pool: Any = None
        #: Whether a request has been sent to it.
        self.started = False
        #: When it was added to its queue, or its last request ended.
        self.used = 0.0


class RevisionQueue:
    """The queue of one revision."""

    def __init__(self, config: RevisionConfig, now: float) -> None:
        self.config = config
        self.backends: list[Backend] = []
        self.on_arrival: Callable[[RevisionQueue], None] = lambda queue: None
        self.waiting: OrderedDict[int, Waiter] = OrderedDict()
        #: Those of each client; one without any has no entry.
        self._places: dict[str, int] = {}
        self.in_flight = 0
        self.requests = 0
        #: Requests for which an instance had no room for one more connection.
        self.crowded = 0
        #: The reason why no request can be served.
        self.failure: str | None = None
        #: Counters of metrics, made by their owner.
        self.meter: Any = None
        #: When the last request came or ended.
        self.used = now
        self._turn = 0
        self._busy = False
        # Integrals over time of all requests and of the waiting ones, since the last sample.
        self._area = self._waited = 0.0
        self._since = self._changed = now

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self.waiting)

    # The integrals.

    def _account(self, now: float) -> None:
        passed = now - self._changed
        if passed > 0:
            waiting = len(self.waiting)
            self._area += (self.in_flight + waiting) * passed
            self._waited += waiting * passed
            self._changed = now

    def stats(self, now: float) -> Sample:
        """The sample of the time since the last call (request.go: RequestStats.Report)."""
        self._account(now)
        passed = now - self._since
        sample = Sample(0.0, 0.0, self.requests, 0.0)
        if passed > 0:
            sample = Sample(self._area / passed, self._waited / passed, self.requests, passed)
        self._area = self._waited = 0.0
        self._since = now
        self.requests = 0
        return sample

    # Requests.

    def enter(self, waiter: Waiter, now: float) -> None:
        """A request has arrived: it gets a slot now, waits for one, or is refused."""
        self.requests += 1
        self.used = now
        if not self.waiting:
            backend = self._pick()
            if backend is not None:
                self._account(now)
                self._take(backend)
                waiter.attach(backend)
                return
        if self.failure is not None:
            waiter.refuse(503, self.failure)
            return
        client = waiter.client
        if len(self.waiting) >= self.config.queue and not self._make_room(client, now):
            waiter.refuse(503, _FULL)
            return
        self._account(now)
        self.waiting[id(waiter)] = waiter
        self._places[client] = self._places.get(client, 0) + 1
        self.on_arrival(self)

    def _make_room(self, client: str, now: float) -> bool:
        """A client with many places gives its newest one to a client with fewer. Returns whether there is one.

        The bound is the revision's: without this, one client with HTTP/2 takes all the places there are.
        """
        newest = list(islice(reversed(self.waiting.values()), _NEWEST))
        largest = max(newest, key=lambda waiter: self._places[waiter.client], default=None)
        if largest is None or self._places[largest.client] <= self._places.get(client, 0) + 1:
            return False
        self.leave(largest, now)
        largest.refuse(503, _FULL)
        return True

    def _gave(self, waiter: Waiter) -> None:
        """A place is free again."""
        client = waiter.client
        self._places[client] -= 1
        if not self._places[client]:
            del self._places[client]

    def leave(self, waiter: Waiter, now: float) -> bool:
        """A waiting request has ended.  Returns whether it was waiting."""
        if id(waiter) not in self.waiting:
            return False
        self._account(now)
        del self.waiting[id(waiter)]
        self._gave(waiter)
        return True

    def release(self, backend: Backend, now: float) -> None:
        """A request has left `backend`: its slot goes to the one that waits the longest."""
        self._account(now)
        self.in_flight -= 1
        backend.in_flight -= 1
        self.used = backend.used = now
        if backend.draining:
            if not backend.in_flight:
                self._removed(backend)
        elif self.waiting:
            self.dispatch(now)

    def another(self, waiter: Waiter, failed: Backend, now: float) -> bool:
        """`failed` could not be reached: moves the request to another instance that has a slot.  Returns whether there is one."""
        others = [b for b in self.backends if b is not failed and self._free(b)]
        if not others:
            return False
        backend = others[0]
        self._take(backend)
        self.release(failed, now)
        waiter.attach(backend)
        return True

    def dispatch(self, now: float) -> None:
        """Gives free slots to waiting requests, in order of arrival."""
        if self._busy:
            # attach() may end its request at once and so come here again.
            return
        self._busy = True
        try:
            while self.waiting:
                backend = self._pick()
                if backend is None:
                    break
                self._account(now)
                _, waiter = self.waiting.popitem(last=False)
                self._gave(waiter)
                self._take(backend)
                waiter.attach(backend)
        finally:
            self._busy = False

    def _take(self, backend: Backend) -> None:
        self.in_flight += 1
        backend.in_flight += 1

    @staticmethod
    def _free(backend: Backend) -> bool:
        return not backend.draining and (not backend.limit or backend.in_flight < backend.limit)

    def _pick(self) -> Backend | None:
        """The instance for the next request, or None.

        Without a limit the less busy one of two chosen at random; with up to 3 slots the first one that is free, which leaves the last
        ones idle for scaling down; else by turns.
        """
        backends = self.backends
        count = len(backends)
        if count == 1:
            backend = backends[0]
            return backend if not backend.limit or backend.in_flight < backend.limit else None
        if not count:
            return None
        limit = self.config.concurrency
        if not limit:
            first, second = random.sample(backends, 2)
            return first if first.in_flight <= second.in_flight else second
        start = 0
        if limit > 3:
            start = self._turn = (self._turn + 1) % count
        for step in range(count):
            backend = backends[(start + step) % count]
            if not backend.limit or backend.in_flight < backend.limit:
                return backend
        return None

    # Instances.

    def add(self, backend: Backend, now: float) -> None:
        """`backend` is ready.  Waiting requests go to it at once; a failure is over."""
        self.failure = None
        backend.used = now
        self.backends.append(backend)
        self.dispatch(now)

    def remove(self, backend: Backend) -> asyncio.Future[None]:
        """`backend` gets no further request.  The future is resolved when the ones in it have ended."""
        if backend.removed is None:
            backend.removed = asyncio.get_running_loop().create_future()
            backend.draining = True
            if backend in self.backends:
                self.backends.remove(backend)
            if not backend.in_flight:
                self._removed(backend)
        return backend.removed

    def _removed(self, backend: Backend) -> None:
        if backend.pool is not None:
            backend.pool.close()
            backend.pool = None
        if backend.removed is not None and not backend.removed.done():
            backend.removed.set_result(None)

    def fail(self, reason: str | None, now: float) -> None:
        """No instance can be started, for `reason`: requests that wait and those that come without an instance get 503 with it.
        None: instances may come.
        """
        self.failure = reason
        if reason is None:
            return
        self._account(now)
        waiting = list(self.waiting.values())
        self.waiting.clear()
        self._places.clear()
        for waiter in waiting:
            waiter.refuse(503, reason)
