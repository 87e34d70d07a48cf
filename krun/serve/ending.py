"""The end of krun serve, bounded in every case.

A signal asks for the end. Each step of the end (App.stop) has a deadline, and one line of the log names what a step leaves.
A second signal ends the process at once, and so does an end that takes too long. The handlers are Python's and not the
loop's, so that they run while a callback of the loop does not return (docs.python.org, signal, "Execution of Python signal
handlers").
"""

import asyncio
import os
import signal
import types
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

#: Seconds from the first signal to the last resort; krun-serve.service has TimeoutStopSec=60.
LONGEST = 50
#: Seconds that the tasks which are left have after their cancellation, and between two of these.
_SWEEP, _SWEEP_AGAIN = 2.0, 0.2


class Ending:
    """A context manager around the loop: it holds the handlers of SIGTERM, SIGINT and SIGALRM.

    Arguments: report, writes a line of the log; longest, seconds. Fields: number, of the first signal, 0 before it; hurry, what
    is done before the process ends at once: it must not block.
    """

    def __init__(self, report: Callable[[str], None], longest: int = LONGEST) -> None:
        self.report = report
        self.longest = longest
        self.number = 0
        self.step_now = ""
        self.hurry: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Future[int] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Ending":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._on)
        return self

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        for number, before in self._before.items():
            signal.signal(number, before)

    async def asked(self) -> int:
        """Waits for the first signal; returns its number."""
        self._loop = asyncio.get_running_loop()
        self._asked = self._loop.create_future()
        if self.number:
            return self.number
        return await self._asked

    def _on(self, number: int, frame: types.FrameType | None) -> None:
        if self.number or number == signal.SIGALRM:
            self._at_once(number)
            return
        self.number = number
        signal.alarm(self.longest)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(self.number)

    def _at_once(self, number: int) -> None:
        """Names what is still there, and ends the process: by the signal, or by SIGKILL after the time."""
        late = number == signal.SIGALRM
        why = f"not done {self.longest} s after the signal" if late else "a second signal"
        text = f"end: {why}: the process ends at once; step: {self.step_now or 'none'}; still there: {self._tasks()}\n"
        # Not the stream: this handler may have interrupted a write to it.
        os.write(2, text.encode())
        try:
            self.hurry()
        finally:
            last = signal.SIGKILL if late else number
            if not late:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), last)

    def _tasks(self) -> str:
        if self._loop is None or self._loop.is_closed():
            return "no task"
        return names(asyncio.all_tasks(self._loop))

    # ----------------------------------------------------------------------------------------------- the steps

    async def step(
        self,
        what: str,
        seconds: float,
        work: Coroutine[Any, Any, object],
        left: Callable[[], str] = lambda: "",
    ) -> None:
        """Does one step of the end. Its failure and its deadline are reported, and the next step follows.

        Arguments: what, for the log; seconds, the deadline; left, names what a late step leaves, "" where it cannot tell.
        """
        self.step_now = what
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            there = left() or names(asyncio.all_tasks() - {task, asyncio.current_task()})  # type: ignore[arg-type]
            self.report(f"end: {what}: not done after {seconds:g} s; still there: {there}")
            task.cancel()
        elif task.exception() is not None:
            self.report(f"end: {what}: {task.exception()}")
        self.step_now = ""

    async def sweep(self) -> None:
        """Cancels every other task until it has ended: asyncio.run cancels each once, and waits for ever."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _SWEEP
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
            if loop.time() >= end:
                self.report(f"end: tasks that do not take their cancellation: {names(tasks)}")
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_SWEEP_AGAIN)


def names(tasks: "set[asyncio.Task[Any]]") -> str:
    """Returns the names of tasks: the functions that they run, each with its number."""
    found = Counter(getattr(task.get_coro(), "__qualname__", "task") for task in tasks if not task.done())
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items())) or "no task"
