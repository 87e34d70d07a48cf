"""The proxy in a thread with a loop of its own, instances that are threads, and blocking clients: no root, no krun."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from krun.serve.proxy.ingress import Ingress
from krun.serve.proxy.queue import Backend, RevisionConfig, RevisionQueue
from krun.serve.proxy.routes import HostRoute, HostTable, Target


class Echo(BaseHTTPRequestHandler):
    """Tells what it got, as JSON."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        if self.headers.get("transfer-encoding"):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
        told = json.dumps(
            {
                "method": self.command,
                "target": self.path,
                "version": self.request_version,
                "headers": self.headers.items(),
                "body": body.decode("latin-1"),
                "port": self.server.server_address[1],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.send_header("X-From", "echo")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = answer

    def log_message(self, *args: Any) -> None:
        pass


def connector(address: tuple[str, int] | str) -> Callable[[], socket.socket]:
    """What Instance.connect does: a non-blocking socket that is connecting."""

    def connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        sock.setblocking(False)
        try:
            sock.connect(address)
        except BlockingIOError:
            if isinstance(address, str):
                sock.close()
                raise
        except BaseException:
            sock.close()
            raise
        return sock

    return connect


class Rig:
    """`with Rig() as rig`."""

    def __init__(self, **ingress: Any) -> None:
        self._options = ingress
        self.reports: list[str] = []
        self.log: list[str] = []
        self.hosts: dict[str, HostRoute] = {}
        self.table = HostTable()
        self._servers: list[Any] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Rig:
        self.thread.start()
        self.call(self._start)
        return self

    async def _start(self) -> None:
        self.ingress = Ingress(self.table, report=self.reports.append, **self._options)
        self.port = await self.ingress.listen(("127.0.0.1", 0))
        self.local_port = await self.ingress.listen(("127.0.0.1", 0), local=True)

    def __exit__(self, *error: object) -> None:
        self.call(self.ingress.close)
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function or coroutine function on the loop and returns its result."""

        async def run() -> Any:
            result = function(*args)
            return await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(20)

    def queue(self, name: str = "rev", host: str | None = "a", **config: Any) -> RevisionQueue:
        """A revision, and a host that leads to it."""
        queue = RevisionQueue(RevisionConfig(("default", name), **config), self.loop.time())
        if host:
            self.route(host, [(queue, 100)])
        return queue

    def route(self, host: str, targets: list[tuple[RevisionQueue, int]], **options: Any) -> None:
        self.hosts[host] = HostRoute(tuple(Target(q, w) for q, w in targets), **options)
        self.call(self.table.replace, dict(self.hosts))

    def add(self, queue: RevisionQueue, address: tuple[str, int] | str) -> Backend:
        backend = Backend(str(address), connector(address), queue.config.concurrency)
        self.call(lambda: queue.add(backend, self.loop.time()))
        return backend

    def echo(self, queue: RevisionQueue, handler: type = Echo) -> Backend:
        """An instance that tells what it got."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self._servers.append(server)
        return self.add(queue, server.server_address)

    def script(self, queue: RevisionQueue, serve: Callable[[socket.socket], None]) -> Backend:
        """An instance that runs `serve` in a thread for each connection."""
        listener = socket.create_server(("127.0.0.1", 0))

        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    serve(connection)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return self.add(queue, listener.getsockname())

    def raw(
        self, data: bytes, *, port: int | None = None, wait: float = 3.0, until: bytes = b""
    ) -> tuple[bytes, bool]:
        """Sends bytes; returns what came up to `until`, the end or a silence of `wait` seconds, and whether the connection ended.

        The first bytes may take longer: the machine is shared.
        """
        with socket.create_connection(("127.0.0.1", port or self.port)) as s:
            s.settimeout(max(wait, 10))
            got = b""
            try:
                s.sendall(data)
                while not (until and until in got):
                    more = s.recv(65536)
                    if not more:
                        return got, True
                    got += more
                    s.settimeout(wait)
            except TimeoutError:
                pass
            except ConnectionError:
                return got, True
            return got, False

    def get(
        self, path: str = "/", host: str = "a", extra: str = "", method: str = "GET", body: bytes = b""
    ) -> tuple[int, bytes]:
        """One request with Connection: close; its status and body (chunks joined)."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        message = (
            f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{length}{extra}\r\n".encode()
            + body
        )
        got, _ = self.raw(message)
        head, _, rest = got.partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            content = b""
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                if not int(size, 16):
                    break
                content += rest[: int(size, 16)]
                rest = rest[int(size, 16) + 2 :]
            rest = content
        return int(head.split(b" ")[1]) if head else 0, rest


def head_of(connection: socket.socket) -> bytes:
    """Reads one head from a connection."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            raise OSError("the end")
        got += more
    return got
