"""Idle policies with fake instances: run, freeze, stop; what is refused; races of the freezer with requests, stops and restarts."""

import asyncio

import pytest
from helpers.asynchronous import loop
from helpers.serveapi import SERVING, Client, ksvc
from helpers.servefakes import Waiter, World

from krun.errors import KrunError
from krun.serve.control.config import Config
from krun.serve.model.idle import DELAY, POLICY, Idle
from krun.serve.model.kinds import REVISION
from krun.serve.scale.share import Amount

KEY = ("default", "hello-00001")


def service(policy=None, delay="0s", name="hello", **notes):
    chosen = {POLICY: policy, DELAY: delay} if policy else {}
    notes = {f"autoscaling.knative.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    return ksvc(name, template={"metadata": {"annotations": {**chosen, **notes}}})


class Clock:
    """Ticks of the autoscaler at times of the test's own, far in the future of the loop's."""

    def __init__(self, world):
        self.world, self.now = world, asyncio.get_running_loop().time() + 100

    def tick(self, seconds=2.0):
        self.now += seconds
        scaler = self.world.pools.scalers[KEY]
        scaler.sample(self.now)
        scaler.decide(self.now)


async def ready(world, *args, **kwargs):
    assert (await world.call("POST", f"{SERVING}/services", service(*args, **kwargs)))[0] == 201
    await world.ready()
    return world.pools.pools[KEY], next(iter(world.runner.instances.values())), Clock(world)


def member_of(pool):
    return next(iter(pool.members.values()))


def request(pool):
    waiter = Waiter()
    pool.queue.enter(waiter, asyncio.get_running_loop().time())
    return waiter


async def frozen(world, pool, clock):
    clock.tick(1.0)
    await world.until(lambda: member_of(pool).instance.paused, "it is frozen")


@loop
async def test_without_an_annotation_nothing_is_frozen():
    async with World() as world:
        pool, instance, clock = await ready(world, window="1h")
        for _ in range(20):
            clock.tick(1.0)
        await asyncio.sleep(0)
        assert instance.turns == [] and pool.ready == 1


@loop
async def test_freeze_and_thaw():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        await frozen(world, pool, clock)
        # It counts as an instance, and no probe asks it.
        assert pool.ready == 1 and not pool.queue.backends and not member_of(pool)._probers
        first, second = request(pool), request(pool)
        await world.until(lambda: first.backend and second.backend, "the requests have an instance")
        assert instance.turns == ["pause", "resume"] and len(world.runner.started) == 1
        clock.tick(1.0)
        assert not member_of(pool).frozen
        for waiter in (first, second):
            pool.queue.release(waiter.backend, clock.now)
        await frozen(world, pool, clock)


@loop
async def test_a_delay_is_waited_for():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze", "30s")
        request(pool)
        backend = pool.queue.backends[0]
        pool.queue.release(backend, clock.now)
        clock.tick(29.0)
        assert not member_of(pool).frozen
        await frozen(world, pool, clock)


@loop
async def test_at_zero_one_stays_frozen_and_the_first_request_thaws_it():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze", window="6s")
        for _ in range(3):
            clock.tick(10.0)
        assert pool.state.wanted == 0
        await world.until(lambda: instance.paused, "it is frozen")
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Active")[1] == "NoTraffic", "it is inactive"
        )
        assert list(pool.members) == [instance.id] and instance.stopped is None
        assert not world.pools.scalers[KEY].awake
        waiter = request(pool)
        await world.until(lambda: waiter.backend, "the request is served")
        assert pool.state.wanted == 1 and len(world.runner.started) == 1
        pool.queue.release(waiter.backend, clock.now)


@loop
async def test_of_several_one_stays():
    async with World() as world:
        pool, _, clock = await ready(world, "freeze", window="6s", initial_scale="3")
        assert len(pool.members) == 3
        for _ in range(3):
            clock.tick(10.0)
        await world.until(lambda: len(pool.members) == 1, "one is left")
        await world.until(lambda: member_of(pool).instance.paused, "it is frozen")


@loop
async def test_a_revision_without_a_route_keeps_none():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze", window="6s")
        await frozen(world, pool, clock)
        change = {"spec": {"template": {"spec": {"containers": [{"image": "reg.example/two"}]}}}}
        await world.call("PATCH", f"{SERVING}/services/hello", change, "application/merge-patch+json")
        await world.ready()
        for _ in range(3):
            clock.tick(10.0)
        await world.until(lambda: not pool.members, "it is gone")
        assert instance.stopped is not None


@loop
async def test_a_frozen_instance_makes_room():
    async with World(room=Amount(1, 1 << 50)) as world:
        pool, instance, clock = await ready(world, "freeze", window="6s")
        for _ in range(3):
            clock.tick(10.0)
        await world.until(lambda: instance.paused, "it is frozen")
        await world.call("POST", f"{SERVING}/services", service(name="other"))
        await world.ready("other")
        assert instance.stopped is not None and not pool.members


@loop
async def test_a_request_that_comes_while_it_freezes_is_served():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        gate = asyncio.Event()

        async def slowly(one, frozen):
            if frozen:
                await gate.wait()

        world.runner.freezer = slowly
        clock.tick(1.0)
        await world.until(lambda: not pool.queue.backends, "it is taken out of the queue")
        waiter = request(pool)
        await asyncio.sleep(0.01)
        assert waiter.backend is None and instance.turns == ["pause"]
        gate.set()
        await world.until(lambda: waiter.backend, "the request is served")
        assert instance.turns == ["pause", "resume"] and len(world.runner.started) == 1


@loop
async def test_a_request_before_the_freezer_begins_wins():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        clock.tick(1.0)
        assert member_of(pool).frozen and request(pool).backend is not None
        await asyncio.sleep(0.01)
        assert instance.turns == [] and not member_of(pool).frozen


@loop
async def test_a_stop_waits_for_the_freezer():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        gate = asyncio.Event()

        async def slowly(one, frozen):
            await gate.wait()

        world.runner.freezer = slowly
        clock.tick(1.0)
        await world.until(lambda: instance.turns, "it freezes")
        await world.call("DELETE", f"{SERVING}/services/hello")
        await asyncio.sleep(0.01)
        assert instance.stopped is None
        gate.set()
        await world.until(lambda: instance.stopped is not None, "it is stopped")


@loop
async def test_a_freezer_that_fails_costs_nothing():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")

        async def broken(one, frozen):
            if frozen:
                raise KrunError("no freezer")

        world.runner.freezer = broken
        clock.tick(1.0)
        await world.until(lambda: instance.turns == ["pause", "resume"], "it is tried")
        await world.until(lambda: request(pool).backend, "it serves")
        for backend in pool.queue.backends:
            while backend.in_flight:
                pool.queue.release(backend, clock.now)
        clock.tick(1.0)
        await asyncio.sleep(0.01)
        assert instance.turns == ["pause", "resume"] and "no freezer" in world.lines[0]


@loop
async def test_an_instance_that_does_not_thaw_is_replaced():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        await frozen(world, pool, clock)

        async def broken(one, frozen):
            if one is instance:
                raise KrunError("stays frozen")

        world.runner.freezer = broken
        waiter = request(pool)
        await world.until(lambda: waiter.backend, "another one serves")
        assert instance.stopped is not None and len(world.runner.started) == 2


@loop
async def test_a_frozen_container_that_ends_is_thawed_and_probed():
    async with World() as world:
        pool, instance, clock = await ready(world, "freeze")
        await frozen(world, pool, clock)
        instance.crash(137)
        await world.until(lambda: not instance.paused, "the rest is thawed")
        assert pool.ready == 0
        instance.again()
        waiter = request(pool)
        await world.until(lambda: waiter.backend, "it serves again")
        assert len(pool.queue.backends) == 1


@pytest.mark.parametrize("paused", [True, False])
def test_a_restarted_server_knows_what_is_frozen(tmp_path, paused):
    path = str(tmp_path / "store")

    async def first():
        async with World(path) as world:
            pool, instance, clock = await ready(world, "freeze")
            await frozen(world, pool, clock)
            return instance.id

    async def second(name):
        async with World(path, found=[{"id": name, "containers": {}, "paused": paused}]) as world:
            await world.until(lambda: KEY in world.pools.pools, "the pool is there")
            pool = world.pools.pools[KEY]
            await world.until(lambda: pool.ready == 1, "the instance is taken over")
            assert member_of(pool).frozen == paused
            waiter = request(pool)
            await world.until(lambda: waiter.backend, "the request is served")
            assert not world.runner.started
            assert member_of(pool).instance.turns == (["resume"] if paused else [])

    asyncio.run(second(asyncio.run(first())))


@loop
async def test_stop_ends_it_before_the_window_and_stays_at_zero():
    async with World() as world:
        pool, instance, clock = await ready(world, "stop", "5s", window="1h")
        waiter = request(pool)
        clock.now = asyncio.get_running_loop().time()
        clock.tick(2.0)
        clock.tick(20.0)
        assert pool.state.wanted == 1, "a request is in it"
        pool.queue.release(waiter.backend, clock.now)
        clock.tick(4.0)
        assert pool.state.wanted == 1
        for _ in range(5):
            clock.tick(2.0)
            assert pool.state.wanted == 0
        await world.until(lambda: instance.stopped is not None, "it is stopped")
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Active")[1] == "NoTraffic", "it is inactive"
        )
        assert request(pool).backend is None and pool.state.wanted == 1


@loop
async def test_stop_keeps_min_scale():
    async with World() as world:
        pool, _, clock = await ready(world, "stop", "1s", min_scale="1")
        for _ in range(5):
            clock.tick(2.0)
        assert pool.state.wanted == 1 and pool.ready == 1


@loop
async def test_the_option_is_the_default_and_the_annotation_wins():
    async with World(config=Config(idle=Idle("freeze", 0.0))) as world:
        pool, _, clock = await ready(world)
        await frozen(world, pool, clock)
        assert (await world.call("DELETE", f"{SERVING}/services/hello"))[0] == 200
        await world.until(lambda: not world.pools.pools, "it is gone")
        pool, instance, clock = await ready(world, "run")
        clock.tick(1.0)
        await asyncio.sleep(0.01)
        assert instance.turns == []


@pytest.mark.parametrize(
    "notes, text",
    [
        ({POLICY: "park"}, "invalid value: park: spec.template.metadata.annotations.serve.krun.dev/idle"),
        ({POLICY: "sleep"}, "expected one of run, freeze, stop"),
        ({POLICY: ""}, "expected one of run, freeze, stop"),
        ({DELAY: "1"}, "invalid value: 1: spec.template.metadata.annotations.serve.krun.dev/idle-delay"),
        ({DELAY: "2h"}, "expected 0s <= 2h <= 1h0m0s"),
        ({DELAY: "-1s"}, "expected 0s <= -1s <= 1h0m0s"),
        ({"serve.krun.dev/idel": "stop"}, 'invalid key name "serve.krun.dev/idel"'),
    ],
)
def test_what_is_refused(notes, text):
    code, found = Client().call(
        "POST", f"{SERVING}/services", ksvc(template={"metadata": {"annotations": notes}})
    )
    assert code == 400 and text in found["message"]


def test_on_the_service_itself_it_is_refused():
    obj = ksvc()
    obj["metadata"]["annotations"] = {POLICY: "stop"}
    code, found = Client().call("POST", f"{SERVING}/services", obj)
    assert code == 400 and "must be put under" in found["message"]


@pytest.mark.parametrize(
    "policy, delay, found",
    [
        (None, None, Idle("run", 10.0)),
        ("freeze", "1m", Idle("freeze", 60.0)),
        ("park", None, "--idle park: park needs snapshots"),
        ("off", None, "--idle off: expected one of run, freeze, stop"),
        ("stop", "10", "--idle-delay 10: a duration is wanted"),
    ],
)
def test_the_option(policy, delay, found):
    from types import SimpleNamespace

    from krun.errors import UsageError
    from krun.serve.app import Options
    from krun.serve.cli import _bounds

    options = Options()
    given = SimpleNamespace(max_instances=None, memory_budget=None, idle=policy, idle_delay=delay)
    if isinstance(found, str):
        with pytest.raises(UsageError, match=found):
            _bounds(options, given)
    else:
        _bounds(options, given)
        assert options.idle == found


def test_a_clone_comes_before_a_boot():
    """The seam of snapshots: who is asked first, and what is told."""
    from krun.serve.run.instance import Instance, Runner

    asked, parked = [], {}

    async def clone(spec):
        asked.append(spec)
        return parked.get(spec)

    class Booting(Runner):
        async def _boot(self, spec):
            return Instance(self, type("Spec", (), {"id": spec}), -1, 0.0)

    async def test():
        runner = Booting({}, clone=clone)
        assert (await runner.start("a")).origin == "boot"
        parked["a"] = await runner._boot("a")
        found = await runner.start("a")
        assert found is parked["a"] and found.origin == "clone" and asked == ["a", "a"]
        assert (await Booting({}).start("b")).origin == "boot"

    asyncio.run(test())


def test_every_opt_in_stands_in_the_documentation():
    """The runtime contract, RC-16: the model and the way to opt in are documented."""
    from pathlib import Path

    from krun.serve.model import idle

    text = (Path(__file__).parents[2] / "docs/serve.md").read_text()
    for word in (
        idle.POLICY,
        idle.DELAY,
        *idle.POLICIES,
        idle.PARK,
        "--idle POLICY",
        "--idle-delay DURATION",
    ):
        assert f"`{word}`" in text, word
