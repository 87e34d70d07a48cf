"""The pool of a revision: brings the number of its instances to what is wanted, and tells how they are.

Only the autoscaler (scaling.py) calls `scale`. A start that fails is tried again, later and later, as long as an instance
is wanted.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from krun.errors import KrunError
from krun.serve.control import pods
from krun.serve.control.capacity import Capacity, each_of
from krun.serve.control.context import RevisionState
from krun.serve.control.member import Member, Starter, spec_of
from krun.serve.model import meta
from krun.serve.model.kinds import CONFIG_MAP, REVISION, SECRET
from krun.serve.model.status import ApiError
from krun.serve.proxy.metrics import Histogram
from krun.serve.proxy.queue import RevisionConfig, RevisionQueue
from krun.serve.run.errors import StartError, WorkerGone
from krun.serve.scale.share import Claim
from krun.serve.store.store import Store

Object = dict[str, Any]
_RETRY = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: Exits without having been ready after which requests get the reason instead of waiting.
_CRASHES = 3


def config_of(revision: Object) -> RevisionConfig:
    """Returns what the proxy needs to know of a revision."""
    spec, labels = revision["spec"], meta.labels(revision)
    port, protocol = pods.port_of(spec)
    return RevisionConfig(
        (meta.namespace(revision), meta.name(revision)),
        concurrency=spec.get("containerConcurrency", 0),
        timeout=float(spec.get("timeoutSeconds", 300)),
        response_start=float(spec.get("responseStartTimeoutSeconds", 0)),
        idle=float(spec.get("idleTimeoutSeconds", 0)),
        protocol=protocol,
        port=port,
        service=labels.get(meta.SERVICE_LABEL, ""),
        configuration=labels.get(meta.CONFIGURATION_LABEL, ""),
    )


class Pool:
    """See above. `on_change` is called whenever `state` or the members have changed."""

    def __init__(
        self,
        store: Store,
        starter: Starter,
        revision: Object,
        on_change: Callable[["Pool"], None],
        report: Callable[[str], None],
        capacity: Capacity,
    ) -> None:
        self.store = store
        self.capacity = capacity
        #: What one instance takes; requests that fill one; instances that stay without a request (the autoscaler sets both).
        self.each, self.full, self.floor = each_of(revision["spec"]), 1.0, 0
        #: Whether one instance stays, frozen, at zero (set by the autoscaler).
        self.keeps = False
        self.starter = starter
        # Not the revision itself: a thousand of them, parsed, would take 15 MB. The store has it.
        self.uid, self.version = meta.uid(revision), revision["metadata"]["resourceVersion"]
        self.on_change = on_change
        self.report = report
        self.namespace, self.name = meta.namespace(revision), meta.name(revision)
        self.loop = asyncio.get_running_loop()
        self.queue = RevisionQueue(config_of(revision), self.loop.time())
        self.state = RevisionState()
        self.members: dict[str, Member] = {}
        self.closed = False
        #: (kind, stage) -> how long it took, of starts: boot, clone, resume; start, ready (docs/serve.md).
        self.starts: dict[tuple[str, str], Histogram] = {}
        self._counted: set[str] = set()
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def revision(self) -> Object:
        """The revision as it is stored. Errors: ApiError 404, it has been deleted."""
        return self.store.need(REVISION, self.namespace, self.name)

    @property
    def ready(self) -> int:
        """Instances that take requests."""
        return sum(member.ready for member in self.members.values())

    def scale(self, wanted: int) -> None:
        """Wants `wanted` instances from now on: starts or stops some at once."""
        if self.closed:
            return
        changed = wanted != self.state.wanted
        self.state.wanted = wanted
        present = [member for member in self.members.values() if not member.leaving]
        if wanted == 0 and self.state.failure is not None:
            # A later request must try again instead of getting the old reason.
            self.queue.fail(None, self.loop.time())
        kept = self._kept() if not wanted else None
        if kept is None:
            self.shrink(len(present) - wanted)
        else:
            for member in present:
                if member is not kept:
                    self.drop(member)
            self.rest(self.loop.time(), 0.0)
        if wanted and not self.capacity.most(self.each):
            text = f"0/1 nodes are available: 1 Insufficient memory: an instance takes {self.each.memory >> 20} MiB"
            self._fail(
                ("ResourcesAvailable", "Unschedulable", f"{text} of {self.capacity.room.memory >> 20}")
            )
        else:
            self.capacity.ask(self)
        if changed:
            self.on_change(self)

    # ------------------------------------------------------------------------------- as a tenant of the capacity

    def claim(self) -> Claim:
        """Returns what the pool wants of the machine; no more than it has while a failed start waits for its next try."""
        active = [member for member in self.members.values() if not member.leaving]
        busy = sum(bool(member.backend and member.backend.in_flight) for member in active)
        waiting = math.ceil(self.queue.queued / (self.queue.config.concurrency or self.full))
        held = self.closed or self._retry is not None
        wanted = min(self.state.wanted, len(active)) if held else self.state.wanted
        if self.keeps:
            wanted = max(wanted, min(1, len(active)))
        needed = max(self.floor, busy + waiting)
        group = f"{self.namespace}/{self.queue.config.service or self.name}"
        return Claim(group, wanted, needed, len(active), self.each, self.queue.used)

    def held(self) -> int:
        """Returns the number of instances of which something is left."""
        return len(self.members)

    def grow(self, count: int) -> None:
        """Starts `count` instances; the capacity has room for them."""
        try:
            for _ in range(count):
                self._spawn(self._start(self._new()))
        except ApiError:
            pass  # the revision has been deleted: `close` follows

    def shrink(self, count: int) -> None:
        """Ends `count` instances: first those that never became ready, then those with the fewest requests, the newest first."""
        present = [member for member in self.members.values() if not member.leaving]
        present.reverse()
        present.sort(key=lambda one: (one.ready, not one.frozen, one.backend.in_flight if one.backend else 0))
        for member in present[: max(count, 0)]:
            self.drop(member)

    # -------------------------------------------------------------------------------------------------- freezer

    def _kept(self) -> Member | None:
        """The instance that stays at zero: a frozen one, else one that can be frozen."""
        if not self.keeps or self.closed:
            return None
        found = [one for one in self.members.values() if one.ready and one.freezes and not one.leaving]
        return max(found, key=lambda one: one.frozen, default=None)

    def rest(self, now: float, delay: float) -> None:
        """Freezes the instances that have had no request for `delay` seconds."""
        for member in self.members.values():
            backend = member.backend
            if member.frozen or member.leaving or not member.ready or not member.freezes or backend is None:
                continue
            busy = backend.in_flight or member.sessions or self.queue.queued
            if not busy and now - backend.used >= delay:
                member.frozen = True
                self._spawn(self._freeze(member))

    def wake(self) -> None:
        """Thaws as many frozen instances as the requests that wait need."""
        frozen = [one for one in self.members.values() if one.frozen and not one.leaving]
        if not frozen:
            return
        needed = math.ceil(self.queue.queued / (self.queue.config.concurrency or self.full))
        for member in frozen[:needed]:
            if not member.thawing:
                member.thawing = True
                self._spawn(self._thaw(member))

    async def _freeze(self, member: Member) -> None:
        try:
            await member.freeze()
        except KrunError as error:
            self.report(f"freeze instance {member.name}: {error.message}; it runs on")
            self._replace(member) if member.frozen else None
        if self.queue.queued:
            self.wake()

    async def _thaw(self, member: Member) -> None:
        began = self.loop.time()
        try:
            await member.thaw()
            self._took("resume", "ready", self.loop.time() - began)
        except KrunError as error:
            self.report(f"thaw instance {member.name}: {error.message}; it is replaced")

    def _replace(self, member: Member) -> None:
        """An instance that cannot be thawed gives way to another one."""
        self.drop(member)
        self.scale(self.state.wanted)

    # ------------------------------------------------------------------------------------------------- members

    def drop(self, member: Member, grace: float | None = None) -> None:
        """Stops a member; the caller has counted it out, or wants another one in its place (scale again).

        grace: seconds for its requests and between SIGTERM and SIGKILL; None: the revision's.
        """
        if not member.leaving:
            member.leaving = True
            self._spawn(self._stop(member, self.queue.config.timeout if grace is None else grace))

    def _new(self) -> Member:
        """Returns a member that counts from now on."""
        revision = self.revision
        name = pods.new_name(revision)
        member = self.members[name] = self._member(name, revision)
        return member

    async def _start(self, member: Member) -> None:
        if self.closed or member.leaving:
            self._gone(member)
            member.abandon()
            return
        try:
            await member.start()
        except WorkerGone:
            # No failure of the revision's: its requests wait for the next worker, with which `lost` asks again.
            self._later(_RETRY[0])
            self._gone(member)
            return
        except KrunError as error:
            self._gone(member)
            reason = error.reason if isinstance(error, StartError) else "CreateContainerError"
            self._failed(reason, error.message)
            return
        except asyncio.CancelledError:
            self._gone(member)
            raise
        except Exception as error:
            # Nobody expected it: a try has failed, and its room is free.
            self._gone(member)
            self._failed("CreateContainerError", f"internal error: {error!r}"[:500])
            return
        self._failures = 0

    def _gone(self, member: Member) -> None:
        """Nothing is left of a member: its room is free."""
        self.members.pop(member.name, None)
        self._counted.discard(member.name)
        self.capacity.freed(self)

    def adopt(self, member: Member) -> None:
        """Takes a member in whose instance an earlier server started."""
        self.members[member.name] = member

    def member(self, name: str) -> Member:
        """Returns a member for an instance that is there already; `adopt` and Member.take follow."""
        return self._member(name, self.revision)

    def _member(self, name: str, revision: Object) -> Member:
        spec = spec_of(revision, name, self._lookup)
        return Member(self.store, self.starter, self.queue, revision, spec, self._changed)

    def _lookup(self, kind: str, name: str) -> Object | None:
        table = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}
        return self.store.get(table[kind], self.namespace, name) if kind in table else None

    def _failed(self, reason: str, message: str) -> None:
        self.report(f"start an instance of {self.namespace}/{self.name}: {reason}: {message}")
        delay = _RETRY[min(self._failures, len(_RETRY) - 1)]
        self._failures += 1
        if not self.ready:
            self._fail(("ResourcesAvailable", reason, message))
        self._later(delay)
        self.on_change(self)

    def _later(self, delay: float) -> None:
        """Nothing is started for `delay` seconds."""
        if self._retry is None and not self.closed:
            self._retry = self.loop.call_later(delay, self._again)

    def _fail(self, failure: tuple[str, str, str]) -> None:
        self.state.failure = failure
        # Whoever sends a request learns the reason, not the message: that has paths, registries, what the program wrote last.
        self.queue.fail(f"{failure[1]}\n", self.loop.time())

    def _again(self) -> None:
        self._retry = None
        self.scale(self.state.wanted)

    def _changed(self, member: Member) -> None:
        """A member has become ready or unready, one of its containers has ended, or it cannot be thawed."""
        if member.stuck and not member.leaving:
            self._replace(member)
        self.state.ready = self.ready
        self._count(member)
        if self.state.ready:
            self.state.failure = None
        elif member.last_exit is not None and not member.leaving:
            ended = member.last_exit
            text = ended.message or ("OOMKilled" if ended.oom else "")
            if ended.code == 0 and not text:
                text = "container exited with no error"
            failure = ("ContainerHealthy", f"ExitCode{ended.code}", f"Container failed with: {text}")
            self.state.failure = failure
            if member.exits >= _CRASHES:
                self._fail(failure)
        self.on_change(self)

    def _count(self, member: Member) -> None:
        """Counts the start of a member that has become ready for the first time."""
        if not member.ready_seconds or member.name in self._counted or member.instance is None:
            return
        self._counted.add(member.name)
        kind = member.instance.origin
        if kind != "adopt":
            self._took(kind, "start", member.start_seconds)
            self._took(kind, "ready", member.ready_seconds - member.start_seconds)

    def _took(self, kind: str, stage: str, seconds: float) -> None:
        self.starts.setdefault((kind, stage), Histogram()).add(seconds)

    async def _stop(self, member: Member, grace: float) -> None:
        try:
            await member.stop(grace)
        except KrunError as error:
            self.report(f"stop instance {member.name}: {error.message}")
        finally:
            self._gone(member)
            self.state.ready = self.ready
            if not self.closed:
                self.on_change(self)

    def _spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.report(f"pool {self.namespace}/{self.name}: internal error: {task.exception()!r}")

    async def close(self) -> None:
        """The revision is gone: ends all instances in their grace; requests that wait get the reason."""
        self.keeps = False
        self.scale(0)
        self.closed = True
        self._end("the revision has been deleted\n")
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def lost(self) -> None:
        """All instances have gone (the worker died): others are started in their place.

        Those that are being started stay: their starts fail, or the next worker has got them already.
        """
        for member in list(self.members.values()):
            if member.instance is not None and member.instance.state == "exited":
                del self.members[member.name]
                member.lost()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.state.ready = 0
        self.capacity.freed(self)
        self.scale(self.state.wanted)

    def _end(self, reason: str) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self.queue.fail(reason, self.loop.time())

    async def detach(self) -> None:
        """The server ends, the instances stay: nothing here looks at them any more."""
        self.closed = True
        self.on_change = lambda pool: None
        self._end("krun serve is ending\n")
        for member in self.members.values():
            member.detach()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=5)
