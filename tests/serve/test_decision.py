"""A request at a service without an instance: the order to start one goes out before the server does anything else."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from helpers.asynchronous import loop
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import Waiter, World

from krun.errors import KrunError
from krun.serve.control import engine, pods
from krun.serve.model import conditions
from krun.serve.model.kinds import POD, REVISION, ROUTE
from krun.serve.run import wire
from krun.serve.run.client import Worker


async def at_zero(world: World) -> None:
    """Makes a service that has had its instance and is at zero."""
    notes = {"metadata": {"annotations": {"autoscaling.knative.dev/window": "6s"}}}
    await world.call("POST", f"{SERVING}/services", ksvc(template=notes))
    await world.ready()
    pool = world.pools.pools["default", "hello-00001"]
    pool.scale(0)
    await world.until(lambda: not pool.members and not world.store.list(POD), "it is at zero")
    world.pools.scalers["default", "hello-00001"]._activity("inactive", pool.loop.time())
    await world.until(
        lambda: world.condition(REVISION, "hello-00001", "Active")[1] == "NoTraffic", "it is inactive"
    )
    await asyncio.sleep(0.1)  # what is told later has been told


@loop
async def test_the_order_goes_out_before_the_store_is_written() -> None:
    async with World() as world:
        await at_zero(world)
        order: list[str] = []
        world.store.subscribe(lambda event: order.append(f"{event.type} {event.kind.kind}"))
        start = world.runner.start

        async def ordered(spec):
            order.append("start")
            return await start(spec)

        world.runner.start = ordered
        waiter, now = Waiter(), asyncio.get_running_loop().time()
        world.pools.queue_of("default", "hello-00001").enter(waiter, now)
        assert order == []  # not in the request's own turn: the next one is the order's
        await asyncio.sleep(0)
        assert order[:1] == ["start"]
        await world.until(lambda: waiter.backend, "the request has an instance")
        assert "ADDED Pod" in order
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Active")[0] == "True", "it is active"
        )


@loop
async def test_a_start_whose_pod_cannot_be_written_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        await at_zero(world)
        create = pods.create

        def full(*args: object) -> None:
            raise KrunError("write store: database or disk is full")

        monkeypatch.setattr(pods, "create", full)
        waiter = Waiter()
        world.pools.queue_of("default", "hello-00001").enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: waiter.refused, "the request gets the reason")
        assert waiter.refused == (503, "CreateContainerError\n")
        failure = world.pools.pools["default", "hello-00001"].state.failure
        assert failure is not None and "disk is full" in failure[2]
        assert not world.runner.instances  # the one that had been ordered was stopped
        monkeypatch.setattr(pods, "create", create)
        again = Waiter()
        world.pools.queue_of("default", "hello-00001").enter(again, asyncio.get_running_loop().time())
        await world.until(lambda: world.store.list(POD), "the next try has a Pod")


@loop
async def test_the_readiness_of_a_revision_is_told_at_once_and_its_size_soon() -> None:
    async with World() as world:
        told: list[float] = []
        changed = world.pools.changed
        world.pools.changed = lambda *key: (told.append(1.0), changed(*key))
        await at_zero(world)
        pool = world.pools.pools["default", "hello-00001"]
        del told[:]
        for _ in range(5):
            pool.on_change(pool)
        assert not told
        await world.until(lambda: told, "it is told")
        await asyncio.sleep(0.1)
        assert len(told) == 1
        pool.state.failure = ("ResourcesAvailable", "Why", "because")
        pool.on_change(pool)
        assert len(told) == 2


@loop
async def test_a_route_that_is_ready_has_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much work is left: a client that has been told asks in the next turn of the loop."""
    monkeypatch.setattr(engine, "_TURN", 1e-4)  # one object, or few
    async with World() as world:
        told = asyncio.get_running_loop()
        missing: list[str] = []

        def check(host: str) -> None:
            if not world.targets(host):
                missing.append(host)

        def seen(event) -> None:
            if event.kind is ROUTE and conditions.is_ready(event.obj):
                told.call_soon(check, event.obj["status"]["url"].removeprefix("http://"))

        world.store.subscribe(seen)
        for number in range(20):
            await world.call("POST", f"{SERVING}/services", ksvc(f"hello{number}"))
        await world.until(
            lambda: all(world.targets(f"hello{number}.default.localhost") for number in range(20)),
            "all hosts",
        )
        assert not missing


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@loop
async def test_a_command_is_sent_before_its_answer_is_waited_for() -> None:
    mine, other = pair()
    worker = Worker(mine, lambda event: None, lambda: None)
    answer = worker.order("sandbox", id="one")
    received = wire.receive(other)
    assert received is not None and received[0]["do"] == "sandbox"
    wire.send(other, {"seq": received[0]["seq"], "address": "10.0.0.1"})
    assert (await answer)[0]["address"] == "10.0.0.1"
    worker.close()
    with pytest.raises(KrunError, match="is gone"):
        worker.order("sandbox", id="two")
    other.close()


@loop
async def test_a_command_waits_for_room_in_the_socket() -> None:
    mine, other = pair()
    worker = Worker(mine, lambda event: None, lambda: None)
    answers = [asyncio.ensure_future(worker.order("image", image="x" * 20000)) for _ in range(40)]
    loop = asyncio.get_running_loop()
    other.setblocking(False)
    seen = 0

    def serve() -> None:
        nonlocal seen
        received = wire.receive(other)
        assert received is not None
        seen += 1
        wire.send(other, {"seq": received[0]["seq"]})

    loop.add_reader(other, serve)
    await asyncio.gather(*answers)
    assert seen == 40
    loop.remove_reader(other)
    worker.close()
    other.close()


@loop
async def test_descriptors_of_an_answer_that_nobody_waits_for_are_closed() -> None:
    mine, other = pair()
    worker = Worker(mine, lambda event: None, lambda: None)
    task = asyncio.ensure_future(worker.order("sandbox", id="one"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    received = wire.receive(other)
    assert received is not None
    null = os.open("/dev/null", os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    wire.send(other, {"seq": received[0]["seq"]}, [null])
    await asyncio.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(null)
    worker.close()
    other.close()
