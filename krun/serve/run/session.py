"""A program that a client has started in a container, as the server sees it: its streams, its terminal, its end."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Any

from krun.errors import KrunError
from krun.serve.run.client import Worker

_READ = 32 << 10
#: Bytes of a stream that are still read when the program has ended: a process that it left behind may write without end.
_LAST = 1 << 20
_WIDEST = (1 << 16) - 1

STDIN, STDOUT, STDERR = range(3)


class _End:
    """Our end of a pipe, or a terminal's master. A waiter of each direction at a time."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)

    async def ready(self, writing: bool, ended: "asyncio.Future[int]") -> None:
        """Wait until the descriptor can be read or written, or `ended` is done."""
        event: asyncio.Future[int] = self._loop.create_future()
        add, remove = (
            (self._loop.add_writer, self._loop.remove_writer)
            if writing
            else (self._loop.add_reader, self._loop.remove_reader)
        )
        add(self.fd, _set, event)
        try:
            await asyncio.wait({event, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self.fd >= 0:
                remove(self.fd)

    def close(self) -> None:
        """Give the descriptor back; nobody waits for it any more. Idempotent."""
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            self._loop.remove_writer(self.fd)
            os.close(self.fd)
            self.fd = -1


def _set(event: "asyncio.Future[int]") -> None:
    if not event.done():
        event.set_result(0)


class Session:
    """A program that runs. Arguments: ends, the descriptors by their streams' numbers (a terminal's master is 0 and 1); tty, whether
    it is one; ended, gets the program's exit code (128 + signal); kill, asks the worker to end the program.

    What the program writes waits in its pipe until somebody reads: a flood is held back there.
    """

    def __init__(
        self, ends: dict[int, int], tty: bool, ended: "asyncio.Future[int]", kill: Callable[[], None]
    ) -> None:
        made = {fd: _End(fd) for fd in set(ends.values())}
        self._ends = {stream: made[fd] for stream, fd in ends.items()}
        self.tty = tty
        self.ended = ended
        self._kill = kill
        self._late = dict.fromkeys(ends, 0)

    @property
    def outputs(self) -> list[int]:
        """The streams to read."""
        return [stream for stream in (STDOUT, STDERR) if stream in self._ends]

    async def read(self, stream: int) -> bytes:
        """Return the next output of a stream, b"" at its end, which comes at the latest with the program's."""
        end = self._ends[stream]
        while True:
            over = self.ended.done()
            if over and self._late[stream] >= _LAST:
                return b""
            try:
                data = os.read(end.fd, _READ)
            except BlockingIOError:
                if over:
                    return b""
                await end.ready(False, self.ended)
                continue
            except OSError:
                return b""  # EIO: a terminal that nobody has open
            if over:
                self._late[stream] += len(data)
            return data

    async def write(self, data: bytes) -> bool:
        """Give the program input; returns False where it takes none any more, or never has."""
        end = self._ends.get(STDIN)
        while data and end is not None and end.fd >= 0 and not self.ended.done():
            try:
                data = data[os.write(end.fd, data) :]
            except BlockingIOError:
                await end.ready(True, self.ended)
            except OSError:
                return False  # EPIPE: it has closed its input
        return not data

    def close_stdin(self) -> None:
        """End the program's input. A terminal stays: it is the program's output, too."""
        if not self.tty and STDIN in self._ends:
            self._ends[STDIN].close()

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal (columns, rows); a no-op without one."""
        if self.tty and self._ends[STDIN].fd >= 0:
            size = struct.pack("4H", min(max(height, 0), _WIDEST), min(max(width, 0), _WIDEST), 0, 0)
            try:
                fcntl.ioctl(self._ends[STDIN].fd, termios.TIOCSWINSZ, size)
            except OSError:
                pass  # nobody has the terminal open any more

    def close(self) -> None:
        """Let go of the program, and end it if it still runs. Idempotent."""
        for end in self._ends.values():
            end.close()
        if not self.ended.done():
            self._kill()


class Sessions:
    """The programs of all instances. `worker` returns the connection of the moment."""

    def __init__(self, worker: Callable[[], Worker]) -> None:
        self._worker = worker
        #: The ends of programs, by the names that the worker knows. An end may be told before the answer to the start is read.
        self._ends: dict[str, asyncio.Future[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, id: str, container: str, argv: list[str], streams: set[int], tty: bool) -> Session:
        """Start a program in a container of the instance `id`, with the standard streams asked for, or with a terminal.

        Raises KrunError; no program is left then.
        """
        name = os.urandom(8).hex()
        ended = self._ends[name] = asyncio.get_running_loop().create_future()
        ended.add_done_callback(lambda _: self._ends.pop(name, None))
        wanted = {"stdin": STDIN in streams, "stdout": STDOUT in streams, "stderr": STDERR in streams}
        words = {"id": id, "container": container, "argv": argv, "name": name, "tty": tty, **wanted}
        try:
            made = asyncio.ensure_future(self._worker().order("program", **words))
            _, fds = await asyncio.shield(made)
        except asyncio.CancelledError:
            ended.cancel()
            self._background(self._discard(name, made))
            raise
        except BaseException:
            ended.cancel()
            raise
        ends = {STDIN: fds[0], STDOUT: fds[0]} if tty else dict(zip(sorted(streams), fds, strict=True))
        return Session(ends, tty, ended, lambda: self._background(self._kill(name)))

    def ended(self, name: str, code: int) -> None:
        """The worker has told of a program's end."""
        ended = self._ends.get(name)
        if ended is not None and not ended.done():
            ended.set_result(code)

    def lost(self) -> None:
        """The worker has died, and all programs with it."""
        for ended in list(self._ends.values()):
            if not ended.done():
                ended.set_result(137)

    def _background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _discard(self, name: str, made: "asyncio.Future[Any]") -> None:
        """End a program whose caller was cancelled before it had begun."""
        try:
            _, fds = await made
        except KrunError:
            return  # it has not begun
        for fd in fds:
            os.close(fd)
        await self._kill(name)

    async def _kill(self, name: str) -> None:
        try:
            await self._worker().call("program-kill", name=name)
        except KrunError:
            pass  # the worker has gone, and has killed it
