"""Probes of four kinds (core/v1 Probe): httpGet, tcpSocket, exec, grpc; as the kubelet and knative/serving's queue-proxy run them.

A readiness probe with periodSeconds 0 is tried every 50 ms until it succeeds (knative/serving, pkg/queue/readiness/probe.go);
then it goes on at the default period, because a program may become unready later.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from krun.errors import KrunError, strerror

_AGGRESSIVE = 0.05  # s between tries
_AGGRESSIVE_TIMEOUT = 0.1  # s of one try; it grows for a program that answers slowly
_AGGRESSIVE_LONGEST = 1.0
_PERIOD = 10.0
_LONGEST_HEAD = 64 << 10
_AGENT = "kube-probe/krun"


class Probed(Protocol):
    """What a probe needs of an instance."""

    def connect(self, port: int) -> socket.socket: ...

    async def exec(self, container: str, argv: list[str], timeout: float) -> int: ...


class Failure(Exception):
    """A try that did not succeed; the text goes into the condition or the log."""


class Prober:
    """Tries a probe for the life of a container.

    Arguments: instance; probe, core/v1 Probe with defaults applied; kind, "startup", "readiness" or "liveness"; container; port of
    the program, for probes with port 0 or none; names, of the container's ports; on_change, called with the new state and the
    last message whenever successThreshold or failureThreshold has been reached and the state changes; a liveness probe that has
    failed calls it each time, because the container is another one then.
    """

    def __init__(
        self,
        instance: Probed,
        probe: dict[str, Any],
        kind: str,
        on_change: Callable[[bool, str], None],
        *,
        container: str = "user-container",
        port: int = 8080,
        names: dict[str, int] | None = None,
    ) -> None:
        self.instance = instance
        self.probe = probe
        self.kind = kind
        self.on_change = on_change
        self.container = container
        self.port = port
        self.names = names or {}
        self.state: bool | None = True if kind == "liveness" else None
        self.message = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; after `stop`, begin anew."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """End; on_change is not called any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _setting(self, name: str, default: float) -> float:
        """A number of the probe; `default` for none and for one below 0, with which the tries would follow each other without a pause."""
        number = float(self.probe.get(name) or 0)
        return number if number > 0 else default

    async def _run(self) -> None:
        aggressive = self.kind == "readiness" and not self.probe.get("periodSeconds")
        await asyncio.sleep(self._setting("initialDelaySeconds", 0))
        if aggressive:
            await self._aggressive()
        period, timeout = self._setting("periodSeconds", _PERIOD), self._setting("timeoutSeconds", 1)
        need = {True: self._setting("successThreshold", 1), False: self._setting("failureThreshold", 3)}
        count, last = 0, None
        while True:
            begin = time.monotonic()
            good = await self._try(timeout)
            count = count + 1 if good == last else 1
            last = good
            if count >= need[good] and (good != self.state or (self.kind == "liveness" and not good)):
                count = 0
                self._change(good)
                if self.kind == "startup":
                    return
            # A program that has not been ready yet is tried again soon: a start is not made to wait for a whole period.
            pause = period if self.state is not None else min(period, 1.0)
            await asyncio.sleep(max(0.0, begin + pause - time.monotonic()))

    async def _aggressive(self) -> None:
        timeout, count = _AGGRESSIVE_TIMEOUT, 0
        need = self._setting("successThreshold", 1)
        while count < need:
            begin = time.monotonic()
            good = await self._try(timeout)
            count = count + 1 if good else 0
            if count < need:
                timeout = min(timeout * 1.5, _AGGRESSIVE_LONGEST)
                await asyncio.sleep(max(0.0, begin + _AGGRESSIVE - time.monotonic()))
        self._change(True)

    def _change(self, good: bool) -> None:
        self.state = good
        self.on_change(good, self.message)

    async def _try(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self.once(timeout)
        except TimeoutError:  # a subclass of OSError, so it comes first
            self.message = f"{self.kind} probe: no answer within {timeout:g} s"
            return False
        except (Failure, OSError, KrunError) as error:
            self.message = str(error)
            return False
        except Exception as error:  # the program's answer or the manifest is of a form that nobody has foreseen: a try has failed
            self.message = f"{self.kind} probe: {type(error).__name__}: {error}"[:200]
            return False
        self.message = ""
        return True

    async def once(self, timeout: float) -> None:
        """One try. Raises Failure, OSError, KrunError."""
        for key, handler in HANDLERS.items():
            if self.probe.get(key) is not None:
                await handler(self, self.probe[key], timeout)
                return
        await _tcp(self, {}, timeout)

    def number(self, port: Any) -> int:
        """Return the port that a probe names; 0, "" and None are the program's own. Raises Failure."""
        if port in (None, 0, "", "0"):
            return self.port
        if isinstance(port, int) or str(port).isdecimal():
            return int(port)
        if port in self.names:
            return self.names[port]
        raise Failure(f"{self.kind} probe: the container has no port named {port!r}")


async def _connected(prober: Prober, port: int) -> socket.socket:
    """Return a connected socket. Raises OSError. Event-driven: no thread, no stream."""
    sock = prober.instance.connect(port)
    loop = asyncio.get_running_loop()
    try:
        ready = loop.create_future()
        loop.add_writer(sock, _done, ready)
        try:
            await ready
        finally:
            loop.remove_writer(sock)
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, f"{prober.kind} probe: connect to port {port}: {strerror(number)}")
    except BaseException:
        sock.close()
        raise
    return sock


def _done(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


async def _tcp(prober: Prober, own: dict[str, Any], timeout: float) -> None:
    (await _connected(prober, prober.number(own.get("port")))).close()


async def _http(prober: Prober, own: dict[str, Any], timeout: float) -> None:
    """HTTP/1.1 GET; 200 to 399 is success (kubelet, probe/http). The body is not read."""
    port = prober.number(own.get("port"))
    headers = {
        "Host": own.get("host") or f"127.0.0.1:{port}",
        "User-Agent": _AGENT,
        "Accept": "*/*",
        "Connection": "close",
    }
    for header in own.get("httpHeaders") or []:
        headers.update({str(header["name"]): str(header.get("value") or "")})
    path = "/" + str(own.get("path") or "/").lstrip("/")
    head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    if any(char in "".join([path, *headers, *headers.values()]) for char in "\r\n\0") or " " in path:
        raise Failure(f"{prober.kind} probe: malformed path or header")
    sock = await _connected(prober, port)
    loop = asyncio.get_running_loop()
    with contextlib.closing(sock):
        if own.get("scheme") == "HTTPS":
            status = await _https(sock, head)
        else:
            await loop.sock_sendall(sock, head.encode())
            answer = b""
            while (
                b"\r\n" not in answer
                and len(answer) < _LONGEST_HEAD
                and (data := await loop.sock_recv(sock, 4096))
            ):
                answer += data
            status = answer
    words = status.split(b"\r\n", 1)[0].split(b" ")
    if (
        len(words) < 2
        or not words[0].startswith(b"HTTP/1.")
        or not (words[1].isdigit() and len(words[1]) == 3)
    ):
        raise Failure(f"HTTP probe failed with a malformed answer: {bytes(words[0][:40])!r}")
    if not 200 <= int(words[1]) < 400:
        raise Failure(f"HTTP probe failed with statuscode: {int(words[1])}")


async def _https(sock: socket.socket, head: str) -> bytes:
    """The same over TLS; the certificate is not verified (kubelet, probe/http)."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(sock=sock.dup(), ssl=context, server_hostname="")
    try:
        writer.write(head.encode())
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()


async def _exec(prober: Prober, own: dict[str, Any], timeout: float) -> None:
    status = await prober.instance.exec(
        prober.container, [str(word) for word in own.get("command") or []], timeout
    )
    if status:
        raise Failure(f"exec probe failed with exit status {status}")


async def _grpc(prober: Prober, own: dict[str, Any], timeout: float) -> None:
    """grpc.health.v1.Health/Check over HTTP/2 in clear text; SERVING is success (kubelet, probe/grpc)."""
    from krun.serve.run import grpc_health

    sock = await _connected(prober, prober.number(own.get("port")))
    with contextlib.closing(sock):
        status = await grpc_health.check(sock, str(own.get("service") or ""))
    if status != grpc_health.SERVING:
        raise Failure(f"gRPC probe failed with status {status}")


Handler = Callable[[Prober, dict[str, Any], float], Awaitable[None]]
HANDLERS: dict[str, Handler] = {"httpGet": _http, "exec": _exec, "grpc": _grpc, "tcpSocket": _tcp}
