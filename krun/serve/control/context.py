"""What every reconciler gets: the store, the configuration of the moment, the revisions' pools, the queue of work.

A reconciler is a function (Context, object) that reads the store, writes children and status, and returns. It never waits.
"""

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, Protocol

from krun.serve.control.config import Config
from krun.serve.model import meta
from krun.serve.model.kinds import EVENT, Kind
from krun.serve.model.values import now
from krun.serve.store.store import Store

Object = dict[str, Any]
Key = tuple[Kind, str, str]


class RevisionState:
    """What the pool of a revision tells its reconciler.

    digests: container -> image digest, None while they are resolved; missing: why an image cannot be fetched; failure:
    (condition, reason, message) while no instance is ready and the last try failed; initialized: the initial scale was
    reached once; expired: the progress deadline is over; activity: active, activating, inactive.
    """

    __slots__ = (
        "digests",
        "missing",
        "failure",
        "initialized",
        "expired",
        "activity",
        "ready",
        "wanted",
    )

    def __init__(self) -> None:
        self.digests: dict[str, str] | None = None
        self.missing = ""
        self.failure: tuple[str, str, str] | None = None
        self.initialized = False
        self.expired = False
        self.activity = "activating"
        self.ready = 0
        self.wanted = 0


class Revisions(Protocol):
    """The instances of all revisions (pools.py; a fake in tests)."""

    def ensure(self, revision: Object) -> RevisionState:
        """Makes the revision's pool if there is none, and returns what is known."""

    def forget(self, namespace: str, name: str) -> None:
        """The revision is gone: ends its instances."""


class Hosts(Protocol):
    """The ingress (hosts.py; a fake in tests)."""

    def set_route(self, namespace: str, name: str, route: Object | None) -> None:
        """The route's status.traffic has changed; None: it is gone."""

    def set_mapping(self, name: str, namespace: str, route: str) -> None:
        """The host `name` leads to a route; "" : it leads nowhere."""

    def owner(self, host: str) -> str:
        """Returns the Route that has a host by its own name, as namespace/name; "" if none has."""


class Context:
    """See above. `enqueue` asks for an object to be reconciled, `later` for that after some seconds."""

    def __init__(
        self,
        store: Store,
        config: Callable[[], Config],
        revisions: Revisions,
        hosts: Hosts,
        enqueue: Callable[[Key], None],
        later: Callable[[float, Key], None],
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.config = config
        self.revisions = revisions
        self.hosts = hosts
        self.enqueue = enqueue
        self.later = later
        #: For stamps in objects, seconds since 1970; for durations: an operator or NTP may set the first one.
        self.clock = clock
        self.steady = steady
        #: (namespace, kind, name) -> routes that name the object and are to be looked at when it changes.
        self.tracked: dict[tuple[str, str, str], set[str]] = {}

    def track(self, namespace: str, kind: Kind, name: str, route: str) -> None:
        """Remembers that `route` depends on an object, which may not be there yet."""
        self.tracked.setdefault((namespace, kind.kind, name), set()).add(route)

    def save(self, kind: Kind, obj: Object, status: Object) -> Object:
        """Writes a status that stands for the object's present generation; nothing if it is the stored one."""
        status["observedGeneration"] = meta.generation(obj)
        if status == obj.get("status"):
            return obj
        return self.store.update_status(kind, {"metadata": obj["metadata"], "status": status})

    def event(self, kind: Kind, obj: Object, type: str, reason: str, message: str) -> None:
        """Records an Event about `obj` (type Normal or Warning); the same one again counts up."""
        text = json.dumps([meta.uid(obj), type, reason, message])
        name = f"{meta.name(obj)[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        known = self.store.get(EVENT, meta.namespace(obj), name)
        if known is not None:
            known["count"] = int(known.get("count", 1)) + 1
            known["lastTimestamp"] = now()
            self.store.update(EVENT, known)
            return
        reference = {
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "name": meta.name(obj),
            "namespace": meta.namespace(obj),
            "uid": meta.uid(obj),
        }
        self.store.create(
            EVENT,
            {
                "metadata": {"name": name, "namespace": meta.namespace(obj)},
                "involvedObject": reference,
                "type": type,
                "reason": reason,
                "message": message[:1024],
                "source": {"component": f"{kind.singular}-controller"},
                "firstTimestamp": now(),
                "lastTimestamp": now(),
                "count": 1,
            },
        )
