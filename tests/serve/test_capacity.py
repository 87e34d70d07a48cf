"""The room of the machine: a burst, fairness between services, eviction of idle instances, instances that cannot fit."""

import asyncio
import itertools

import pytest
from helpers.asynchronous import loop
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import Waiter, World
from hypothesis import given
from hypothesis import strategies as st

from krun.serve.control.capacity import UNSTATED, Capacity, each_of, of_machine
from krun.serve.model.kinds import REVISION
from krun.serve.scale.share import Amount, Claim, allot

MiB = 1 << 20


def claim(group, wanted, needed=None, active=0, memory=MiB, used=0.0):
    return Claim(group, wanted, wanted if needed is None else needed, active, Amount(1, memory), used)


def test_all_get_what_fits():
    assert allot([claim("a", 3), claim("b", 2)], Amount(5, 5 * MiB)) == [3, 2]


def test_a_small_service_gets_its_all_and_the_large_ones_share():
    assert allot([claim("a", 10000), claim("b", 1), claim("c", 10000)], Amount(21, 1 << 40)) == [10, 1, 10]


def test_memory_is_shared_by_dominant_share():
    # a takes three times the memory of b: a third of the instances, the same memory.
    assert allot([claim("a", 99, memory=3 * MiB), claim("b", 99)], Amount(1000, 24 * MiB)) == [4, 12]


def test_two_revisions_of_a_service_are_two_halves_of_it():
    assert allot([claim("a", 9), claim("a", 9), claim("b", 9)], Amount(8, 1 << 40)) == [2, 2, 4]


def test_the_least_recently_used_idle_instances_go_first():
    claims = [
        claim("old", 2, needed=0, active=2, used=1.0),
        claim("new", 2, needed=0, active=2, used=9.0),
        claim("wants", 1),
    ]
    assert allot(claims, Amount(4, 1 << 40)) == [1, 2, 1]
    assert allot(claims, Amount(3, 1 << 40)) == [0, 2, 1]
    assert allot(claims, Amount(1, 1 << 40)) == [0, 0, 1]


def test_no_instance_is_ended_for_one_without_need():
    claims = [claim("a", 1, needed=0, active=1, used=1.0), claim("b", 1, needed=0, used=9.0)]
    assert allot(claims, Amount(1, 1 << 40)) == [1, 0]


CLAIMS = st.lists(
    st.builds(
        lambda group, wanted, needed, active, memory, used: claim(
            group, wanted, needed, active, memory, used
        ),
        st.sampled_from("abc"),
        st.integers(0, 30),
        st.integers(0, 40),
        st.integers(0, 30),
        st.integers(0, 5),
        st.floats(0, 9),
    ),
    max_size=6,
)


@given(CLAIMS, st.integers(0, 40), st.integers(0, 60))
def test_no_more_than_the_room_and_than_the_wish(claims, instances, memory):
    room = Amount(instances, memory)
    given_ = allot(claims, room)
    left = room
    for one, count in zip(claims, given_, strict=True):
        assert 0 <= count <= one.wanted
        left = left.less(one.each.times(count))
    assert left.instances >= 0 and left.memory >= 0
    # Nothing that fits is left over.
    assert all(
        count == one.wanted or not left.holds(one.each) for one, count in zip(claims, given_, strict=True)
    )


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(1, 60))
def test_max_min_fairness(wishes, instances):
    """Nobody has two more than another one that wants more: else one could be moved."""
    given_ = allot([claim(str(i), wish) for i, wish in enumerate(wishes)], Amount(instances, 1 << 40))
    for (mine, wish), (theirs, _) in itertools.permutations(zip(given_, wishes, strict=True), 2):
        assert mine >= theirs - 1 or mine == wish


def test_what_an_instance_takes():
    def spec(*resources):
        return {"containers": [{"resources": one} for one in resources]}

    assert each_of(spec({})) == Amount(1, UNSTATED)
    assert each_of(spec({"limits": {"memory": "1Gi"}})) == Amount(1, 1 << 30)
    found = each_of(spec({"requests": {"memory": "64Mi"}, "limits": {"memory": "1Gi"}}, {}))
    assert found == Amount(1, 64 * MiB + UNSTATED)
    assert of_machine(7, 5) == Amount(7, 5)
    room = of_machine()
    assert room.instances >= 32 and room.memory > 1 << 28


async def service(world, name="hello", concurrency=1, notes=None, **container):
    obj = ksvc(name, container=container)
    obj["spec"]["template"]["spec"]["containerConcurrency"] = concurrency
    if notes:
        obj["spec"]["template"]["metadata"] = {
            "annotations": {f"autoscaling.knative.dev/{key}": value for key, value in notes.items()}
        }
    assert (await world.call("POST", f"{SERVING}/services", obj))[0] == 201
    return f"{name}-00001"


def burst(world, revision, count):
    queue = world.pools.pools["default", revision].queue
    waiters = [Waiter() for _ in range(count)]
    for waiter in waiters:
        queue.enter(waiter, asyncio.get_running_loop().time())
    return waiters


def held(world):
    return sum(len(pool.members) for pool in world.pools.pools.values())


@loop
async def test_a_burst_starts_no_more_than_the_machine_holds_and_all_are_served():
    async with World(room=Amount(20, 1 << 50)) as world:
        revision = await service(world)
        await world.ready()
        pool = world.pools.pools["default", revision]
        waiters = burst(world, revision, 10000)
        assert pool.state.wanted == 20 and not any(one.refused for one in waiters)
        # One slot is taken, 9999 wait: the bound of the queue is 10000.
        more = burst(world, revision, 3)
        assert [one.refused for one in more] == [None, (503, "pending request queue full")] * 1 + [
            (503, "pending request queue full")
        ]
        most, served = 0, 0
        waiters.append(more[0])
        while served < len(waiters):
            most = max(most, held(world))
            for waiter in waiters:
                if waiter.backend is not None and not waiter.done:
                    waiter.done, served = True, served + 1
                    pool.queue.release(waiter.backend, asyncio.get_running_loop().time())
            await asyncio.sleep(0)
        assert most == 20 == len(world.runner.started)


@loop
async def test_max_scale_bounds_an_arrival():
    async with World() as world:
        revision = await service(world, notes={"max-scale": "3"})
        await world.ready()
        burst(world, revision, 50)
        await world.until(lambda: world.pools.pools["default", revision].ready == 3, "three are ready")
        assert len(world.runner.started) == 3
        assert world.pools.pools["default", revision].state.wanted == 3


@loop
async def test_a_second_service_gets_its_share_of_a_full_machine():
    async with World(room=Amount(8, 1 << 50)) as world:
        first, second = await service(world, "first"), await service(world, "second")
        await world.ready("first")
        await world.ready("second")
        waiters = burst(world, first, 100)
        pools = [world.pools.pools["default", one] for one in (first, second)]
        await world.until(lambda: pools[0].ready == 8, "the first has all: the second was idle")
        others = burst(world, second, 100)
        # Every instance of the first is busy: it gives half of them back when their requests have ended.
        await world.until(
            lambda: sum(one.backend.draining for one in pools[0].members.values()) == 4,
            "four of the first leave",
        )
        assert held(world) == 8 and pools[1].ready == 0
        for waiter in waiters:
            if waiter.backend is not None and waiter.backend.draining:
                pools[0].queue.release(waiter.backend, asyncio.get_running_loop().time())
        await world.until(lambda: pools[1].ready == 4, "the second has its half")
        assert len(pools[0].members) == 4 and sum(one.backend is not None for one in others) == 4


@loop
async def test_an_idle_instance_makes_room_the_least_recently_used_first():
    async with World(room=Amount(3, 1 << 50)) as world:
        names = [await service(world, name) for name in ("one", "two", "three")]
        for name in ("one", "two", "three"):
            await world.ready(name)
        pools = [world.pools.pools["default", name] for name in names]
        now = asyncio.get_running_loop().time()
        for pool, used in zip(pools, (5.0, 1.0, 9.0), strict=True):
            pool.queue.used = now - 100 + used
        await world.call("POST", f"{SERVING}/services", ksvc("four"))
        await world.ready("four")
        assert [len(pool.members) for pool in pools] == [1, 0, 1]
        # A service that lost its instance stays ready, and its next request gets one.
        assert world.condition(REVISION, "two-00001", "Ready")[0] == "True"
        (waiter,) = burst(world, names[1], 1)
        await world.until(lambda: waiter.backend, "the request is served")
        assert held(world) <= 3


@loop
async def test_min_scale_is_not_evicted():
    async with World(room=Amount(2, 1 << 50)) as world:
        kept = await service(world, "kept", notes={"min-scale": "1"})
        await world.ready("kept")
        other = await service(world, "other")
        await world.ready("other")
        world.pools.pools["default", kept].queue.used = 0.0
        await world.call("POST", f"{SERVING}/services", ksvc("third"))
        await world.ready("third")
        assert len(world.pools.pools["default", kept].members) == 1
        assert len(world.pools.pools["default", other].members) == 0


@loop
async def test_an_instance_larger_than_the_machine_is_told_at_once():
    async with World(room=Amount(10, 100 * MiB)) as world:
        revision = await service(world, resources={"limits": {"memory": "101Mi"}})
        await world.until(lambda: world.condition(REVISION, revision, "Ready")[0] == "False", "it fails")
        found = world.condition(REVISION, revision, "ResourcesAvailable")
        assert found[:2] == ("False", "Unschedulable") and "101 MiB of 100" in found[2]
        (waiter,) = burst(world, revision, 1)
        assert waiter.refused == (503, "Unschedulable\n")
        assert not world.runner.started


@loop
async def test_memory_is_room_too():
    async with World(room=Amount(100, 250 * MiB)) as world:
        revision = await service(world, resources={"requests": {"memory": "100Mi"}})
        await world.ready()
        burst(world, revision, 50)
        await world.until(lambda: world.pools.pools["default", revision].ready == 2, "two fit")
        assert held(world) == 2


@pytest.mark.parametrize("failing", [1, 3])
@loop
async def test_starts_that_fail_give_their_room_back(failing):
    from krun.serve.run.errors import StartError

    async with World(room=Amount(4, 1 << 50)) as world:
        revision = await service(world)
        await world.ready()
        world.runner.errors = [StartError("CreateContainerError", "broken")] * failing
        burst(world, revision, 50)
        await world.until(lambda: world.pools.pools["default", revision].ready == 4, "four in the end")
        assert held(world) == 4


@loop
async def test_requests_at_a_full_machine_share_the_room_out_for_a_part_of_the_time():
    """Each request that waits asks for it, and with a thousand services that wait it takes 10 ms of the loop."""

    class Waits:
        each = Amount(1, MiB)

        def claim(self):
            nonlocal now
            now += 0.05
            return claim("a", 1)

        def held(self):
            return 0

        def grow(self, count):
            raise AssertionError

    now = 0.0
    capacity = Capacity(Amount(0, 0), lambda: now)
    capacity.ask(Waits())
    await asyncio.sleep(0)
    once = now
    for _ in range(50):
        capacity.schedule()
        await asyncio.sleep(0)
    assert now == once
    # Nobody is forgotten.
    await asyncio.sleep(0.6)
    assert now > once
