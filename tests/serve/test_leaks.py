"""Many instances at once, and one after the other: what is left is a set, and it is the one from before."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from helpers.instances import ready, run, runner, spec, states, until

from krun.serve.run.worker import KEPT_LOGS

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]

#: For a longer run by hand.
AT_ONCE = int(os.environ.get("KRUN_TEST_AT_ONCE", "12"))
CYCLES = int(os.environ.get("KRUN_TEST_CYCLES", "10"))


def descriptors(pid: int) -> list[str]:
    """What the descriptors of a process are, without numbers of sockets and pipes."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}").partition(":[")[0])
        except FileNotFoundError:
            continue
    return sorted(found)


def cgroups(name: str) -> set[str]:
    """The directories of cgroups below a parent's name, in every hierarchy."""
    found = set()
    for top in [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]:
        parent = top / name
        if parent.is_dir():
            found |= {str(path) for path in parent.rglob("*") if path.is_dir()}
    return found


def children(pid: int) -> set[str]:
    found: set[str] = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        found |= set(Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def left(directory: Path, worker: int) -> dict[str, object]:
    """Everything of instances that is there."""
    return {
        # Those of other programs of the machine come and go in the same mount namespace.
        "mounts": [
            line for line in Path(f"/proc/{worker}/mounts").read_text().splitlines() if str(directory) in line
        ],
        "descriptors of the worker": descriptors(worker),
        "descriptors of the server": descriptors(os.getpid()),
        "processes": children(worker),
        "cgroups": cgroups(f"krun-serve-test-{os.getpid()}"),
        "states": set(states(directory)),
        "instances": set(os.listdir(directory / "instances")),
        "trash": set(os.listdir(directory / "trash")),
    }


async def settled(directory: Path, worker: int, before: dict[str, object]) -> None:
    """Waits until all is as it was: reapers and closing threads may be a moment behind."""
    try:
        await until(lambda: left(directory, worker) == before, "all is as before", 60)
    except AssertionError:
        now = left(directory, worker)
        assert {name: now[name] for name in now if now[name] != before[name]} == {}, before


def test_many_at_once_and_many_after_each_other(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            worker = (await r.worker.call("hello"))[0]["pid"]

            async def live(id: str, wait: bool) -> None:
                instance = await r.start(spec(id))
                if wait:
                    await ready(instance)
                await instance.stop(5)

            await live("first", True)  # what is made once, is made now
            await live("second", True)
            # The thread that removes directories may still have one open.
            await until(lambda: not os.listdir(directory / "trash"), "the trash is empty")
            before = left(directory, worker)
            await asyncio.gather(*(live(f"burst-{number}", True) for number in range(AT_ONCE)))
            await settled(directory, worker, before)
            for number in range(CYCLES):
                await live(f"cycle-{number}", number % 2 == 0)
            await settled(directory, worker, before)
            assert len(os.listdir(directory / "logs")) <= KEPT_LOGS

    run(test, 3600)


def test_logs_of_the_instances_before_are_kept_and_bounded(
    directory: Path, runtime: str, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest stay: those of instances that run, and KEPT_LOGS of those that have gone."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            running = await r.start(spec("runs"))
            for number in range(KEPT_LOGS + 3):
                os.makedirs(directory / "logs" / f"old-{number}")
                os.utime(directory / "logs" / f"old-{number}", (number, number))
            gone = await r.start(spec("goes"))
            os.utime(directory / "logs/goes", (0, 0))  # it started long ago
            await gone.stop(5)
            wanted = {"runs", "goes"} | {f"old-{number}" for number in range(4, KEPT_LOGS + 3)}
            await until(lambda: set(os.listdir(directory / "logs")) == wanted, "the oldest are removed")
            await running.stop(5)

    run(test)
