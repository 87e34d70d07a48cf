"""The control plane, when one object, one start or one number is not what it should be: the others go on, and nothing stays behind."""

import asyncio
import sqlite3
import sys

import pytest
from helpers.asynchronous import loop
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import DIGEST, Waiter, World

from krun.errors import KrunError
from krun.serve.control import pools
from krun.serve.control.remote import Remote
from krun.serve.model import meta
from krun.serve.model.kinds import CONFIG_MAP, CONFIGURATION, POD, REVISION, ROUTE, SERVICE
from krun.serve.run.errors import StartError, WorkerGone
from krun.serve.run.image.config import Image
from krun.serve.run.image.config import of as image_config
from krun.serve.scale.share import Amount

MERGE = "application/merge-patch+json"
MAPS = "/api/v1/namespaces/knative-serving/configmaps"


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


@loop
async def test_an_instance_that_ended_for_another_service_is_missed():
    """The other one has gone before it took the room: the requests of the first waited until their time-out."""
    async with World(room=Amount(1, 1 << 50)) as world:
        await world.call("POST", f"{SERVING}/services", ksvc("a"))
        await world.ready("a")
        pool = world.pools.pools["default", "a-00001"]
        instance, drained = next(iter(world.runner.instances.values())), asyncio.Event()

        async def stop(grace):
            await drained.wait()

        instance.stop = stop
        await world.call("POST", f"{SERVING}/services", ksvc("b"))
        await world.until(lambda: all(one.leaving for one in pool.members.values()), "a gives its place")
        await world.call("DELETE", f"{SERVING}/services/b")
        await world.until(lambda: len(world.pools.pools) == 1, "b has gone")
        drained.set()
        await world.until(lambda: instance.id not in pool.members, "the instance has gone")
        waiter = Waiter()
        pool.queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: waiter.backend, "the request has an instance")


@loop
async def test_a_request_after_the_progress_deadline_gives_the_whole_deadline():
    """It gave a second: the instance was ended at the next sample, and the request waited until its time-out."""
    async with World() as world:
        world.runner.gate = asyncio.Event()
        notes = {"metadata": {"annotations": {"serving.knative.dev/progress-deadline": "5s"}}}
        await world.call("POST", f"{SERVING}/services", ksvc(template=notes))
        await world.until(lambda: world.runner.started, "it starts")
        pool, scaler = (
            world.pools.pools["default", "hello-00001"],
            world.pools.scalers["default", "hello-00001"],
        )
        scaler.sample(asyncio.get_running_loop().time() + 6)
        assert pool.state.expired and not pool.state.wanted
        # A sample later than the first deadline, earlier than the second.
        pool.loop = Later(pool.loop, 10)
        waiter = Waiter()
        pool.queue.enter(waiter, pool.loop.time())
        scaler.sample(pool.loop.time() + 1)
        assert pool.state.wanted == 1 and not pool.state.expired
        world.runner.gate.set()
        await world.until(lambda: waiter.backend, "the request has an instance")
        scaler.sample(pool.loop.time() + 6)
        assert pool.state.wanted == 1


class Later:
    """A loop whose clock is some seconds ahead."""

    def __init__(self, loop, seconds):
        self.loop, self.seconds = loop, seconds

    def time(self):
        return self.loop.time() + self.seconds

    def __getattr__(self, name):
        return getattr(self.loop, name)


@loop
async def test_an_image_is_looked_for_without_end(monkeypatch):
    """Each try was nested in the one before: after a thousand, in 16 hours, the revision was forgotten (RecursionError)."""
    monkeypatch.setattr(pools, "_RESOLVE_AGAIN", (0.0,))
    async with World() as world:
        tries = 0

        async def resolve(reference):
            nonlocal tries
            tries += 1
            if tries == 1:
                raise RuntimeError("nobody expected it")
            if tries < 2 * sys.getrecursionlimit():
                raise StartError("ContainerMissing", "not there")
            return Image(DIGEST, image_config({}, reference), [])

        world.runner.resolve_image = resolve
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()


@pytest.mark.parametrize("asks", ["session", "exit"])
@loop
async def test_an_instance_that_does_not_thaw_is_replaced_whoever_asks(asks):
    """A session or an exit left it as if a thaw were under way, so that no request thawed or replaced it."""
    async with World() as world:
        notes = {"serve.krun.dev/idle": "freeze", "serve.krun.dev/idle-delay": "0s"}
        await world.call("POST", f"{SERVING}/services", ksvc(template={"metadata": {"annotations": notes}}))
        await world.ready()
        pool, scaler = (
            world.pools.pools["default", "hello-00001"],
            world.pools.scalers["default", "hello-00001"],
        )
        scaler.sample(asyncio.get_running_loop().time() + 20)
        member = next(iter(pool.members.values()))
        await world.until(lambda: member.instance.paused, "it is frozen")

        async def fails(instance, frozen):
            if instance is member.instance and not frozen:
                raise KrunError("no")

        world.runner.freezer, member.instance.netns = fails, 0
        if asks == "session":
            with pytest.raises(KrunError):
                await Remote(world.pools).reach(member.name)
        else:
            member.instance.crash(137)
        await world.until(lambda: member.name not in pool.members, "it gives way")
        waiter = Waiter()
        pool.queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: waiter.backend, "the request has an instance")


@loop
async def test_an_unexpected_error_of_a_start_is_a_failed_start():
    """The instance stayed in the pool for ever: no other one was started, and its room was gone with the revision as well."""
    async with World() as world:
        free = world.capacity.free
        world.runner.errors += [IndexError("no descriptor")]
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Ready")[0] == "False", "it is told"
        )
        await world.ready()
        await world.call("DELETE", f"{SERVING}/services/hello")
        await world.until(lambda: world.capacity.free == free, "its room is free")


@loop
async def test_an_instance_that_cannot_be_taken_over_gives_way(tmp_path):
    """Also to a stop that waits for its start: the end of the server waited for that."""
    path = str(tmp_path / "store")
    async with World(path) as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        name = next(iter(world.runner.instances))
    world = World(path, found=[{"id": name, "containers": {}}])
    adopting, told = asyncio.Event(), asyncio.Event()
    async with world:

        async def adopt(found, spec):
            adopting.set()
            await told.wait()
            raise IndexError("no descriptor")

        world.runner.adopt = adopt
        await adopting.wait()
        await world.call("DELETE", f"{SERVING}/services/hello")
        told.set()
        await world.until(lambda: not world.pools._tasks, "nothing waits for it")


@loop
async def test_a_full_disk_ends_neither_probes_nor_restarts_nor_evictions(monkeypatch):
    """An instance can fill the disk. What is written about an instance is no condition of what is done with it."""
    from krun.serve.control.eviction import Evictions

    async with World() as world:
        volume = {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}
        obj = ksvc(container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})
        obj["spec"]["template"]["spec"]["volumes"] = [volume]
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        pool = world.pools.pools["default", "hello-00001"]
        member = next(iter(pool.members.values()))

        def full(durable):
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(world.store._db, "begin", full)
            member.instance.crash(1)
            member.instance.again()
            await world.until(lambda: member.ready, "it is probed again")

            class Usage:
                async def usage(self, id):
                    return {"volumes": {"v": 2 << 20}, "containers": {}, "files": 0}

            evictions = Evictions(lambda: [pool], Usage(), world.engine.context, world.lines.append)
            await evictions.once()
            assert member.leaving
            await world.until(lambda: member.name not in pool.members, "it has gone")
            for one in world.runner.instances.values():
                one.state = "exited"
            pool.lost()
        await world.until(lambda: pool.ready == 1, "another one is there")


@loop
async def test_requests_wait_for_the_next_worker():
    """They got 503 with its end as the reason; what the next one had started before all was asked for anew ran for ever."""
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        pool = world.pools.pools["default", "hello-00001"]
        for one in world.runner.instances.values():
            one.state = "exited"
        world.runner.instances.clear()
        for member in list(pool.members.values()):
            pool.queue.remove(member.backend)
        world.runner.errors += [WorkerGone("gone")]
        pool.scale(2)  # meets a worker that has gone
        waiter = Waiter()
        pool.queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: not world.runner.errors and len(pool.members) == 1, "the start fails")
        assert not waiter.refused and pool.state.failure is None
        world.runner.gate = asyncio.Event()
        pool.scale(3)
        world.pools.lost()
        await world.until(lambda: len(pool.members) == 3, "all are asked for")
        world.pools.lost()  # these starts are the next worker's
        world.runner.gate.set()
        await world.until(
            lambda: waiter.backend and pool.ready == 3, "all are there, and the request has one"
        )
        assert len(world.runner.instances) == 3


@loop
async def test_a_template_has_no_annotation_of_the_servers_own():
    own = f"{meta.HIDDEN}x"
    async with World() as world:
        notes = {"metadata": {"annotations": {own: "1", "a": "b"}}}
        await world.call("POST", f"{SERVING}/services", ksvc(template=notes))
        await world.ready()
        found = meta.annotations(world.store.get(REVISION, "default", "hello-00001"))
        assert found["a"] == "b" and own not in found


@pytest.mark.parametrize(
    "path, status, wanted",
    [
        ("revisions/hello-00001", {"conditions": [{}]}, 422),
        ("revisions/hello-00001", {"conditions": [{"type": "Ready"}]}, 422),
        ("revisions/hello-00001", {"conditions": [{"type": "ResourcesAvailable", "status": "True"}], "containerStatuses": [{}]}, 200),
        ("routes/hello", {"conditions": [{"status": "True"}]}, 422),
        ("routes/hello", {"traffic": [{}]}, 200),
        ("routes/hello", {"traffic": [{"revisionName": "hello-00001", "percent": 1, "tag": "\u00fc"}]}, 200),
        ("configurations/hello", {"conditions": [{}]}, 422),
        ("services/hello", {"conditions": [{}]}, 422),
    ],
)  # fmt: skip
@pytest.mark.parametrize("old", [False, True])
def test_a_status_that_a_client_has_written_stops_nothing(tmp_path, path, status, wanted, old):
    """With what an earlier server took, too (`old`): reconcilers, and the start of the server, went no further."""
    database = str(tmp_path / "store")
    kinds = {"revisions": REVISION, "routes": ROUTE, "configurations": CONFIGURATION, "services": SERVICE}
    plural, name = path.split("/")

    @loop
    async def first():
        async with World(database) as world:
            await world.call("POST", f"{SERVING}/services", ksvc())
            await world.ready()
            obj = world.store.get(kinds[plural], "default", name)
            assert (await world.call("PUT", f"{SERVING}/{path}/status", {**obj, "status": status}))[
                0
            ] == wanted
            world.engine.close()
            if old:
                world.store.update_status(kinds[plural], {"metadata": {"namespace": "default", "name": name}, "status": status})  # fmt: skip

    @loop
    async def second():
        async with World(database) as world:
            await world.ready()
            await world.leads("hello.default.localhost", {"hello-00001": 100})
            assert not world.lines

    first()
    second()


@loop
async def test_a_route_that_cannot_be_resolved_keeps_no_other_from_its_hosts():
    """Its status stays as a client has written it; the table is made anew when a ConfigMap changes and when the server starts."""
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        traffic = [{"revisionName": "none", "percent": 100}]
        route = {"kind": "Route", "metadata": {"name": "r"}, "spec": {"traffic": traffic}}
        assert (await world.call("POST", f"{SERVING}/routes", route))[0] == 201
        await world.until(lambda: world.condition(ROUTE, "r", "Ready")[0] == "False", "it is told")
        status = {"traffic": [{"revisionName": "hello-00001", "percent": 1, "tag": "\u00fc"}]}
        obj = world.store.get(ROUTE, "default", "r")
        assert (await world.call("PUT", f"{SERVING}/routes/r/status", {**obj, "status": status}))[0] == 200
        world.engine.start()
        await world.call("POST", f"{SERVING}/services", ksvc("other"))
        await world.ready("other")
        await world.leads("other.default.localhost", {"other-00001": 100})
        assert not world.lines


@loop
async def test_all_events_of_a_transaction_are_told(monkeypatch):
    """An owner reference without a name made one of them fail: the instances of a deleted namespace went on, and were served."""
    async with World() as world:
        space = SERVING.replace("default", "ns1")
        owner = {"controller": True, "kind": "Service"}
        obj = {"metadata": {"name": "a", "ownerReferences": [owner]}, "data": {}}
        assert (await world.call("POST", "/api/v1/namespaces/ns1/configmaps", obj))[0] == 422
        obj["metadata"]["namespace"] = "ns1"
        world.store.create(CONFIG_MAP, obj)
        await world.call("POST", f"{space}/services", ksvc())
        await world.until(lambda: world.table.lookup(b"hello.ns1.localhost"), "it is served")
        real = world.engine.changed

        def broken(event):
            if event.kind is POD:
                raise RuntimeError("broken")
            real(event)

        world.store._subscribers[-1] = broken
        with pytest.raises(RuntimeError):
            await world.call("DELETE", "/api/v1/namespaces/ns1")
        await world.until(lambda: not world.pools.pools and not world.runner.instances, "nothing is left")
        await world.until(lambda: not world.table.lookup(b"hello.ns1.localhost"), "the host is gone")
