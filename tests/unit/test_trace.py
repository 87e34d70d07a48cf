"""`krun trace` without a container: the text of records, the choice of calls, and a board on which monitors write what they like."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from krun.errors import KrunError, UsageError
from krun.kvm import board, strace, watch
from krun.oci import trace

HEAD = struct.Struct("<IIQQqIIII6Q")


def record(
    name: str,
    args: list[int],
    result: int = 0,
    items: bytes = b"",
    gone: int = 0,
    seq: int = 1,
    size: int = 0,
) -> bytes:
    args = [value & (1 << 64) - 1 for value in args] + [0] * (6 - len(args))
    size = size or HEAD.size + len(items)
    head = HEAD.pack(seq, size, 5, 7000, result, 3, 4, strace.NUMBERS.get(name, 999), gone, *args)
    return (head + items).ljust(watch.RECORD, b"\0")


def item(argument: int, data: bytes, total: int | None = None) -> bytes:
    return bytes([argument, len(data)]) + (len(data) if total is None else total).to_bytes(2, "little") + data


def shown(*args: object, **words: object) -> str:
    one = watch.Record(record(*args, **words))  # type: ignore[arg-type]
    return f"{strace.call_name(one.number)}({', '.join(strace.arguments(one))}) = {strace.result(one)}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            'openat(AT_FDCWD, "/etc/x", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)',
            shown("openat", [-100, 1, 0o2000000, 0], -2, item(1, b"/etc/x")),
        ),
        (
            'openat(3, "a\\x1b[31m\\"", O_WRONLY|O_CREAT, 0644) = 5',
            shown("openat", [3, 1, 0o101, 0o644], 5, item(1, b'a\x1b[31m"')),
        ),
        ('write(1, "hello\\n", 6) = 6', shown("write", [1, 9, 6], 6, item(1, b"hello\n"))),
        ('read(0, "ab"..., 4096) = 100', shown("read", [0, 9, 4096], 100, item(1, b"ab", 100))),
        ("read(0, 0x9, 4096) = 0", shown("read", [0, 9, 4096], 0)),
        (
            "connect(3, {sa_family=AF_INET, sin_port=80, sin_addr=10.1.2.3}, 16) = 0",
            shown("connect", [3, 9, 16], 0, item(1, b"\x02\0\0\x50\x0a\1\2\3" + bytes(8))),
        ),
        (
            'bind(3, {sa_family=AF_UNIX, sun_path="/s"}, 5) = 0',
            shown("bind", [3, 9, 5], 0, item(1, b"\1\0/s\0")),
        ),
        (
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000",
            shown("mmap", [0, 4096, 3, 0x22, -1, 0], 0x7F0000000000),
        ),
        (
            "pipe2([3, 4], O_CLOEXEC) = 0",
            shown("pipe2", [9, 0o2000000], 0, item(0, struct.pack("<ii", 3, 4))),
        ),
        (
            "wait4(-1, [killed by SIGKILL], 0, NULL) = 7",
            shown("wait4", [-1, 9, 0, 0], 7, item(1, b"\x09\0\0\0")),
        ),
        (
            "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, {tv_sec=1, tv_nsec=5}, NULL) = 0",
            shown("clock_nanosleep", [1, 1, 9, 0], 0, item(2, struct.pack("<qq", 1, 5))),
        ),
        ('writev(1, ["ab"..., ...], 2) = 9', shown("writev", [1, 9, 2], 9, item(1, b"ab", 7))),
        ("exit_group(3) = ?", shown("exit_group", [3], gone=1)),
        ("kill(-1, SIGTERM) = -1 EPERM (Operation not permitted)", shown("kill", [-1, 15], -1)),
        ("syscall_999(0x1, 0, 0, 0, 0, 0) = -1 ENOSYS (Function not implemented)", shown("nosuch", [1], -38)),
    ],
)
def test_text(text: str, what: str) -> None:
    assert what == text


def siginfo(number: int, code: int, *words: int) -> list[int]:
    data = struct.pack("<iii4x", number, 0, code) + struct.pack(f"<{len(words)}i", *words)
    return list(struct.unpack("<6Q", data.ljust(48, b"\0")))


@pytest.mark.parametrize(
    ("text", "number", "args"),
    [
        ("SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=1000}", 10, siginfo(10, 0, 7, 1000)),
        ("SIGTERM {si_signo=SIGTERM, si_code=SI_TKILL, si_pid=7, si_uid=0}", 15, siginfo(15, -6, 7, 0)),
        (
            "SIGRT_3 {si_signo=SIGRT_3, si_code=SI_QUEUE, si_pid=7, si_uid=0, si_value=0x9}",
            35,
            siginfo(35, -1, 7, 0, 9),
        ),
        ("SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL}", 14, siginfo(14, 0x80)),
        (
            "SIGALRM {si_signo=SIGALRM, si_code=SI_TIMER, si_timerid=2, si_overrun=1, si_value=0x5}",
            14,
            siginfo(14, -2, 2, 1, 5),
        ),
        ("SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x1000}", 11, siginfo(11, 1, 0x1000)),
        ("SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_ACCERR, si_addr=NULL}", 11, siginfo(11, 2)),
        ("SIGSEGV {si_signo=SIGSEGV, si_code=77, si_addr=NULL}", 11, siginfo(11, 77)),
        (
            "SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=9, si_uid=0, si_status=3, si_utime=1, si_stime=2}",
            17,
            siginfo(17, 1, 9, 0, 3, 0, 1, 0, 2),
        ),
        (
            "SIGCHLD {si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=9, si_uid=0, si_status=SIGKILL, si_utime=0, si_stime=0}",
            17,
            siginfo(17, 2, 9, 0, 9),
        ),
        (
            "SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0x40, si_syscall=read}",
            31,
            siginfo(31, 1, 0x40, 0, 0),
        ),
    ],
)
def test_signals(text: str, number: int, args: list[int]) -> None:
    one = watch.Record(record("read", args, gone=watch.SIGNAL))
    one.number = number
    assert list(trace._texts(one, True)) == [f"--- {text} ---"]


def test_ends() -> None:
    def texts(name: str, kind: int, signals: bool = True) -> list[str]:
        return list(trace._texts(watch.Record(record(name, [0x107], gone=kind)), signals))

    assert texts("exit_group", watch.GONE) == ["exit_group(263) = ?", "+++ exited with 7 +++"]
    assert texts("exit_group", watch.GONE, False) == ["exit_group(263) = ?"]
    assert texts("exit", watch.GONE | watch.ENDS) == ["+++ exited with 7 +++"]
    assert texts("execve", watch.GONE) == ["execve(0x107, NULL, NULL) = ?"]
    assert texts("open", watch.KILLED) == ["+++ killed by SIGINT +++"]  # number 2
    assert strace.without_signals(["openat", "signal=none"]) == (["openat"], False)
    assert strace.without_signals(["trace=openat", "signal=all"]) == (["trace=openat"], True)
    with pytest.raises(UsageError, match="signal=none"):
        strace.without_signals(["signal=USR1"])


def test_hostile_records() -> None:
    state = 1
    for _ in range(3000):
        data = bytearray()
        while len(data) < watch.RECORD:
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            data += (state >> 11).to_bytes(8, "little")
        data[40:42] = ((state >> 20) % 480).to_bytes(2, "little")
        data[42:44] = bytes(2)
        one = watch.Record(bytes(data[: watch.RECORD]))
        text = (
            f"{strace.arguments(one)}{strace.result(one)}{strace.failure(one)}{list(trace._texts(one, True))}"
        )
        one.number, one.kind = state % 70, watch.SIGNAL
        text += f"{list(trace._texts(one, True))}{trace.dumps(strace.signal_info(one))}"
        assert all(32 <= ord(c) < 127 for c in text)


def test_expressions() -> None:
    numbers = strace.NUMBERS
    assert strace.numbers_of(["openat,close"]) == {numbers["openat"], numbers["close"]}
    # Also calls that the table does not have: they are what a program that fails with ENOSYS is traced for.
    every = set(range(watch.CALL_BITS))
    assert strace.numbers_of([]) == strace.numbers_of(["all"]) == every > set(numbers.values())
    assert numbers["openat"] in strace.numbers_of(["%file"]) and numbers["read"] not in strace.numbers_of(
        ["%file"]
    )
    assert numbers["read"] in strace.numbers_of(["trace=%desc"])
    assert strace.numbers_of(["!read"]) == every - {numbers["read"]}
    assert strace.numbers_of(["read", "write"]) == {0, 1}
    for name, words in strace._CLASSES.items():
        assert len(strace.numbers_of([f"%{name}"])) >= 0.9 * len(set(words.split())), name
    with pytest.raises(UsageError, match="unknown system call 'opennat'"):
        strace.numbers_of(["opennat"])
    assert strace.errnos_of(["ENOENT,EPERM"]) == {1, 2} and len(strace.errnos_of([])) == 191
    with pytest.raises(UsageError, match="unknown error '²'"):
        strace.errnos_of(["²"])
    with pytest.raises(UsageError, match="unknown error 'ENOSUCH'"):
        strace.errnos_of(["ENOSUCH"])


def test_calls_that_the_guest_completes() -> None:
    assert watch.Filter({39}, [], None).exits() and watch.Filter({0, 39}, [], None).exits()
    assert watch.Filter({257}, [], None).exits()  # an open of the same file again
    assert not watch.Filter({59}, [], None).exits()
    assert not watch.Filter({39}, [], {2}).exits()  # a call that was completed has succeeded


@pytest.fixture
def path(tmp_path: Path) -> str:
    with (tmp_path / "board").open("w+b", buffering=0) as file:
        board.fill(file.fileno())
    return str(tmp_path / "board")


def attach(path: str) -> watch.Watch:
    return watch.Watch(path, "box", watch.Filter({1}, [], None))


def put(path: str, at: int, data: bytes) -> None:
    with open(path, "r+b", buffering=0) as file:
        file.seek(at)
        file.write(data)


def get(path: str, at: int) -> int:
    with open(path, "rb") as file:
        file.seek(at)
        return int.from_bytes(file.read(4), "little")


def write(path: str, number: int, text: bytes) -> None:
    """What a monitor does for a record."""
    data = record("write", [1, 9, 6], 6, item(1, text), seq=number + 1 & 0xFFFFFFFF)
    put(path, board.WATCH_AT + 4096 + number % watch.RECORDS * watch.RECORD, data)
    put(path, board.WATCH_AT + watch.HEAD_AT, (number + 1 & 0xFFFFFFFF).to_bytes(4, "little"))


def texts(records: list[watch.Record]) -> list[bytes]:
    return [one.items[1][0] for one in records]


def test_reading(path: str) -> None:
    reader = attach(path)
    first = get(path, board.WATCH_AT + watch.HEAD_AT)
    assert get(path, watch.WORD_AT) & 1 and reader.read() == []
    for i in range(3):
        write(path, first + i, b"%d" % i)
    assert texts(reader.read()) == [b"0", b"1", b"2"] and reader.read() == []
    assert get(path, board.WATCH_AT + watch.TAIL_AT) == (first + 3) & 0xFFFFFFFF
    write(path, first + 4, b"4")  # the writer of 3 was killed
    while not (found := reader.read()):
        pass
    assert texts(found) == [b"4"] and reader.lost == 1
    put(path, board.WATCH_AT + watch.LOST_AT, (7).to_bytes(4, "little"))
    put(path, watch.WORD_AT, bytes(4))  # nobody had read for long
    assert reader.read() == [] and (reader.lost, reader.suspended) == (8, 1) and get(path, watch.WORD_AT)
    reader.close()
    assert get(path, watch.WORD_AT) == 0 and os.stat(path).st_size == board.SIZE
    again = attach(path)
    assert again.read() == []
    again.close()
    assert os.stat(path).st_blocks * 512 < board.WATCH_AT


def test_a_board_that_is_cut_off_or_full_of_garbage(path: str) -> None:
    reader = attach(path)
    put(path, board.WATCH_AT, b"\xff" * (board.SIZE - board.WATCH_AT))
    for _ in range(3):
        reader.read()
    os.truncate(path, board.WATCH_AT + 100)
    reader.read()
    os.truncate(path, 0)
    reader.read()
    reader.close()


def test_one_at_a_time(path: str) -> None:
    reader = attach(path)
    code = (
        "import sys; from krun.kvm import watch; watch.Watch(sys.argv[1], 'box', watch.Filter({1}, [], None))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert f"cannot trace container box: process {os.getpid()} is tracing it" in done.stderr
    reader.close()
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_a_board_of_before(path: str) -> None:
    os.truncate(path, board.COUNTS_AT + board.COUNTS * 8)
    with pytest.raises(KrunError, match="cannot trace container box: it was made by another version of krun"):
        attach(path)


def test_a_flood_does_not_outlast_the_signal(tmp_path: Path) -> None:
    """Others may write records faster than they can be shown: what was in the ring at the signal is the end."""

    class Flood:
        reads = 0

        def read(self) -> list[watch.Record]:
            self.reads += 1
            assert self.reads < 1000
            return [watch.Record(record("getppid", []))] * 256

    stop, write = os.pipe()
    os.write(write, b"x")
    with (tmp_path / "out").open("wb") as out:
        writer = trace.Writer(out.fileno(), False, 0, stop)
        trace._follow(Flood(), writer, stop, stop)  # type: ignore[arg-type]
    assert (tmp_path / "out").read_bytes().count(b"\n") == 256 + watch.RECORDS
    os.close(stop)
    os.close(write)
