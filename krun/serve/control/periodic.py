"""Work that is done again and again, one round after the other, until the server ends."""

import asyncio
from collections.abc import Awaitable, Callable


class Periodic:
    """A coroutine function that is called after each period.

    Arguments: once, one round; what, the words of the report for an error that nobody expected: it ends the round, not the work.
    """

    def __init__(self, once: Callable[[], Awaitable[None]], what: str, report: Callable[[str], None]) -> None:
        self._once = once
        self._what = what
        self._report = report
        self._task: asyncio.Task[None] | None = None

    def start(self, period: float) -> None:
        """Begins; the first round is after one period (seconds)."""
        self._task = asyncio.get_running_loop().create_task(self._run(period))

    def close(self) -> None:
        """Ends, also in the middle of a round."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, period: float) -> None:
        while True:
            await asyncio.sleep(period)
            try:
                await self._once()
            except Exception as error:
                self._report(f"{self._what}: internal error: {error!r}")
