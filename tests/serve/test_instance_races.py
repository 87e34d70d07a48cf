"""Exit, restart, stop, exec and removal of one container at the same time; workers and runtimes that die or hang."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.instances import ended, get, ready, run, runner, spec, states, until

from krun.errors import KrunError
from krun.serve.run.errors import StartError
from krun.serve.run.spec import ContainerExit

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]


def wrapper(path: Path, runtime: str, verb: str, then: str, once: bool = False) -> str:
    """A runtime that runs the shell line `then` where it is asked for a verb; `once` does it at the first time only."""
    mark = path.with_suffix(".mark")
    only = f"[ ! -e {mark} ] && : > {mark} && " if once else ""
    path.write_text(
        f'#!/bin/sh\nR={runtime}\nfor w; do [ "$w" = {verb} ] && {only}{{ {then}\n}}\ndone\nexec $R "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def test_a_program_that_ends_at_once_is_stopped_at_once(directory: Path, runtime: str, images: Path) -> None:
    """Its exit is told before the answer to its start has been read: the stale pid was waited for, 10 s."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            for number in range(4):
                instance = await r.start(spec(f"short-{number}", container={"args": ["fail"]}))
                await until(lambda own=instance: own.restarts, "a restart")
                begin = time.monotonic()
                await instance.stop(5)
                assert time.monotonic() - begin < 5

    run(test)


def test_stop_while_a_container_starts(directory: Path, runtime: str, images: Path, tmp_path: Path) -> None:
    """The start gives way: it fails or is undone; the worker ends although a command was in flight."""
    slow = wrapper(tmp_path / "slow", runtime, "create", "sleep 0.3")

    async def test() -> None:
        async with runner(directory, slow, images) as r:
            instance = await r.start(spec("slow"))
            again = asyncio.ensure_future(instance.start_container("user-container"))
            await asyncio.sleep(0.1)
            await asyncio.gather(instance.stop(0), instance.stop(0), again, return_exceptions=True)
            starting = asyncio.ensure_future(r.start(spec("late")))
            await until(lambda: "late" in r.instances, "the instance")
            await r.instances["late"].stop(0)
            with pytest.raises(StartError):
                await starting
            begin = time.monotonic()
        assert time.monotonic() - begin < 5

    run(test)


def test_a_cancelled_start_leaves_nothing(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            for delay in (0.0, 0.001, 0.003, 0.01, 0.02, 0.05):
                task = asyncio.ensure_future(r.start(spec("cancelled")))
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if "cancelled" in r.instances:
                    await r.instances["cancelled"].stop(0)  # it was faster
                await until(lambda: not os.listdir(directory / "instances"), f"the end after {delay} s")
                assert r.instances == {}

    run(test)


def test_exec_ends_with_its_program(directory: Path, runtime: str, images: Path) -> None:
    """A process that the program left behind holds its output open; a program that does not end is killed."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("exec"))
            await ready(instance)
            begin = time.monotonic()
            assert await instance.exec("user-container", ["/payload", "daemon"], 20) == 4
            assert time.monotonic() - begin < 15
            assert await instance.exec("user-container", ["/payload", "sleep"], 0.5) == -1
            pid = instance.pids["user-container"]
            left = [p for p in _inside(pid) if b"sleep" in Path(f"/proc/{p}/cmdline").read_bytes()]
            assert left == []
            with pytest.raises(KrunError, match="no such file or directory"):
                await instance.exec("user-container", ["/none"], 5)
            dying = asyncio.ensure_future(instance.exec("user-container", ["/payload", "sleep"], 30))
            await asyncio.sleep(0.2)
            await instance.stop(0)
            assert await dying != 0
            with pytest.raises(KrunError, match="does not exist"):
                await instance.exec("user-container", ["/payload"], 5)

    run(test)


def _inside(init: int) -> list[int]:
    """The processes in the pid namespace of a container's init."""
    own = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and os.readlink(f"/proc/{name}/ns/pid") == own:
                found.append(int(name))
        except OSError:
            continue
    return found


def test_everything_at_once(directory: Path, runtime: str, images: Path) -> None:
    """Programs that end by themselves, restarts, exec, kills and stops of eight instances; nothing is left, and soon."""

    async def live(r: object, number: int) -> None:
        instance = await r.start(
            spec(f"busy-{number}", container={"args": ["fail" if number % 2 else "serve"]})
        )  # type: ignore[attr-defined]
        tasks = [instance.exec("user-container", ["/payload", "fail"], 5) for _ in range(3)]
        tasks += [instance.restart("user-container") for _ in range(2)]
        waiting = [asyncio.ensure_future(task) for task in tasks]
        await asyncio.sleep(0.05 * number)
        await asyncio.gather(instance.stop(0.1), instance.stop(0), *waiting, return_exceptions=True)
        assert instance.state == "exited"

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            await asyncio.gather(*(live(r, number) for number in range(8)))
            assert os.listdir(directory / "instances") == [] and states(directory) == []

    run(test)


def test_pause_and_resume(directory: Path, runtime: str, images: Path) -> None:
    """A paused program answers nothing until it goes on; a paused instance stops as any other."""

    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("frozen", container={"args": ["serve"]}))
            instance.on_exit = lambda _, exit: exits.append(exit)
            await ready(instance)
            await instance.pause()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(get(instance, "/uid"), 0.3)
            await instance.pause()
            await instance.resume()
            assert await get(instance, "/uid") == "1000"
            await instance.resume()
            await instance.pause()
            await instance.stop(5)
            assert [exit.code for exit in exits] == [3]
            lost = await r.start(spec("frozen-too"))
            await ready(lost)
            await lost.pause()
            await r.worker.call("remove", id="frozen-too")
            lost._gone()

    run(test)


def test_an_instance_that_cannot_be_thawed_is_removed(
    directory: Path, runtime: str, images: Path, tmp_path: Path
) -> None:
    """It stayed, frozen, until the next server came: it was neither signalled nor removed."""
    broken = wrapper(tmp_path / "broken", runtime, "resume", "exit 1", once=True)

    async def test() -> None:
        async with runner(directory, broken, images) as r:
            instance = await r.start(spec("frozen"))
            await instance.pause()
            with pytest.raises(KrunError):
                await instance.stop(0)
            assert "frozen" not in r.instances
            await until(lambda: not os.listdir(directory / "instances"), "nothing is left of it")

    run(test)


def test_a_removal_that_fails_is_tried_again(
    directory: Path, runtime: str, images: Path, tmp_path: Path
) -> None:
    """A runtime whose first `delete` fails: stop says so, the worker goes on by itself, and ends."""
    bad = wrapper(tmp_path / "bad", runtime, "delete", "exit 9", once=True)

    async def test() -> None:
        async with runner(directory, bad, images) as r:
            instance = await r.start(spec("again"))
            with pytest.raises(StartError, match="delete: exit status 9"):
                await instance.stop(0)
            assert r.instances == {}
            await until(lambda: not os.listdir(directory / "instances"), "the removal")

    run(test)


@pytest.mark.parametrize("verb", ["create", "start", "delete"])
def test_a_worker_that_dies_in_a_command(
    directory: Path, runtime: str, images: Path, tmp_path: Path, verb: str
) -> None:
    """SIGKILL of the worker while the runtime works: the next worker ends the command and takes down what it has made."""
    mark = tmp_path / "reached"
    slow = wrapper(tmp_path / "slow", runtime, verb, f": > {mark}; sleep 30", once=True)

    async def test() -> None:
        async with runner(directory, slow, images, keep=True) as r:
            pid = (await r.worker.call("hello"))[0]["pid"]
            starting = asyncio.ensure_future(_start_and_stop(r, verb))
            await until(mark.exists, "the verb")
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(KrunError):
                await starting
        async with runner(directory, runtime, images) as r:
            assert r.found == [] and states(directory) == []  # type: ignore[attr-defined]
            instance = await r.start(spec("next"))
            await ready(instance)

    run(test)


async def _start_and_stop(r: object, verb: str) -> None:
    instance = await r.start(spec("dying"))  # type: ignore[attr-defined]
    if verb == "delete":
        await r.worker.call("remove", id=instance.id)  # type: ignore[attr-defined]


def test_a_runtime_that_is_missing(directory: Path, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, "/none/runtime", images) as r:
            with pytest.raises(StartError, match="run the runtime /none/runtime: no such file or directory"):
                await r.start(spec("none"))
            assert os.listdir(directory / "instances") == []

    run(test)


def test_one_worker_a_directory(directory: Path, runtime: str, images: Path) -> None:
    """A second worker does not take down the first one's instances: it waits for the lock."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("mine"))
            await ready(instance)
            os.rename(directory / "worker.sock", directory / "away.sock")
            second = asyncio.ensure_future(_second(directory, runtime, images))
            await asyncio.sleep(1.5)
            assert not second.done() and await get(instance, "/uid") == "1000"
            os.rename(directory / "away.sock", directory / "worker.sock")
            pid = (await r.worker.call("hello"))[0]["pid"]
            await instance.stop(0)
            await r.worker.call("stop")
            await until(lambda: ended(pid), "the first worker's end")
            assert await second == []
            await r.open()

    run(test)


async def _second(directory: Path, runtime: str, images: Path) -> list[object]:
    async with runner(directory, runtime, images, keep=True) as r:
        return list(r.found)  # type: ignore[attr-defined]


def test_a_full_disk(directory: Path, runtime: str, images: Path, tmp_path: Path) -> None:
    """A start fails with the kernel's word and leaves nothing; a running instance goes on; with room again a start works."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)], check=True)

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            running = await r.start(spec("running"))
            await ready(running)
            with (
                open(directory / "filler", "wb", buffering=0) as file,
                pytest.raises(OSError, match="No space"),
            ):
                while True:
                    file.write(b"x" * 4096)
            with pytest.raises(StartError, match="[Nn]o space left on device"):
                await r.start(spec("full"))
            assert os.listdir(directory / "instances") == ["running"]
            assert await get(running, "/uid") == "1000"
            os.unlink(directory / "filler")
            await ready(await r.start(spec("room")))

    try:
        run(test)
        assert os.listdir(directory / "instances") == []
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)
        (directory / "instances").mkdir()
