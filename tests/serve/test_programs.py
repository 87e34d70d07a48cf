"""Programs of sessions without a runtime: none is left where its server or its client goes at the wrong moment."""

from __future__ import annotations

import asyncio
import os
import selectors
import subprocess
from typing import Any

import pytest

from krun.serve.run.process import Process
from krun.serve.run.programs import Programs
from krun.serve.run.runtime import Runtime
from krun.serve.run.session import STDIN, STDOUT, Sessions


def started() -> Process:
    return Process(subprocess.Popen(["sleep", "1000"]).pid, "")


def test_a_program_whose_server_has_gone_meanwhile_is_killed() -> None:
    told: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        programs = Programs(selector, Runtime.__new__(Runtime), told.append)
        programs._runtime._programs = set()
        programs.add("stays", "one", started(), programs.generation)
        before = programs.generation
        programs.kill_all()
        programs.add("late", "one", started(), before)
        while len(told) < 2:
            for key, _ in selector.select(10) or pytest.fail("a program runs on"):
                key.data()
        assert sorted((one["name"], one["code"]) for one in told) == [("late", 137), ("stays", 137)]
        assert not programs._running and not selector.get_map()


class Worker:
    """The connection to a worker whose answer comes late."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.killed: list[str] = []

    def order(self, do: str, **words: Any) -> Any:
        self.name = words["name"]

        async def wait() -> Any:
            return await self.answer

        return wait()

    async def call(self, do: str, **words: Any) -> Any:
        assert do == "program-kill"
        self.killed.append(words["name"])
        return {}, []


def test_a_client_that_goes_before_its_program_has_begun_leaves_none() -> None:
    async def test() -> None:
        worker = Worker()
        sessions = Sessions(lambda: worker)  # type: ignore[arg-type, return-value]
        opening = asyncio.create_task(sessions.open("one", "c", ["x"], {STDIN, STDOUT}, False))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        pipes = os.pipe()
        worker.answer.set_result(({}, list(pipes)))
        while not worker.killed:
            await asyncio.sleep(0)
        assert worker.killed == [worker.name] and not sessions._ends
        for fd in pipes:
            with pytest.raises(OSError):
                os.fstat(fd)

    asyncio.run(asyncio.wait_for(test(), 30))


def test_an_end_that_is_told_before_the_answer_is_kept() -> None:
    async def test() -> None:
        worker = Worker()
        sessions = Sessions(lambda: worker)  # type: ignore[arg-type, return-value]
        opening = asyncio.create_task(sessions.open("one", "c", ["x"], {STDOUT}, False))
        await asyncio.sleep(0)
        sessions.ended(worker.name, 7)
        reading, writing = os.pipe()
        os.write(writing, b"last words")
        worker.answer.set_result(({}, [reading]))
        session = await opening
        assert await session.read(STDOUT) == b"last words" and await session.read(STDOUT) == b""
        assert session.ended.result() == 7
        session.close()
        assert not worker.killed
        os.close(writing)

    asyncio.run(asyncio.wait_for(test(), 30))
