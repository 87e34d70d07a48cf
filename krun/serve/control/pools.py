"""All pools: made with their revisions, ended with them; images resolved; instances of an earlier server taken over.

Implements context.Revisions for the reconcilers, and ticks the autoscalers of the revisions that are awake.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.control import gauges, pods
from krun.serve.control.capacity import Capacity
from krun.serve.control.config import Config
from krun.serve.control.context import RevisionState
from krun.serve.control.member import Starter
from krun.serve.control.pool import Pool
from krun.serve.control.scaling import Autoscaler
from krun.serve.model import conditions, meta
from krun.serve.model.kinds import POD, REVISION
from krun.serve.proxy.metrics import Family
from krun.serve.proxy.queue import RevisionQueue
from krun.serve.run.image.config import Image
from krun.serve.run.instance import Instance
from krun.serve.run.spec import InstanceSpec
from krun.serve.scale.kpa import TICK
from krun.serve.store.store import Store
from krun.serve.store.watch import Event

Object = dict[str, Any]
_SAMPLE = 1.0
#: Seconds after which the status of a revision that has been ready says how many instances it has: the reconcilers take some 10 ms
#: of the loop, which a request from zero would wait for, and most changes of a start fall into one.
_STATUS = 0.05
#: Seconds between SIGTERM and SIGKILL when the server ends with its instances, and from there until they have gone.
_GRACE, _KILLED = 8.0, 14.0
#: Seconds that `close` takes at most, as long as the worker answers.
END = _GRACE + _KILLED + 2.0
_RESOLVE_AGAIN = (2.0, 5.0, 10.0, 30.0, 60.0)


class Instances(Starter, Protocol):
    """What is needed of run.instance.Runner."""

    async def resolve_image(self, reference: str) -> Image: ...

    async def adopt(self, found: Object, spec: InstanceSpec) -> Instance: ...

    async def kill_all(self) -> None: ...

    def logs(self, id: str, container: str, **options: Any) -> AsyncIterator[bytes]: ...


class Pools:
    """See above. `changed(namespace, name)` asks for the revision to be reconciled."""

    def __init__(
        self,
        store: Store,
        runner: Instances,
        config: Callable[[], Config],
        changed: Callable[[str, str], None],
        report: Callable[[str], None],
        capacity: Capacity,
    ) -> None:
        self.store = store
        self.runner = runner
        self.capacity = capacity
        self.config = config
        self.changed = changed
        self.report = report
        self.loop = asyncio.get_running_loop()
        self.pools: dict[tuple[str, str], Pool] = {}
        self.scalers: dict[tuple[str, str], Autoscaler] = {}
        self._awake: set[tuple[str, str]] = set()
        self._ticks = 0
        #: Revisions whose first readiness has been told; those of which something is to be told.
        self._calm: set[tuple[str, str]] = set()
        self._untold: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._found: dict[tuple[str, str], list[Object]] = {}
        self._ending: list[Pool] = []
        self._fetches: set[asyncio.Task[None]] = set()
        store.subscribe(self._event)

    # ---------------------------------------------------------------------------------- what reconcilers ask for

    def ensure(self, revision: Object) -> RevisionState:
        """Returns the state of a revision's pool, which is made if there is none, with the newest annotations."""
        key = (meta.namespace(revision), meta.name(revision))
        pool = self.pools.get(key)
        if pool is not None and pool.uid != meta.uid(revision):
            # Deleted and made again under the same name.
            self.forget(*key)
            pool = None
        if pool is None:
            pool = self._make(key, revision)
        elif pool.version != revision["metadata"]["resourceVersion"]:
            pool.version = revision["metadata"]["resourceVersion"]
            self.scalers[key].update(revision, self.config())
            self._wake(key)
        return pool.state

    def _make(self, key: tuple[str, str], revision: Object) -> Pool:
        pool = Pool(self.store, self.runner, revision, self._pool_changed, self.report, self.capacity)
        status = revision.get("status") or {}
        available = conditions.find(status, "ResourcesAvailable") or {}
        pool.state.initialized = available.get("status") == "True"
        scaler = Autoscaler(pool, revision, self.config(), self.loop.time())
        # Both or none: an error before this line leaves nothing.
        self.pools[key], self.scalers[key] = pool, scaler
        listed = status.get("containerStatuses") or ()
        # A client may have written the status, and the schema wants no name.
        known = {one["name"]: one.get("imageDigest", "") for one in listed if "name" in one}
        if known and pool.state.initialized:
            pool.state.digests = known
            pool.state.activity = "inactive"
            self._adopt(key)
            scaler.begin(self.loop.time()) if not pool.members else self._wake(key)
            pool.queue.on_arrival = lambda queue: self._arrival(key)
        else:
            pool.queue.on_arrival = lambda queue: self._arrival(key)
            self._fetches.add(self._spawn(self._resolve(key, pool)))
        return pool

    def forget(self, namespace: str, name: str) -> None:
        """The revision is gone: its instances are ended in their grace."""
        pool = self.pools.pop((namespace, name), None)
        self.scalers.pop((namespace, name), None)
        self._awake.discard((namespace, name))
        self._calm.discard((namespace, name))
        if pool is not None:
            self._spawn(pool.close())

    def queue_of(self, namespace: str, name: str) -> RevisionQueue | None:
        """Returns the queue of a revision; its pool is made if need be. None: there is no such revision."""
        pool = self.pools.get((namespace, name))
        if pool is None:
            revision = self.store.get(REVISION, namespace, name)
            if revision is None:
                return None
            self.ensure(revision)
            pool = self.pools[namespace, name]
        return pool.queue

    # -------------------------------------------------------------------------------------------------- images

    async def _resolve(self, key: tuple[str, str], pool: Pool) -> None:
        """Looks for a revision's images until they are there, or the revision is gone, however long that takes."""
        count = 0
        while True:
            try:
                digests = await self._digests(key)
                break
            except KrunError as error:
                text = error.message
            except Exception as error:
                text = f"internal error: {error!r}"[:500]
                self.report(f"look for the images of {key[0]}/{key[1]}: {text}")
            if self.pools.get(key) is not pool:
                return
            pool.state.missing = text
            pool.queue.fail("ContainerMissing\n", self.loop.time())
            self.changed(*key)
            await asyncio.sleep(_RESOLVE_AGAIN[min(count, len(_RESOLVE_AGAIN) - 1)])
            count += 1
        if self.pools.get(key) is not pool:
            return
        pool.state.missing = ""
        pool.state.digests = digests
        pool.queue.fail(None, self.loop.time())
        self._adopt(key)
        self.scalers[key].begin(self.loop.time())
        if pool.queue.queued:
            self.scalers[key].arrival()
        self._wake(key)
        self.changed(*key)

    async def _digests(self, key: tuple[str, str]) -> dict[str, str]:
        """Returns container -> image with its digest. Errors: KrunError, an image is not there."""
        revision = self.store.get(REVISION, *key)
        found = {}
        for container in revision["spec"]["containers"] if revision is not None else ():
            image = await self.runner.resolve_image(container["image"])
            found[container["name"]] = _pinned(container["image"], image.digest)
        return found

    # ------------------------------------------------------------------------------------------------- the tick

    def start(self) -> None:
        """Begins to tick."""
        self._timer = self.loop.call_later(_SAMPLE, self._tick)

    def _tick(self) -> None:
        self._timer = self.loop.call_later(_SAMPLE, self._tick)
        self._ticks += 1
        now = self.loop.time()
        # Instances may have become idle, which nobody tells.
        self.capacity.schedule()
        deciding = self._ticks % max(round(TICK / _SAMPLE), 1) == 0
        for key in list(self._awake):
            scaler = self.scalers.get(key)
            if scaler is None:
                self._awake.discard(key)
                continue
            try:
                scaler.sample(now)
                if deciding:
                    scaler.decide(now)
            except Exception as error:
                self.report(f"scale {key[0]}/{key[1]}: internal error: {error!r}")
            if not scaler.awake:
                self._awake.discard(key)

    def _arrival(self, key: tuple[str, str]) -> None:
        scaler = self.scalers.get(key)
        if scaler is not None:
            scaler.arrival()
            self._wake(key)

    def _wake(self, key: tuple[str, str]) -> None:
        self._awake.add(key)

    def _pool_changed(self, pool: Pool) -> None:
        key = (pool.namespace, pool.name)
        scaler = self.scalers.get(key)
        if scaler is not None and scaler.pool is pool:
            self._wake(key)
            scaler.changed(self.loop.time())
            self._tell(key, pool)

    def _tell(self, key: tuple[str, str], pool: Pool) -> None:
        """Has a revision reconciled: at once if its readiness may change, else soon."""
        if key not in self._calm or pool.state.failure is not None:
            if pool.state.initialized and pool.state.failure is None:
                self._calm.add(key)
            self.changed(*key)
        elif key not in self._untold:
            self._untold.add(key)
            self.loop.call_later(_STATUS, self._told, key)

    def _told(self, key: tuple[str, str]) -> None:
        self._untold.discard(key)
        self.changed(*key)

    # --------------------------------------------------------------------------- instances of an earlier server

    def found(self, instances: list[Object]) -> list[Object]:
        """Takes the instances that the worker still has (Runner.open). Returns those that belong to no revision."""
        orphans = []
        for one in instances:
            pod = self._pod_of(one["id"])
            if pod is None:
                orphans.append(one)
            else:
                key = (meta.namespace(pod), meta.labels(pod).get(meta.REVISION_LABEL, ""))
                self._found.setdefault(key, []).append(one)
        running = {one["id"] for one in instances}
        for pod in self.store.each(POD):
            if meta.name(pod) not in running:
                try:
                    pods.remove(self.store, meta.namespace(pod), meta.name(pod))
                except KrunError as error:
                    # A full disk: the next server removes it.
                    self.report(f"remove pod {meta.name(pod)}, which has no instance: {error.message}")
        return orphans

    def _pod_of(self, name: str) -> Object | None:
        found = self.store.list(POD, None, "", f"metadata.name={name}")
        return found[0] if found else None

    def _adopt(self, key: tuple[str, str]) -> None:
        pool = self.pools[key]
        for one in self._found.pop(key, []):
            member = pool.member(one["id"])
            pool.adopt(member)
            pool.state.wanted = len(pool.members)
            pool.state.activity = "activating"
            self.capacity.ask(pool)
            self._spawn(self._take(pool, member, one))

    async def _take(self, pool: Pool, member: Any, one: Object) -> None:
        try:
            member.take(await self.runner.adopt(one, member.spec))
        except Exception as error:
            text = error.message if isinstance(error, KrunError) else f"internal error: {error!r}"
            self.report(f"take over instance {member.name}: {text}")
            if member.instance is not None:
                pool.drop(member)
            else:
                # A stop that waits for its start goes on.
                member.lost()
                pool.members.pop(member.name, None)
                self.capacity.freed(pool)
            pool.scale(pool.state.wanted)

    # ------------------------------------------------------------------------------------------------ the rest

    def _event(self, event: Event) -> None:
        """A client has deleted a pod: another instance takes its place."""
        if event.kind is not POD or event.type != "DELETED":
            return
        name = meta.name(event.obj)
        for pool in self.pools.values():
            member = pool.members.get(name)
            if member is not None and not member.leaving:
                pool.drop(member)
                pool.scale(pool.state.wanted)

    def logs(self, namespace: str, name: str, container: str, **options: Any) -> AsyncIterator[bytes]:
        """Returns the log of a container; one that is followed ends when the instance is gone.

        Errors: KrunError, there is no previous one.
        """

        def alive() -> bool:
            # Its Pod is there before the instance is, and may be deleted, with its owners, before the instance has ended.
            return self.store.get(POD, namespace, name) is not None

        return self.runner.logs(name, container, alive=alive, **options)

    def lost(self) -> None:
        """The worker has died with all instances, and another one is there: what is wanted starts again."""
        for pool in list(self.pools.values()):
            if not pool.closed:
                pool.lost()

    def metrics(self, family: Family) -> None:
        """Adds the metrics of the autoscaler and of starts."""
        pairs = ((pool, self.scalers.get(key)) for key, pool in self.pools.items())
        gauges.write(family, pairs, self.capacity)

    def reconfigure(self) -> None:
        """config-autoscaler has changed."""
        for key, scaler in list(self.scalers.items()):
            revision = self.store.get(REVISION, *key)
            if revision is not None:
                try:
                    scaler.update(revision, self.config())
                except Exception as error:
                    self.report(f"scale {key[0]}/{key[1]}: internal error: {error!r}")
                self._wake(key)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fetches.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.report(f"pools: internal error: {task.exception()!r}")

    async def close(self, stop_instances: bool) -> None:
        """Ends ticking; with `stop_instances` all instances are ended, else they stay for the next server.

        Whoever ignores SIGTERM gets SIGKILL after _GRACE seconds: a revision's own grace may be ten minutes.
        """
        if self._timer is not None:
            self._timer.cancel()
        if not stop_instances:
            await asyncio.gather(*(pool.detach() for pool in list(self.pools.values())))
            for task in self._tasks:
                task.cancel()
            return
        for task in self._fetches:
            task.cancel()
        self._ending, self.pools = list(self.pools.values()), {}
        for pool in self._ending:
            self._spawn(pool.close())
        await self._wait(_GRACE)
        if self._tasks:
            self.report(f"end: not ended {_GRACE:g} s after SIGTERM, and killed: {self.left()}")
            await self.runner.kill_all()
            await self._wait(_KILLED)
        if self._tasks:
            self.report(f"end: not ended {_KILLED:g} s after SIGKILL, and left to the worker: {self.left()}")

    def left(self) -> str:
        """Returns the names of the instances that the end has not reached, "" for none."""
        return ", ".join(name for pool in self._ending for name in pool.members)

    async def _wait(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)


def _pinned(reference: str, digest: str) -> str:
    """Returns reference@digest, as Knative reports a resolved image."""
    if not digest or "@" in reference:
        return reference if "@" in reference else digest
    name, colon, tag = reference.rpartition(":")
    return f"{name if colon and '/' not in tag else reference}@{digest}"
