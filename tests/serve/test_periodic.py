"""krun/serve/control/periodic.py."""

import asyncio

from krun.serve.control.periodic import Periodic


def test_an_unexpected_error_ends_one_round_only():
    rounds = []
    told = []

    async def once():
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise RuntimeError("a bug")

    async def main():
        periodic = Periodic(once, "count", told.append)
        periodic.start(0.001)
        while len(rounds) < 3:
            await asyncio.sleep(0.001)
        periodic.close()
        await asyncio.sleep(0)
        ended = len(rounds)
        await asyncio.sleep(0.02)
        assert len(rounds) == ended

    asyncio.run(asyncio.wait_for(main(), 30))
    assert told == ["count: internal error: RuntimeError('a bug')"]
