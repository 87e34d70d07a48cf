"""The room of this machine for instances, and who gets it: every pool asks here before it starts one.

An instance counts from the wish to start it until nothing of it is left, also while it drains. While all fits, a pool gets its
instances at once. When something does not fit, `share.allot` says who may have how many: instances without a request are
ended, the least recently used first, and then those of services that have more than their fair share.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from krun.serve.scale.share import Amount, Claim, allot
from krun.serve.units import quantity

Object = dict[str, Any]
#: Instances for each processor, and the part of the machine's memory, when the operator says nothing.
_PER_CPU = 32
_MEMORY_PART = 0.8
#: The memory of a container that asks for none and has no limit: what a small HTTP server takes with its monitor.
UNSTATED = 32 << 20


#: While the machine is full, the room is shared out for at most one _PART-th of the time; what is _SHORT (seconds) is not counted.
_PART, _SHORT = 10, 0.001


class Tenant(Protocol):
    """A pool, as it is seen from here."""

    #: What one instance takes.
    each: Amount

    def claim(self) -> Claim:
        """What the pool wants now."""

    def held(self) -> int:
        """Its instances, with those that leave."""

    def grow(self, count: int) -> None:
        """Starts `count` instances."""

    def shrink(self, count: int) -> None:
        """Ends `count` instances, those without a request first."""


def of_machine(instances: int = 0, memory: int = 0) -> Amount:
    """Returns the room of this machine. Arguments: the operator's bounds, memory in bytes; 0: from processors and memory."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cpus = len(os.sched_getaffinity(0))
    return Amount(instances or _PER_CPU * cpus, memory or int(whole * _MEMORY_PART))


def each_of(spec: Object) -> Amount:
    """Returns what an instance of a revision's spec takes: the memory that its containers ask for, else their limits."""
    memory = 0
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        text = (resources.get("requests") or {}).get("memory") or (resources.get("limits") or {}).get(
            "memory"
        )
        memory += max(0, int(quantity(text))) if text else UNSTATED
    return Amount(1, memory)


class Capacity:
    """See above. Everything runs on the loop's thread."""

    def __init__(self, room: Amount, clock: Callable[[], float] = time.monotonic) -> None:
        self.room = room
        self._clock = clock
        self._tenants: dict[Tenant, None] = {}
        self._waiting: dict[Tenant, None] = {}
        self._scheduled = False
        #: Not earlier than this the room is shared out again.
        self._next = 0.0

    def most(self, each: Amount) -> int:
        """Returns how many instances of `each` the empty machine holds."""
        return self.room.holds(each)

    @property
    def free(self) -> Amount:
        """What no instance holds; below zero if an earlier server's instances exceed the room."""
        left = self.room
        for tenant in self._tenants:
            left = left.less(tenant.each.times(tenant.held()))
        return left

    @property
    def waiting(self) -> int:
        """Pools that have fewer instances than they want."""
        return len(self._waiting)

    def ask(self, tenant: Tenant) -> None:
        """The tenant's wish has changed: it gets instances now if nobody else waits, else when it is its turn."""
        claim = tenant.claim()
        self._tenants[tenant] = None
        self._waiting.pop(tenant, None)
        missing = claim.wanted - claim.active
        if missing > 0 and not self._waiting:
            now = min(missing, self.free.holds(claim.each))
            if now:
                tenant.grow(now)
                missing -= now
        if missing > 0:
            self._waiting[tenant] = None
        self.schedule()
        self._keep(tenant)

    def freed(self, tenant: Tenant) -> None:
        """Nothing is left of an instance of the tenant."""
        self._keep(tenant)
        self.schedule()

    def _keep(self, tenant: Tenant) -> None:
        if not tenant.held() and not tenant.claim().wanted:
            self._tenants.pop(tenant, None)
            self._waiting.pop(tenant, None)

    def schedule(self) -> None:
        """Has the room shared out anew, once, if somebody waits: in this turn of the loop, unless that would take too much of it."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            pause = self._next - self._clock()
            loop = asyncio.get_running_loop()
            loop.call_later(pause, self._balance) if pause > 0 else loop.call_soon(self._balance)

    def _balance(self) -> None:
        self._scheduled = False
        if not self._waiting:
            return
        began = self._clock()
        self._share_out()
        took = self._clock() - began
        # Whoever asks a service that waits comes here, and a thousand services that wait take 10 ms.
        self._next = began + took * _PART if took > _SHORT else 0.0

    def _share_out(self) -> None:
        tenants = list(self._tenants)
        claims = [tenant.claim() for tenant in tenants]
        allowed = allot(claims, self.room)
        for tenant, claim, most in zip(tenants, claims, allowed, strict=True):
            if claim.active > most:
                tenant.shrink(claim.active - most)
        free = self.free
        self._waiting.clear()
        for tenant, claim, most in zip(tenants, claims, allowed, strict=True):
            more = min(max(0, most - claim.active), free.holds(claim.each))
            if more:
                free = free.less(claim.each.times(more))
                tenant.grow(more)
            # Whoever has lost instances here waits as well: the one for whom they ended may go before it takes the room.
            if claim.wanted > min(claim.active, most) + more:
                self._waiting[tenant] = None
