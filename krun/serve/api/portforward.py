"""Port-forward: SPDY/3.1 streams inside the binary messages of a WebSocket (SPDY/3.1+portforward.k8s.io, KEP-4006).

For each connection the client opens two streams of one requestID: an error stream, which it ends at once, and a data stream.
Source: k8s.io/client-go tools/portforward/portforward.go, k8s.io/kubelet pkg/cri/streaming/portforward/httpstream.go.

A connection that does not take its bytes holds back the whole tunnel, so that no more than a message of each side waits in memory.
"""

import asyncio
import socket
from collections.abc import Callable

from krun.errors import KrunError, strerror
from krun.serve.http import spdy
from krun.serve.http.types import ClientGone
from krun.serve.http.websocket import PROTOCOL, WebSocket

PROTOCOLS = ("SPDY/3.1+portforward.k8s.io",)

#: Pairs of streams of a client at a time.
_PAIRS = 128
_READ = 32 << 10
#: Seconds for a program to accept a connection.
_CONNECT = 10.0

#: Returns a non-blocking socket that connects to a port inside the instance. Raises KrunError, OSError.
Connect = Callable[[int], socket.socket]


class _Pair:
    """One forwarded connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.error = self.data = 0
        self.sock: socket.socket | None = None
        #: Done as soon as the connection is there, or will not be; and when it has ended. What is waited for ends with these.
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[None] | None = None


class Forwarder:
    """The streams of one client. Arguments: ws; connect. `count`, `ports`: connections so far, and where to."""

    def __init__(self, ws: WebSocket, connect: Connect) -> None:
        self._ws = ws
        self._connect = connect
        self._frames = spdy.Frames()
        #: By requestID, and by the number of either stream.
        self._pairs: dict[str, _Pair] = {}
        self._streams: dict[int, tuple[str, str]] = {}
        self._last = 0
        self.count = 0
        self.ports: set[int] = set()

    async def run(self) -> None:
        """Serves the client until it goes. Raises ClientGone."""
        try:
            while (message := await self._ws.receive()) is not None:
                for frame in self._frames.feed(message):
                    if frame.type == spdy.GOAWAY:
                        return
                    await self._take(frame)
        except spdy.SpdyError as error:
            self._ws.close(PROTOCOL, str(error))
        finally:
            tasks = [pair.task for pair in self._pairs.values() if pair.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, frame: spdy.Frame) -> None:
        if frame.type == spdy.SYN_STREAM:
            await self._open(frame)
        elif frame.type == spdy.PING:
            await self._ws.send(spdy.pong(frame.data))
        elif frame.stream in self._streams:
            id, kind = self._streams[frame.stream]
            pair = self._pairs[id]
            if frame.type == spdy.RST_STREAM:
                if pair.task is not None:
                    pair.task.cancel()
                self._forget(id, pair)
                if pair.error:
                    # The client waits for the end of this stream in any case.
                    await self._ws.send(spdy.data(pair.error, b"", True))
            elif kind == "data":
                await self._to_program(pair, frame)

    async def _open(self, frame: spdy.Frame) -> None:
        """Takes a stream. What the client asks wrongly is refused, and costs this stream only."""
        stream, headers = frame.stream, frame.headers
        if stream <= self._last or not stream & 1:
            raise spdy.SpdyError("a stream's number is out of order")
        self._last = stream
        id, kind, port = headers.get("requestid", ""), headers.get("streamtype", ""), headers.get("port", "")
        pair = self._pairs.get(id)
        valid = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 1 << 16
        if pair is None and valid and len(self._pairs) < _PAIRS:
            pair = self._pairs[id] = _Pair(int(port))
        if not valid or pair is None or kind not in ("error", "data") or getattr(pair, kind):
            await self._ws.send(spdy.reset(stream, spdy.REFUSED_STREAM))
            return
        setattr(pair, kind, stream)
        self._streams[stream] = (id, kind)
        await self._ws.send(self._frames.reply(stream))
        if pair.error and pair.data:
            self.count += 1
            self.ports.add(pair.port)
            pair.task = asyncio.create_task(self._forward(id, pair))

    async def _to_program(self, pair: _Pair, frame: spdy.Frame) -> None:
        """Gives the program what the client has sent. What nobody takes is dropped."""
        if pair.task is None:
            raise spdy.SpdyError("data came before the error stream")
        await asyncio.wait({pair.begun, pair.over}, return_when=asyncio.FIRST_COMPLETED)
        data = frame.data
        sock = pair.sock
        try:
            while data and sock is not None and not pair.over.done():
                try:
                    data = data[sock.send(data) :]
                except BlockingIOError:
                    await self._writable(sock, pair.over)
            if frame.fin and sock is not None and not pair.over.done():
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the reader meets the same end, and tells it

    @staticmethod
    async def _writable(sock: socket.socket, over: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()
        event: asyncio.Future[None] = loop.create_future()
        loop.add_writer(sock, _done, event)
        try:
            await asyncio.wait({event, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not over.done():
                loop.remove_writer(sock)

    async def _forward(self, id: str, pair: _Pair) -> None:
        """Connects, and sends the client what the program says, to its end; then both streams are ended."""
        told = b""
        loop = asyncio.get_running_loop()
        try:
            pair.sock = await self._connected(pair.port)
            pair.begun.set_result(None)
            while data := await loop.sock_recv(pair.sock, _READ):
                await self._ws.send(spdy.data(pair.data, data))
        except KrunError as error:
            told = error.message.encode()
        except OSError as error:
            told = f"forward to port {pair.port}: {strerror(error.errno or 0)}".encode()
        except ClientGone:
            return
        finally:
            pair.over.set_result(None)
            if pair.sock is not None:
                loop.remove_reader(pair.sock)
                loop.remove_writer(pair.sock)
                pair.sock.close()
            self._forget(id, pair)
        await self._ws.send(spdy.data(pair.error, told, True))
        await self._ws.send(spdy.data(pair.data, b"", True))

    async def _connected(self, port: int) -> socket.socket:
        """Returns a connected socket. Raises KrunError, OSError."""
        sock = self._connect(port)
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(sock, _done, ready)
        try:
            async with asyncio.timeout(_CONNECT):
                await ready
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                raise KrunError(f"connect to port {port} of the instance: {strerror(number)}")
        except TimeoutError:
            loop.remove_writer(sock)
            sock.close()
            raise KrunError(
                f"connect to port {port} of the instance: no answer within {_CONNECT:g} s"
            ) from None
        except BaseException:
            loop.remove_writer(sock)
            sock.close()
            raise
        loop.remove_writer(sock)
        return sock

    def _forget(self, id: str, pair: _Pair) -> None:
        """Take a pair out of the tables. Its id may be another pair's by now: the client has reset it, and opened it again."""
        if self._pairs.get(id) is pair:
            del self._pairs[id]
            self._streams.pop(pair.error, None)
            self._streams.pop(pair.data, None)


def _done(event: "asyncio.Future[None]") -> None:
    if not event.done():
        event.set_result(None)
