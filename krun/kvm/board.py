"""The board of a container (native/process/board.h): its empty file, what monitors wrote there before they ended, and its counters."""

import os

#: "KRBOARD" and the version of the layout and of the monitors' messages (native/process/board.h).
MAGIC = 0x334452414F42524B
HEADER = 32
#: Offset of the last words, size of one record, number of records; offset of the number of those that were written.
WORDS_AT = HEADER + 16384 * 32
WORDS_SIZE = 256
WORDS = 16
SAID_AT = 16
#: Offset and number of the counters, 64 bits each; the index of each one.
COUNTS_AT = WORDS_AT + WORDS * WORDS_SIZE
COUNTS = 32
EXITS, REFUSED, UNKNOWN, SITES, PATCHED, COMPLETED, DECLINED = 0, 1, 2, 3, 4, 8, 16
#: Index of the first of the words with a bit for each call that was refused or is unknown, and number of bits.
CALLS_AT, CALLS = 24, 512
#: enum kr_way (native/table/rows.h): its number is added to COMPLETED and DECLINED.
WAYS = {"fact": 1, "action": 2, "read": 4, "queue": 5, "file": 6}
#: Offset of the part for `krun trace` (native/process/observe.h, krun/kvm/watch.py); size and number of its records. It is empty
#: while nobody traces the container.
WATCH_AT = (COUNTS_AT + COUNTS * 8 + 4095) & ~4095
WATCH_RECORD, WATCH_RECORDS = 512, 4096
SIZE = WATCH_AT + 4096 + WATCH_RECORD * WATCH_RECORDS


def fill(fd: int) -> None:
    """Makes an empty file a container's board: its size, and a cookie that only monitors know. Raises OSError."""
    os.ftruncate(fd, SIZE)
    os.pwrite(fd, MAGIC.to_bytes(8, "little") + os.getrandom(8), 0)


def is_ours(fd: int) -> bool:
    """Tells whether the file is a board of this version: monitors of two versions must not meet on one. Raises OSError."""
    return os.pread(fd, 8, 0) == MAGIC.to_bytes(8, "little")


def counters(path: str) -> "list[int]":
    """Returns the container's counters by index; [] if there is no board of this version. They are what monitors wrote, no more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        data = os.pread(fd, COUNTS * 8, COUNTS_AT) if is_ours(fd) else b""
    except OSError:
        return []
    finally:
        os.close(fd)
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def refused(counters: "list[int]") -> "list[dict[str, str]]":
    """Returns the system calls that were refused or are unknown: name, errno and the table's reason (docs/syscalls.md).

    Argument: counters, of the board, by index. Any monitor of the container may have written them: a number is no more than a hint.
    """
    from krun.kvm.refusals import REFUSALS  # cost: `delete` reads boards, too

    words = counters[CALLS_AT : CALLS_AT + CALLS // 64]
    numbers = [64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    found = []
    for number in numbers:
        name, errno, reason = REFUSALS.get(
            number, (f"syscall_{number}", "ENOSYS", "krun does not know the call")
        )
        found.append({"call": name, "errno": errno, "reason": reason})
    return found


def last_words(path: str) -> "list[tuple[int, str]]":
    """Returns why monitors ended: pairs (pid inside, one line), oldest first; [] if there is no board.

    A monitor that was taken over may have written anything: the lines have printable ASCII only.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        said = int.from_bytes(os.pread(fd, 4, SAID_AT), "little")
        data = os.pread(fd, WORDS * WORDS_SIZE, WORDS_AT) if said else b""
    except OSError:
        return []
    finally:
        os.close(fd)
    found = []
    for number in range(max(0, said - WORDS), said):
        at = number % WORDS * WORDS_SIZE
        text = data[at + 4 : at + WORDS_SIZE].partition(b"\0")[0]
        if text:
            line = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in text)
            found.append((int.from_bytes(data[at : at + 4], "little"), line))
    return found
