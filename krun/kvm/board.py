"""The board of a container (native/process/board.h): its empty file, and what monitors wrote there before they ended."""

import os

#: "KRBOARD" and the version of the layout and of the monitors' messages (native/process/board.h).
MAGIC = 0x324452414F42524B
HEADER = 32
#: Offset of the last words, size of one record, number of records; offset of the number of those that were written.
WORDS_AT = HEADER + 16384 * 32
WORDS_SIZE = 256
WORDS = 16
SAID_AT = 16
SIZE = WORDS_AT + WORDS * WORDS_SIZE


def fill(fd: int) -> None:
    """Makes an empty file a container's board: its size, and a cookie that only monitors know. Raises OSError."""
    os.ftruncate(fd, SIZE)
    os.pwrite(fd, MAGIC.to_bytes(8, "little") + os.getrandom(8), 0)


def is_ours(fd: int) -> bool:
    """Tells whether the file is a board of this version: monitors of two versions must not meet on one. Raises OSError."""
    return os.pread(fd, 8, 0) == MAGIC.to_bytes(8, "little")


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
