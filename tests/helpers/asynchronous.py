"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
import functools

_PATIENCE = 120  # seconds


def loop(test):
    """Runs an asynchronous test in an event loop of its own. TimeoutError after 120 seconds."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), _PATIENCE))

    return run
