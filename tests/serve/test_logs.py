"""Logs as clients read them: what a program prints arrives, whatever it prints; a log that is followed has no gap and an end."""

import asyncio
from pathlib import Path
from typing import Any

from krun.serve.run import logfile, logs
from krun.serve.run.sandbox import Sandbox


def test_a_carriage_return_neither_hides_nor_forges_an_entry(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "0.log"))
    text = b"10 %\r20 %\n\r2026-01-01T00:00:00Z stderr F forged\nend\r\n\x0b\x0c\x85\n"
    log.write("stdout", text)
    log.close()
    found = list(logfile.entries((tmp_path / "0.log").read_bytes()))
    assert b"".join(entry[2] for entry in found) == text
    assert {entry[1] for entry in found} == {"stdout"}


def test_a_follower_misses_nothing_and_ends_with_its_instance(tmp_path: Path) -> None:
    """Lines between the read and the first look of the follower were lost, and the end of the instance did not end it."""
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=2000)
    alive = True

    async def follow() -> bytes:
        nonlocal alive
        reader = logs.read(str(tmp_path), follow=True, alive=lambda: alive)
        log.write("stdout", b"one\n")
        parts = [await anext(reader)]
        log.write("stdout", b"two\n")
        parts.append(await anext(reader))
        second = logfile.LogFile(str(tmp_path / "1.log"))
        second.write("stdout", b"three, of the next start\n")
        parts.append(await anext(reader))
        second.write("stdout", b"last\n")
        second.close()
        alive = False
        return b"".join([*parts, *[part async for part in reader]])

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == b"one\ntwo\nthree, of the next start\nlast\n"
    log.close()


def test_a_follower_of_an_instance_without_a_log_ends_too(tmp_path: Path) -> None:
    async def follow() -> list[bytes]:
        return [part async for part in logs.read(str(tmp_path), follow=True, alive=lambda: False)]

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == []


def test_messages_of_syslog_go_to_the_log_that_clients_read(tmp_path: Path) -> None:
    """They went to a file that no request of the API reads."""
    box = Sandbox.__new__(Sandbox)
    box._first = None
    box.syslog_file = logfile.LogFile(str(tmp_path / "syslog"))
    assert box.syslog_log() is box.syslog_file
    first, sidecar, again = (logfile.LogFile(str(tmp_path / f"{n}.log")) for n in range(3))
    box.logs_into("user-container", first)
    box.logs_into("sidecar", sidecar)
    assert box.syslog_log() is first
    first.close()
    assert box.syslog_log() is box.syslog_file
    box.logs_into("user-container", again)
    assert box.syslog_log() is again


def texts(path: Path, **options: Any) -> bytes:
    async def collect() -> bytes:
        return b"".join([part async for part in logs.read(str(path), **options)])

    return asyncio.run(asyncio.wait_for(collect(), 60))


def test_a_tail_that_is_longer_than_the_log_is_the_log(tmp_path: Path) -> None:
    """--tail=7 of 5 lines gave 2."""
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=200)
    log.write("stdout", b"1\n2\n3\n")
    log.write("stdout", b"4\n5\n")  # behind a rotation
    log.close()
    assert len(logs.files(str(tmp_path), False)) == 2
    assert texts(tmp_path, tail=7) == b"1\n2\n3\n4\n5\n" and texts(tmp_path, tail=0) == b""
    assert texts(tmp_path, tail=3) == b"3\n4\n5\n" and texts(tmp_path, tail=1) == b"5\n"


def test_since_a_whole_second_has_that_second(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(
        b"2026-01-01T00:00:06.9Z stdout F a\n2026-01-01T00:00:07.000000001Z stdout F b\n2026-01-01T00:00:08.5Z stdout F c\n"
    )
    assert texts(tmp_path, since="2026-01-01T00:00:07Z") == b"b\nc\n"
    assert texts(tmp_path, since="2026-01-01T00:00:07.5Z") == b"c\n"


def test_a_follower_goes_on_across_rotations(tmp_path: Path) -> None:
    """What came between its last read and a rotation was lost, and all of a file that was rotated twice."""
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=100)  # one entry a file
    alive = True

    async def follow() -> bytes:
        nonlocal alive
        reader = logs.read(str(tmp_path), follow=True, alive=lambda: alive)
        log.write("stdout", b"one\n")
        parts = [await anext(reader)]
        log.limit = 1 << 20
        log.write("stdout", b"two\n")
        log.limit = 100
        log.write("stdout", b"%s\n" % (b"3" * 60))
        parts.append(await anext(reader))
        log.write("stdout", b"%s\n" % (b"4" * 60))
        second = logfile.LogFile(str(tmp_path / "1.log"))
        second.write("stdout", b"of the next start\n")
        second.close()
        alive = False
        return b"".join([*parts, *[part async for part in reader]])

    found = asyncio.run(asyncio.wait_for(follow(), 60)).split()
    assert found == [b"one", b"two", b"3" * 60, b"4" * 60, *b"of the next start".split()]
    log.close()


def test_a_payload_that_writes_for_ever_has_two_files(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=1 << 20)
    for _ in range(8):
        log.write("stdout", b"\n" * 16384 + b"x" * 49152)
    log.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"0.log", "0.log.1"} and max(sizes.values()) <= 1 << 20


def test_a_log_that_cannot_be_rotated_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    """The error reached the worker's loop: it read this program's output no more, and the program stood still."""
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=100)
    (tmp_path / "0.log.1" / "x").mkdir(parents=True)
    for word in (b"one", b"two", b"three"):
        log.write("stdout", word + b"\n" + b"." * 60 + b"\n")
    assert b"one" in (tmp_path / "0.log").read_bytes() and (tmp_path / "0.log").stat().st_size < 300
    (tmp_path / "0.log.1" / "x").rmdir()
    (tmp_path / "0.log.1").rmdir()
    log.write("stdout", b"four\n")
    log.close()
    assert texts(tmp_path).split() == [b"one", b"." * 60, b"four"]


def test_a_disk_that_fills_up_within_an_entry_leaves_whole_ones(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "0.log"))
    real = log.file

    class Full:
        fileno, close = real.fileno, real.close

        def write(self, data: bytes) -> int:
            return real.write(data[: len(data) * 2 // 3])

    log.file = Full()  # type: ignore[assignment]
    log.write("stdout", b"one\ntwo\n")
    log.file = real
    log.write("stdout", b"three\n")
    log.close()
    assert texts(tmp_path) == b"one\nthree\n"
