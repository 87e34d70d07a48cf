"""Logs as clients ask for them (core/v1 Pod log: tailLines, sinceTime, follow, previous, timestamps)."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

from krun.serve.run import logfile

_POLL = 0.2  # seconds between looks at a log that is followed
_CHUNK = 1 << 20


def files(directory: str, previous: bool) -> list[str]:
    """Return the files of the last start, or of the one before, the older first. `directory` holds N.log and N.log.1."""
    try:
        numbers = sorted(
            int(name[:-4])
            for name in os.listdir(directory)
            if name.endswith(".log") and name[:-4].isdecimal()
        )
    except OSError:
        return []
    if previous:
        numbers = numbers[:-1]
    if not numbers:
        return []
    path = os.path.join(directory, f"{numbers[-1]}.log")
    return [name for name in (f"{path}.1", path) if os.path.exists(name)]


async def read(
    directory: str,
    *,
    tail: int | None = None,
    follow: bool = False,
    since: str = "",
    previous: bool = False,
    timestamps: bool = False,
    alive: Callable[[], bool] = lambda: True,
) -> AsyncIterator[bytes]:
    """Yield the text of a container's log.

    Arguments: directory of the container's logs; tail, the last lines only; follow, go on while `alive()` says that more may come;
    since, RFC 3339 time in UTC of the first entry; timestamps, put the time before each line.
    """
    lines: list[tuple[str, str, bytes]] = []
    last: BinaryIO | None = None
    try:
        for path in files(directory, previous):
            if last:
                last.close()
            last = open(path, "rb")
            data = last.read()
            lines += [entry for entry in logfile.entries(data) if entry[0] >= since]
            # An entry whose end is not written yet is the follower's.
            last.seek(data.rfind(b"\n") + 1)
        if tail is not None:
            lines = lines[len(lines) - tail :] if tail else []
        if lines:
            yield _text(lines, timestamps)
        if follow and not previous:
            follower = _Follower(directory, last)
            last = None
            try:
                async for lines in follower.entries(alive):
                    yield _text(lines, timestamps)
            finally:
                follower.close()
    finally:
        if last:
            last.close()


class _Follower:
    """What is written from now on: rotation and a restart of the container are followed. Arguments: directory of the logs; the
    file that was read last, at the place where the next entry begins, or None; it is closed here.
    """

    def __init__(self, directory: str, file: BinaryIO | None) -> None:
        self.directory = directory
        self.file = file

    async def entries(self, alive: Callable[[], bool]) -> AsyncIterator[list[tuple[str, str, bytes]]]:
        rest = b""
        while True:
            # Before the read: what is written before the end is read.
            more = alive()
            data = self.file.read(_CHUNK) if self.file else b""
            if data:
                whole, newline, rest = (rest + data).rpartition(b"\n")
                lines = list(logfile.entries(whole + newline))
                if lines:
                    yield lines
            elif self._next():
                rest = b""
            elif not more:
                return
            else:
                await asyncio.sleep(_POLL)

    def _next(self) -> bool:
        """Open the file that is written now, if it is another one."""
        now = files(self.directory, False)
        try:
            if not now or self.file and os.fstat(self.file.fileno()).st_ino == os.stat(now[-1]).st_ino:
                return False
            fresh = open(now[-1], "rb")
        except FileNotFoundError:
            return False  # it is given its other name at this moment, or removed with its instance
        self.close()
        self.file = fresh
        return True

    def close(self) -> None:
        if self.file:
            self.file.close()


def _text(lines: list[tuple[str, str, bytes]], timestamps: bool) -> bytes:
    return b"".join(f"{time} ".encode() + text if timestamps else text for time, _, text in lines)
