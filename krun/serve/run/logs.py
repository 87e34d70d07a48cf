"""Logs as clients ask for them (core/v1 PodLogOptions: tailLines, limitBytes, sinceTime, follow, previous, timestamps).

The rules are the kubelet's (kubernetes, staging/src/k8s.io/cri-client/pkg/logs/logs.go): `tail` counts entries of the file, `since`
drops entries, `limit` counts what is sent, a time stands before the first part of a line only. A reader keeps one block of a file in
memory, however long the log is.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import BinaryIO

from krun.errors import KrunError
from krun.serve.run import logfile

Entry = tuple[str, str, bytes]  # time, stream, text

_POLL = 0.2  # seconds between looks at a log that is followed
_CHUNK = 256 << 10  # bytes that are read before other requests get their turn
_BLOCK = 64 << 10  # of the search for the last lines
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


def files(directory: str, previous: bool, number: int | None = None) -> list[str]:
    """Return the files of the last start, of the one before, or of start `number`, the older first."""
    found = _all(directory)
    numbers = sorted({entry for entry, _ in found})
    if previous:
        numbers = numbers[:-1]
    if number is not None:
        numbers = [number]
    return [path for start, path in found if start == numbers[-1]] if numbers else []


def _opened(directory: str, previous: bool, number: int | None = None) -> list[BinaryIO]:
    """Open the same; a rotation meanwhile leaves no gap between them."""
    opened: list[BinaryIO] = []
    for _ in range(_TRIES):
        names = files(directory, previous, number)
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


def read(
    directory: str,
    *,
    tail: int | None = None,
    follow: bool = False,
    since: int = 0,
    previous: bool = False,
    timestamps: bool = False,
    limit: int | None = None,
    alive: Callable[[], bool] = lambda: True,
) -> AsyncIterator[bytes]:
    """Return the text of a container's log, in parts.

    Arguments: directory of the container's logs; tail, the last entries only; follow, go on while `alive()` says that more may come;
    since, the time of the first entry in nanoseconds of the epoch; previous, the log of the start before; timestamps, put the time
    before each line; limit, bytes to send at most. Raises KrunError: there is no start before.
    """
    if previous and not files(directory, True):
        raise KrunError("there is no log of a previous start")
    return _read(directory, tail, follow and not previous, since, previous, _Writer(timestamps, limit), alive)


async def _read(
    directory: str,
    tail: int | None,
    follow: bool,
    since: int,
    previous: bool,
    writer: "_Writer",
    alive: Callable[[], bool],
) -> AsyncIterator[bytes]:
    first = _stamp(since)
    opened = _opened(directory, previous)
    try:
        ends = [os.fstat(file.fileno()).st_size for file in opened]
        at = _last_lines(opened, tail) if tail is not None else 0
        for index in range(at, len(opened)):
            async for entries in _blocks(opened[index], ends[index]):
                text = writer.text(entry for entry in entries if entry[0] >= first)
                if text:
                    yield text
                if writer.full:
                    return
        if follow:
            follower = _Follower(directory, opened.pop() if opened else None)
            try:
                async for entries in follower.entries(alive):
                    text = writer.text(entry for entry in entries if entry[0] >= first)
                    if text:
                        yield text
                    if writer.full:
                        return
            finally:
                follower.close()
    finally:
        for file in opened:
            file.close()


async def attach(directory: str, alive: Callable[[], bool]) -> AsyncIterator[Entry]:
    """Yield what the present start of a container writes from now on, while `alive()` says that it runs."""
    found = _all(directory)
    if not found:
        return
    opened = _opened(directory, False, found[-1][0])
    for file in opened[:-1]:
        file.close()
    for file in opened[-1:]:
        # An entry whose end is not written yet is still to come.
        file.seek(_newline_before(file, file.seek(0, os.SEEK_END)))
    follower = _Follower(directory, opened[-1] if opened else None, found[-1][0])
    try:
        async for entries in follower.entries(alive):
            for entry in entries:
                yield entry
    finally:
        follower.close()


def _stamp(nanoseconds: int) -> str:
    """A time as logfile writes it: times of one width are in the order of their texts."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


async def _blocks(file: BinaryIO, end: int) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a file from its position to an offset; the position is then behind the last whole entry."""
    rest = b""
    left = end - file.tell()
    while left > 0 and (data := file.read(min(left, _CHUNK))):
        left -= len(data)
        whole, newline, rest = (rest + data).rpartition(b"\n")
        yield list(logfile.entries(whole + newline))
        await asyncio.sleep(0)
    file.seek(-len(rest), os.SEEK_CUR)


def _newline_before(file: BinaryIO, end: int) -> int:
    """Return the offset behind the last line end before `end`, 0 if there is none."""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_lines(opened: list[BinaryIO], lines: int) -> int:
    """Put each file at the first of the last `lines` lines of all; returns the index of the first file that has one of them."""
    for index in range(len(opened) - 1, -1, -1):
        file = opened[index]
        end = _newline_before(file, file.seek(0, os.SEEK_END))
        if not lines:
            file.seek(end)
            return index
        if not end:
            file.seek(0)
            continue
        # The line end at `end` - 1 is that of the last line: the search is for the one before the first line.
        end -= 1
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            block = file.read(end - start)
            found = len(block)
            while (found := block.rfind(b"\n", 0, found)) >= 0:
                lines -= 1
                if not lines:
                    file.seek(start + found + 1)
                    return index
            end = start
        file.seek(0)
        lines -= 1  # its first line
        if not lines:
            return index
    return 0


class _Writer:
    """Makes the text that is sent. `full`: there is no room for more."""

    def __init__(self, timestamps: bool, limit: int | None) -> None:
        self._timestamps = timestamps
        self._left = limit
        self._fresh = True  # the next entry begins a line
        self.full = False

    def text(self, entries: "Iterator[Entry]") -> bytes:
        parts = []
        for stamp, _, text in entries:
            if self._timestamps and self._fresh:
                parts.append(f"{stamp} ".encode())
            parts.append(text)
            self._fresh = not text or text.endswith(b"\n")
        out = b"".join(parts)
        if self._left is not None:
            out = out[: self._left]
            self._left -= len(out)
            self.full = not self._left
        return out


class _Follower:
    """What is written from now on: rotation and a restart of the container are followed. Arguments: directory of the logs; the
    file that was read last, at the place where the next entry begins, or None, which is closed here; only, the one start that is
    followed, None for all.
    """

    def __init__(self, directory: str, file: BinaryIO | None, only: int | None = None) -> None:
        self.directory = directory
        self.file = file
        self.only = only
        #: The start that the file is of. Its name is not known: a rotation may have given it another one.
        self.number = max((number for number, _ in _all(directory)), default=0) if only is None else only

    async def entries(self, alive: Callable[[], bool]) -> AsyncIterator[list[Entry]]:
        rest = b""
        while True:
            # Before the read: what is written before the end is read.
            more = alive()
            following = self._following()
            # After the look: a file that another one follows is not written any more.
            data = self.file.read(_CHUNK) if self.file else b""
            if data:
                if following is not None:
                    following[1].close()
                whole, newline, rest = (rest + data).rpartition(b"\n")
                lines = list(logfile.entries(whole + newline))
                if lines:
                    yield lines
            elif following is not None:
                self.close()
                self.number, self.file = following
                rest = b""
            elif not more:
                return
            else:
                await asyncio.sleep(_POLL)

    def _following(self) -> tuple[int, BinaryIO] | None:
        """Open the file that is behind this one: the oldest that is left where several rotations have passed."""
        found = [entry for entry in _all(self.directory) if entry[0] >= self.number]
        if self.only is not None:
            found = [entry for entry in found if entry[0] == self.only]
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
