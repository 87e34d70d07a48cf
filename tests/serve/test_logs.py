"""Logs as clients read them: what a program prints arrives, whatever it prints; a log that is followed has no gap and an end."""

import asyncio
from pathlib import Path

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
