"""Listening sockets: TCP, unix and TLS; a connection's first bytes decide between HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable

from krun.serve.http.endpoint import Endpoint, small_reads, status_line
from krun.serve.http.h1 import H1Connection
from krun.serve.http.memory import Memory
from krun.serve.http.stream import Incoming
from krun.serve.http.timers import Wheel
from krun.serve.http.types import HttpError, Limits

#: RFC 9113, section 3.4.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

#: Seconds of a TLS handshake.
_HANDSHAKE = 10.0


class _First(asyncio.Protocol):
    """A connection before its first bytes: HTTP/2 by ALPN or by its preface (prior knowledge), HTTP/1.1 otherwise.

    It is counted before its TLS handshake, which costs more than what comes behind it.
    """

    __slots__ = ("_data", "_front", "_task", "_tls", "deadline", "peer", "slot", "transport")

    transport: asyncio.Transport

    def __init__(self, front: Front, tls: ssl.SSLContext | None) -> None:
        self._front = front
        self._tls = tls
        self._data = b""
        #: The handshake; None without TLS, and behind it.
        self._task: asyncio.Task[None] | None = None
        self.peer: tuple | str = ""
        self.deadline: float | None = None
        self.slot = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        small_reads(transport)
        self.peer = transport.get_extra_info("peername") or "unix"
        endpoint = self._front.endpoint
        try:
            endpoint.check_room(self.peer)
        except HttpError as error:
            endpoint.on_refused(error.status, error.reason)
            if self._tls is None:
                transport.write(_refusal(error))
            transport.close()
            return
        endpoint.join(self)
        self.deadline = endpoint.wheel.now() + endpoint.limits.head_time
        endpoint.wheel.watch(self)
        if self._tls is not None:
            self._task = asyncio.get_running_loop().create_task(self._handshake(self._tls))

    async def _handshake(self, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            inner = await loop.start_tls(
                self.transport, self, tls, server_side=True, ssl_handshake_timeout=_HANDSHAKE
            )
        except (OSError, asyncio.CancelledError):
            self._leave()
            return
        self._task = None
        # None: the peer has gone meanwhile.
        if inner is None or inner.is_closing():
            self._leave()
            return
        self.transport = inner
        if inner.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            self._become(True, self._data)
        elif self._data:
            data, self._data = self._data, b""
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        data = self._data + data
        if self._task is not None:
            # What came with the handshake's end: its task has not gone on yet.
            self._data = data
        elif not self._front.http2 or not PREFACE.startswith(data[: len(PREFACE)]):
            self._become(False, data)
        elif len(data) >= len(PREFACE):
            self._become(True, data)
        else:
            self._data = data

    def _become(self, http2: bool, data: bytes = b"") -> None:
        self._leave()
        protocol = self._front.make(http2, self._tls is not None)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if data:
            protocol.data_received(data)

    def _leave(self) -> None:
        endpoint = self._front.endpoint
        endpoint.leave(self)
        endpoint.wheel.forget(self)
        self.deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def expired(self, now: float) -> None:
        """The wheel's call: nothing, or not enough, was sent."""
        self.deadline = None
        self.transport.close()

    def drain(self) -> None:
        """No request has begun."""
        self.transport.close()


def _refusal(error: HttpError) -> bytes:
    text = error.reason.encode() + b"\n"
    return status_line(error.status) + (
        b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
        % (len(text), text)
    )


class Front:
    """A set of listening sockets whose requests go to one function."""

    def __init__(
        self,
        on_request: Callable[[Incoming], None],
        *,
        limits: Limits | None = None,
        http2: bool = True,
        report: Callable[[str], None],
        on_refused: Callable[[int, str], None] | None = None,
        wheel: Wheel | None = None,
        memory: Memory | None = None,
    ) -> None:
        """`on_request` is called on the loop for each request; the other functions as in Endpoint."""
        self._own_wheel = wheel is None
        self.endpoint = Endpoint(
            on_request,
            wheel or Wheel(asyncio.get_running_loop()),
            limits or Limits(),
            report=report,
            on_refused=on_refused,
            memory=memory,
        )
        self.http2 = http2
        self._servers: list[asyncio.Server] = []
        self._paths: list[tuple[str, int]] = []

    def make(self, http2: bool, tls: bool) -> asyncio.Protocol:
        """The protocol of a connection."""
        if http2:
            # hpack and h2 cost 2 MB and 30 ms: only the first HTTP/2 connection pays.
            from krun.serve.http.h2 import H2Connection

            return H2Connection(self.endpoint, tls=tls)
        return H1Connection(self.endpoint, tls=tls)

    async def listen(
        self,
        address: tuple[str, int] | None = None,
        *,
        unix: str | None = None,
        sock: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
        mode: int = 0o600,
    ) -> int:
        """Listens on an (address, port), a unix socket's path or a socket that listens already.

        Returns the TCP port, 0 for a unix socket.  Raises OSError.  A stale unix socket at the path is replaced; `mode` is that of the
        new one.
        """
        loop = asyncio.get_running_loop()
        if tls is not None and self.http2:
            tls.set_alpn_protocols(["h2", "http/1.1"])
        options: dict = {"backlog": 1024}

        def factory() -> asyncio.Protocol:
            return _First(self, tls)

        if unix is not None:
            # The path exists for nobody else before it has its mode: the umask is that of the process, the loop its only thread.
            _remove_stale(unix)
            before = os.umask(0o777 & ~mode)
            try:
                server = await loop.create_unix_server(factory, unix, start_serving=True, **options)
            finally:
                os.umask(before)
            self._paths.append((unix, os.stat(unix).st_ino))
        elif sock is not None:
            server = await loop.create_server(factory, sock=sock, **options)
        else:
            assert address is not None
            server = await loop.create_server(factory, address[0], address[1], reuse_address=True, **options)
        for one in server.sockets:
            _keep_alive(one)
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return name[1] if isinstance(name, tuple) else 0

    def stop_listening(self) -> None:
        """Closes the listening sockets; connections stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for path, inode in self._paths:
            try:
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
            except FileNotFoundError:
                pass
        self._paths.clear()

    async def close(self, grace: float = 0.0) -> int:
        """Stops listening, lets running requests end for at most `grace` seconds, then closes every connection.

        Returns the number of connections that still had a request.
        """
        self.stop_listening()
        endpoint = self.endpoint
        endpoint.draining = True
        for connection in list(endpoint.connections):
            connection.drain()
        end = endpoint.wheel.now() + grace
        while endpoint.connections and endpoint.wheel.now() < end:
            await asyncio.sleep(min(0.02, grace))
        cut = list(endpoint.connections)
        for connection in cut:
            connection.transport.abort()
        await asyncio.sleep(0)
        endpoint.hangups.close()
        if self._own_wheel:
            endpoint.wheel.close()
        return len(cut)


def _keep_alive(listener: socket.socket) -> None:
    """Has the kernel look whether peers are still there, as Go's net.ListenConfig does: one that has gone without a word keeps no slot.

    Connections inherit it from their listener.
    """
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9)):
            listener.setsockopt(socket.IPPROTO_TCP, name, value)


def _remove_stale(path: str) -> None:
    """Removes a unix socket that nobody listens on.  Raises FileExistsError for anything else."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(
                f"listen on {path}: the path exists and is not a socket; remove it or choose another"
            )
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError:
            pass
    raise FileExistsError(f"listen on {path}: another process listens there; stop it or choose another path")
