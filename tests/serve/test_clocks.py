"""Durations are counted by the steady clock: an operator, or NTP, may set the other one while krun serve runs."""

from __future__ import annotations

import ast
import asyncio
import time
from pathlib import Path

from helpers.asynchronous import loop
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import World

import krun.serve
from krun.serve.model.kinds import ROUTE

HOUR = 3600.0
ROOT = Path(krun.serve.__file__).parent
#: Who reads the clock that can be set, and what for. No difference of two of them decides when something happens, except as said.
STAMPS = {
    "app.py report": "a line of the log",
    "app.py _trim": "Events go an hour after their last stamp, which a client reads",
    "app.py make": "a token's iat and exp",
    "api/table.py age": "the age that kubectl shows, from a stamp",
    "control/configuration.py _stamp": "an annotation that clients read; Knative's collection of revisions counts from it",
    "control/route.py _mark": "the same annotation",
    "control/context.py __init__": "Context.clock: the two above, and the age of revisions for the same collection",
    "deploy.py service": "an annotation",
    "deploy.py _link": "an image's tag",
    "http/server.py _now": "the field Date",
    "model/values.py now": "stamps of objects",
    "run/image/collector.py collect": "the age of an image, from the times of its files; one that goes too early is unpacked again",
    "run/logfile.py _head": "a line of a log",
    "run/sandbox.py ended": "when a container ended, for its status",
    "run/volumes.py publish": "the name of a directory, as the kubelet's",
    "proxy/accesslog.py line": "a line of the log",
    "proxy/accesslog.py session": "a line of the log",
    "api/podlog.py options": "sinceSeconds: what a client compares with stamps",
    "run/logs.py _stamp": "the text of a time that a client gave; no clock is read",
}
_SETTABLE = {"time", "time_ns", "gmtime", "localtime", "now", "utcnow", "today"}


def readers(path: Path) -> set[str]:
    """Returns FILE FUNCTION of each use of a clock that can be set."""
    found = set()

    def walk(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            own = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
                if child.value.id in ("time", "datetime", "date") and child.attr in _SETTABLE:
                    found.add(f"{path.relative_to(ROOT)} {own}")
            walk(child, own)

    walk(ast.parse(path.read_text()), "")
    return found


def test_the_settable_clock_is_read_for_stamps_only() -> None:
    found = set().union(*(readers(path) for path in ROOT.rglob("*.py")))
    assert found == set(STAMPS)


@loop
async def test_a_rollout_does_not_follow_the_clock_that_is_set() -> None:
    async with World() as world:
        obj = ksvc()
        obj["metadata"]["annotations"] = {"serving.knative.dev/rollout-duration": "100s"}
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        two = {"spec": {"template": {"spec": {"containers": [{"image": "reg.example/two"}]}}}}
        await world.call("PATCH", f"{SERVING}/services/hello", two, "application/merge-patch+json")
        one = {"hello-00001": 99, "hello-00002": 1}
        await world.until(lambda: world.targets("hello.default.localhost") == one, "1 %")
        for jump in (HOUR, -HOUR):
            world.engine.context.clock = lambda jump=jump: time.time() + jump
            world.engine.enqueue((ROUTE, "default", "hello"))
            await asyncio.sleep(0.05)
            assert world.targets("hello.default.localhost") == one
        world.engine.context.steady = lambda: time.monotonic() + HOUR
        world.engine.enqueue((ROUTE, "default", "hello"))
        await world.until(lambda: world.targets("hello.default.localhost") != one, "the next step")
        assert not world.lines


@loop
async def test_instances_and_requests_do_not_follow_the_clock_that_is_set(monkeypatch) -> None:
    """The stable window, the progress deadline and the wait of a request are an hour or less: a jump ends none of them."""
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        pool = world.pools.pools["default", "hello-00001"]
        real = time.time
        for jump in (HOUR, -HOUR):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            now = pool.loop.time()
            world.pools.scalers["default", "hello-00001"].sample(now)
            world.pools.scalers["default", "hello-00001"].decide(now)
            await asyncio.sleep(0.05)
            assert pool.state.wanted == 1 and pool.ready == 1
        assert not world.lines
