"""One instance of a revision's pool: started, probed, offered to the queue, taken away and stopped.

States: starting (no queue knows it), ready (a Backend is in the queue), unready (it was, its probe fails), frozen (ready, but
stopped by the cgroup freezer and not in the queue), leaving.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.control import pods
from krun.serve.model import meta
from krun.serve.model.values import now
from krun.serve.proxy.queue import Backend, RevisionQueue
from krun.serve.run.instance import Instance
from krun.serve.run.probe import Prober
from krun.serve.run.spec import ContainerExit, InstanceSpec
from krun.serve.store.store import Store

Object = dict[str, Any]


class Starter(Protocol):
    """What a member needs of run.instance.Runner."""

    async def start(self, spec: InstanceSpec) -> Instance: ...


class Member:
    """Owner of one instance. `changed` is called after each change of `ready`, `exits` or `phase`."""

    def __init__(
        self,
        store: Store,
        starter: Starter,
        queue: RevisionQueue,
        revision: Object,
        spec: InstanceSpec,
        changed: Callable[["Member"], None],
    ) -> None:
        self.store = store
        self.starter = starter
        self.queue = queue
        self.spec = spec
        self.revision = revision
        self.changed = changed
        self.name = spec.id
        self.instance: Instance | None = None
        self.backend: Backend | None = None
        self.ready = False
        self.leaving = False
        #: Why it is evicted (eviction.py), in the kubelet's words; "" if it is not.
        self.evicted = ""
        #: Frozen, or about to be; thawing: a request waits for it, or it is about to be ended.
        self.frozen = self.thawing = False
        #: Whether it may be frozen: not again after the freezer has failed.
        self.freezes = True
        #: Frozen, and it could not be thawed.
        self.stuck = False
        #: Sessions of clients in it (exec, attach, port-forward): it is not frozen under them.
        self.sessions = 0
        self._turn = asyncio.Lock()
        #: Whether its Pod has been made.
        self._registered = False
        self.exits = 0
        #: Seconds from the wish to the running containers, and to readiness; 0.0 while they are not there.
        self.wanted = asyncio.get_running_loop().time()
        self.start_seconds = self.ready_seconds = 0.0
        self.last_exit: ContainerExit | None = None
        self._probers: list[Prober] = []
        self._good: dict[str, bool] = {}
        self._loop = asyncio.get_running_loop()
        #: Set when the start is over, whatever came of it: a stop waits for it.
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Starts the instance. Errors: StartError; nothing is left then."""
        # The order to the worker first: this task goes on without a pause until it has been sent. The Pod is written while the
        # worker works; the disk would hold up the order for a millisecond.
        writing = self._loop.call_soon(self._register_early)
        try:
            instance = await self.starter.start(self.spec)
            writing.cancel()
            try:
                self._register()
            except KrunError:
                await instance.stop(0)
                raise
            self.take(instance)
        except BaseException:
            self.leaving = True
            pods.remove(self.store, self.spec.namespace, self.name)
            raise
        finally:
            self._started.set()

    def _register_early(self) -> None:
        with contextlib.suppress(KrunError):
            self._register()  # `start` tries again, and fails with what is wrong with the store

    def _register(self) -> None:
        """Makes the Pod, once. Errors: KrunError, the store cannot be written."""
        if not self._registered and not self.leaving:
            pods.create(self.store, self.revision, self.name)
            self._registered = True

    def abandon(self) -> None:
        """The member is not wanted any more before its start began."""
        self.leaving = True
        self._started.set()

    def take(self, instance: Instance) -> None:
        """Takes a running instance over (also one of an earlier server) and begins to probe it."""
        self.instance = instance
        self.start_seconds = self._loop.time() - self.wanted
        self._started.set()
        instance.on_exit = self._exited
        instance.on_restart = self._restarted
        if instance.paused:
            # An earlier server froze it: it was ready then.
            self.frozen, self._good = True, {one["name"]: True for one in self.spec.containers}
            self._settle()
            return
        for container in self.spec.containers:
            self._probe(container)
        for name, ended in instance.last_exit.items():
            if name not in instance.pids:
                self._exited(instance, ended)
        self._settle()

    # -------------------------------------------------------------------------------------------------- probes

    def _probe(self, container: Object) -> None:
        """Starts a container's probes; readiness and liveness begin when the startup probe has succeeded."""
        name = container["name"]
        readiness = container.get("readinessProbe")
        self._good[name] = readiness is None
        startup = container.get("startupProbe")
        if startup is None:
            self._begin(container)
            return
        self._good[name] = False

        def started(good: bool, message: str) -> None:
            if good:
                self._good[name] = readiness is None
                self._begin(container)
                self._settle()
            else:
                self._kill(name)

        self._prober(container, startup, "startup", started)

    def _begin(self, container: Object) -> None:
        name = container["name"]

        def readied(good: bool, message: str) -> None:
            self._good[name] = good
            self._settle()

        def lived(good: bool, message: str) -> None:
            if not good:
                self._kill(name)

        if container.get("readinessProbe") is not None:
            self._prober(container, container["readinessProbe"], "readiness", readied)
        if container.get("livenessProbe") is not None:
            self._prober(container, container["livenessProbe"], "liveness", lived)

    def _prober(
        self, container: Object, probe: Object, kind: str, change: Callable[[bool, str], None]
    ) -> None:
        assert self.instance is not None
        ports = {port.get("name", ""): port["containerPort"] for port in container.get("ports") or ()}
        prober = Prober(
            self.instance,
            probe,
            kind,
            change,
            container=container["name"],
            port=self.spec.port,
            names=ports,
        )
        self._probers.append(prober)
        prober.start()

    def _stop_probes(self, container: str = "") -> None:
        for prober in self._probers:
            if not container or prober.container == container:
                prober.stop()
        self._probers = [one for one in self._probers if container and one.container != container]

    def _kill(self, container: str) -> None:
        """A container whose liveness or startup probe has failed is ended; the runner starts it again."""
        if self.instance is not None and not self.leaving:
            task = self._loop.create_task(self.instance.restart(container))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    # --------------------------------------------------------------------------------------------------- freezer

    async def freeze(self) -> None:
        """Takes an instance without requests out of the queue, and freezes it. Its probes rest. Errors: KrunError; it runs on then."""
        assert self.instance is not None
        self.frozen = True
        if self.backend is not None and self.backend.in_flight or self.leaving or self.sessions:
            # A request, or a session, has come since the decision.
            self.frozen = self.thawing = False
            return
        self._withdraw()
        self._stop_probes()
        async with self._turn:
            try:
                await self.instance.pause()
            except KrunError:
                self.freezes = False
                await self._wake()
                raise
        self.show()
        self.changed(self)

    async def thaw(self) -> None:
        """Lets the instance go on and offers it to the queue. Errors: KrunError; it is `stuck` then, and the pool replaces it."""
        self.thawing = True
        try:
            async with self._turn:
                await self._wake()
        except KrunError:
            # Whoever asked: a request, a session, an exit.
            self.stuck = True
            self.changed(self)
            raise

    async def _wake(self) -> None:
        """Undoes `freeze`. An instance that was ready is offered at once: nothing has happened in it since."""
        assert self.instance is not None
        if not self.frozen:
            self.thawing = False
            return
        await self.instance.resume()
        self.frozen = self.thawing = False
        if self.leaving:
            return
        for container in self.spec.containers:
            good = self._good.get(container["name"], False)
            if container["name"] in self.instance.pids:
                self._begin(container)
                self._good[container["name"]] = good
        if self.ready:
            self._offer()
        self._settle()

    # --------------------------------------------------------------------------------------------- exits, state

    def _exited(self, instance: Instance, ended: ContainerExit) -> None:
        self._stop_probes(ended.container)
        self._good[ended.container] = False
        self.last_exit = ended
        self.exits += 1
        self._settle()
        if self.frozen and not self.leaving:
            # cgroup v2 lets a signal end a frozen process. The container that follows runs, and so must the others.
            task = self._loop.create_task(self.thaw())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _restarted(self, instance: Instance, container: str) -> None:
        found = next((one for one in self.spec.containers if one["name"] == container), None)
        if found is not None and not self.leaving:
            self._stop_probes(container)
            self._probe(found)
            self._settle()

    def _settle(self) -> None:
        """Offers the instance to the queue, or takes it back, as its probes say."""
        good = not self.leaving and self.instance is not None and all(self._good.values())
        if good != self.ready:
            self.ready = good
            if not good:
                self._withdraw()
            elif not self.frozen:
                self._offer()
        self.show()
        self.changed(self)

    def _offer(self) -> None:
        instance, port = self.instance, self.spec.port
        assert instance is not None
        self.last_exit = None
        self.ready_seconds = self.ready_seconds or self._loop.time() - self.wanted
        self.backend = Backend(self.name, lambda: instance.connect(port), self.queue.config.concurrency)
        self.queue.add(self.backend, self._loop.time())

    def _withdraw(self) -> None:
        if self.backend is not None:
            self.queue.remove(self.backend)

    def show(self) -> None:
        """Writes the Pod's status. No error: a full disk must end neither a probe nor the restart of a container."""
        instance = self.instance
        statuses = []
        for container in self.spec.containers:
            name = container["name"]
            restarts = instance.restarts.get(name, 0) if instance else 0
            digest = instance.digests.get(name, "") if instance else ""
            last = instance.last_exit.get(name) if instance else None
            terminated = (
                {
                    "exitCode": last.code,
                    "reason": "OOMKilled" if last.oom else "Error" if last.code else "Completed",
                    "message": last.message,
                    "finishedAt": now(),
                }
                if last
                else None
            )
            known = self._known_termination(name, restarts)
            if terminated and known:
                terminated["finishedAt"] = known.get("finishedAt", terminated["finishedAt"])
            running = instance is not None and name in instance.pids
            waiting = "" if running else "CrashLoopBackOff" if last else "ContainerCreating"
            good = self._good.get(name, False)
            statuses.append(pods.container_status(container, restarts, good, digest, terminated, waiting))
        phase = "Running" if instance else "Pending"
        address = instance.address if instance else "127.0.0.1"
        with contextlib.suppress(KrunError):  # the next change writes it
            pods.update(
                self.store, self.spec.namespace, self.name, statuses, self.ready, phase, address, self.evicted
            )

    def _known_termination(self, container: str, restarts: int) -> Object | None:
        from krun.serve.model.kinds import POD

        pod = self.store.get(POD, self.spec.namespace, self.name)
        for one in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
            if one["name"] == container and one["restartCount"] == restarts:
                found: Object | None = one["lastState"].get("terminated")
                return found
        return None

    # ------------------------------------------------------------------------------------------------- the end

    def detach(self) -> None:
        """Leaves the instance as it is, and looks at it no more."""
        self.leaving = True
        self._stop_probes()
        self.changed = lambda member: None
        if self.instance is not None:
            self.instance.on_exit = self.instance.on_restart = None
            # The runner must not start a container again while the server ends.
            self.instance.stopping = True

    def lost(self) -> None:
        """The instance has gone without a stop: nothing of it stays here."""
        self.leaving, self.ready = True, False
        self._started.set()
        self._stop_probes()
        if self.backend is not None:
            self.queue.remove(self.backend)
        with contextlib.suppress(KrunError):  # the next server removes it
            pods.remove(self.store, self.spec.namespace, self.name)

    async def stop(self, grace: float) -> None:
        """Takes the instance out of the queue, waits for its requests, ends it (SIGTERM, SIGKILL after `grace` s in all)."""
        self.leaving = True
        self.ready = False
        await self._started.wait()
        self._stop_probes()
        async with self._turn:
            pass  # the freezer has done its work: a stop that overtakes it would wait for a frozen process
        end = self._loop.time() + grace
        try:
            if self.backend is not None:
                drained = self.queue.remove(self.backend)
                try:
                    async with asyncio.timeout(grace):
                        await asyncio.shield(drained)
                except TimeoutError:
                    pass
            if self.instance is not None:
                await self.instance.stop(max(end - self._loop.time(), 0.0))
        finally:
            pods.remove(self.store, self.spec.namespace, self.name)


def spec_of(revision: Object, name: str, lookup: Callable[[str, str], Object | None]) -> InstanceSpec:
    """Returns what an instance of a revision is made of."""
    spec = revision["spec"]
    labels = meta.labels(revision)
    return InstanceSpec(
        id=name,
        namespace=meta.namespace(revision),
        service=labels.get(meta.SERVICE_LABEL, ""),
        configuration=labels.get(meta.CONFIGURATION_LABEL, ""),
        revision=meta.name(revision),
        containers=spec["containers"],
        volumes=spec.get("volumes") or [],
        lookup=lookup,
        port=pods.port_of(spec)[0],
        grace_seconds=float(spec.get("timeoutSeconds", 300)),
        serving=pods.serving_container(spec)["name"],
        labels=labels,
        annotations=meta.annotations(revision),
        service_account=spec.get("serviceAccountName") or "default",
    )
