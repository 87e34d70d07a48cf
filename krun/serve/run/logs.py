"""Logs as clients ask for them (core/v1 Pod log: tailLines, sinceTime, follow, previous, timestamps)."""

import asyncio
import os
from collections.abc import AsyncIterator

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
) -> AsyncIterator[bytes]:
    """Yield the text of a container's log.

    Arguments: directory of the container's logs; tail, the last lines only; follow, go on until the caller stops; since, RFC 3339
    time in UTC of the first entry; timestamps, put the time before each line.
    """
    lines: list[tuple[str, str, bytes]] = []
    for path in files(directory, previous):
        with open(path, "rb") as file:
            lines += [entry for entry in logfile.entries(file.read()) if entry[0] >= since]
    if tail is not None:
        lines = lines[len(lines) - tail :] if tail else []
    if lines:
        yield _text(lines, timestamps)
    if follow and not previous:
        async for data in _follow(directory, timestamps):
            yield data


async def _follow(directory: str, timestamps: bool) -> AsyncIterator[bytes]:
    """Yield what comes from now on: rotation and a restart of the container are followed."""
    current = files(directory, False)
    path = current[-1] if current else ""
    file = open(path, "rb") if path else None
    try:
        if file:
            file.seek(0, os.SEEK_END)
        rest = b""
        while True:
            data = file.read(_CHUNK) if file else b""
            if data:
                whole, newline, rest = (rest + data).rpartition(b"\n")
                lines = list(logfile.entries(whole + newline))
                if lines:
                    yield _text(lines, timestamps)
                continue
            now = files(directory, False)
            if now and (
                file is None or now[-1] != path or os.fstat(file.fileno()).st_ino != os.stat(now[-1]).st_ino
            ):
                if file:
                    file.close()
                path, rest = now[-1], b""
                file = open(path, "rb")
                continue
            await asyncio.sleep(_POLL)
    finally:
        if file:
            file.close()


def _text(lines: list[tuple[str, str, bytes]], timestamps: bool) -> bytes:
    return b"".join(f"{time} ".encode() + text if timestamps else text for time, _, text in lines)
