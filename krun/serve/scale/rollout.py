"""The gradual rollout: traffic moves from the old revisions of a configuration to the newest one in steps.

Source: knative/serving, pkg/reconciler/route/traffic/rollout.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Rollout:
    """The rollout of one target (configuration and tag).  `shares` are (revision, percent of the route), oldest first."""

    percent: int
    shares: tuple[tuple[str, int], ...]
    #: Seconds: when the first percent was asked for, the next step's time, the interval; None and 0 until the first percent is live.
    started: float | None = None
    next_step: float | None = None
    interval: float = 0.0
    step: int = 0

    @property
    def running(self) -> bool:
        """Whether the newest revision has not yet everything (RouteReady: Unknown, RolloutInProgress)."""
        return len(self.shares) > 1


def _adjust(shares: list[tuple[str, int]], difference: int) -> list[tuple[str, int]]:
    """A changed share of the target: the newest revision gets more, the oldest ones lose first."""
    if difference >= 0:
        name, percent = shares[-1]
        return [*shares[:-1], (name, percent + difference)]
    lose = -difference
    left = []
    for name, percent in shares:
        taken = min(lose, percent)
        lose -= taken
        if percent > taken:
            left.append((name, percent - taken))
    return left


def begin(previous: Rollout | None, revision: str, percent: int, duration: float, now: float) -> Rollout:
    """The rollout after the target asks for `revision` at `percent`.

    Arguments: previous, the state so far or None; duration, seconds of the whole rollout, 0 for none.
    """
    fresh = Rollout(percent, ((revision, percent),))
    if previous is None or not previous.shares or percent <= 1 or duration <= 0:
        return fresh
    newest = previous.shares[-1][0]
    shares = _adjust(list(previous.shares), percent - previous.percent)
    if not shares:
        return fresh
    if newest == revision:
        if shares[-1][0] != revision:
            return fresh
        kept = replace(previous, percent=percent, shares=tuple(shares))
        return kept if kept.running else fresh
    # One percent of the newest revision that has traffic goes to the new one.  A revision that comes back starts at the end again.
    shares = [share for share in shares if share[0] != revision] if percent else shares
    given = percent - sum(share for _, share in shares)
    if given < 1:
        for at in range(len(shares) - 1, -1, -1):
            if shares[at][1] > 0:
                shares[at] = (shares[at][0], shares[at][1] - 1)
                break
        given = 1
    shares = [share for share in shares if share[1] > 0]
    return Rollout(percent, (*shares, (revision, given)), started=now) if shares else fresh


def live(rollout: Rollout, duration: float, now: float) -> Rollout:
    """The first percent is live: sets steps and interval from `duration` and from the seconds that the change took."""
    if not rollout.running or rollout.next_step is not None or rollout.started is None:
        return rollout
    least = max(1, math.ceil(now - rollout.started))
    rest = max(1.0, duration - least)
    steps = min(max(1.0, rest / least), rollout.percent - 1)
    size = max(1, math.floor((rollout.percent - 1) / steps + 0.5))
    interval = rest / steps
    return replace(rollout, next_step=now + interval, interval=interval, step=size)


def advance(rollout: Rollout, now: float) -> Rollout:
    """Takes the steps whose time has come."""
    while rollout.running and rollout.next_step is not None and rollout.next_step <= now:
        shares = list(rollout.shares)
        name, share = shares.pop()
        move = rollout.step
        while move and shares:
            old, percent = shares.pop()
            taken = min(move, percent)
            move -= taken
            share += taken
            if percent > taken:
                shares.append((old, percent - taken))
        shares.append((name, share))
        rollout = replace(rollout, shares=tuple(shares), next_step=rollout.next_step + rollout.interval)
    return rollout if rollout.running else Rollout(rollout.percent, rollout.shares)
