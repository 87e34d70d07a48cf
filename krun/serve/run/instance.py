"""Instances, as the control plane and the proxy see them. Everything here runs on the server's event loop."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from krun.errors import KrunError
from krun.serve.run import logs
from krun.serve.run import volumes as volume_plans
from krun.serve.run.client import Worker, start_worker
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Image
from krun.serve.run.image.config import of as image_config
from krun.serve.run.network import connect_inside

_STOP_MARGIN = 10.0  # seconds after SIGKILL in which a container must have ended
_BACKOFF = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before restart n; Kubernetes waits 10 s and doubles


@dataclass(frozen=True)
class InstanceSpec:
    """What an instance is made of; see docs/serve.md.

    containers: core/v1 Container with defaults applied; `env` and `envFrom` are resolved here. lookup: kind ("ConfigMap",
    "Secret") and name -> object or None. port: where the program listens. grace_seconds: between SIGTERM and SIGKILL.
    serving: name of the container that gets PORT.
    """

    id: str
    namespace: str
    service: str
    configuration: str
    revision: str
    containers: list[dict[str, Any]]
    volumes: list[dict[str, Any]]
    lookup: volume_plans.Lookup
    port: int
    grace_seconds: float
    serving: str = "user-container"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str = "default"


@dataclass(frozen=True)
class ContainerExit:
    """How a container ended: exit code (128 + signal where one killed it), signal or 0, whether for memory, its last words."""

    container: str
    code: int
    signal: int
    oom: bool
    message: str

    @property
    def reason(self) -> str:
        """The word for a condition: OOMKilled, or ExitCodeN (knative/serving, revision_lifecycle.go)."""
        return "OOMKilled" if self.oom else f"ExitCode{self.code}"


class Instance:
    """A running instance; made by Runner.start. `state` is "starting", "running" or "exited"."""

    def __init__(self, runner: "Runner", spec: InstanceSpec, netns: int, started: float) -> None:
        self.runner = runner
        self.spec = spec
        self.id = spec.id
        self.netns = netns
        self.started = started
        self.state = "starting"
        self.pids: dict[str, int] = {}
        self.restarts: dict[str, int] = {}
        self.last_exit: dict[str, ContainerExit] = {}
        self.digests: dict[str, str] = {}
        self.stopping = False
        self.on_exit: Callable[[Instance, ContainerExit], None] | None = None
        self.on_restart: Callable[[Instance, str], None] | None = None
        self._prepared: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()

    def connect(self, port: int) -> socket.socket:
        """Return a non-blocking socket that connects to 127.0.0.1:port inside the instance's network. Raises SysError, OSError."""
        return connect_inside(self.netns, port)

    async def exec(self, container: str, argv: list[str], timeout: float) -> int:
        """Run a program in a container; returns its status, -1 after the time-out (s). Raises KrunError."""
        answer, _ = await self.runner.worker.call(
            "exec", id=self.id, container=container, argv=argv, timeout=timeout
        )
        return int(answer["status"])

    async def stop(self, grace: float) -> None:
        """End all containers: SIGTERM, after `grace` seconds SIGKILL, then take the instance down. Idempotent."""
        if self.stopping:
            while self.state != "exited":
                await self._wait(None)
            return
        self.stopping = True
        try:
            await self._signal_and_wait(signal.SIGTERM, grace)
            await self._signal_and_wait(signal.SIGKILL, _STOP_MARGIN)
            await self.runner.worker.call("remove", id=self.id)
        except StartError as error:
            if "does not exist" not in error.message:
                raise
        finally:
            self._gone()

    async def _signal_and_wait(self, signo: int, seconds: float) -> None:
        if not self.pids:
            return
        await self.runner.worker.call("kill", id=self.id, signal=int(signo))
        end = asyncio.get_running_loop().time() + seconds
        while self.pids and asyncio.get_running_loop().time() < end:
            await self._wait(end - asyncio.get_running_loop().time())

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            pass

    async def restart(self, container: str) -> None:
        """End a container at once and start it again in the same network (liveness). Raises StartError."""
        await self.runner.worker.call("kill", id=self.id, container=container, signal=int(signal.SIGKILL))

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False, since: str = "", previous: bool = False,
             timestamps: bool = False) -> AsyncIterator[bytes]:  # fmt: skip
        """Return the output of a container as lines; see logs.read."""
        return self.runner.logs(
            self.id,
            container,
            tail=tail,
            follow=follow,
            since=since,
            previous=previous,
            timestamps=timestamps,
        )

    def exited(self, exit: ContainerExit) -> None:
        """Note that a container has ended; called by the runner. Restarts it unless the instance is to stop."""
        self.pids.pop(exit.container, None)
        self.last_exit[exit.container] = exit
        self._changed.set()
        if self.on_exit is not None:
            self.on_exit(self, exit)
        if not self.stopping:
            self.runner.background(self._start_again(exit.container))

    async def _start_again(self, container: str) -> None:
        count = self.restarts.get(container, 0)
        await asyncio.sleep(_BACKOFF[min(count, len(_BACKOFF) - 1)])
        if self.stopping or self.state == "exited":
            return
        self.restarts[container] = count + 1
        try:
            await self.start_container(container)
        except KrunError as error:
            self.exited(ContainerExit(container, 128, 0, False, error.message))
            return
        if self.on_restart is not None:
            self.on_restart(self, container)

    async def start_container(self, name: str) -> None:
        """Create and start one container. Raises StartError."""
        answer, _ = await self.runner.worker.call("start", id=self.id, container=self._prepared[name])
        self.pids[name] = answer["pid"]
        self.digests[name] = answer["digest"]

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
        for name in list(self.pids):
            exit = ContainerExit(name, 137, 9, False, "the worker of krun serve died")
            self.last_exit[name] = exit
            if self.on_exit is not None:
                self.on_exit(self, exit)
        self.stopping = True
        self._gone()


class Runner:
    """Starts instances. Arguments: config for the worker (worker.Worker has the keys).

    on_exit of an instance is called on the loop. `token` makes service account tokens: (namespace, account, audience, seconds).
    """

    def __init__(
        self, config: dict[str, Any], token: Callable[[str, str, str, int], str] | None = None
    ) -> None:
        self.config = config
        self.instances: dict[str, Instance] = {}
        self.token = token
        self.on_lost: Callable[[], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.worker: Worker

    async def open(self) -> dict[str, Any]:
        """Connect to the worker, which is started where there is none. Returns its `hello`: the instances of an earlier server."""
        loop = asyncio.get_running_loop()
        sock = await loop.run_in_executor(None, start_worker, self.config)
        self.worker = Worker(sock, self._event, self._lost)
        answer, _ = await self.worker.call("hello")
        return answer

    async def close(self, stop_worker: bool) -> None:
        """Let the worker go; with `stop_worker` it ends when its last instance has."""
        if stop_worker:
            await self.worker.call("stop")
        self.worker.close()

    async def resolve_image(self, reference: str) -> Image:
        """Return an image, fetched and unpacked. Raises StartError."""
        answer, _ = await self.worker.call("image", image=reference)
        return Image(answer["digest"], image_config(answer["config"], reference), answer["layers"])

    async def start(self, spec: InstanceSpec) -> Instance:
        """Start an instance: its network, volumes, then the containers in the manifest's order.

        "Boot or clone of a parked snapshot" is decided here and nowhere above. Raises StartError; nothing is left then.
        """
        prepared = self._prepare(spec)
        _, fds = await self.worker.call("sandbox", id=spec.id, spec=self._sandbox(spec, prepared))
        instance = Instance(self, spec, fds[0], asyncio.get_running_loop().time())
        instance._prepared = prepared
        self.instances[spec.id] = instance
        try:
            for container in spec.containers:
                await instance.start_container(container["name"])
            instance.state = "running"
        except BaseException:
            await asyncio.shield(instance.stop(0))
            raise
        return instance

    async def adopt(self, found: dict[str, Any], spec: InstanceSpec) -> Instance:
        """Take over an instance of an earlier server, from an entry of `open`'s answer. Raises StartError."""
        _, fds = await self.worker.call("netns", id=found["id"])
        instance = Instance(self, spec, fds[0], asyncio.get_running_loop().time())
        instance._prepared = self._prepare(spec)
        instance.state = "running"
        self.instances[spec.id] = instance
        for name, container in found["containers"].items():
            instance.restarts[name] = max(0, container["starts"] - 1)
            if container["pid"]:
                instance.pids[name] = container["pid"]
            elif container["exit"]:
                instance.exited(_exit(name, container["exit"]))
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

    def logs(self, id: str, container: str, **options: Any) -> AsyncIterator[bytes]:
        """Return a container's output; also after its instance has gone, until `forget`."""
        return logs.read(os.path.join(self.config["directory"], "logs", id, container), **options)

    def _event(self, message: dict[str, Any]) -> None:
        instance = self.instances.get(message["id"])
        if message.get("event") == "exit" and instance is not None:
            instance.exited(_exit(message["container"], message["exit"]))

    def _lost(self) -> None:
        for instance in list(self.instances.values()):
            instance.lost()
        if self.on_lost is not None:
            self.on_lost()

    def _prepare(self, spec: InstanceSpec) -> dict[str, dict[str, Any]]:
        """Return each container as the worker wants it: environment resolved, the platform's names added."""
        prepared = {}
        for container in spec.containers:
            own = dict(container)
            own["env"] = environment(container, spec.lookup, self._facts(spec)["pod"])
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

    def _sandbox(self, spec: InstanceSpec, prepared: dict[str, dict[str, Any]]) -> dict[str, Any]:
        del prepared
        return {
            "hostname": spec.id,
            "volumes": volume_plans.plan(spec.volumes, spec.lookup, self._facts(spec)),
            "owner": [spec.namespace, spec.revision],
        }

    def _facts(self, spec: InstanceSpec) -> dict[str, Any]:
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
            "status": {"podIP": "127.0.0.1"},
        }
        return {"token": token, "pod": pod}


def _exit(container: str, told: dict[str, Any]) -> ContainerExit:
    return ContainerExit(container, told["code"], told["signal"], told["oom"], told["message"])


def environment(
    container: dict[str, Any], lookup: volume_plans.Lookup, pod: dict[str, Any]
) -> list[dict[str, str]]:
    """Return `env` as names and values: envFrom first, then env, whose later entries win (kubelet, makeEnvironmentVariables).

    Raises StartError (CreateContainerConfigError) for an object or a key that is missing and not optional.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key in source:
                obj = lookup(kind, source[key]["name"])
                if obj is None and not source[key].get("optional"):
                    raise StartError(
                        "CreateContainerConfigError", f'{kind.lower()} "{source[key]["name"]}" not found'
                    )
                for name, data in volume_plans.data_of(kind, obj or {}).items():
                    found[(source.get("prefix") or "") + name] = data.decode("utf-8", "surrogateescape")
    for entry in container.get("env") or []:
        value = _value(entry, lookup, pod)
        if value is not None:
            found.pop(entry["name"], None)
            found[entry["name"]] = value
    return [{"name": name, "value": value} for name, value in found.items()]


def _value(entry: dict[str, Any], lookup: volume_plans.Lookup, pod: dict[str, Any]) -> str | None:
    """Return the value of an entry, or None for a reference that is optional and missing."""
    source = entry.get("valueFrom")
    if not source:
        return str(entry.get("value") or "")
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in source:
            own = source[key]
            obj = lookup(kind, own["name"])
            data = volume_plans.data_of(kind, obj or {})
            if own["key"] in data:
                return data[own["key"]].decode("utf-8", "surrogateescape")
            if own.get("optional"):
                return None
            missing = (
                f"couldn't find key {own['key']} in {kind} {own['name']}"
                if obj
                else f'{kind.lower()} "{own["name"]}" not found'
            )
            raise StartError("CreateContainerConfigError", missing)
    if "fieldRef" in source:
        return volume_plans.field_text(pod, source["fieldRef"].get("fieldPath", ""))
    raise StartError(
        "CreateContainerConfigError", f"env {entry['name']}: {', '.join(source)} is not supported"
    )
