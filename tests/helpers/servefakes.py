"""The control plane of krun serve with instances that are no containers: a socket server of the test stands for all of them."""

import asyncio
import contextlib
import socket
import time

from krun.serve.api.router import Api
from krun.serve.control.capacity import Capacity
from krun.serve.control.config import Config
from krun.serve.control.configs import LiveConfig
from krun.serve.control.engine import Engine
from krun.serve.control.hosts import HostTables
from krun.serve.control.pools import Pools
from krun.serve.http.types import Request
from krun.serve.model import conditions
from krun.serve.model.kinds import REVISION, ROUTE, SERVICE
from krun.serve.proxy.routes import HostTable
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Image
from krun.serve.run.image.config import of as image_config
from krun.serve.run.spec import ContainerExit
from krun.serve.scale.share import Amount
from krun.serve.store.store import Store

DIGEST = "sha256:" + "1" * 64


class FakeInstance:
    """What Member and Prober need of an instance."""

    def __init__(self, runner, spec):
        self.runner, self.spec, self.id = runner, spec, spec.id
        self.pids = {one["name"]: 1 for one in spec.containers}
        self.restarts, self.last_exit, self.digests = {}, {}, {}
        self.on_exit = self.on_restart = None
        self.stopped = None
        self.paused, self.turns = False, []
        self.stopping = False
        self.origin = "boot"
        self.address = "127.0.0.1"
        self.state = "running"

    def connect(self, port):
        sock = socket.socket()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(self.runner.address)
        return sock

    async def exec(self, container, argv, timeout):
        return 0

    async def pause(self):
        self.turns.append("pause")
        await self.runner.freezer(self, True)
        self.paused = True

    async def resume(self):
        self.turns.append("resume")
        await self.runner.freezer(self, False)
        self.paused = False

    async def restart(self, container):
        self.crash(137)

    def crash(self, code, message="", oom=False):
        """The container ends, and runs again at once."""
        name = self.spec.containers[0]["name"]
        ended = ContainerExit(name, code, 0, oom, message)
        self.last_exit[name] = ended
        self.pids.pop(name, None)
        self.on_exit(self, ended)

    def again(self):
        """The container runs again."""
        name = self.spec.containers[0]["name"]
        self.pids[name] = 2
        self.restarts[name] = self.restarts.get(name, 0) + 1
        self.on_restart(self, name)

    async def stop(self, grace):
        self.stopped = grace
        self.runner.instances.pop(self.id, None)


class FakeRunner:
    """Runner, without containers. `errors`: what the next starts raise; `missing`: images that are not there."""

    def __init__(self, address):
        self.address = address
        self.instances, self.started, self.errors, self.missing = {}, [], [], set()
        self.gate = None

    async def freezer(self, instance, frozen):
        """What pausing and resuming does; tests make it fail or wait."""

    async def resolve_image(self, reference):
        if reference in self.missing:
            raise StartError("ContainerMissing", f'Unable to fetch image "{reference}": not there')
        return Image(DIGEST, image_config({}, reference), [])

    async def start(self, spec):
        self.started.append((time.monotonic(), spec))
        if self.errors:
            raise self.errors.pop(0)
        if self.gate is not None:
            await self.gate.wait()
        instance = self.instances[spec.id] = FakeInstance(self, spec)
        return instance

    async def adopt(self, found, spec):
        instance = self.instances[spec.id] = FakeInstance(self, spec)
        instance.paused = found.get("paused", False)
        return instance

    async def kill_all(self):
        self.instances.clear()

    async def logs(self, id, container, **options):
        yield f"{id} {container}\n".encode()


class Waiter:
    """A request that waits for an instance."""

    def __init__(self, client=""):
        self.client = client
        self.backend, self.refused, self.done = None, None, False

    def attach(self, backend):
        self.backend = backend

    def refuse(self, status, text):
        self.refused = (status, text)


class World:
    """Store, control and API on one loop."""

    def __init__(self, path=":memory:", config=None, found=(), room=None):
        self.capacity = Capacity(room or Amount(1000, 1 << 50))
        self.lines = []
        self.path, self.base, self.found = path, config or Config(), list(found)

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.runner = FakeRunner(self.server.sockets[0].getsockname())
        self.store = Store(self.path)
        self.live = LiveConfig(self.store, self.base, self.lines.append)
        self.table = HostTable()

        def config():
            return self.live.config

        self.pools = Pools(self.store, self.runner, config, self._changed, self.lines.append, self.capacity)
        self.hosts = HostTables(self.table, config, self.pools.queue_of)
        self.engine = Engine(
            self.store, config, self.pools, self.hosts, after=self.hosts.flush, report=self.lines.append
        )
        self.api = Api(self.store, lambda: config().options, logs=self.pools.logs)
        self.api.rest.check = self.live.check
        self.live.on_change = lambda: (self.pools.reconfigure(), self.engine.start())  # as App
        self.orphans = self.pools.found(self.found)
        self.engine.start()
        return self

    async def __aexit__(self, *error):
        self.engine.close()
        await self.pools.close(False)
        self.store.close()
        self.server.close()

    async def _serve(self, reader, writer):
        writer.close()

    def _changed(self, namespace, name):
        self.engine.enqueue((REVISION, namespace, name))

    async def call(self, method, path, obj=None, media="application/json"):
        """A request to the API: (status, body)."""
        import json

        data = json.dumps(obj).encode() if obj is not None else b""
        parts = [data] if data else []

        async def receive():
            return parts.pop(0) if parts else b""

        headers = [(b"host", b"localhost"), (b"content-type", media.encode())]
        answer = await self.api.handle(Request(method.encode(), path.encode(), headers, receive=receive))
        body = answer.body if isinstance(answer.body, bytes) else b"".join([one async for one in answer.body])
        return answer.status, json.loads(body) if body[:1] == b"{" else body

    async def until(self, condition, what, seconds=30.0):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < end, f"{what}; reported: {self.lines}"
            await asyncio.sleep(0.005)

    def service(self, name="hello"):
        return self.store.get(SERVICE, "default", name) or {}

    def condition(self, kind, name, condition):
        """(status, reason, message) of a condition."""
        obj = self.store.get(kind, "default", name) or {}
        found = conditions.find(obj.get("status"), condition) or {}
        return found.get("status"), found.get("reason", ""), found.get("message", "")

    async def ready(self, name="hello"):
        """Waits until a Service is ready at its newest generation."""
        return await self.until(
            lambda: conditions.is_ready(self.service(name)) and self.service(name), f"{name} is ready"
        )

    def targets(self, host):
        """revision -> weight of a host."""
        route = self.table.lookup(host.encode())
        return {one.queue.config.key[1]: one.weight for one in route.targets} if route else None

    async def leads(self, host, wanted):
        """Waits until a host leads where it should: the ingress follows the objects at the end of the engine's turn."""
        await self.until(lambda: self.targets(host) == wanted, f"{host} leads to {wanted}")

    def route(self, name="hello"):
        return self.store.get(ROUTE, "default", name)
