"""The log of a container: CRI's format, one line an entry, bounded by rotation (kubernetes, kubelet/kuberuntime/logs)."""

import os
import time
from collections.abc import Iterator

LIMIT = 10 << 20  # bytes of one file; two are kept
_LONGEST = 16 << 10  # a longer line is cut into partial entries


class LogFile:
    """A log that is written. Arguments: path; limit, bytes of a file before it becomes path.1."""

    def __init__(self, path: str, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit
        self.rest: dict[str, bytes] = {}
        self.file = open(path, "ab", buffering=0)
        self.size = self.file.tell()

    def write(self, stream: str, data: bytes) -> None:
        """Append what a stream ("stdout", "stderr") gave; an unfinished line waits for its end. b"" ends the stream."""
        lines = (self.rest.pop(stream, b"") + data).split(b"\n")
        last = lines.pop()
        out = []
        for line in lines:
            out += _entries(stream, line, True)
        if last:
            if not data or len(last) >= _LONGEST:
                out += _entries(stream, last, False)
            else:
                self.rest[stream] = last
        if out:
            self._append(b"".join(out))

    def _append(self, data: bytes) -> None:
        if self.size and self.size + len(data) > self.limit:
            self.file.close()
            os.replace(self.path, f"{self.path}.1")
            self.file = open(self.path, "ab", buffering=0)
            self.size = 0
        try:
            self.file.write(data)
            self.size += len(data)
        except OSError:
            pass  # a full disk loses lines, it does not stop the program that writes them

    def close(self) -> None:
        """Write what waits, and close."""
        for stream in list(self.rest):
            self.write(stream, b"")
        self.file.close()


def _entries(stream: str, line: bytes, whole: bool) -> list[bytes]:
    now = time.time_ns()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"
    parts = [line[i : i + _LONGEST] for i in range(0, len(line), _LONGEST)] or [b""]
    marks = [b"P"] * (len(parts) - 1) + [b"F" if whole else b"P"]
    head = f"{stamp} {stream} ".encode()
    return [head + mark + b" " + part + b"\n" for mark, part in zip(marks, parts, strict=True)]


def entries(data: bytes) -> "Iterator[tuple[str, str, bytes]]":
    """Return time, stream and text (with its line end where it has one) of each entry. What follows the last line end is none."""
    # Not splitlines(): a carriage return is the program's, and what stands behind it would be lost, or be an entry of its own.
    for line in data.split(b"\n")[:-1]:
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            text = parts[3] + b"\n" if parts[2] == b"F" else parts[3]
            yield parts[0].decode(), parts[1].decode(), text


def tail(path: str, lines: int, limit: int) -> str:
    """Return the last lines of a log's text, at most `limit` bytes: the message of a container that ended."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 2 * limit))
            text = b"".join(entry[2] for entry in entries(file.read()))
    except OSError:
        return ""
    return b"\n".join(text.splitlines()[-lines:])[-limit:].decode("utf-8", "replace")
