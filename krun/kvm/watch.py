"""The records of system calls that monitors make for `krun trace` (native/process/observe.h): attaching, reading, detaching.

Every monitor of the container can write that part of the board. Whatever is read there is a claim: bounds are checked here, and
nothing of it decides anything but what is shown. The file is read, not mapped: a file that a monitor cuts off ends nobody.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time

from krun.errors import KrunError, SysError
from krun.kvm import board
from krun.kvm.calls import CALLS

#: Places in the header: the word, and the number of processes that cannot map the ring.
WORD_AT, BLIND_AT = 24, 28
#: In the control page: the next record's number, the reader's, the lost records, what the reader has taken note of.
HEAD_AT, TAIL_AT, LOST_AT, NOTED_AT = 0, 64, 128, 192
CALL_BITS, ERRNO_BITS, PIDS = 512, 192, 16
RECORD, RECORDS = board.WATCH_RECORD, board.WATCH_RECORDS
#: Bits of the control's flags; of a record's.
FAILED, SIGNALS = 1, 2
GONE, ENDS, SIGNAL, KILLED = 1, 2, 4, 8
_HEAD = struct.Struct("<IIQQqIIII6Q")
_AT_ONCE = 256  # records of one read
_GAP_S = 0.2  # a record that is not there after this time will never be


class Filter:
    """Which records are asked for.

    calls: their numbers; pids: of processes as they see themselves, at most PIDS, with the children that they make from now on, []
    for all; errnos: only calls that failed with one of these, None for all calls; shown: bytes of a buffer; signals: whether
    signals and the ends of threads are asked for, too.
    """

    def __init__(
        self,
        calls: set[int],
        pids: list[int],
        errnos: set[int] | None,
        shown: int = 32,
        signals: bool = False,
    ) -> None:
        self.calls = calls
        self.pids = pids[:PIDS]
        self.errnos = errnos
        self.shown = shown
        self.signals = signals

    def control(self, first: int) -> bytes:
        """Return the control page for a ring that begins with record `first`."""
        page = bytearray(4096)
        struct.pack_into("<I", page, HEAD_AT, first)
        struct.pack_into("<I", page, TAIL_AT, first)
        flags = (0 if self.errnos is None else FAILED) | (SIGNALS if self.signals else 0)
        struct.pack_into("<4I", page, NOTED_AT, 0, flags, len(self.pids), self.shown)
        for i, pid in enumerate(self.pids):
            struct.pack_into("<I", page, NOTED_AT + 16 + 4 * i, pid)
        at = NOTED_AT + 16 + 4 * PIDS
        page[at : at + CALL_BITS // 8] = _bits(self.calls, CALL_BITS)
        at += CALL_BITS // 8
        page[at : at + ERRNO_BITS // 8] = _bits(self.errnos or set(), ERRNO_BITS)
        return bytes(page)

    def exits(self) -> bool:
        """Tell whether the guest may complete none of the calls. A call that it completes has succeeded."""
        return self.errnos is None and any(
            CALLS[number][1] not in ("NONE", "CHANGES") for number in self.calls if number in CALLS
        )


def _bits(numbers: set[int], most: int) -> bytes:
    return sum(1 << number for number in numbers if 0 <= number < most).to_bytes(most // 8, "little")


class Record:
    """One call: began and took in ns (CLOCK_MONOTONIC of the container), result, pid, tid, number, six arguments; items: by
    argument, the bytes that the monitor has copied and the number that there are; gone: a call that does not return.

    kind: 0, or ENDS, SIGNAL, KILLED of a record that is no call (native/process/observe.h). Then number is a signal's, and the arguments
    are the first bytes of its siginfo_t; of ENDS, they are those of a call that shows nothing but the thread's end."""

    __slots__ = ("began", "took", "result", "pid", "tid", "number", "args", "items", "gone", "kind")

    def __init__(self, data: bytes) -> None:
        """Take a record's bytes, RECORD of them."""
        _, size, self.began, self.took, self.result, self.pid, self.tid, self.number, flags, *self.args = (
            _HEAD.unpack_from(data)
        )
        self.gone = bool(flags & GONE)
        self.kind = flags & (ENDS | SIGNAL | KILLED)
        self.items: dict[int, tuple[bytes, int]] = {}
        at, end = _HEAD.size, min(size, len(data))
        while at + 4 <= end:
            argument, length, total = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
            if at + 4 + length > end:
                break
            self.items[argument] = (data[at + 4 : at + 4 + length], total)
            at += 4 + length


class Watch:
    """A reader that is attached to a container's board."""

    def __init__(self, path: str, name: str, wanted: Filter) -> None:
        """Attach to the board at `path` of the container `name`.

        Errors: KrunError for a board of another version, or if somebody else is attached; SysError.
        """
        self.lost = 0  # records for which there was no room, or that were never completed
        self.suspended = 0  # times that monitors gave up, because nobody read
        self.blind = (
            0  # at the end: processes that had no room for the ring in their address space (RLIMIT_AS)
        )
        self._gap = 0.0
        self._noted = 0
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise SysError.of("open the container's board", error, path) from None
        try:
            if not board.is_ours(self._fd) or os.fstat(self._fd).st_size < board.WATCH_AT:
                raise KrunError(
                    f"cannot trace container {name}: it was made by another version of krun; restart the container"
                )
            self._lock(name)
            self._attach(wanted)
        except OSError as error:
            os.close(self._fd)
            raise SysError.of("write the container's board", error, path) from None
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self, name: str) -> None:
        # Of a process, not of an open file (flock): a monitor may make no call of fcntl(2) on its descriptor of the board.
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            held = fcntl.fcntl(self._fd, fcntl.F_GETLK, struct.pack("<hh4xqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            pid = struct.unpack("<hh4xqqi4x", held)[4]
            raise KrunError(
                f"cannot trace container {name}: process {pid} is tracing it; end that one first"
            ) from None

    def _attach(self, wanted: Filter) -> None:
        fd = self._fd
        os.pwrite(fd, bytes(8), WORD_AT)
        os.ftruncate(fd, board.WATCH_AT)  # what a reader left that was killed
        os.ftruncate(fd, board.SIZE)
        # Charged to this process, not to the container.
        os.posix_fallocate(fd, board.WATCH_AT, board.SIZE - board.WATCH_AT)
        self._next = int.from_bytes(
            os.urandom(4), "little"
        )  # late records of the reader before have other numbers
        os.pwrite(fd, wanted.control(self._next), board.WATCH_AT)
        self._word = int.from_bytes(os.urandom(4), "little") & 0x7FFFFFFE | 2 | wanted.exits()
        os.pwrite(fd, self._word.to_bytes(4, "little"), WORD_AT)

    def close(self) -> None:
        """Detach: monitors write no more, and the ring's memory is free. Errors: none."""
        try:
            self.blind = self._number(BLIND_AT)
            os.pwrite(self._fd, bytes(4), WORD_AT)
            os.ftruncate(self._fd, board.WATCH_AT)
            os.ftruncate(self._fd, board.SIZE)
        except OSError:
            pass
        finally:
            os.close(self._fd)

    def read(self) -> list[Record]:
        """Return the records that have come, at most some hundreds; takes note of those that were lost. Errors: SysError."""
        try:
            self._note()
            data = self._slots()
        except OSError as error:
            raise SysError.of("read the container's board", error, "") from None
        found = []
        for at in range(0, len(data) - RECORD + 1, RECORD):
            seq = int.from_bytes(data[at : at + 4], "little")
            expected = (self._next + 1) & 0xFFFFFFFF
            if seq != expected:
                if not self._is_gap():
                    break
                self.lost += 1
            else:
                found.append(Record(data[at : at + RECORD]))
            self._gap = 0.0
            self._next = expected
        if data:
            os.pwrite(self._fd, self._next.to_bytes(4, "little"), board.WATCH_AT + TAIL_AT)
        return found

    def _slots(self) -> bytes:
        """Return the records from the next one on, up to the ring's end."""
        have = (self._number(board.WATCH_AT + HEAD_AT) - self._next) & 0xFFFFFFFF
        slot = self._next % RECORDS
        many = min(have, RECORDS - slot, _AT_ONCE)
        return os.pread(self._fd, many * RECORD, board.WATCH_AT + 4096 + slot * RECORD)

    def _is_gap(self) -> bool:
        """Tell whether the next record, which a monitor has begun, has not come for so long that its writer must have been killed."""
        now = time.monotonic()
        self._gap = self._gap or now
        return now - self._gap > _GAP_S

    def _note(self) -> None:
        lost = self._number(board.WATCH_AT + LOST_AT)
        if lost != self._noted:
            self.lost += (lost - self._noted) & 0xFFFFFFFF
            self._noted = lost
            os.pwrite(self._fd, lost.to_bytes(4, "little"), board.WATCH_AT + NOTED_AT)
        if self._number(WORD_AT) != self._word:
            self.suspended += 1
            os.pwrite(self._fd, self._word.to_bytes(4, "little"), WORD_AT)

    def _number(self, at: int) -> int:
        return int.from_bytes(os.pread(self._fd, 4, at), "little")
