"""krun serve, put together: store, control, data path, API; their start and their end, in order.

Start: 1. the store and its lock (a second server on the same directory ends here); 2. the worker, found or started, with the
instances that it still has; 3. pools and reconcilers; 4. the ingress; 5. the API. End: the listeners first, the store last.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from krun.errors import KrunError, SysError
from krun.serve import descriptors, private
from krun.serve.api.remote import Remote as ApiRemote
from krun.serve.api.router import Api, Page
from krun.serve.control.capacity import Capacity, of_machine
from krun.serve.control.config import Config
from krun.serve.control.configs import LiveConfig
from krun.serve.control.engine import Engine
from krun.serve.control.eviction import Evictions
from krun.serve.control.hosts import HostTables
from krun.serve.control.imagegc import ImageGc
from krun.serve.control.pools import END as POOLS_END
from krun.serve.control.pools import Pools
from krun.serve.control.remote import Remote
from krun.serve.ending import Ending
from krun.serve.http.server import Server, serve
from krun.serve.http.types import Limits
from krun.serve.model.idle import Idle
from krun.serve.model.kinds import REVISION
from krun.serve.names.forward import Forward
from krun.serve.names.responder import Responder
from krun.serve.names.zone import Zone
from krun.serve.proxy.accesslog import session as session_line
from krun.serve.proxy.accesslog import writer as access_log_writer
from krun.serve.proxy.ingress import Ingress
from krun.serve.proxy.metrics import Family
from krun.serve.proxy.routes import HostTable
from krun.serve.run.instance import Runner
from krun.serve.seed import seed
from krun.serve.store.store import Store

Object = dict[str, Any]
_TRIM = 60.0
#: Seconds that requests have: when the instances end, and when the next server takes them over.
_DRAIN, _DRAIN_SHORT = 10.0, 0.5
_UNDO = 10.0
#: Bytes of the key that signs service account tokens.
_KEY = 32


class Options:
    """What the command line says (krun/serve/cli.py); every value has its default here."""

    directory = "/var/lib/krun-serve"
    runtime = ""
    flags: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    pull = True
    cgroup = "/krun-serve"
    layer_limit = 16 << 30
    network: dict[str, Any] | None = None
    #: Whether names that are no service's are asked of the host's name servers; else they are refused.
    forward_names = True
    api = ("127.0.0.1", 8001)
    unix = ""
    ingress = ("127.0.0.1", 8080)
    domain = "localhost"
    token = ""
    certificate = ""
    key = ""
    access_log = ""
    server_timing = False
    trace = False
    keep_instances = True
    url_port = True
    #: Bounds of all instances together: their number, their memory in bytes; 0: from the machine.
    instances = 0
    memory = 0
    #: Connections of one address to the services' port; 0: half of the port's.
    client_connections = 0
    #: Of revisions that say nothing.
    idle = Idle()


def report(line: str) -> None:
    """Writes a line of the server's log: time, text."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    sys.stderr.flush()


class App:
    """The server. `start` and `stop` are called on a running loop."""

    def __init__(self, options: Options, report: Callable[[str], None] = report) -> None:
        self.options = options
        self.report = report
        self.api_server: Server | None = None
        self.unix_server: Server | None = None
        self.ingress_port = 0
        #: The steady clock's, as every time that a duration is counted from.
        self.started = time.monotonic()
        self.stopping = False
        self._reopening: asyncio.Task[None] | None = None
        self.names: Responder | None = None
        self._descriptors = descriptors.given()
        self.limits = Limits.within(descriptors.widen(), options.client_connections)

    async def start(self) -> None:
        """Starts everything. Errors: KrunError; nothing is left running then."""
        options = self.options
        _check(options)
        tls = _tls(options)
        private.directory(options.directory)
        self.store = Store(os.path.join(options.directory, "store.sqlite"))
        self.runner = Runner(
            {
                "directory": options.directory,
                "runtime": options.runtime,
                "flags": list(options.flags),
                "images": list(options.images),
                "pull": options.pull,
                "cgroup": options.cgroup,
                "layerLimit": options.layer_limit,
                "network": options.network,
                "descriptors": self._descriptors,
            },
            token=_Tokens(options.directory).make,
        )
        try:
            hello = await self.runner.open()
        except BaseException:
            self.runner.leave()
            self.store.close()
            raise
        try:
            await self._serve(tls, hello["instances"])
        except BaseException:
            # An instance that an earlier server left stays; a worker that has none would stay for nothing.
            await self._undo(not hello["instances"])
            raise

    async def _serve(self, tls: ssl.SSLContext | None, instances: list[Object]) -> None:
        """Puts the server together over the worker and its instances, and listens."""
        options = self.options
        base = Config(
            domain=options.domain,
            scheme="https" if tls else "http",
            port=options.ingress[1],
            idle=options.idle,
        )
        self.live = LiveConfig(self.store, base, self.report)
        self.table = HostTable()
        self.pools = Pools(
            self.store,
            self.runner,
            lambda: self.live.config,
            self._revision_changed,
            self.report,
            Capacity(of_machine(options.instances, options.memory)),
        )
        self.hosts = HostTables(self.table, lambda: self.live.config, self.pools.queue_of)
        self.engine = Engine(
            self.store,
            lambda: self.live.config,
            self.pools,
            self.hosts,
            after=self.hosts.flush,
            report=self.report,
        )
        self.image_gc = ImageGc(
            self.store, self.runner, lambda: self.live.configs.images, self.engine.context, self.report
        )
        self.evictions = Evictions(
            lambda: self.pools.pools.values(), self.runner, self.engine.context, self.report
        )
        self.live.on_change = self._reconfigured
        self._access = self._log_file() if options.access_log else None
        self.ingress = Ingress(
            self.table,
            access_log=access_log_writer(self._access) if self._access else None,
            server_timing=options.server_timing,
            trace=options.trace,
            report=self.report,
            limits=self.limits,
        )
        await self._listen(tls)
        await self._open_doors()
        for orphan in self.pools.found(instances):
            self.report(f"instance {orphan['id']} belongs to no revision: it is ended")
            # Nobody waits for it: the start depends neither on how it ends nor on when. What fails is tried again by the worker.
            self.runner.background(self._end_orphan(orphan["id"]))
        self.runner.on_lost = self._worker_lost
        self.pools.start()
        self.engine.start()
        self.image_gc.start()
        self.evictions.start()
        self._trimmer = asyncio.get_running_loop().call_later(_TRIM, self._trim)

    async def _end_orphan(self, id: str) -> None:
        try:
            await self.runner.worker.call("remove", id=id)
        except KrunError as error:
            self.report(f"end instance {id}: {error.message}")

    async def _undo(self, stop_worker: bool) -> None:
        """Ends what a start that has failed has made."""
        self.stopping = True
        for server in (self.api_server, self.unix_server):
            if server is not None:
                await server.close()
        if self.names is not None:
            self.names.close()
        if hasattr(self, "ingress"):
            await self.ingress.close(0)
        if hasattr(self, "engine"):
            self.engine.close()
        await self.runner.close(stop_worker)
        self.store.close()

    def _worker_lost(self) -> None:
        """The worker has died: a new one takes down what it left, and the instances are started again."""
        # One task at a time: the worker serves one connection, so two would take it from each other without end.
        if not self.stopping and (self._reopening is None or self._reopening.done()):
            self.report("the worker died with all instances; another one is started")
            self._reopening = asyncio.get_running_loop().create_task(self._reopen())

    async def _reopen(self) -> None:
        delay = 0.1
        while not self.stopping:
            try:
                await self.runner.open()
                await self._open_doors()
            except KrunError as error:
                self.report(f"start the worker again: {error.message}; again in {delay:g} s")
                await asyncio.sleep(delay)
                delay = min(delay * 2, 30.0)
                continue
            if self.runner.worker.closed:  # lost again meanwhile
                continue
            self.pools.lost()
            return

    async def _listen(self, tls: ssl.SSLContext | None) -> None:
        options = self.options
        with _listening(options.ingress):
            self.ingress_port = await self.ingress.listen(
                options.ingress, tls=tls, local=options.network is None
            )
        port = self.ingress_port if options.url_port and self.ingress_port not in (80, 443) else 0
        self.live.base = replace(self.live.base, port=port)
        self.live.config = replace(self.live.config, port=port)
        try:
            seed(self.store, self.ingress_port)
        except KrunError as error:
            # A full disk: what the store has is served. What is missing here is made by the next start.
            self.report(f"write the objects of a fresh server: {error.message}")
        self.api = Api(
            self.store,
            lambda: self.live.config.options,
            logs=self.pools.logs,
            remote=ApiRemote(self.store, Remote(self.pools), self._session_ended),
            token=options.token,
            pages=self._pages(),
            report=self.report,
        )
        self.api.rest.check = self.live.check
        with _listening(options.api):
            self.api_server = await serve(
                self.api.handle, address=options.api, tls=tls, report=self.report, limits=self.limits
            )
        if options.unix:
            with _listening(options.unix):
                self.unix_server = await serve(
                    self.api.handle, unix=options.unix, report=self.report, limits=self.limits
                )

    async def _open_doors(self) -> None:
        """Serves the instances on the sockets that the worker has for them: services, cluster-local ones too, and names."""
        address, sockets = await self.runner.doors()
        if self.names is not None:
            self.names.close()
            self.names = None
        if not sockets:
            return
        http, streams, datagrams = sockets
        zone = Zone(lambda host: self.table.lookup(host) is not None, address)
        self.names = Responder(zone, Forward() if self.options.forward_names else None, self.report)
        await self.ingress.listen_inside(http)
        await self.names.listen(datagrams, streams)

    def _session_ended(self, record: Object) -> None:
        if self._access is not None:
            self._access(session_line(record) + "\n")

    def _log_file(self) -> Callable[[str], object]:
        try:
            stream = open(self.options.access_log, "a", buffering=1, encoding="utf-8", opener=private.opener)
        except OSError as error:
            raise SysError.of("open access log", error) from error
        return stream.write

    def _pages(self) -> dict[str, Page]:
        from krun.serve.api.pages import metrics
        from krun.serve.control.page import page

        return {
            "/metrics": lambda request: metrics(self.metrics_text()),
            "/status": lambda request: page(self.store, self.pools, self.started),
        }

    def metrics_text(self) -> str:
        """Returns the metrics of the data path, the autoscaler and the starts (Prometheus text)."""
        return self.ingress.metrics.text((pool.queue for pool in self.pools.pools.values()), self._gauges)

    def _gauges(self, family: Family) -> None:
        self.pools.metrics(family)
        self.image_gc.metrics(family)

    def _revision_changed(self, namespace: str, name: str) -> None:
        self.engine.enqueue((REVISION, namespace, name))

    def _reconfigured(self) -> None:
        """A ConfigMap has changed: everything is looked at again."""
        self.pools.reconfigure()
        self.engine.start()

    def _trim(self) -> None:
        self._trimmer = asyncio.get_running_loop().call_later(_TRIM, self._trim)
        self.engine.trim_events(time.time())
        # The C library keeps what a burst of writes has freed.
        ctypes.CDLL(None).malloc_trim(0)

    async def stop(self, ending: Ending) -> None:
        """Ends everything, each step in its time; instances stay for the next server unless options.keep_instances is false."""
        self.stopping = True
        ends = not self.options.keep_instances
        for server in (self.api_server, self.unix_server):
            if server is not None:
                await ending.step("close the API", 2.0, server.close())
        if self.names is not None:
            self.names.close()
        grace = _DRAIN if ends else _DRAIN_SHORT
        await ending.step("drain requests", grace + 2.0, self._drain(grace))
        self.engine.close()
        self.image_gc.close()
        self.evictions.close()
        if hasattr(self, "_trimmer"):
            self._trimmer.cancel()
        words = "end the instances" if ends else "let the instances go"
        await ending.step(words, POOLS_END if ends else 8.0, self.pools.close(ends), self.pools.left)
        await ending.step(
            "let the worker go", 5.0, self.runner.close(ends), lambda: "the worker does not answer"
        )
        self.runner.leave()
        await ending.sweep()
        self.store.close()

    async def _drain(self, grace: float) -> None:
        cut = await self.ingress.close(grace)
        if cut:
            self.report(f"end: drain requests: {cut} connections were cut after {grace:g} s")


class _Tokens:
    """Makes service account tokens: signed like JSON web tokens, so that programs which look inside find what they expect."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "token.key")

    def make(self, namespace: str, account: str, audience: str, seconds: int) -> str:
        """Returns a token for an account; HS256 with a key of this server."""
        import base64
        import hashlib
        import hmac
        import json

        def part(data: bytes) -> str:
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

        now = int(time.time())
        head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        claims = {
            "iss": "https://kubernetes.default.svc",
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "aud": [audience or "https://kubernetes.default.svc"],
            "iat": now,
            "exp": now + (seconds or 3600),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account}},
        }
        text = f"{head}.{part(json.dumps(claims).encode())}"
        return f"{text}.{part(hmac.new(self._key(), text.encode(), hashlib.sha256).digest())}"

    def _key(self) -> bytes:
        try:
            with open(self.path, "rb") as stream:
                key = stream.read()
            # A full disk, or a crash, left an earlier krun an empty file: anybody could sign with that.
            if len(key) == _KEY:
                return key
        except FileNotFoundError:
            pass
        key = os.urandom(_KEY)
        with open(f"{self.path}.new", "wb", opener=private.opener) as stream:
            stream.write(key)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(f"{self.path}.new", self.path)
        return key


def _check(options: Options) -> None:
    """Refuses to listen to the network without TLS or a token: whoever reaches the API runs programs as root."""
    import ipaddress

    host = options.api[0]
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local and not (options.token and options.certificate):
        raise KrunError(
            f"listen on {host}: beyond localhost the API needs a token and TLS; give --token-file, --certificate and --key"
        )


@contextlib.contextmanager
def _listening(where: tuple[str, int] | str) -> Iterator[None]:
    """Names the address in an error of a listener. Errors: SysError."""
    try:
        yield
    except OSError as error:
        name = where if isinstance(where, str) else f"{where[0]}:{where[1]}"
        remedy = "another server is there" if error.errno == errno.EADDRINUSE else ""
        raise SysError(
            "listen on", name, error.errno or 0, remedy or ("" if error.errno else str(error))
        ) from error


def _tls(options: Options) -> ssl.SSLContext | None:
    if not options.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(options.certificate, options.key or None)
    except (OSError, ssl.SSLError) as error:
        raise KrunError(f"load certificate {options.certificate}: {error}") from error
    return context


async def run(options: Options, ready: Callable[[App], None], ending: Ending) -> int:
    """Runs the server until a signal comes: SIGTERM leaves instances to the next server, SIGINT (Ctrl-C) ends them.

    A signal before the server is ready undoes its start. Errors: KrunError, it cannot start.
    """
    app = App(options)
    starting = asyncio.ensure_future(app.start())
    asked = asyncio.ensure_future(ending.asked())
    await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        ending.step_now = "undo the start"
        starting.cancel()
        await asyncio.wait({starting}, timeout=_UNDO)
        await ending.sweep()
        return 0
    await starting
    try:
        ready(app)
        options.keep_instances = await asked != signal.SIGINT
        if not options.keep_instances:
            ending.hurry = app.runner.abandon
    finally:
        await app.stop(ending)
    return 0
