"""Logs as clients ask for them (core/v1 Pod log: tailLines, sinceTime, follow, previous, timestamps)."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

from krun.serve.run import logfile

_POLL = 0.2  # seconds between looks at a log that is followed
_CHUNK = 256 << 10  # bytes that are read before other requests get their turn
_TRIES = 10


def _all(directory: str) -> list[tuple[int, str]]:
    """Return the number of the start and the path of each file, the oldest first. `directory` holds N.log and N.log.1."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = []
    for name in names:
        word, _, kind = name.partition(".")
        if word.isdecimal() and kind in ("log", "log.1"):
            found.append((int(word), kind == "log", os.path.join(directory, name)))
    return [(number, path) for number, _, path in sorted(found)]


def files(directory: str, previous: bool) -> list[str]:
    """Return the files of the last start, or of the one before, the older first."""
    found = _all(directory)
    numbers = sorted({number for number, _ in found})
    if previous:
        numbers = numbers[:-1]
    return [path for number, path in found if number == numbers[-1]] if numbers else []


def _opened(directory: str, previous: bool) -> list[BinaryIO]:
    """Open the same; a rotation meanwhile leaves no gap between them."""
    opened: list[BinaryIO] = []
    for _ in range(_TRIES):
        names = files(directory, previous)
        try:
            for name in names:
                opened.append(open(name, "rb"))
            if all(_is(file, name) for file, name in zip(opened, names, strict=True)):
                break
        except OSError:
            pass  # it gets its other name at this moment, or is removed with its instance
        while opened:
            opened.pop().close()
    return opened


def _is(file: BinaryIO, path: str) -> bool:
    """Whether a path leads to an open file. Raises FileNotFoundError."""
    own, named = os.fstat(file.fileno()), os.stat(path)
    return (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)


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
    opened = _opened(directory, previous)
    since = since.removesuffix("Z")  # "...:07.5" stands behind "...:07", and before "...:07Z"
    try:
        ends = [os.fstat(file.fileno()).st_size for file in opened]
        skipped = 0
        if tail is not None:
            counts = [await _count(file, end) for file, end in zip(opened, ends, strict=True)]
            skipped = max(0, sum(counts) - tail)
        for file, end in zip(opened, ends, strict=True):
            async for lines in _lines(file, end):
                kept, skipped = lines[skipped:], max(0, skipped - len(lines))
                if text := _text([entry for entry in kept if entry[0] >= since], timestamps):
                    yield text
        if follow and not previous:
            follower = _Follower(directory, opened.pop() if opened else None)
            try:
                async for lines in follower.entries(alive):
                    yield _text(lines, timestamps)
            finally:
                follower.close()
    finally:
        for file in opened:
            file.close()


async def _count(file: BinaryIO, end: int) -> int:
    """Return how many entries stand before an offset; the file is at its beginning then."""
    count = 0
    while end > 0 and (data := file.read(min(end, _CHUNK))):
        end -= len(data)
        count += data.count(b"\n")
        await asyncio.sleep(0)
    file.seek(0)
    return count


async def _lines(file: BinaryIO, end: int) -> AsyncIterator[list[tuple[str, str, bytes]]]:
    """Yield the entries before an offset; the file is behind the last whole one then: the rest is the follower's."""
    rest = b""
    while end > 0 and (data := file.read(min(end, _CHUNK))):
        end -= len(data)
        whole, newline, rest = (rest + data).rpartition(b"\n")
        yield list(logfile.entries(whole + newline))
        await asyncio.sleep(0)
    file.seek(-len(rest), os.SEEK_CUR)


class _Follower:
    """What is written from now on: rotation and a restart of the container are followed. Arguments: directory of the logs; the
    file that was read last, at the place where the next entry begins, or None; it is closed here.
    """

    def __init__(self, directory: str, file: BinaryIO | None) -> None:
        self.directory = directory
        self.file = file
        #: The start that the file is of. Its name is not known: a rotation may have given it another one.
        self.number = max((number for number, _ in _all(directory)), default=0)

    async def entries(self, alive: Callable[[], bool]) -> AsyncIterator[list[tuple[str, str, bytes]]]:
        rest = b""
        while True:
            # Before the read: what is written before the end is read.
            more = alive()
            following = self._following()
            # After the look: a file that another one follows is not written any more.
            data = self.file.read(_CHUNK) if self.file else b""
            if data:
                whole, newline, rest = (rest + data).rpartition(b"\n")
                lines = list(logfile.entries(whole + newline))
                if lines:
                    yield lines
            elif following is not None:
                self.close()
                self.number, self.file = following
                following, rest = None, b""
            elif not more:
                return
            else:
                await asyncio.sleep(_POLL)
            if following is not None:
                following[1].close()

    def _following(self) -> tuple[int, BinaryIO] | None:
        """Open the file that is behind this one: the oldest that is left where several rotations have passed."""
        found = [entry for entry in _all(self.directory) if entry[0] >= self.number]
        try:
            if self.file is not None:
                for at, (_, path) in enumerate(found):
                    if _is(self.file, path):
                        found = found[at + 1 :]
                        break
            return (found[0][0], open(found[0][1], "rb")) if found else None
        except FileNotFoundError:
            return None  # it gets its other name at this moment, or is removed with its instance

    def close(self) -> None:
        if self.file:
            self.file.close()


def _text(lines: list[tuple[str, str, bytes]], timestamps: bool) -> bytes:
    return b"".join(f"{time} ".encode() + text if timestamps else text for time, _, text in lines)
