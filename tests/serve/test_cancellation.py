"""A task that is cancelled ends, at whatever turn of the loop the cancellation comes.

asyncio.wait_for of Python 3.11 drops a cancellation that comes when the inner task has just ended: a probe that was stopped
went on for ever, and with it the last step of asyncio.run, which waits for every task once.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from krun.serve.run.probe import Prober

ROOT = Path(__file__).parents[2]


class Refusing:
    """An instance on whose port nobody listens: each try of a probe fails at once."""

    id = "refusing"

    def __init__(self):
        self.tries = 0

    def connect(self, port: int) -> socket.socket:
        self.tries += 1
        raise ConnectionRefusedError("connection refused")

    async def exec(self, container: str, argv: list[str], timeout: float) -> int:
        raise ConnectionRefusedError("connection refused")


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("probe", [{"tcpSocket": {}}, {"tcpSocket": {}, "periodSeconds": 1}])
def test_a_probe_ends_when_it_is_cancelled(turns, probe):
    async def test():
        instance = Refusing()
        task = asyncio.create_task(Prober(instance, probe, "readiness", lambda good, message: None)._run())
        while not instance.tries:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done and task.cancelled()

    asyncio.run(test())


def test_no_wait_for():
    """asyncio.timeout runs its body in the task itself: there is no inner task whose end hides a cancellation."""
    bad = [str(path) for path in (ROOT / "krun").rglob("*.py") if "asyncio.wait_for" in path.read_text()]
    assert not bad, bad
