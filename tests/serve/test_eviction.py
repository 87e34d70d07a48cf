"""Eviction by local storage: the kubelet's rules and words, and a real instance that writes too much."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest
from helpers.runtime import find
from helpers.serveapi import SERVING, ksvc
from helpers.servefakes import World

from krun.errors import KrunError
from krun.serve.control.eviction import Evictions, reason
from krun.serve.model.kinds import EVENT, POD
from krun.serve.run import usage

from .test_control import loop
from .test_serve import Server, images, workers  # noqa: F401  (images is a fixture)


def container(name="user-container", limit=None):
    return {"name": name, "resources": {"limits": {"ephemeral-storage": limit}} if limit else {}}


def empty(name, size=None, medium=None):
    return {"name": name, "emptyDir": {"sizeLimit": size, "medium": medium}}


def used(containers, **volumes):
    return {"containers": containers, "volumes": volumes}


MI = 1 << 20


@pytest.mark.parametrize(
    ("containers", "volumes", "usage", "words"),
    [
        ([container()], [empty("x", "1Mi")], used({}, x=MI), ""),
        ([container()], [empty("x", "1Mi")], used({}, x=MI + 1),
         'Usage of EmptyDir volume "x" exceeds the limit "1Mi". '),
        ([container()], [empty("x", "1Mi", "Memory")], used({}, x=2 * MI), ""),
        ([container()], [empty("x", "0")], used({}, x=2 * MI), ""),
        ([container()], [empty("x")], used({"user-container": 1 << 40}, x=1 << 40), ""),
        ([container(limit="1Mi")], [], used({"user-container": MI}), ""),
        ([container(limit="1Mi")], [], used({"user-container": MI + 1}),
         "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        # The volumes count for the sum.
        ([container(limit="1Mi")], [empty("x")], used({"user-container": 1}, x=MI),
         "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        ([container(limit="1Mi")], [], used({"user-container": 1}) | {"files": MI},
         "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        ([container("a", "1Mi"), container("b", "2Mi")], [], used({"a": MI + 1, "b": 0}),
         'Container a exceeded its local ephemeral storage limit "1Mi". '),
        ([container("a", "1Mi"), container("b", "2Mi")], [], used({"a": 0, "b": 3 * MI + 1}),
         "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "),
        # The volume's limit is the first that is looked at.
        ([container(limit="1Mi")], [empty("x", "1Mi")], used({"user-container": 2 * MI}, x=2 * MI),
         'Usage of EmptyDir volume "x" exceeds the limit "1Mi". '),
    ],
)  # fmt: skip
def test_the_kubelet_s_rules_and_words(containers, volumes, usage, words):
    assert reason(containers, volumes, usage) == words


@loop
async def test_an_evicted_instance_is_replaced():
    async with World() as world:
        obj = ksvc()
        obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {
            "limits": {"ephemeral-storage": "1Mi"}
        }
        assert (await world.call("POST", f"{SERVING}/services", obj))[0] == 201
        await world.ready()
        (pod,) = world.store.list(POD)
        name = pod["metadata"]["name"]
        answers = [
            used({"user-container": 1}),
            KrunError("measure it: not done"),
            used({"user-container": 2 * MI}),
        ]
        statuses = []
        world.store.subscribe(
            lambda event: statuses.append(event.obj.get("status")) if event.kind is POD else None
        )

        class Runner:
            async def usage(self, id):
                answer = answers.pop(0) if id == name else used({})
                if isinstance(answer, Exception):
                    raise answer
                return answer

        found = Evictions(
            lambda: world.pools.pools.values(), Runner(), world.engine.context, world.lines.append
        )
        await found.once()
        await found.once()
        assert world.lines == [f"measure local storage of instance {name}: measure it: not done"]
        assert [one["metadata"]["name"] for one in world.store.list(POD)] == [name]
        instance = world.runner.instances[name]
        await found.once()
        await world.until(lambda: name not in world.runner.instances, "the instance ends")
        assert instance.stopped <= 1.0
        await world.until(
            lambda: [one["metadata"]["name"] for one in world.store.list(POD)] not in ([], [name]),
            "another one",
        )
        text = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
        (event,) = [one for one in world.store.list(EVENT) if one["reason"] == "Evicted"]
        assert event["message"] == text and event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "Pod" and event["involvedObject"]["name"] == name
        assert ("Failed", "Evicted", text) in [
            (one.get("phase"), one.get("reason"), one.get("message")) for one in statuses
        ]


@loop
async def test_an_instance_that_takes_long_does_not_hold_up_its_neighbour():
    asked = asyncio.Event()

    class Runner:
        async def usage(self, id):
            if id == "slow":
                await asyncio.wait_for(asked.wait(), 10)
            asked.set()
            return used({})

    spec = SimpleNamespace(containers=[container(limit="1Mi")], volumes=[])
    members = {
        name: SimpleNamespace(name=name, spec=spec, leaving=False, instance=name)
        for name in ("slow", "other")
    }
    lines = []
    await Evictions(lambda: [SimpleNamespace(members=members)], Runner(), None, lines.append).once()
    assert asked.is_set() and lines == []


def test_usage_follows_no_symlink_and_is_bounded(tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * (4 * MI))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "file").write_bytes(b"x" * MI)
    assert MI <= usage.of_directory(str(inside)) < 2 * MI
    assert usage.of_directory(str(tmp_path / "gone")) == 0
    (tmp_path / "du").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "du").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KrunError, match="it has too many files"):
        usage.of_directory(str(inside), 0.2)


def test_what_du_says_of_hostile_names_is_not_kept_and_all_directories_have_one_bound(tmp_path, monkeypatch):
    script = tmp_path / "du"
    script.write_text(
        '#!/bin/sh\nsleep 0.2\n[ "$(readlink /proc/$$/fd/2)" = /dev/null ] && printf "7\\tx\\n"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert usage.of_instance({"a": "/"}, {"b": ["/"]}) == {"volumes": {"a": 7}, "containers": {"b": 7}}
    with pytest.raises(KrunError, match="it has too many files"):
        usage.of_instance(dict.fromkeys("abcd", "/"), {}, 0.7)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("runtime", os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(","))
@pytest.mark.parametrize("where", ["volume", "layer"])
def test_a_program_that_writes_too_much(runtime, where, tmp_path, images):  # noqa: F811
    server = Server(tmp_path / "data", str(find(runtime)), images)
    server.start()
    try:
        obj = ksvc(image="reg.example/payload", template={"metadata": {"annotations": {
            "autoscaling.knative.dev/min-scale": "1"}}})  # fmt: skip
        spec = obj["spec"]["template"]["spec"]
        own = spec["containers"][0]
        if where == "volume":
            spec["volumes"] = [empty("x", "64Ki") | {"emptyDir": {"sizeLimit": "64Ki"}}]
            own["volumeMounts"] = [{"name": "x", "mountPath": "/scratch"}]
            patch = {"data": {"kubernetes.podspec-volumes-emptydir": "enabled"}}
            namespace = "/api/v1/namespaces/knative-serving/configmaps/config-features"
            stored = server.ask("GET", namespace)[1]
            assert server.ask("PUT", namespace, stored | patch)[0] == 200
            path, text = "/scratch", 'Usage of EmptyDir volume "x" exceeds the limit "64Ki". '
        else:
            own["resources"] = {"limits": {"ephemeral-storage": "64Ki"}}
            path, text = (
                "/tmp",
                "Pod ephemeral local storage usage exceeds the total limit of containers 64Ki. ",
            )
        code, answer = server.ask("POST", f"{SERVING}/services", obj)
        assert code == 201, answer
        server.ready()
        before = [one["metadata"]["name"] for one in server.pods()]
        for number in range(40):
            # A byte takes a block of the file system.
            assert server.request(f"/write{path}/file{number}")[1] == "ok"
        server.until(
            lambda: [one["metadata"]["name"] for one in server.pods()] not in ([], before),
            "another instance",
            60,
        )
        events = server.ask("GET", "/api/v1/namespaces/default/events")[1]["items"]
        (found,) = [one for one in events if one["reason"] == "Evicted"]
        assert found["message"] == text and found["involvedObject"]["name"] == before[0]
        server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")
    finally:
        server.end()
    server.until(lambda: not workers(tmp_path), "the worker has ended")
