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
        head = _head(stream)
        whole = head + b"F "
        out = []
        for line in lines:
            # A payload writes 65536 empty lines at once: little is done for each.
            if len(line) <= _LONGEST:
                out.append(whole + line)
            else:
                out += _parts(head, line, b"F ")
        if last:
            if not data or len(last) >= _LONGEST:
                out += _parts(head, last, b"P ")
            else:
                self.rest[stream] = last
        if out:
            out.append(b"")
            self._append(b"\n".join(out))

    def _append(self, data: bytes) -> None:
        """A disk that is full, or a log that cannot be rotated, loses lines: it does not stop the program that writes them."""
        if self.size and self.size + len(data) > self.limit and not self._rotate():
            return
        try:
            written = self.file.write(data)
        except OSError:
            return
        self.size += written
        if written < len(data):
            # The disk has become full within an entry: the next one would be read as a part of it.
            self.size -= written - data.rfind(b"\n", 0, written) - 1
            try:
                os.ftruncate(self.file.fileno(), self.size)
            except OSError:
                pass

    def _rotate(self) -> bool:
        """Go on in a new file; returns whether there is one. It is made first: a reader finds the path at almost every moment."""
        fresh = None
        try:
            fresh = open(f"{self.path}.new", "wb", buffering=0)
            try:
                os.replace(self.path, f"{self.path}.1")
            except FileNotFoundError:
                pass  # an earlier rotation has failed behind this point
            os.replace(f"{self.path}.new", self.path)
        except OSError:
            if fresh is not None:
                fresh.close()
            return False
        self.file.close()
        self.file = fresh
        self.size = 0
        return True

    def close(self) -> None:
        """Write what waits, and close."""
        for stream in list(self.rest):
            self.write(stream, b"")
        self.file.close()


def _head(stream: str) -> bytes:
    """The beginning of the entries that are written now."""
    now = time.time_ns()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"
    return f"{stamp} {stream} ".encode()


def _parts(head: bytes, line: bytes, mark: bytes) -> list[bytes]:
    """A long line as partial entries; the last one has the mark."""
    parts = [line[i : i + _LONGEST] for i in range(0, len(line), _LONGEST)]
    return [*(head + b"P " + part for part in parts[:-1]), head + mark + parts[-1]]


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
