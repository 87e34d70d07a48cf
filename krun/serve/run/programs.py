"""Programs that run beside those of the manifest: what a client started by `exec`. The worker's side.

A program belongs to the server that asked for it: it is killed when that server ends, or asks for it, and it dies with its
container's pid namespace. `launch` runs in a thread of a command; Programs is the main thread's only.
"""

import os
import selectors
import signal
import socket
from collections.abc import Callable
from typing import Any

from krun.errors import KrunError, SysError
from krun.serve.run.process import Process
from krun.serve.run.runtime import Runtime

_SECONDS = 30.0  # for the runtime to start a program
_CONSOLE_SECONDS = 5.0  # for a terminal that the runtime has made to arrive


def launch(runtime: Runtime, id: str, message: dict[str, Any], directory: str) -> "tuple[Process, list[int]]":
    """Start a program in a container. Arguments: id, of the container; message, with "argv", and booleans "stdin", "stdout", "stderr",
    "tty"; directory, of the instance, for files of the moment.

    Returns the program and the server's descriptors: a terminal's master; or the ends of the pipes that were asked for, in the
    order of their numbers. Raises KrunError, OSError.
    """
    if message["tty"]:
        return _in_terminal(runtime, id, message["argv"], directory)
    ours: list[int] = []
    theirs: list[int] = []
    streams = []
    try:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if not message[name]:
                streams.append(-1)
                continue
            reading, writing = os.pipe2(os.O_CLOEXEC)
            own, other = (writing, reading) if number == 0 else (reading, writing)
            ours.append(own)
            theirs.append(other)
            streams.append(other)
        process = runtime.launch(id, message["argv"], directory, _or_null(streams), seconds=_SECONDS)
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    return process, ours


def _or_null(streams: list[int]) -> tuple[int, int, int]:
    """The streams for subprocess, which knows the null device by a number of its own."""
    from subprocess import DEVNULL

    found = [DEVNULL if fd < 0 else fd for fd in streams]
    return found[0], found[1], found[2]


def _in_terminal(runtime: Runtime, id: str, argv: list[str], directory: str) -> "tuple[Process, list[int]]":
    name = f"console.{os.urandom(4).hex()}"
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # An address holds 107 bytes (unix(7)); the name of a data directory may be longer.
        path = f"/proc/{os.getpid()}/fd/{folder}/{name}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            listener.bind(path)
            try:
                listener.listen(1)
                listener.settimeout(_CONSOLE_SECONDS)
                # As containerd's CRI: a program with a terminal has TERM.
                flags = ["--tty", "--console-socket", path, "--env", "TERM=xterm"]
                process = runtime.launch(
                    id, argv, directory, _or_null([-1, -1, -1]), flags=flags, seconds=_SECONDS
                )
                try:
                    return process, [_master(listener)]
                except BaseException:
                    process.signal(signal.SIGKILL)
                    runtime.launched(process)
                    process.close()
                    raise
            finally:
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def _master(listener: socket.socket) -> int:
    """Receive the master of a terminal, as runc sends it (docs/terminals.md there). Raises KrunError."""
    try:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_CONSOLE_SECONDS)
            _, fds, _, _ = socket.recv_fds(connection, 4096, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise SysError.of("receive the terminal of the runtime", error) from None
    if not fds:
        raise KrunError("receive the terminal of the runtime: it sent none")
    return fds[0]


class Programs:
    """The programs that run. Arguments: selector of the main thread; runtime; tell, sends the server an event."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        runtime: Runtime,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self._selector = selector
        self._runtime = runtime
        self._tell = tell
        self._running: dict[str, Process] = {}
        #: Counts the servers: a program that starts while its server goes is killed at once.
        self.generation = 0

    def add(self, name: str, id: str, process: Process, generation: int) -> None:
        """Wait for the end of a program, which the server knows by `name`; its end is told as an event of the instance `id`."""
        self._running[name] = process
        self._selector.register(process.pidfd, selectors.EVENT_READ, lambda: self._ended(name, id))
        if generation != self.generation:
            process.signal(signal.SIGKILL)

    def _ended(self, name: str, id: str) -> None:
        process = self._running.pop(name)
        self._selector.unregister(process.pidfd)
        code, signo = process.status()
        self._runtime.launched(process)
        process.close()
        self._tell({"event": "program", "id": id, "name": name, "code": 128 + signo if signo else code})

    def kill(self, name: str) -> None:
        """Kill a program; a no-op where it has ended."""
        if name in self._running:
            self._running[name].signal(signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill all: their server has gone."""
        self.generation += 1
        for process in self._running.values():
            process.signal(signal.SIGKILL)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
