"""Metrics of the autoscaler and of starts: names, values, and the text as Prometheus' format has it."""

import asyncio
import re

from helpers.asynchronous import loop
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import Waiter, World

from krun.serve.model.idle import DELAY, POLICY
from krun.serve.proxy.metrics import Metrics
from krun.serve.scale.share import Amount

LINE = re.compile(r'[a-z_0-9]+(\{([a-z_0-9]+="[^"\\]*",?)*\})? -?[0-9.e+]+')


def metrics(world):
    """name -> value of the revision's metrics, or (name, kind, stage) -> value; the text is checked."""
    text = Metrics().text((pool.queue for pool in world.pools.pools.values()), world.pools.metrics)
    found, types = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            types.append(line.split()[2])
            continue
        assert LINE.fullmatch(line), line
        assert line.startswith(types[-1]), "the lines of a family stand together"
        name, _, value = line.rpartition(" ")
        labels = dict(re.findall(r'([a-z_]+)="([^"]*)"', name))
        key = name.partition("{")[0]
        if "stage" in labels and "le" not in labels:
            found[key, labels["kind"], labels["stage"]] = float(value)
        elif "le" not in labels:
            found[key] = float(value)
    assert len(types) == len(set(types))
    return found


@loop
async def test_pods_decisions_starts_and_the_room():
    async with World(room=Amount(4, 1 << 50)) as world:
        obj = ksvc()
        obj["spec"]["template"]["spec"]["containerConcurrency"] = 1
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        found = metrics(world)
        assert found["kn_revision_pods_desired"] == found["autoscaler_actual_pods"] == 1
        assert "autoscaler_panic_mode" not in found, "there is no decision yet"
        pool, scaler = (table["default", "hello-00001"] for table in (world.pools.pools, world.pools.scalers))
        world.runner.gate = asyncio.Event()
        waiters = [Waiter() for _ in range(9)]
        now = asyncio.get_running_loop().time()
        for waiter in waiters:
            pool.queue.enter(waiter, now)
        scaler.sample(now + 1)
        scaler.decide(now + 2)
        await world.until(lambda: len(world.runner.started) == 4, "three more begin")
        found = metrics(world)
        assert found["kn_revision_pods_desired"] == found["autoscaler_desired_pods"] == 4
        assert found["kn_revision_pods_pending_count"] == found["autoscaler_pending_pods"] == 3
        assert found["kn_revision_pods_count"] == 1 and found["kn_revision_panic_mode"] == 1
        assert (
            found["kn_revision_concurrency_target"] == found["autoscaler_target_concurrency_per_pod"] == 0.7
        )
        assert found["kn_revision_concurrency_panic"] == scaler.decision.panic_value > 0
        assert found["revision_queue_depth"] == 8
        assert found["krun_machine_instances_limit"] == 4 and found["krun_machine_instances_free"] == 0
        world.runner.gate.set()
        await world.until(lambda: pool.ready == 4, "all are ready")
        found = metrics(world)
        assert found["krun_revision_start_duration_seconds_count", "boot", "start"] == 4
        assert found["krun_revision_start_duration_seconds_count", "boot", "ready"] == 4


@loop
async def test_a_thaw_is_a_start_of_its_own_kind():
    async with World() as world:
        await world.call(
            "POST",
            f"{SERVING}/services",
            ksvc(template={"metadata": {"annotations": {POLICY: "freeze", DELAY: "0s"}}}),
        )
        await world.ready()
        pool, scaler = (table["default", "hello-00001"] for table in (world.pools.pools, world.pools.scalers))
        scaler.sample(asyncio.get_running_loop().time() + 1)
        await world.until(lambda: all(one.instance.paused for one in pool.members.values()), "it is frozen")
        assert metrics(world)["krun_revision_instances_frozen"] == 1
        waiter = Waiter()
        pool.queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: waiter.backend, "it serves")
        await world.until(lambda: ("resume", "ready") in pool.starts, "it is counted")
        found = metrics(world)
        assert found["krun_revision_start_duration_seconds_count", "resume", "ready"] == 1
        assert found["krun_revision_instances_frozen"] == 0


@loop
async def test_a_revision_that_was_never_asked_for_has_few_lines():
    async with World() as world:
        data = {"allow-zero-initial-scale": "true", "initial-scale": "0"}
        config = {"metadata": {"name": "config-autoscaler"}, "data": data}
        await world.call("POST", "/api/v1/namespaces/knative-serving/configmaps", config)
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        found = metrics(world)
        assert found["kn_revision_pods_desired"] == found["autoscaler_actual_pods"] == 0
        assert "autoscaler_pending_pods" not in found and not world.runner.started
