"""The control loop: changes of the store become keys, keys are reconciled one after the other.

A failure of one object is logged, and tried again later and later; it never reaches another object, the API or the data
path. A turn of the event loop is given back after _TURN seconds, so that requests do not wait for a thousand services.
"""

import asyncio
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from krun.errors import KrunError, one_line
from krun.serve.control import configuration, domainmapping, revision, route, service
from krun.serve.control.config import Config
from krun.serve.control.context import Context, Hosts, Key, Revisions
from krun.serve.model import meta
from krun.serve.model.kinds import (
    CONFIGURATION,
    DOMAIN_MAPPING,
    EVENT,
    REVISION,
    ROUTE,
    SERVICE,
    Kind,
)
from krun.serve.model.values import parse_time
from krun.serve.store.store import Store
from krun.serve.store.watch import Event

Object = dict[str, Any]
_TURN = 0.003
_FIRST_RETRY, _LAST_RETRY = 0.1, 60.0
#: Seconds until `after` is called again after an error of it.
_AGAIN = 1.0
_EVENTS_KEPT = 3600.0


def _internal(error: Exception) -> str:
    """Returns the words for an error that nobody expected."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"internal error: {type(error).__name__}: {one_line(str(error))} ({where.name}:{where.lineno})"


class Engine:
    """Owner of the queue of work. `after` is called at the end of each turn (the host table is flushed)."""

    def __init__(
        self,
        store: Store,
        config: Callable[[], Config],
        revisions: Revisions,
        hosts: Hosts,
        *,
        after: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.store = store
        self.report = report
        self.after = after
        self.context = Context(store, config, revisions, hosts, self.enqueue, self.later)
        self.rollouts = route.Rollouts()
        self._work: dict[Key, None] = {}
        self._scheduled = False
        self._closed = False
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._reconcilers: dict[Kind, Callable[[Object], None]] = {
            SERVICE: lambda obj: service.reconcile(self.context, obj),
            CONFIGURATION: lambda obj: configuration.reconcile(self.context, obj),
            REVISION: lambda obj: revision.reconcile(self.context, obj),
            ROUTE: lambda obj: route.reconcile(self.context, obj, self.rollouts),
            DOMAIN_MAPPING: lambda obj: domainmapping.reconcile(self.context, obj),
        }
        store.subscribe(self.changed)

    def start(self) -> None:
        """Looks at everything that is stored: after a restart nothing is known of instances and hosts."""
        for kind in (REVISION, ROUTE, CONFIGURATION, SERVICE, DOMAIN_MAPPING):
            for namespace, name in self.store.keys(kind):
                self.enqueue((kind, namespace, name))
        for obj in self.store.each(ROUTE):
            self._guarded((ROUTE, meta.namespace(obj), meta.name(obj)), partial(self._host, obj))
        # The hosts are known from the routes' status: requests need not wait for the reconcilers.
        self._after()

    def _host(self, route: Object) -> None:
        self.context.hosts.set_route(meta.namespace(route), meta.name(route), route)

    def close(self) -> None:
        """Stops: no timer is left, and nothing is reconciled any more: a pool that ends must not be made anew."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._work.clear()

    def enqueue(self, key: Key) -> None:
        """Asks for an object to be reconciled soon; once, however often it is asked."""
        if key[0] not in self._reconcilers or self._closed:
            return
        self._work[key] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def later(self, seconds: float, key: Key) -> None:
        """Asks for an object to be reconciled after some seconds; the earliest wish holds."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if known is not None:
            if known.when() <= loop.time() + seconds:
                return
            known.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def changed(self, event: Event) -> None:
        """Takes an event of the store: the object itself, its owner, and the routes that depend on it."""
        kind, obj = event.kind, event.obj
        if kind is EVENT:
            return
        namespace, name = meta.namespace(obj), meta.name(obj)
        if event.type == "DELETED":
            self._gone(kind, obj)
        else:
            self.enqueue((kind, namespace, name))
        owner = meta.controller(obj)
        if owner is not None:
            for parent in (SERVICE, CONFIGURATION, ROUTE, REVISION):
                if parent.kind == owner.get("kind"):
                    self.enqueue((parent, namespace, owner.get("name", "")))
        for dependent in self.context.tracked.get((namespace, kind.kind, name), ()):
            self.enqueue((ROUTE, namespace, dependent))
        if kind is ROUTE:
            for mapping in self.context.tracked.get((namespace, DOMAIN_MAPPING.kind, name), ()):
                self.enqueue((DOMAIN_MAPPING, namespace, mapping))

    def _gone(self, kind: Kind, obj: Object) -> None:
        key = (kind, meta.namespace(obj), meta.name(obj))
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        # Another object of the name may be there already; its own events say so.
        if kind is REVISION:
            self.context.revisions.forget(key[1], key[2])
        elif kind is ROUTE:
            self.context.hosts.set_route(key[1], key[2], None)
            self.rollouts.forget(key[1], key[2])
            self._guarded(key, lambda: route.unlabel(self.context, key[1], key[2]))
            self._wake()
        elif kind is DOMAIN_MAPPING:
            self._guarded(key, lambda: domainmapping.gone(self.context, obj))
            self._wake()

    def _wake(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _TURN
        while self._work and loop.time() < end:
            key = next(iter(self._work))
            del self._work[key]
            self._reconcile(key)
        # With each turn, not at the end of all work: whoever has been told that a Route is ready asks it.
        self._after()
        if self._work:
            loop.call_soon(self._turn)
        else:
            self._scheduled = False

    def _after(self) -> None:
        """Calls `after`. An error of it ends neither the start nor the turns; a later turn tries again."""
        try:
            self.after()
        except Exception as error:
            self.report(f"end of a turn: {_internal(error)}")
            asyncio.get_running_loop().call_later(_AGAIN, self._wake)

    def _reconcile(self, key: Key) -> None:
        obj = self.store.get(*key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return

        def work() -> None:
            with self.store.batch(durable=False):
                self._reconcilers[key[0]](obj)

        if self._guarded(key, work):
            self._failures.pop(key, None)

    def _guarded(self, key: Key, work: Callable[[], None]) -> bool:
        """Runs `work`; a failure is reported and tried again."""
        try:
            work()
            return True
        except KrunError as error:
            text = error.message
        except Exception as error:
            text = _internal(error)
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(_FIRST_RETRY * 2 ** min(count, 20), _LAST_RETRY)
        self.report(f"reconcile {key[0].kind} {key[1]}/{key[2]}: {text}; again in {delay:g} s")
        self.later(delay, key)
        return False

    def trim_events(self, now: float) -> None:
        """Removes Events that are older than an hour."""
        old = [
            (meta.namespace(obj), meta.name(obj))
            for obj in self.store.each(EVENT)
            if now - parse_time(obj.get("lastTimestamp", "")) > _EVENTS_KEPT
        ]
        if old:
            with self.store.batch(durable=False):
                for namespace, name in old:
                    self.store.delete(EVENT, namespace, name)
