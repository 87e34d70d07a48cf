"""The server's side of the worker: starts it, or finds the one that an earlier server left, and sends commands to it."""

import asyncio
import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from krun.errors import KrunError
from krun.serve import private
from krun.serve.run import wire
from krun.serve.run.errors import StartError, WorkerGone

#: Seconds for a worker to wait for the directory's lock, and to take down what the one before it left.
_READY_SECONDS = 60
#: Argument 1: the worker's configuration; 2: where modules are found.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop());"
    " from krun.serve.run.workermain import run; sys.exit(run())"
)


def start_worker(config: dict[str, Any]) -> socket.socket:
    """Return a socket to the worker of a directory, which is started where none listens. Raises KrunError.

    The worker is a session of its own, so that a terminal's interrupt does not reach it. Blocking; call before the loop runs.
    """
    path = os.path.join(config["directory"], "worker.sock")
    sock = _connect(path)
    if sock is not None:
        return sock
    # The same modules as the server's, whatever found them: a launcher (-IS), an environment, PYTHONPATH, the directory at its start.
    # An editable installation (pip install -e) is found by a hook of the importer, and is in no path.
    paths = [_package_parent(), *(os.path.abspath(path) for path in sys.path)]
    command = [sys.executable, "-IS", "-c", _START, json.dumps(config), json.dumps(paths)]
    private.directory(config["directory"])
    with open(os.path.join(config["directory"], "worker.log"), "ab", opener=private.opener) as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as out:
        # The worker writes its one line at once: a part of it does not come alone.
        # Not select(2): the server may have more than 1024 descriptors.
        waiter = select.poll()
        waiter.register(out, select.POLLIN)
        if not waiter.poll(_READY_SECONDS * 1000):
            process.kill()
            raise KrunError(
                f"start the worker: not ready after {_READY_SECONDS} s; see {config['directory']}/worker.log"
            )
        ready = out.readline()
    if ready.startswith(b"error "):
        raise KrunError(ready[6:].decode("utf-8", "replace").strip())
    sock = _connect(path) if ready else None
    if sock is None:
        raise KrunError(f"start the worker: it ended at once; see {config['directory']}/worker.log")
    return sock


def _package_parent() -> str:
    """The directory from which this krun is imported."""
    own = os.path.abspath(__file__)
    for _ in range(4):
        own = os.path.dirname(own)
    return own


def _connect(path: str) -> socket.socket | None:
    """Return a socket to who listens at a path, None where nobody does. Raises KrunError: another user does."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        return None
    # The credentials of who has called listen(2) (unix(7)).
    uid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    if not private.trusted(uid):
        sock.close()
        raise KrunError(
            f"connect to {path}: user {uid} listens there; give a directory of user {os.geteuid()}"
        )
    return sock


class Worker:
    """A connection. Arguments: sock, of start_worker; on_event, gets what the worker tells unasked; on_lost, called once when
    the worker has died: all instances are lost, a new one takes down what it left.
    """

    def __init__(
        self, sock: socket.socket, on_event: Callable[[dict[str, Any]], None], on_lost: Callable[[], None]
    ) -> None:
        self._sock = sock
        self._on_event = on_event
        self._on_lost = on_lost
        self._seq = 0
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._receive)

    def of_our_version(self, hello: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of `hello`. Raises KrunError for a worker that speaks another protocol; the connection is closed then."""
        if hello.get("version") != wire.VERSION:
            self.close()
            raise KrunError(
                f"take over the worker: it is of another version of krun (protocol {hello.get('version')}, not {wire.VERSION});"
                f" end it with its instances (kill {hello.get('pid')}), or start that version"
            )
        return hello

    async def call(self, do: str, **arguments: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a command and return the answer with its descriptors, which the caller then owns.

        Raises StartError with the worker's reason, WorkerGone where there is none.
        """
        return await self.order(do, **arguments)

    def order(self, do: str, **arguments: Any) -> Coroutine[Any, Any, tuple[dict[str, Any], list[int]]]:
        """Send a command now, before anything else that the loop has to do, and return a coroutine of its answer; see `call`.

        Raises KrunError where the worker is gone; the coroutine raises the rest.
        """
        if self._sock.fileno() < 0:
            raise WorkerGone(f"{do}: the worker of krun serve is gone")
        self._seq += 1
        seq = self._seq
        future = self._waiting[seq] = self._loop.create_future()
        message = {"seq": seq, "do": do, **arguments}
        try:
            sent = self._send(message)
        except BaseException:
            self._waiting.pop(seq, None)
            raise
        return self._answer(seq, future, None if sent else message)

    async def _answer(
        self,
        seq: int,
        future: "asyncio.Future[tuple[dict[str, Any], list[int]]]",
        unsent: dict[str, Any] | None,
    ) -> tuple[dict[str, Any], list[int]]:
        """Wait for an answer; before that, for room in the socket's buffer, which the worker makes."""
        try:
            while unsent is not None and not self._send(unsent):
                await asyncio.sleep(0.002)
            answer, fds = await future
        finally:
            self._waiting.pop(seq, None)
        if "error" in answer:
            for fd in fds:
                os.close(fd)
            raise StartError(*answer["error"])
        return answer, fds

    def tell(self, do: str) -> None:
        """Send a command whose answer nobody waits for; a no-op where the worker does not take it at once."""
        try:
            wire.send(self._sock, {"seq": -1, "do": do})
        except OSError:
            pass

    def _send(self, message: dict[str, Any]) -> bool:
        """Send; returns False where the socket's buffer is full. Raises KrunError."""
        try:
            wire.send(self._sock, message)
            return True
        except BlockingIOError:
            return False
        except OSError as error:
            raise KrunError(f"{message['do']}: send to the worker: {error}") from None

    def _receive(self) -> None:
        while True:
            try:
                received = wire.receive(self._sock)
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                self._lost()
                return
            message, fds = received
            future = self._waiting.pop(message["seq"], None)
            if future is not None and not future.done():
                future.set_result((message, fds))
                continue
            for fd in fds:
                os.close(fd)
            if message["seq"] == 0:
                self._on_event(message)

    def _lost(self) -> None:
        self.close("the worker of krun serve has died")
        self._on_lost()

    @property
    def closed(self) -> bool:
        """Whether the connection has been closed or lost."""
        return self._sock.fileno() < 0

    def close(self, why: str = "the worker of krun serve has been let go") -> None:
        """Close the connection; the worker goes on. Calls that wait for an answer raise KrunError. Idempotent."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerGone(why))
