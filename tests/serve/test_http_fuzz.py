"""The front beside h11 and llhttp, for seconds; `tests/serve/httpfuzz.py` runs longer."""

import asyncio
import time

import pytest

from . import httpfuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_seconds(seed):
    counts, _ = asyncio.run(httpfuzz.fuzz(3, seed, httpfuzz.corpus()))
    assert counts["messages"] > 50 and counts["served"] and counts["refused"]


def test_empty_lines_in_one_piece_and_by_bytes():
    """Empty lines ended in a head that was never found when they came in pieces (seed 1)."""
    data = b"\r\n\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n"

    async def both():
        whole = await httpfuzz.front(data, [])
        return whole, await httpfuzz.front(data, range(1, len(data)))

    whole, pieces = asyncio.run(both())
    assert whole == pieces and [m[1] for m in whole[0]] == [b"/x"]


def test_a_slow_head_costs_linear_time():
    """64 KiB by single bytes: each byte must not look at all before it."""
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 4000

    async def feed(size):
        begin = time.process_time()
        await httpfuzz.front(data[:size], range(1, size))
        return time.process_time() - begin

    small = min(asyncio.run(feed(1000)) for _ in range(3))
    large = min(asyncio.run(feed(4000)) for _ in range(3))
    assert large < 10 * small


def test_the_comparison_finds_a_difference():
    """A front that took a field twice, or another body, would be told."""
    message = (b"GET", b"/", b"a", [(b"host", b"a")], b"", [])
    data = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    httpfuzz.compare([message], data, httpfuzz.Counter())
    for wrong in (
        (b"GET", b"/", b"a", [(b"host", b"b")], b"", []),
        (b"GET", b"/", b"a", [(b"host", b"a")], b"x", []),
    ):
        with pytest.raises(AssertionError):
            httpfuzz.compare([wrong], data, httpfuzz.Counter())
