"""Logs as clients read them: what a program prints arrives, whatever it prints; a log that is followed has no gap and an end."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.serveapi import Client

from krun.errors import KrunError
from krun.serve.model.kinds import POD
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


def read(directory: Path, **options: Any) -> bytes:
    async def collect() -> bytes:
        return b"".join([part async for part in logs.read(str(directory), **options)])

    return asyncio.run(asyncio.wait_for(collect(), 30))


def test_the_last_lines_of_a_log_in_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of lines, found from the end in small blocks, over the rotation; without reading what is before them."""
    monkeypatch.setattr(logs, "_BLOCK", 64)
    monkeypatch.setattr(logs, "_CHUNK", 100)
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=900)
    lines = [b"%d %s\n" % (number, b"x" * (number * 7 % 90)) for number in range(20)]
    for line in lines:
        log.write("stdout", line)
    log.close()
    kept = read(tmp_path).splitlines(keepends=True)
    assert (tmp_path / "0.log.1").exists() and len(kept) > 8 and kept == lines[-len(kept) :]
    for count in range(22):
        assert read(tmp_path, tail=count) == b"".join(kept[len(kept) - min(count, len(kept)) :]), count
    (tmp_path / "0.log.1").unlink()
    (tmp_path / "0.log").write_bytes(b"")
    assert read(tmp_path, tail=3) == b"" and read(tmp_path, tail=0) == b""


def test_since_limit_and_times(tmp_path: Path) -> None:
    """Entries of a time, the bytes that are sent, and the time before the first part of a line only (the kubelet's rules)."""
    at = [f"2026-01-02T03:04:05.{number:09d}Z" for number in (0, 5, 10)]
    text = f"{at[0]} stdout F old\n{at[1]} stderr P a \n{at[1]} stderr F long one\n{at[2]} stdout F new\n"
    (tmp_path / "0.log").write_text(text)
    second = 1767323045 * 10**9
    assert read(tmp_path, since=second) == b"old\na long one\nnew\n"
    assert read(tmp_path, since=second + 5) == b"a long one\nnew\n"
    assert read(tmp_path, since=second + 6, tail=3) == b"new\n"
    assert read(tmp_path, since=second + 11) == b""
    stamped = f"{at[0]} old\n{at[1]} a long one\n{at[2]} new\n".encode()
    assert read(tmp_path, timestamps=True) == stamped
    for limit in (1, 4, 30, 70, 1000):
        assert read(tmp_path, timestamps=True, limit=limit) == stamped[:limit]
    # The limit ends one that is followed, too.
    assert read(tmp_path, follow=True, limit=4, alive=lambda: True) == b"old\n"


def test_an_attach_has_what_comes_and_ends_with_its_start(tmp_path: Path) -> None:
    log = logfile.LogFile(str(tmp_path / "3.log"), limit=200)
    log.write("stdout", b"before\n")
    alive = True

    async def follow() -> list[tuple[str, bytes]]:
        nonlocal alive
        output = logs.attach(str(tmp_path), lambda: alive)
        first = asyncio.ensure_future(anext(output))
        await asyncio.sleep(0)
        log.write("stderr", b"one\n")
        found = [await first]
        log.write("stdout", b"two " + b"x" * 190 + b"\n")  # rotated
        log.close()
        logfile.LogFile(str(tmp_path / "4.log")).write("stdout", b"of the next start\n")
        alive = False
        return [(stream, text[:4]) for _, stream, text in [*found, *[one async for one in output]]]

    assert asyncio.run(asyncio.wait_for(follow(), 30)) == [("stderr", b"one\n"), ("stdout", b"two ")]


def test_a_tail_that_is_longer_than_the_log_is_the_log(tmp_path: Path) -> None:
    """--tail=7 of 5 lines gave 2."""
    log = logfile.LogFile(str(tmp_path / "0.log"), limit=200)
    log.write("stdout", b"1\n2\n3\n")
    log.write("stdout", b"4\n5\n")  # behind a rotation
    log.close()
    assert len(logs.files(str(tmp_path), False)) == 2
    assert read(tmp_path, tail=7) == b"1\n2\n3\n4\n5\n" and read(tmp_path, tail=0) == b""
    assert read(tmp_path, tail=3) == b"3\n4\n5\n" and read(tmp_path, tail=1) == b"5\n"


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
    assert read(tmp_path).split() == [b"one", b"." * 60, b"four"]


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
    assert read(tmp_path) == b"one\nthree\n"


@pytest.mark.parametrize(
    "query, code, answer",
    [
        ("tailLines=5&limitBytes=9&timestamps=true", 200, {"tail": 5, "limit": 9, "timestamps": True}),
        ("sinceTime=2026-01-02T03:04:05.5Z", 200, {"since": 1767323045_500000000}),
        ("sinceTime=2026-01-02T04:04:05%2B01:00&follow=1", 200, {"since": 1767323045 * 10**9, "follow": True}),
        ("sinceTime=1960-01-01T00:00:00Z", 200, {"since": 0}),
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", 422, "at most one of `sinceTime` or `sinceSeconds`"),
        ("sinceTime=yesterday", 400, "is no time"), ("tailLines=9999999999999999999", 400, "is no number"),
        ("previous=true", 400, 'previous terminated container "c" in pod "p" not found'),
        ("container=d", 400, "container d is not valid for pod p"),
    ],
)  # fmt: skip
def test_options_of_a_request(query: str, code: int, answer: Any) -> None:
    asked: dict[str, Any] = {}

    def reader(namespace: str, name: str, container: str, **options: Any) -> Any:
        asked.update(options)
        if options["previous"]:
            raise KrunError("none")

        async def lines() -> Any:
            yield b"text\n"

        return lines()

    client = Client(logs=reader)
    client.store.create(
        POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}}
    )
    status, body = client.call("GET", f"/api/v1/namespaces/default/pods/p/log?{query}")
    assert status == code, body
    if code == 200:
        assert body == "text\n" and answer.items() <= asked.items()
    else:
        assert answer in body["message"]


def test_since_seconds_is_a_time() -> None:
    from krun.serve.api import podlog

    early = time.time_ns() - 3600 * 10**9
    assert early <= podlog.options({"sinceSeconds": ["3600"]})["since"] <= time.time_ns() - 3600 * 10**9
