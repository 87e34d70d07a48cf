"""The subresources of a Pod that change the protocol: exec, attach, portforward.

A client is refused, in this order: for its token (router), for the Pod, for its query, for its protocol, for the number of sessions.
Every session that has begun is told to the audit when it ends.
"""

import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.api import channels, portforward
from krun.serve.api.podlog import container_of
from krun.serve.api.rest import Target
from krun.serve.http import websocket
from krun.serve.http.types import Duplex, Request, Response, Tunnel
from krun.serve.http.websocket import WebSocket
from krun.serve.model import kinds, status
from krun.serve.store.store import Store

Object = dict[str, Any]
SUBRESOURCES = ("exec", "attach", "portforward")
#: Sessions of all clients together.
SESSIONS = 64

#: Takes the record of a session that has ended: see _Record.
Audit = Callable[[Object], None]


class Instances(Protocol):
    """What is needed of control.remote.Remote. Errors: KrunError."""

    def held(self, name: str) -> AbstractContextManager[None]: ...

    async def execute(
        self, name: str, container: str, argv: list[str], streams: set[int], tty: bool
    ) -> channels.Session: ...

    def attach(self, name: str, container: str, streams: set[int]) -> AsyncIterator[tuple[int, bytes]]: ...

    async def reach(self, name: str) -> Callable[[int], socket.socket]: ...


class Remote:
    """Answers requests for the subresources. `audit` gets a record of each session at its end."""

    def __init__(self, store: Store, instances: Instances, audit: Audit) -> None:
        self.store = store
        self.instances = instances
        self.audit = audit
        self.count = 0

    def answer(self, request: Request, target: Target) -> Response:
        """Returns the answer, a Tunnel if the protocol is changed. Errors: ApiError, HttpError."""
        if request.method not in (b"GET", b"POST"):
            raise status.not_allowed(request.method.decode("latin-1"))
        pod = self.store.need(kinds.POD, target.namespace or "", target.name)
        if target.sub == "portforward":
            protocols: tuple[str, ...] = portforward.PROTOCOLS
            run = self._forward(target.name)
            words: Object = {}
        else:
            protocols = channels.PROTOCOLS
            run, words = self._streams(request, target, pod)
        if b"spdy/3.1" in (request.header(b"upgrade") or b"").lower():
            raise status.bad_request(
                f"{target.sub} by SPDY/3.1 is not served, only by WebSocket ({', '.join(protocols)}): use kubectl 1.31 or later"
            )
        headers, protocol = websocket.accept(request, protocols)
        if self.count >= SESSIONS:
            raise status.ApiError(429, "TooManyRequests", f"there are {SESSIONS} sessions already; end one")
        record = {
            "session": target.sub,
            "namespace": target.namespace,
            "podName": target.name,
            **words,
            "remoteIp": request.peer[0] if isinstance(request.peer, tuple) else str(request.peer),
            "userAgent": (request.header(b"user-agent") or b"")[:256].decode("utf-8", "replace"),
            "protocol": protocol,
            # Until something else is known.
            **channels.GONE,
        }

        async def tunnel(duplex: Duplex) -> None:
            began = time.monotonic()
            if self.count >= SESSIONS:
                return  # others have come between the answer and this moment
            self.count += 1
            try:
                with self.instances.held(target.name):
                    async with WebSocket(duplex) as ws:
                        await run(ws, record)
            finally:
                self.count -= 1
                self.audit({**record, "latency": f"{time.monotonic() - began:.6f}s"})

        return Tunnel(b"websocket", headers, tunnel)

    def _streams(
        self, request: Request, target: Target, pod: Object
    ) -> tuple[Callable[[WebSocket, Object], Awaitable[None]], Object]:
        """Returns what to run for exec and attach, and the words of its record. Errors: ApiError."""
        query = request.query
        name, container = target.name, container_of(pod, query.get("container", [""])[-1])
        wanted = {
            key: query.get(key, [""])[-1] in ("true", "1") for key in ("stdin", "stdout", "stderr", "tty")
        }
        tty = wanted["tty"]
        streams = {number for number, key in enumerate(("stdin", "stdout", "stderr")) if wanted[key]}
        if not streams:
            raise status.bad_request("you must specify at least one of stdin, stdout, stderr")
        argv = query.get("command") or []
        if target.sub == "exec":
            if not argv or not argv[0] or any("\0" in word for word in argv):
                raise status.bad_request("you must specify at least one command for the container")

            async def run(ws: WebSocket, record: Object) -> None:
                await _greet(ws, streams)
                ended = await channels.execute(
                    ws, lambda: self.instances.execute(name, container, argv, streams, tty)
                )
                record["status"] = ended.get("reason", ended["status"])
                record["message"] = ended.get("message", "")

            return run, {"container": container, "command": argv, "stdin": wanted["stdin"], "tty": tty}

        async def follow(ws: WebSocket, record: Object) -> None:
            await _greet(ws, streams)
            record["status"] = (await channels.attach(ws, self.instances.attach(name, container, streams)))[
                "status"
            ]

        return follow, {"container": container}

    def _forward(self, name: str) -> Callable[[WebSocket, Object], Awaitable[None]]:
        async def run(ws: WebSocket, record: Object) -> None:
            try:
                connect = await self.instances.reach(name)
            except KrunError as error:
                ws.close(websocket.INTERNAL, error.message)
                return
            forwarder = portforward.Forwarder(ws, connect)
            try:
                await forwarder.run()
            finally:
                record["connections"] = forwarder.count
                record["ports"] = sorted(forwarder.ports)

        return run


async def _greet(ws: WebSocket, streams: set[int]) -> None:
    """An empty message on the first channel of the server: clients wait for it (k8s.io/kubelet, remotecommand/websocket.go)."""
    first = next(
        (number for number in (channels.STDOUT, channels.STDERR) if number in streams), channels.ERROR
    )
    await ws.send(bytes((first,)))
