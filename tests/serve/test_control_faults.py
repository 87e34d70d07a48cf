"""The control plane, when one object, one start or one number is not what it should be: the others go on, and nothing stays behind."""

import asyncio
import functools

import pytest
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import World

from krun.serve.model.kinds import CONFIG_MAP, REVISION, ROUTE, SERVICE

MERGE = "application/merge-patch+json"
MAPS = "/api/v1/namespaces/knative-serving/configmaps"


def loop(test):
    """Runs an asynchronous test."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@loop
async def test_templates_that_make_no_host_do_not_end_the_control_loop(tmp_path):
    """Such a map is refused; one that an earlier server took is as if it were not there."""
    async with World(str(tmp_path / "store")) as world:
        tagged = [{"percent": 100, "latestRevision": True, "tag": "t"}]
        await world.call("POST", f"{SERVING}/services", ksvc(traffic=tagged))
        await world.ready()
        data = {
            "tag-template": "{{.Namespace}}-{{.Tag}}-{{.Name}}",
            "domain-template": "{{.Name}}.\u00fc.{{.Domain}}",
        }
        for key, text in data.items():
            code, answer = await world.call(
                "POST", MAPS, {"metadata": {"name": "config-network"}, "data": {key: text}}
            )
            assert code == 400 and key in answer["message"]
            metadata = {"name": "config-network", "namespace": "knative-serving"}
            world.store.create(CONFIG_MAP, {"metadata": metadata, "data": {key: text}})
            world.engine.start()
            await world.call("POST", f"{SERVING}/services", ksvc(f"of-{key}"))
            await world.ready(f"of-{key}")
            world.store.delete(CONFIG_MAP, "knative-serving", "config-network")
        await world.leads("t-hello.default.localhost", {"hello-00001": 100})


@loop
async def test_an_error_at_the_end_of_a_turn_does_not_end_the_turns(monkeypatch):
    async with World() as world:
        replace, failures = world.table.replace, [RuntimeError("broken"), RuntimeError("broken")]

        def broken(hosts):
            if failures:
                raise failures.pop()
            replace(hosts)

        monkeypatch.setattr(world.table, "replace", broken)
        for name in ("one", "two"):
            await world.call("POST", f"{SERVING}/services", ksvc(name))
            await world.ready(name)
            await world.leads(f"{name}.default.localhost", {f"{name}-00001": 100})
        assert any("end of a turn: internal error: RuntimeError: broken" in one for one in world.lines)


@loop
async def test_numbers_without_measure_do_not_end_the_autoscaler():
    """Knative takes any finite target; a product of two finite floats may be infinite, which is no number of instances."""
    huge = {
        "autoscaling.knative.dev/target": "1e308",
        "autoscaling.knative.dev/target-burst-capacity": "1e308",
    }
    async with World() as world:
        notes = {"metadata": {"annotations": {**huge, "autoscaling.knative.dev/min-scale": "3"}}}
        await world.call("POST", f"{SERVING}/services", ksvc(template=notes))
        await world.ready()
        scaler = world.pools.scalers["default", "hello-00001"]
        await world.until(lambda: scaler.pool.ready == 3, "three are ready")
        now = asyncio.get_running_loop().time()
        scaler.sample(now + 1)
        scaler.decide(now + 2)
        assert scaler.decision.desired == 3
        data = {"max-scale-up-rate": "1e308", "container-concurrency-target-default": "1e308"}
        assert (await world.call("POST", MAPS, {"metadata": {"name": "config-autoscaler"}, "data": data}))[
            0
        ] == 201
        scaler.decide(now + 4)
        assert scaler.decision.desired == 3


@pytest.mark.parametrize("text", ["9" * 400, "9999999999", "\u0663", "1_0"])
@loop
async def test_an_activation_scale_is_a_number_of_32_bits(text):
    """Of 400 digits it was stored, and then neither the revision's reconciler nor a server that starts got past it."""
    key = "autoscaling.knative.dev/activation-scale"
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        change = {"metadata": {"annotations": {key: text}}}
        code, _ = await world.call("PATCH", f"{SERVING}/revisions/hello-00001", change, MERGE)
        assert code == 400
        # One that an earlier server took.
        revision = world.store.get(REVISION, "default", "hello-00001")
        revision["metadata"].setdefault("annotations", {})[key] = text
        world.store.update(REVISION, revision)
        world.pools.reconfigure()
        world.engine.start()
        await world.call("POST", f"{SERVING}/services", ksvc("other"))
        await world.ready("other")
        assert not world.lines


@loop
async def test_a_tag_does_not_take_the_hosts_of_another_service():
    """The tag `a` of `b` and the service `a-b` have one host. As in Knative, whose Service of that name is another's, has it not."""
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc("a-b"))
        await world.ready("a-b")
        tagged = [{"percent": 100, "latestRevision": True, "tag": "a"}]
        await world.call("POST", f"{SERVING}/services", ksvc("b", traffic=tagged))
        await world.until(lambda: world.condition(ROUTE, "b", "IngressReady")[1] == "NotOwned", "b is told")
        assert world.condition(SERVICE, "b", "Ready") == (
            "False", "NotOwned", 'There is an existing placeholder Service "a-b" that we do not own.',
        )  # fmt: skip
        for host in ("a-b.default.localhost", "a-b.default.svc.cluster.local"):
            assert world.targets(host) == {"a-b-00001": 100}
        await world.call("DELETE", f"{SERVING}/services/a-b")
        await world.ready("b")
        await world.leads("a-b.default.localhost", {"b-00001": 100})
        # The other way round.
        await world.call("POST", f"{SERVING}/services", ksvc("a-b"))
        await world.until(
            lambda: world.condition(ROUTE, "a-b", "IngressReady")[1] == "NotOwned", "a-b is told"
        )
        assert world.targets("a-b.default.localhost") == {"b-00001": 100}


@loop
async def test_traffic_that_comes_back_to_the_latest_revision_does_not_go_to_one_of_before():
    async with World() as world:
        obj = ksvc()
        obj["metadata"]["annotations"] = {"serving.knative.dev/rollout-duration": "100s"}
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()

        async def change(**spec):
            await world.call("PATCH", f"{SERVING}/services/hello", {"spec": spec}, MERGE)
            await world.ready()

        await change(traffic=[{"revisionName": "hello-00001", "percent": 100}])
        for name in ("two", "three"):
            await change(template={"spec": {"containers": [{"image": f"reg.example/{name}"}]}})
        await change(traffic=[{"revisionName": "hello-00002", "percent": 100}])
        await change(traffic=[{"latestRevision": True, "percent": 100}])
        await world.leads("hello.default.localhost", {"hello-00003": 100})
