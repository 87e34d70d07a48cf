"""Instances, as the control plane and the proxy see them. Everything here runs on the server's event loop."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.names.zone import search
from krun.serve.run import logs
from krun.serve.run import volumes as volume_plans
from krun.serve.run.client import Worker, start_worker
from krun.serve.run.environment import environment
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Image
from krun.serve.run.image.config import of as image_config
from krun.serve.run.logs import Entry
from krun.serve.run.network import connect_inside
from krun.serve.run.session import Session, Sessions
from krun.serve.run.spec import ContainerExit, InstanceSpec, exit_of

_HELLO = 20.0  # seconds for a worker to say which instances it has
_STOP_MARGIN = 10.0  # seconds after SIGKILL in which a container must have ended
_BACKOFF = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before restart n; Kubernetes waits 10 s and doubles
_HEALTHY = 600.0  # a container that has run so long (s) starts the back-off anew (kubelet: 10 minutes)


class Instance:
    """A running instance; made by Runner.start. `state` is "starting", "running" or "exited"; `address` is its own in the
    instances' network, the loopback's where there is none.
    """

    def __init__(
        self, runner: "Runner", spec: InstanceSpec, netns: int, started: float, address: str = "127.0.0.1"
    ) -> None:
        self.runner = runner
        self.spec = spec
        self.id = spec.id
        self.netns = netns
        self.address = address
        self.started = started
        self.state = "starting"
        self.pids: dict[str, int] = {}
        self.restarts: dict[str, int] = {}
        self.last_exit: dict[str, ContainerExit] = {}
        self.digests: dict[str, str] = {}
        self.stopping = False
        self.paused = False
        #: How it came to be: "boot", "clone", or "adopt" for one of an earlier server.
        self.origin = "boot"
        self.on_exit: Callable[[Instance, ContainerExit], None] | None = None
        self.on_restart: Callable[[Instance, str], None] | None = None
        self._prepared: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self._stop: asyncio.Task[None] | None = None
        # By container. An exit may be told before the answer to its start has been read: starts are counted by the worker.
        self._ended: dict[str, int] = {}
        self._starts: set[asyncio.Future[Any]] = set()
        self._began: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def connect(self, port: int) -> socket.socket:
        """Return a non-blocking socket that connects to 127.0.0.1:port inside the instance's network. Raises SysError, OSError."""
        return connect_inside(self.netns, port)

    async def exec(self, container: str, argv: list[str], timeout: float) -> int:
        """Run a program in a container; returns its status, -1 after the time-out (s). Raises KrunError."""
        answer, _ = await self.runner.worker.call(
            "exec", id=self.id, container=container, argv=argv, timeout=timeout
        )
        return int(answer["status"])

    async def open(self, container: str, argv: list[str], streams: set[int], tty: bool) -> Session:
        """Start a program in a container with the standard streams asked for, or a terminal. Raises KrunError, OSError."""
        return await self.runner.sessions.open(self.id, container, argv, streams, tty)

    async def stop(self, grace: float) -> None:
        """End all containers: SIGTERM, after `grace` seconds SIGKILL, then take the instance down.

        Idempotent; a caller that is cancelled does not end it. Raises KrunError: the instance is no longer the server's then, the
        worker goes on with its removal.
        """
        self.stopping = True
        if self._stop is None:
            self._stop = asyncio.ensure_future(self._take_down(grace))
        await asyncio.shield(self._stop)

    async def _take_down(self, grace: float) -> None:
        try:
            await self._thaw()
            # From here on no container starts. A start that has been under way may have missed the signal.
            await self.runner.worker.call("kill", id=self.id, signal=int(signal.SIGTERM), ending=True)
            if self._starts:
                await asyncio.wait(self._starts)
                await self.runner.worker.call("kill", id=self.id, signal=int(signal.SIGTERM))
            await self._all_ended(grace)
            if self.pids:
                await self.runner.worker.call("kill", id=self.id, signal=int(signal.SIGKILL))
                await self._all_ended(_STOP_MARGIN)
            await self.runner.worker.call("remove", id=self.id)
        except KrunError as error:
            if "does not exist" not in error.message and self.state != "exited":
                # It could be neither thawed nor signalled: the removal ends what is left of it.
                with contextlib.suppress(KrunError):
                    await self.runner.worker.call("remove", id=self.id)
                raise
        finally:
            self._gone()

    async def _thaw(self) -> None:
        if self.paused:
            await self.resume()

    async def pause(self) -> None:
        """Freeze all containers; connections wait. Raises KrunError."""
        await self.runner.worker.call("pause", id=self.id, verb="pause")
        self.paused = True

    async def resume(self) -> None:
        """Let all containers go on. Raises KrunError."""
        await self.runner.worker.call("pause", id=self.id, verb="resume")
        self.paused = False

    async def publish(self, volume: str) -> None:
        """Give a ConfigMap, Secret, projected or downwardAPI volume its present files, all at once. Raises StartError, KrunError."""
        own = [entry for entry in self.spec.volumes if entry["name"] == volume]
        (planned,) = self.runner.plan(self.spec, own) or [{}]
        if "files" not in planned:
            raise KrunError(f"instance {self.id} has no volume of files {volume!r}")
        await self.runner.worker.call("publish", id=self.id, volume=volume, files=planned["files"])

    async def _all_ended(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self.pids and asyncio.get_running_loop().time() < end:
            await self._wait(end - asyncio.get_running_loop().time())

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def restart(self, container: str) -> None:
        """End a container at once and start it again in the same network (liveness). Raises StartError."""
        await self._thaw()
        await self.runner.worker.call("kill", id=self.id, container=container, signal=int(signal.SIGKILL))

    def logs(self, container: str, **options: Any) -> AsyncIterator[bytes]:
        """Return the output of a container as lines; options: see logs.read."""
        return self.runner.logs(self.id, container, **options)

    def attach(self, container: str, alive: Callable[[], bool]) -> AsyncIterator[Entry]:
        """Return what the present start of a container writes from now on; see logs.attach."""
        return logs.attach(self.runner.log_directory(self.id, container), alive)

    def exited(self, exit: ContainerExit, starts: int) -> None:
        """Note that a container's start number `starts` has ended; called by the runner. Restarts it unless the instance is to stop."""
        if starts <= self._ended.get(exit.container, 0):
            return  # told twice: by an event and by the answer to `adopt`
        self._ended[exit.container] = starts
        self.pids.pop(exit.container, None)
        self.last_exit[exit.container] = exit
        self._changed.set()
        if self.on_exit is not None:
            self.on_exit(self, exit)
        if not self.stopping:
            self.runner.background(self._start_again(exit.container))

    async def _start_again(self, container: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._began.get(container, now) >= _HEALTHY:
            self._failures[container] = 0
        while True:
            failures = self._failures.get(container, 0)
            self._failures[container] = failures + 1
            await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
            if self._stop is not None or self.state == "exited":
                return
            self.restarts[container] = self.restarts.get(container, 0) + 1
            try:
                await self.start_container(container)
                break
            except KrunError as error:
                if self.stopping:
                    return
                exit = ContainerExit(container, 128, 0, False, error.message)
                self.last_exit[container] = exit
                if self.on_exit is not None:
                    self.on_exit(self, exit)
        if self.on_restart is not None:
            self.on_restart(self, container)

    async def start_container(self, name: str) -> None:
        """Create and start one container. Raises StartError."""
        self._began[name] = asyncio.get_running_loop().time()
        self.pids.pop(name, None)
        start = asyncio.ensure_future(
            self.runner.worker.order("start", id=self.id, container=self._prepared[name])
        )
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        answer, _ = await start
        self.digests[name] = answer["digest"]
        if answer["starts"] > self._ended.get(name, 0):
            self.pids[name] = answer["pid"]

    def _gone(self) -> None:
        self.state = "exited"
        self.pids.clear()
        self._changed.set()
        if self.netns >= 0:
            os.close(self.netns)
            self.netns = -1
        self.runner.instances.pop(self.id, None)

    def lost(self) -> None:
        """The worker has died with all containers."""
        self.stopping = True
        for name in list(self.pids):
            exit = ContainerExit(name, 137, 9, False, "the worker of krun serve died")
            self.last_exit[name] = exit
            if self.on_exit is not None:
                self.on_exit(self, exit)
        self._gone()


class Clone(Protocol):
    """A way to an instance that is faster than a boot: a copy of a snapshot, parked before. There is none yet (docs/serve.md)."""

    async def __call__(self, spec: InstanceSpec) -> Instance | None:
        """Returns a running instance, listed in Runner.instances; None: nothing is parked for the spec. Raises StartError."""


class Runner:
    """Starts instances. Arguments: config for the worker (worker.Worker has the keys).

    on_exit of an instance is called on the loop. `token` makes service account tokens: (namespace, account, audience, seconds).
    `clone` is asked before an instance boots.
    """

    def __init__(
        self,
        config: dict[str, Any],
        token: Callable[[str, str, str, int], str] | None = None,
        clone: Clone | None = None,
    ) -> None:
        self.config = config
        self.clone = clone
        self.instances: dict[str, Instance] = {}
        self.token = token
        self.on_lost: Callable[[], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.sessions = Sessions(lambda: self.worker)
        self.worker: Worker = None  # type: ignore[assignment]  # until `open`

    async def open(self) -> dict[str, Any]:
        """Connect to the worker, which is started where there is none. Returns its `hello`: the instances of an earlier server.

        A worker with another network than this server's ends with its instances, and a new one takes its place.
        """
        hello = await self._open()
        if hello.get("network") != self.config.get("network"):
            for found in hello["instances"]:
                await self.worker.call("remove", id=found["id"])
            await self.close(True)
            hello = await self._open()
        return hello

    async def _open(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        for last in (False, False, True):
            sock = await loop.run_in_executor(None, start_worker, self.config)
            self.worker = worker = Worker(sock, self._event, self._lost)
            try:
                async with asyncio.timeout(_HELLO):
                    hello = (await worker.call("hello"))[0]
                break
            except TimeoutError:
                worker.close()
                path = os.path.join(self.config["directory"], "worker.sock")
                raise KrunError(
                    f"ask the worker at {path}: no answer after {_HELLO:g} s; is it stopped?"
                ) from None
            except KrunError:
                worker.close()  # else its loss would be told later: the worker's, as if the next connection were lost
                if last:
                    raise
                # A worker that was about to end had taken the connection: the next one waits for its lock.
                await asyncio.sleep(0.1)
        return worker.of_our_version(hello)

    async def close(self, stop_worker: bool) -> None:
        """Let the worker go; with `stop_worker` it takes down the instances that are left, and ends."""
        if stop_worker:
            await self.worker.call("stop")
        self.worker.close()

    def leave(self) -> None:
        """Let the worker go without a word. Idempotent."""
        if self.worker is not None:
            self.worker.close()

    def abandon(self) -> None:
        """Have the worker take down everything, without waiting for it: the server ends at once. Callable in a signal's handler."""
        if self.worker is not None:
            self.worker.tell("stop")

    async def resolve_image(self, reference: str) -> Image:
        """Return an image, fetched and unpacked. Raises StartError."""
        answer, _ = await self.worker.call("image", image=reference)
        return Image(answer["digest"], image_config(answer["config"], reference), answer["layers"])

    async def collect_images(self, references: list[str], rules: dict[str, float]) -> dict[str, Any]:
        """Remove unpacked layers that neither `references` nor an instance uses; see image.collector. Raises KrunError."""
        return (await self.worker.call("collect", references=references, rules=rules))[0]

    async def doors(self) -> tuple[str, list[socket.socket]]:
        """Return the address at which instances reach the server, and the sockets of run.doors, which the caller owns; without a
        network "" and none. Raises KrunError.
        """
        if not self.config.get("network"):
            # Not asked: a worker of an earlier version, which a restart keeps, does not know the command.
            return "", []
        answer, fds = await self.worker.call("doors")
        return answer["address"], [socket.socket(fileno=fd) for fd in fds]

    async def usage(self, id: str) -> dict[str, Any]:
        """Return the local storage of an instance (bytes by volume and container; run.usage). Raises KrunError."""
        return (await self.worker.call("usage", id=id))[0]

    async def start(self, spec: InstanceSpec) -> Instance:
        """Start an instance by the fastest way there is: a clone of a parked snapshot, else a boot.

        It is decided here and nowhere above; `Instance.origin` tells it. Raises StartError; nothing is left then.
        """
        cloned = await self.clone(spec) if self.clone is not None else None
        if cloned is not None:
            cloned.origin = "clone"
            return cloned
        return await self._boot(spec)

    async def _boot(self, spec: InstanceSpec) -> Instance:
        """Start an instance from its image: its network, volumes, then the containers in the manifest's order."""
        self._prepare(spec)  # what is wrong in the manifest is told before anything is made
        made = asyncio.ensure_future(self.worker.order("sandbox", id=spec.id, spec=self._sandbox(spec)))
        try:
            answer, fds = await asyncio.shield(made)
        except asyncio.CancelledError:
            self.background(self._discard(spec.id, made))
            raise
        address = answer["address"]
        instance = Instance(self, spec, fds[0], asyncio.get_running_loop().time(), address)
        self.instances[spec.id] = instance
        try:
            instance._prepared = self._prepare(spec, address)
            for container in spec.containers:
                await instance.start_container(container["name"])
            if instance.stopping:
                raise StartError("RunContainerError", f"instance {spec.id} is stopped")
            instance.state = "running"
        except BaseException:
            try:
                await instance.stop(0)
            except KrunError:
                pass  # the worker goes on with the removal; the cause is what counts
            raise
        return instance

    async def _discard(self, id: str, made: "asyncio.Future[Any]") -> None:
        """Remove an instance whose caller was cancelled before it was made."""
        try:
            _, fds = await made
            for fd in fds:
                os.close(fd)
            await self.worker.call("remove", id=id)
        except KrunError:
            pass  # it has not been made

    async def adopt(self, found: dict[str, Any], spec: InstanceSpec) -> Instance:
        """Take over an instance of an earlier server, from an entry of `open`'s answer. Raises StartError."""
        instance = Instance(self, spec, -1, asyncio.get_running_loop().time())
        instance._prepared = self._prepare(spec)
        # Known from here on: an exit between the answer and its reading is told as an event.
        self.instances[spec.id] = instance
        try:
            answer, fds = await self.worker.call("netns", id=found["id"])
            instance.netns = fds[0]
            instance.address = answer["address"]
            instance._prepared = self._prepare(spec, instance.address)
        except BaseException:
            instance._gone()
            raise
        instance.origin = "adopt"
        instance.paused = answer["paused"]
        instance.state = "running"
        for name, container in answer["containers"].items():
            instance.restarts[name] = max(0, container["starts"] - 1)
            if container["exit"]:
                instance.exited(exit_of(name, container["exit"]), container["starts"])
            elif container["pid"] and container["starts"] > instance._ended.get(name, 0):
                instance.pids[name] = container["pid"]
        return instance

    async def kill_all(self) -> None:
        """Send SIGKILL to every container: the server ends, and its grace is over."""
        for id in list(self.instances):
            try:
                await self.worker.call("kill", id=id, signal=int(signal.SIGKILL))
            except KrunError:
                pass  # it has gone in the meantime

    def background(self, work: "Any") -> None:
        """Run a coroutine that nobody waits for, and keep it until it ends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def logs(
        self, id: str, container: str, *, alive: Callable[[], bool] = lambda: False, **options: Any
    ) -> AsyncIterator[bytes]:
        """Return a container's output; also after its instance has gone, until `forget`. One that is followed goes on while there is an
        instance, or `alive()` says that there will be one.
        """
        return logs.read(
            self.log_directory(id, container), alive=lambda: id in self.instances or alive(), **options
        )

    def log_directory(self, id: str, container: str) -> str:
        """Where the logs of a container are."""
        return os.path.join(self.config["directory"], "logs", id, container)

    def _event(self, message: dict[str, Any]) -> None:
        instance = self.instances.get(message["id"])
        if message.get("event") == "exit" and instance is not None:
            instance.exited(exit_of(message["container"], message["exit"]), message["starts"])
        if message.get("event") == "program":
            self.sessions.ended(message["name"], message["code"])

    def _lost(self) -> None:
        for instance in list(self.instances.values()):
            instance.lost()
        self.sessions.lost()
        if self.on_lost is not None:
            self.on_lost()

    def _prepare(self, spec: InstanceSpec, address: str = "127.0.0.1") -> dict[str, dict[str, Any]]:
        """Return each container as the worker wants it: environment resolved, the platform's names added."""
        prepared = {}
        for container in spec.containers:
            own = dict(container)
            own["env"] = environment(container, spec.lookup, self._facts(spec, address)["pod"])
            own.pop("envFrom", None)
            own["platformEnv"] = {
                "K_SERVICE": spec.service,
                "K_CONFIGURATION": spec.configuration,
                "K_REVISION": spec.revision,
            }
            if container["name"] == spec.serving:
                own["platformEnv"]["PORT"] = str(spec.port)
            prepared[container["name"]] = own
        return prepared

    def plan(self, spec: InstanceSpec, volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the descriptions of volumes of an instance, from what its objects are now. Raises StartError."""
        return volume_plans.plan(volumes, spec.lookup, self._facts(spec))

    def _sandbox(self, spec: InstanceSpec) -> dict[str, Any]:
        return {
            "hostname": spec.id,
            "search": search(spec.namespace) if self.config.get("network") else [],
            "pids": self.config.get("pidsLimit"),
            "volumes": self.plan(spec, spec.volumes),
            "owner": [spec.namespace, spec.revision],
        }

    def _facts(self, spec: InstanceSpec, address: str = "127.0.0.1") -> dict[str, Any]:
        def token(audience: str, seconds: int) -> str:
            if self.token is None:
                raise StartError("CreateContainerConfigError", "service account tokens are not available")
            return self.token(spec.namespace, spec.service_account, audience, seconds)

        metadata = {
            "name": spec.id,
            "namespace": spec.namespace,
            "labels": dict(spec.labels),
            "annotations": dict(spec.annotations),
        }
        pod = {
            "metadata": metadata,
            "spec": {"serviceAccountName": spec.service_account},
            "status": {"podIP": address},
        }
        return {"token": token, "pod": pod}
