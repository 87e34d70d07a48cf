"""The HTTP/2 front beside h2 as another server, a fixed number of mutants; `./dev fuzz http` runs longer."""

import asyncio

import pytest

from . import h2fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_some_mutants(seed):
    counts = asyncio.run(h2fuzz.fuzz(600, seed, h2fuzz.corpus(), most=500))
    assert counts["sequences"] > 10 and counts["served"] and counts["ended"]


def test_the_corpus_is_served():
    """Each sequence without a change: every request is delivered, in one piece and by bytes."""
    for pieces in h2fuzz.corpus():
        data = b"".join(pieces)
        messages, out, ended = asyncio.run(h2fuzz.front(data, []))
        again, _, _ = asyncio.run(h2fuzz.front(data, range(1, len(data))))
        assert messages and messages == again and not ended
        h2fuzz.sound(out, h2fuzz.compare(messages, data))


def test_the_comparison_finds_a_difference():
    data = b"".join(h2fuzz.corpus()[1])
    [message], out, _ = asyncio.run(h2fuzz.front(data, []))
    streams = h2fuzz.compare([message], data)
    method, target, host, fields, body, trailers = message
    for wrong in (
        (b"GET", target, host, fields, body, trailers),
        (method, b"/", host, fields, body, trailers),
        (method, target, host, [*fields, (b"x", b"y")], body, trailers),
        (method, target, host, fields, b"other", trailers),
        (method, target, host, fields, body, [(b"x", b"y")]),
    ):
        with pytest.raises(AssertionError):
            h2fuzz.compare([wrong], data)
    with pytest.raises(AssertionError):
        h2fuzz.compare([message, message], data)
    with pytest.raises(AssertionError, match="half a frame"):
        h2fuzz.sound(out[:-1], streams)
    with pytest.raises(AssertionError, match="was not begun"):
        h2fuzz.sound(out, set())
