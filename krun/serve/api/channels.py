"""The protocol of exec and attach over a WebSocket: v4.channel.k8s.io, v5.channel.k8s.io.

A message is the number of a channel, one byte, and its data. v5 adds a message that ends a channel of the client: without it the
end of standard input cannot be told. Source: k8s.io/apimachinery pkg/util/remotecommand/constants.go,
k8s.io/apiserver pkg/util/wsstream/conn.go, KEP-4006.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from krun.errors import KrunError
from krun.serve.http.websocket import WebSocket

Object = dict[str, Any]
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
#: The subprotocols, the best first.
PROTOCOLS = (V5, V4)

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

#: What is noted of a session whose client has gone before its end; no client sees it.
GONE = {"status": "ClientGone"}

#: Bytes of a message of the channel RESIZE.
_RESIZE_LIMIT = 256


class Session(Protocol):
    """A program that runs; see run.session.Session."""

    ended: "asyncio.Future[int]"

    @property
    def outputs(self) -> list[int]: ...

    async def read(self, stream: int) -> bytes: ...

    async def write(self, data: bytes) -> bool: ...

    def close_stdin(self) -> None: ...

    def resize(self, width: int, height: int) -> None: ...

    def close(self) -> None: ...


def success() -> Object:
    """The Status of a program that ended with 0."""
    return {"metadata": {}, "status": "Success"}


def ended(code: int) -> Object:
    """The Status of a program's exit code (k8s.io/kubelet, pkg/cri/streaming/remotecommand/exec.go)."""
    if not code:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(what: str, error: KrunError) -> Object:
    """The Status of a program that could not be started, or of an attach that failed."""
    message = f"Internal error occurred: {what}: {error.message}"
    details = {"causes": [{"message": f"{what}: {error.message}"}]}
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "details": details,
        "code": 500,
    }


async def execute(ws: WebSocket, start: Callable[[], Awaitable[Session]]) -> Object:
    """Starts a program and serves its channels until it ends or the client goes; then it is ended. Returns the Status.

    Raises ClientGone.
    """
    try:
        session = await start()
    except KrunError as error:
        return await _tell(ws, failed("error executing command in container", error))
    tasks: set[asyncio.Task[None]] = set()
    try:
        for stream in session.outputs:
            tasks.add(asyncio.create_task(_copy(ws, session, stream)))
        client = asyncio.create_task(_obey(ws, session))
        tasks.add(client)
        await _all_but(client, tasks, session.ended)
        if not session.ended.done():
            return GONE  # `close` ends the program
        return await _tell(ws, ended(session.ended.result()))
    finally:
        session.close()
        await _cancel(tasks)


async def attach(ws: WebSocket, output: AsyncIterator[tuple[int, bytes]]) -> Object:
    """Sends what a container writes, (stream, text), until it ends or the client goes. What the client types is dropped.

    Returns the Status. Raises ClientGone.
    """

    async def copy() -> None:
        async for stream, text in output:
            await ws.send(bytes((stream,)) + text)

    async def ignore() -> None:
        while await ws.receive() is not None:
            pass

    client = asyncio.create_task(ignore())
    copier = asyncio.create_task(copy())
    tasks = {client, copier}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if copier not in done:
            return GONE
        copier.result()
        return await _tell(ws, success())
    except KrunError as error:
        return await _tell(ws, failed("error attaching to container", error))
    finally:
        await _cancel(tasks)


async def _tell(ws: WebSocket, status: Object) -> Object:
    await ws.send(bytes((ERROR,)) + json.dumps(status, separators=(",", ":")).encode())
    return status


async def _all_but(
    client: "asyncio.Task[None]", tasks: "set[asyncio.Task[None]]", end: "asyncio.Future[int]"
) -> None:
    """Waits for the program's end and all its output, or for the end of the client. Raises what a copier raised."""
    rest: set[asyncio.Future[Any]] = {end, *tasks}
    while rest != {client} and client in rest:
        done, pending = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
        rest = set(pending)
        for one in done:
            one.result()


async def _cancel(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(ws: WebSocket, session: Session, stream: int) -> None:
    """Sends one output. The program is held back while the client does not read."""
    while data := await session.read(stream):
        await ws.send(bytes((stream,)) + data)


async def _obey(ws: WebSocket, session: Session) -> None:
    """Does what the client's messages say, until it ends. Channels that are not the client's are passed over."""
    while (message := await ws.receive()) is not None:
        channel, data = message[:1], message[1:]
        if channel == bytes((STDIN,)):
            await session.write(data)
        elif channel == bytes((RESIZE,)) and len(data) <= _RESIZE_LIMIT:
            size = _size(data)
            if size is not None:
                session.resize(*size)
        elif channel == bytes((CLOSE,)) and data == bytes((STDIN,)):
            session.close_stdin()


def _size(data: bytes) -> tuple[int, int] | None:
    """The columns and rows of a message {"Width": ..., "Height": ...}; None for anything else."""
    try:
        value = json.loads(data)
        width, height = value["Width"], value["Height"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if type(width) is not int or type(height) is not int:
        return None
    return width, height
