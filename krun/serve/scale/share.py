"""Which revision may have how many instances on this machine: dominant resource fairness, then the least recently used go.

Pure functions. Sources: A. Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), section 4.1, the progressive filling;
Kubernetes' scheduler, which counts requests and not use.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class Amount(NamedTuple):
    """Resources: a number of instances, and their memory in bytes."""

    instances: int = 1
    memory: int = 0

    def times(self, count: int) -> Amount:
        """Returns the amount of `count` of these."""
        return Amount(self.instances * count, self.memory * count)

    def less(self, other: Amount) -> Amount:
        """Returns what is left after `other`; a number below zero is a debt."""
        return Amount(self.instances - other.instances, self.memory - other.memory)

    def holds(self, each: Amount) -> int:
        """Returns how many of `each` fit."""
        by_memory = self.memory // each.memory if each.memory else self.instances
        return max(0, min(self.instances // each.instances, by_memory))


class Claim(NamedTuple):
    """What a revision wants.

    group: who shares (namespace and service); wanted: instances that its autoscaler wants; needed: those of them that have
    or await a request, or that its bounds ask for; active: those that there are, without the ones that leave; each: the
    resources of one; used: when it had its last request, on any clock.
    """

    group: str
    wanted: int
    needed: int
    active: int
    each: Amount
    used: float = 0.0


def allot(claims: Sequence[Claim], room: Amount) -> list[int]:
    """Returns how many instances each claim may have; the sum fits into `room`, and none gets more than it wants.

    1. What is needed, one instance after the other, to the group whose dominant share is the least. 2. Instances that there
    are without need, the most recently used claims first: the least recently used ones lose theirs. 3. New ones without need.
    """
    given = [0] * len(claims)
    left = _needed(claims, room, given)
    recent = sorted(range(len(claims)), key=lambda index: -claims[index].used)
    for present in (True, False):
        for index in recent:
            claim = claims[index]
            most = min(claim.wanted, claim.active) if present else claim.wanted
            more = min(max(0, most - given[index]), left.holds(claim.each))
            given[index] += more
            left = left.less(claim.each.times(more))
    return given


def _needed(claims: Sequence[Claim], room: Amount, given: list[int]) -> Amount:
    """Fills step 1 into `given`; returns the room that is left."""
    left = room
    members: dict[str, list[int]] = {}
    for index, claim in enumerate(claims):
        members.setdefault(claim.group, []).append(index)
    shares = dict.fromkeys(members, 0.0)
    heap = [(0.0, group) for group in sorted(members)]
    while heap:
        _, group = heapq.heappop(heap)
        # Within a group the claim with the fewest: two revisions of a service are two halves of it.
        open_ = [
            index
            for index in members[group]
            if given[index] < min(claims[index].needed, claims[index].wanted)
            and left.holds(claims[index].each)
        ]
        if not open_:
            continue
        index = min(open_, key=lambda one: given[one])
        each = claims[index].each
        given[index] += 1
        left = left.less(each)
        shares[group] += max(each.instances / max(1, room.instances), each.memory / max(1, room.memory))
        heapq.heappush(heap, (shares[group], group))
    return left
