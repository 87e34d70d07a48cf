"""The control plane with fake instances: from objects to conditions, hosts, instances; failures; restarts of the server."""

import asyncio

import pytest
from helpers.asynchronous import loop
from helpers.serveapi import ALPHA, SERVING, ksvc
from helpers.servefakes import DIGEST, Waiter, World

from krun.serve.control.config import Config
from krun.serve.model import meta
from krun.serve.model.kinds import (
    CONFIGURATION,
    CORE_SERVICE,
    DOMAIN_MAPPING,
    EVENT,
    POD,
    REVISION,
    ROUTE,
    SERVICE,
)
from krun.serve.run.errors import StartError

MERGE = "application/merge-patch+json"


def image(name):
    return {"spec": {"template": {"spec": {"containers": [{"image": name}]}}}}


@loop
async def test_a_service_becomes_ready():
    async with World() as world:
        obj = ksvc()
        obj["metadata"]["labels"] = {"own": "label"}
        await world.call("POST", f"{SERVING}/services", obj)
        service = await world.ready()
        status = service["status"]
        assert status["url"] == "http://hello.default.localhost"
        assert status["address"] == {"url": "http://hello.default.svc.cluster.local"}
        assert status["latestReadyRevisionName"] == "hello-00001" == status["latestCreatedRevisionName"]
        assert status["traffic"] == [{"revisionName": "hello-00001", "percent": 100, "latestRevision": True}]
        assert [one["type"] for one in status["conditions"]] == [
            "ConfigurationsReady",
            "Ready",
            "RoutesReady",
        ]
        revision = world.store.get(REVISION, "default", "hello-00001")
        assert revision["status"]["containerStatuses"] == [
            {"name": "user-container", "imageDigest": f"reg.example/hello@{DIGEST}"}
        ]
        labels = meta.labels(revision)
        assert labels[meta.SERVICE_LABEL] == "hello" and labels[meta.GENERATION_LABEL] == "1"
        assert labels[meta.ROUTING_STATE] == "active" and "own" not in labels
        for host in ("hello.default.localhost", "hello.default.svc.cluster.local", "hello.default"):
            await world.leads(host, {"hello-00001": 100})
        pod = world.store.list(POD)[0]
        assert "hello-00001-deployment" in meta.name(pod)
        assert pod["status"]["containerStatuses"][0]["ready"] is True
        placeholder = world.store.get(CORE_SERVICE, "default", "hello")
        assert meta.labels(placeholder)[meta.ROUTE_LABEL] == "hello"
        assert {one["reason"] for one in world.store.list(EVENT)} >= {"Created", "RevisionReady"}
        assert not world.lines


@loop
async def test_a_change_makes_a_revision_and_moves_the_traffic_when_it_is_ready():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        world.runner.gate = asyncio.Event()
        _, obj = await world.call("PATCH", f"{SERVING}/services/hello", image("reg.example/two"), MERGE)
        assert obj["status"]["observedGeneration"] == 1 and obj["metadata"]["generation"] == 2
        await world.until(lambda: len(world.runner.started) == 2, "the second starts")
        assert world.targets("hello.default.localhost") == {"hello-00001": 100}
        world.runner.gate.set()
        await world.ready()
        await world.leads("hello.default.localhost", {"hello-00002": 100})
        await world.until(
            lambda: (
                meta.labels(world.store.get(REVISION, "default", "hello-00001"))[meta.ROUTING_STATE]
                == "reserve"
            ),
            "the first is in reserve",
        )


@loop
async def test_labels_of_the_service_are_copied_exactly_and_make_no_revision():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        await world.call("PATCH", f"{SERVING}/services/hello", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, MERGE)  # fmt: skip
        for kind in (CONFIGURATION, ROUTE):
            await world.until(
                lambda kind=kind: meta.labels(world.store.get(kind, "default", "hello")).get("a"), "copied"
            )
        await world.ready()
        await world.call("PATCH", f"{SERVING}/services/hello", {"metadata": {"labels": {"a": None}, "annotations": {"c": None}}}, MERGE)  # fmt: skip
        for kind in (CONFIGURATION, ROUTE):
            await world.until(
                lambda kind=kind: "a" not in meta.labels(world.store.get(kind, "default", "hello")), "gone"
            )
            assert "c" not in meta.annotations(world.store.get(kind, "default", "hello"))
        assert meta.labels(world.store.get(CORE_SERVICE, "default", "hello")).get("a") == "b"
        assert world.store.count(REVISION) == 1


@loop
async def test_split_tags_and_pinned_revisions():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        traffic = [
            {"revisionName": "hello-00001", "percent": 80, "tag": "current"},
            {"latestRevision": True, "percent": 20, "tag": "next"},
        ]
        change = {"spec": {"traffic": traffic, **image("reg.example/two")["spec"]}}
        await world.call("PATCH", f"{SERVING}/services/hello", change, MERGE)
        service = await world.ready()
        await world.leads("hello.default.localhost", {"hello-00001": 80, "hello-00002": 20})
        await world.leads("next-hello.default.localhost", {"hello-00002": 20})
        await world.leads("next.hello.default.localhost", {"hello-00002": 20})
        assert service["status"]["traffic"][0]["url"] == "http://current-hello.default.localhost"
        assert world.store.get(CORE_SERVICE, "default", "current-hello")


@loop
async def test_traffic_to_what_is_not_there():
    async with World() as world:
        obj = ksvc(traffic=[{"revisionName": "hello-none", "percent": 100}])
        await world.call("POST", f"{SERVING}/services", obj)
        await world.until(lambda: world.condition(SERVICE, "hello", "RoutesReady")[0] == "False", "it fails")
        assert world.condition(SERVICE, "hello", "RoutesReady")[1:] == (
            "RevisionMissing",
            'Revision "hello-none" referenced in traffic not found.',
        )


@loop
async def test_an_image_that_is_not_there():
    async with World() as world:
        world.runner.missing.add("reg.example/hello")
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.until(lambda: world.condition(SERVICE, "hello", "Ready")[0] == "False", "it fails")
        text = 'Unable to fetch image "reg.example/hello": not there'
        assert world.condition(REVISION, "hello-00001", "ContainerHealthy") == (
            "False",
            "ContainerMissing",
            text,
        )
        assert world.condition(CONFIGURATION, "hello", "Ready") == (
            "False",
            "RevisionFailed",
            f'Revision "hello-00001" failed with message: {text}.',
        )
        missing = ("False", "RevisionMissing")
        await world.until(lambda: world.condition(ROUTE, "hello", "Ready")[:2] == missing, "the route fails")
        assert not world.runner.started


@loop
async def test_a_container_that_exits():
    async with World() as world:
        obj = ksvc(
            container={
                "readinessProbe": {
                    "exec": {"command": ["x"]},
                    "periodSeconds": 1000,
                    "initialDelaySeconds": 1000,
                }
            }
        )
        await world.call("POST", f"{SERVING}/services", obj)
        instance = await world.until(lambda: list(world.runner.instances.values()), "an instance")
        instance[0].crash(5, "last words")
        await world.until(lambda: world.condition(SERVICE, "hello", "Ready")[0] == "False", "it fails")
        found = world.condition(REVISION, "hello-00001", "ContainerHealthy")
        assert found == ("False", "ExitCode5", "Container failed with: last words")
        pool = world.pools.pools["default", "hello-00001"]
        for _ in range(10):  # what a client without a token reads has none of the program's words
            instance[0].again()
            instance[0].crash(5, "last words")
            await asyncio.sleep(0.01)
        await world.until(lambda: pool.queue.failure, "requests are refused")
        assert pool.queue.failure == "ExitCode5\n"
        instance[0].again()
        pod = await world.until(lambda: world.store.list(POD), "a pod")
        assert pod[0]["status"]["containerStatuses"][0]["restartCount"] == 11
        assert pod[0]["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 5


@loop
async def test_a_start_that_fails_is_tried_again():
    async with World() as world:
        world.runner.errors = [StartError("CreateContainerConfigError", 'secret "s" not found')]
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.until(lambda: world.condition(REVISION, "hello-00001", "Ready")[0] == "False", "it fails")
        assert world.condition(REVISION, "hello-00001", "ResourcesAvailable") == (
            "False", "CreateContainerConfigError", 'secret "s" not found',
        )  # fmt: skip
        await world.ready()
        assert len(world.runner.started) == 2


@loop
async def test_deleting_a_service_ends_everything():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        instance = next(iter(world.runner.instances.values()))
        await world.call("DELETE", f"{SERVING}/services/hello")
        await world.until(lambda: instance.stopped is not None, "the instance is stopped")
        await world.until(lambda: not world.pools.pools and not world.store.count(POD), "nothing is left")
        for kind in (SERVICE, CONFIGURATION, ROUTE, REVISION, CORE_SERVICE):
            assert world.store.count(kind) == 0
        await world.until(lambda: world.targets("hello.default.localhost") is None, "the host is gone")


@loop
async def test_from_zero_an_arrival_starts_an_instance_at_once():
    import time

    async with World() as world:
        notes = {"metadata": {"annotations": {"autoscaling.knative.dev/window": "6s"}}}
        await world.call("POST", f"{SERVING}/services", ksvc(template=notes))
        await world.ready()
        pool = world.pools.pools["default", "hello-00001"]
        scaler = world.pools.scalers["default", "hello-00001"]
        clock = asyncio.get_running_loop().time() + 100
        for _ in range(3):
            scaler.sample(clock)
            scaler.decide(clock)
            clock += 10
        await world.until(lambda: not pool.members, "it is at zero")
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Active")[1] == "NoTraffic", "it is inactive"
        )
        assert world.condition(REVISION, "hello-00001", "Ready")[0] == "True"
        waiter, began = Waiter(), time.monotonic()
        pool.queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: waiter.backend, "the request has an instance")
        assert world.runner.started[-1][0] - began < 0.05
        await world.until(
            lambda: world.condition(REVISION, "hello-00001", "Active")[0] == "True", "it is active"
        )


@loop
async def test_every_slot_taken_starts_one_more():
    async with World() as world:
        obj = ksvc()
        obj["spec"]["template"]["spec"]["containerConcurrency"] = 1
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        queue = world.pools.pools["default", "hello-00001"].queue
        waiters = [Waiter() for _ in range(3)]
        for waiter in waiters:
            queue.enter(waiter, asyncio.get_running_loop().time())
        await world.until(lambda: all(one.backend for one in waiters), "all have an instance")
        assert len({one.backend.name for one in waiters}) == 3


@loop
async def test_a_pod_that_is_deleted_is_replaced():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        name = meta.name(world.store.list(POD)[0])
        assert (await world.call("DELETE", f"/api/v1/namespaces/default/pods/{name}"))[0] == 200
        await world.until(lambda: [one for one in world.store.list(POD) if meta.name(one) != name], "another")
        _, text = await world.call(
            "GET", f"/api/v1/namespaces/default/pods/{meta.name(world.store.list(POD)[0])}/log"
        )
        assert text.endswith(b"user-container\n")


@loop
async def test_a_domain_mapping_is_claimed_by_the_first():
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        mapping = {
            "apiVersion": "serving.knative.dev/v1beta1", "kind": "DomainMapping", "metadata": {"name": "www.example.org"},
            "spec": {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "hello"}},
        }  # fmt: skip
        path = "/apis/serving.knative.dev/v1beta1/namespaces/{}/domainmappings"
        assert (await world.call("POST", path.format("default"), mapping))[0] == 201
        await world.until(
            lambda: world.targets("www.example.org") == {"hello-00001": 100}, "the host leads there"
        )
        assert world.condition(DOMAIN_MAPPING, "www.example.org", "Ready")[0] == "True"
        other = {**mapping, "metadata": {"name": "www.example.org"}}
        await world.call("POST", path.format("alt"), other)

        def claimed():
            obj = world.store.get(DOMAIN_MAPPING, "alt", "www.example.org")
            found = {one["type"]: one for one in obj.get("status", {}).get("conditions", [])}
            return found.get("DomainClaimed", {}).get("reason")

        await world.until(lambda: claimed() == "DomainAlreadyClaimed", "the second is refused")
        await world.call("DELETE", path.format("default") + "/www.example.org")
        await world.until(lambda: claimed() is None, "the second has it")


@loop
async def test_manual_of_2019_owns_nothing():
    async with World() as world:
        obj = {"kind": "Service", "metadata": {"name": "hello"}, "spec": {"manual": {}}}
        assert (await world.call("POST", f"{ALPHA}/services", obj))[0] == 201
        await world.until(
            lambda: world.condition(SERVICE, "hello", "RoutesReady")[1] == "Manual", "it is told"
        )
        assert not world.store.count(CONFIGURATION) and not world.store.count(ROUTE)


@loop
async def test_status_in_the_words_of_2019():
    async with World() as world:
        config = {"revisionTemplate": {"spec": {"container": {"image": "reg.example/hello"}}}}
        obj = {
            "kind": "Service",
            "metadata": {"name": "hello"},
            "spec": {"runLatest": {"configuration": config}},
        }
        await world.call("POST", f"{ALPHA}/services", obj)
        await world.ready()
        _, found = await world.call("GET", f"{ALPHA}/services/hello")
        assert found["spec"] == obj["spec"] and found["status"]["domain"] == "hello.default.localhost"
        assert found["status"]["address"]["hostname"] == "hello.default.svc.cluster.local"
        _, found = await world.call("GET", f"{ALPHA}/revisions/hello-00001")
        assert found["status"]["imageDigest"] == f"reg.example/hello@{DIGEST}"


@loop
async def test_one_reconciler_that_fails_does_not_stop_the_others(monkeypatch):
    from krun.serve.control import configuration

    real = configuration.reconcile

    def broken(ctx, obj):
        if meta.name(obj) == "bad":
            raise RuntimeError("broken")
        real(ctx, obj)

    monkeypatch.setattr(configuration, "reconcile", broken)
    async with World() as world:
        await world.call("POST", f"{SERVING}/services", ksvc("bad"))
        await world.call("POST", f"{SERVING}/services", ksvc("good"))
        await world.ready("good")
        assert any(
            "reconcile Configuration default/bad: internal error: RuntimeError: broken" in one
            for one in world.lines
        )
        monkeypatch.setattr(configuration, "reconcile", real)
        await world.ready("bad")


@loop
async def test_old_revisions_are_collected():
    config = Config()
    async with World(config=config) as world:
        notes = {"metadata": {"name": "config-gc"}, "data": {"min-non-active-revisions": "1", "max-non-active-revisions": "2",
                 "retain-since-create-time": "disabled", "retain-since-last-active-time": "disabled"}}  # fmt: skip
        assert (await world.call("POST", "/api/v1/namespaces/knative-serving/configmaps", notes))[0] == 201
        await world.call("POST", f"{SERVING}/services", ksvc())
        await world.ready()
        for number in range(5):
            await world.call("PATCH", f"{SERVING}/services/hello", image(f"reg.example/n{number}"), MERGE)
            await world.ready()
        await world.until(lambda: world.store.count(REVISION) == 3, "three are left")
        assert world.store.get(REVISION, "default", "hello-00006")


@loop
async def test_a_wrong_configmap_of_knative_is_refused():
    async with World() as world:
        obj = {"metadata": {"name": "config-autoscaler"}, "data": {"stable-window": "1s"}}
        code, status = await world.call("POST", "/api/v1/namespaces/knative-serving/configmaps", obj)
        assert code == 400 and "stable-window" in status["message"]


@loop
async def test_a_gradual_rollout():
    async with World() as world:
        obj = ksvc()
        obj["metadata"]["annotations"] = {"serving.knative.dev/rollout-duration": "100s"}
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        await world.call("PATCH", f"{SERVING}/services/hello", image("reg.example/two"), MERGE)
        await world.until(
            lambda: world.targets("hello.default.localhost") == {"hello-00001": 99, "hello-00002": 1}, "1 %"
        )
        assert world.condition(ROUTE, "hello", "IngressReady")[:2] == ("Unknown", "RolloutInProgress")


@pytest.mark.parametrize("alive", [True, False])
def test_a_server_that_starts_again_finds_its_instances(tmp_path, alive):
    path = str(tmp_path / "store")

    async def first():
        async with World(path) as world:
            await world.call("POST", f"{SERVING}/services", ksvc())
            await world.ready()
            return next(iter(world.runner.instances))

    async def second(name):
        found = [{"id": name, "containers": {}}, {"id": "stray", "containers": {}}] if alive else []
        async with World(path, found=found) as world:
            await world.until(lambda: world.pools.pools, "the pool is there")
            await world.until(
                lambda: world.targets("hello.default.localhost") == {"hello-00001": 100}, "the host"
            )
            assert [one["id"] for one in world.orphans] == (["stray"] if alive else [])
            pool = world.pools.pools["default", "hello-00001"]
            if alive:
                await world.until(lambda: pool.ready == 1, "the instance is taken over")
                assert list(pool.members) == [name] and not world.runner.started
            else:
                assert not world.store.count(POD)
                waiter = Waiter()
                pool.queue.enter(waiter, asyncio.get_running_loop().time())
                await world.until(lambda: waiter.backend, "a request starts one")
            assert world.condition(SERVICE, "hello", "Ready")[0] == "True"

    second_name = asyncio.run(first())
    asyncio.run(second(second_name))


@loop
async def test_the_status_page_shows_everything_and_escapes_it():
    import time

    from krun.serve.control.page import page

    async with World() as world:
        obj = ksvc(
            container={
                "readinessProbe": {
                    "exec": {"command": ["x"]},
                    "periodSeconds": 1000,
                    "initialDelaySeconds": 1000,
                }
            }
        )
        await world.call("POST", f"{SERVING}/services", obj)
        instance = await world.until(lambda: list(world.runner.instances.values()), "an instance")
        instance[0].crash(1, "<script>alert(1)</script>")
        await world.until(lambda: world.condition(REVISION, "hello-00001", "Ready")[0] == "False", "it fails")
        scaler = world.pools.scalers["default", "hello-00001"]
        for second in range(3):
            scaler.sample(scaler.since + second)
        answer = page(world.store, world.pools, time.monotonic())
        text = answer.body.decode()
        assert "<b>hello-00001</b>" in text and "http://hello.default.localhost" in text and "<svg" in text
        assert "<script" not in text and "&lt;script&gt;alert(1)" in text
        assert dict(answer.headers)[b"content-security-policy"].startswith(b"default-src 'none'")


@loop
async def test_config_domain_chooses_by_labels_and_is_read_live():
    """knative/serving, pkg/reconciler/route/config/domain.go: LookupDomainForLabels; the selector with the most labels wins."""
    async with World() as world:
        obj = ksvc()
        obj["metadata"]["labels"] = {"app": "prod"}
        await world.call("POST", f"{SERVING}/services", obj)
        await world.ready()
        data = {
            "example.org": "",
            "prod.example.org": "selector:\n  app: prod\n",
            "other.example.org": "selector: {app: prod, tier: a}",
        }
        config = {"metadata": {"name": "config-domain"}, "data": data}
        assert (await world.call("POST", "/api/v1/namespaces/knative-serving/configmaps", config))[0] == 201

        async def leads(domain):
            host = f"hello.default.{domain}"
            await world.until(lambda: world.targets(host) == {"hello-00001": 100}, host)
            await world.until(lambda: world.service()["status"]["url"] == f"http://{host}", host)

        await leads("prod.example.org")
        assert world.targets("hello.default.localhost") is None
        for labels, domain in (({"tier": "a"}, "other.example.org"), ({"app": "dev"}, "example.org")):
            change = {"metadata": {"labels": labels}}
            await world.call("PATCH", f"{SERVING}/services/hello", change, MERGE)
            await leads(domain)
        await world.call("DELETE", "/api/v1/namespaces/knative-serving/configmaps/config-domain")
        await leads("localhost")
