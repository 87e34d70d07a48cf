"""Eviction of instances that take more local storage than their manifest allows, by the kubelet's rules and in its words.

Sources: kubernetes, pkg/kubelet/eviction/eviction_manager.go (localStorageEviction) and helpers.go. The order is the kubelet's:
emptyDir.sizeLimit, the sum of the containers' limits of ephemeral-storage, each container's own. A container's usage is its
writable layer, its logs and its termination log; that of the instance has its disk-backed emptyDir volumes and files such as
/etc/hosts besides.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.control.context import Context
from krun.serve.control.member import Member
from krun.serve.control.periodic import Periodic
from krun.serve.control.pool import Pool
from krun.serve.model.kinds import POD
from krun.serve.units import quantity

Object = dict[str, Any]
#: Seconds between two looks at an instance (the kubelet's housekeeping of eviction), and of grace (immediateEvictionGracePeriodSeconds).
PERIOD, GRACE = 10.0, 1.0
#: Instances that are measured together: one less than the worker has threads for it (run/lanes.py), which collects images meanwhile.
_AT_A_TIME = 3
_RESOURCE = "ephemeral-storage"
_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Measuring(Protocol):
    """What is needed of run.instance.Runner."""

    async def usage(self, id: str) -> Object: ...


def limits_of(containers: list[Object]) -> dict[str, str]:
    """Returns container -> limit of ephemeral-storage, of those that have one."""
    found = {}
    for one in containers:
        limit = ((one.get("resources") or {}).get("limits") or {}).get(_RESOURCE)
        if limit is not None:
            found[one["name"]] = str(limit)
    return found


def sizes_of(volumes: list[Object]) -> dict[str, str]:
    """Returns volume -> sizeLimit, of the disk-backed emptyDirs that have one. The kernel bounds those in memory."""
    found = {}
    for one in volumes:
        own = one.get("emptyDir") or {}
        if (
            own.get("sizeLimit") is not None
            and own.get("medium") != "Memory"
            and quantity(own["sizeLimit"]) > 0
        ):
            found[one["name"]] = str(own["sizeLimit"])
    return found


def reason(containers: list[Object], volumes: list[Object], usage: Object) -> str:
    """Returns why an instance is evicted, "" if it is not.

    Arguments: containers and volumes of core/v1; usage, {"volumes": {name: bytes}, "containers": {name: bytes}, "files": bytes}; a
    worker of an earlier version does not tell the last one.
    """
    for name, limit in sizes_of(volumes).items():
        if usage["volumes"].get(name, 0) > quantity(limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    limits = limits_of(containers)
    if not limits:
        return ""
    total = sum((quantity(text) for text in limits.values()), start=quantity(0))
    taken = sum(usage["volumes"].values()) + sum(usage["containers"].values()) + usage.get("files", 0)
    if taken > total:
        text = _text(int(total)) if len(limits) > 1 else next(iter(limits.values()))
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
    for name, limit in limits.items():
        if usage["containers"].get(name, 0) > quantity(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def _text(number: int) -> str:
    """A sum of quantities as apimachinery writes it: the largest binary suffix without a fraction."""
    power = 0
    while number and number % 1024 == 0 and power < len(_SUFFIXES) - 1:
        number //= 1024
        power += 1
    return f"{number}{_SUFFIXES[power]}"


class Evictions:
    """Looks at the instances that have a limit, a few at a time: a payload's many files hold up neither the worker nor its neighbours."""

    def __init__(
        self,
        pools: Callable[[], Iterable[Pool]],
        runner: Measuring,
        context: Context,
        report: Callable[[str], None],
    ) -> None:
        self.pools = pools
        self.runner = runner
        self.context = context
        self.report = report
        self._rounds = Periodic(self.once, "look at local storage", report)

    def start(self, period: float = PERIOD) -> None:
        """Begins to look."""
        self._rounds.start(period)

    def close(self) -> None:
        """Ends."""
        self._rounds.close()

    async def once(self) -> None:
        """Looks at each instance once, and evicts those that take too much."""
        places = asyncio.Semaphore(_AT_A_TIME)
        await asyncio.gather(
            *(
                self._look(pool, member, places)
                for pool in list(self.pools())
                for member in list(pool.members.values())
                if limits_of(member.spec.containers) or sizes_of(member.spec.volumes)
            )
        )

    async def _look(self, pool: Pool, member: Member, places: asyncio.Semaphore) -> None:
        spec = member.spec
        async with places:
            if member.leaving or member.instance is None:
                return
            try:
                usage = await self.runner.usage(member.name)
            except KrunError as error:
                self.report(f"measure local storage of instance {member.name}: {error.message}")
                return
        text = reason(spec.containers, spec.volumes, usage)
        if text and not member.leaving:
            self._evict(pool, member, text)

    def _evict(self, pool: Pool, member: Member, text: str) -> None:
        """Ends an instance, and starts another one in its place."""
        self.report(f"evict instance {member.name}: {text.strip()}")
        member.evicted = text
        pool.drop(member, GRACE)
        member.show()
        pool.scale(pool.state.wanted)
        pod = self.context.store.get(POD, pool.namespace, member.name)
        if pod is not None:
            # Last: what fills the disk goes, although there is no room for the words about it.
            with contextlib.suppress(KrunError):
                self.context.event(POD, pod, "Warning", "Evicted", text)
