"""What a manifest of 3 MiB can stand for: values that name values, objects that are named often."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from helpers.serveapi import SERVING, Client, ksvc

from krun.serve import yamltext
from krun.serve.api import managed
from krun.serve.model import fielderror
from krun.serve.run import bundle, volumes, wire
from krun.serve.run.environment import environment
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Config
from krun.serve.run.probe import Prober
from krun.serve.settings import Configs


def test_values_that_name_values_have_a_bound(tmp_path: Path) -> None:
    """A manifest of 2 kB was 80 MiB with 24 variables and 80 GiB with 34, in the worker, which holds all instances."""
    image = Config([], [], [], "", "", [], {}, "")
    place = bundle.Place("host", {}, str(tmp_path), "/netns", "/group", {}, [], 100)
    doubled = [
        {"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})" if n else "0123456789"} for n in range(24)
    ]
    # One of 128 KiB can be given, 75000 of them cannot; nor can as many arguments.
    large = {"name": "L", "value": "x" * (128 << 10)}
    copies = [{"name": f"E{n}", "value": "$(L)"} for n in range(60)]
    for container in ({"env": doubled}, {"env": [large, *copies]}, {"env": [large], "args": ["$(L)"] * 60}):
        with pytest.raises(StartError, match="argument list too long"):
            bundle.make({"command": ["/x"], **container}, image, place)
    made = bundle.make({"command": ["/x", "$(L)"], "env": [large]}, image, place)
    assert len(made["process"]["args"][1]) == 128 << 10
    # Each "$(" looked for its end in all of the text.
    assert bundle.expand("$(" * 300_000, {}) == "$(" * 300_000


def test_objects_that_are_named_often_have_a_bound() -> None:
    """A manifest of 3 MiB can name a ConfigMap of 1 MiB 50000 times: the server made as many copies of it."""
    asked: list[str] = []

    def lookup(kind: str, name: str) -> dict[str, Any]:
        asked.append(name)
        return {"data": {"k": "x" * (1 << 20)}}

    reference = {"configMapKeyRef": {"name": "c", "key": "k"}}
    for container in (
        {"env": [{"name": f"E{n}", "valueFrom": reference} for n in range(10)]},
        {"envFrom": [{"prefix": f"P{n}", "configMapRef": {"name": "c"}} for n in range(10)]},
    ):
        with pytest.raises(StartError, match="environment of a container: more than 6291456 bytes"):
            environment(container, lookup, {})
    volume = {"configMap": {"name": "c"}}
    items = [{"configMap": {"name": "c", "items": [{"key": "k", "path": f"p{n}"}]}} for n in range(40)]
    for listed in (
        [volume | {"name": f"v{n}"} for n in range(40)],
        [{"name": "v", "projected": {"sources": items}}],
    ):
        with pytest.raises(StartError, match="files of all volumes: more than 33554432 bytes"):
            volumes.plan(listed, lookup, {})
    assert asked == ["c"] * 4 and len(volumes.plan([volume | {"name": "v"}] * 30, lookup, {})) == 30


def test_mounts_have_a_bound(tmp_path: Path) -> None:
    """Those of all instances are in one namespace: a few manifests with thousands took its 100000, and nothing started any more."""
    many = [{"name": f"v{n}", "emptyDir": {"medium": "Memory"}} for n in range(201)]
    with pytest.raises(StartError, match="volumes: more than 200"):
        volumes.plan(many, lambda kind, name: None, {})
    assert len(volumes.plan(many[1:], lambda kind, name: None, {})) == 200
    mounts = [{"name": "v", "mountPath": f"/{n}", "subPath": "a"} for n in range(201)]
    bound: list[str] = []
    with pytest.raises(StartError, match="volumeMounts: more than 200"):
        volumes.mounts({"volumeMounts": mounts}, {"v": str(tmp_path)}, {"v"}, str(tmp_path), bound)
    assert bound == []


def test_a_message_that_is_too_large_is_not_sent() -> None:
    """Its reader took a part of it, and read nothing more of its peer."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other, pytest.raises(OSError, match="too long"):
        wire.send(one, {"text": "x" * (64 << 20)})


@pytest.mark.parametrize(
    "text, words",
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
        ("selector:\n" + "".join(f"  k{n}: v\n" for n in range(6000)), "more than 10000 values"),
        ("a: " + "1:" * 100 + "1", "base 60"),
        ("a: !!float '" + "1:" * 100 + "1.5'", "base 60"),
        ("".join(f"%TAG !a{n}! tag:b\n" for n in range(9)) + "--- 1", "directives"),
        ("[" * 65 + "]" * 65, "nested deeper"),
    ],
)
def test_what_yaml_can_stand_for_has_a_bound(text: str, words: str) -> None:
    """300 bytes in config-domain, whose YAML was read by another reader, were 5 GB; a body of 3 MiB took half a minute of the loop."""
    for read in (
        yamltext.load,
        lambda data: Configs().check("config-domain", {"example.org": data.decode()}),
    ):
        with pytest.raises(ValueError, match=words):
            read(text.encode())


def test_yaml_of_a_manifest_is_read() -> None:
    text = (
        "%YAML 1.1\n---\nat: '10:20:30'\nip: fe80::1\nlist: [1, 2.5, true, null]\ntext: |\n  100 %\n  a: b\n"
    )
    wanted = {"at": "10:20:30", "ip": "fe80::1", "list": [1, 2.5, True, None], "text": "100 %\na: b\n"}
    assert yamltext.load(text.encode()) == wanted


NUMBERS = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")


@pytest.mark.parametrize("key", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_numbers_of_probes_are_not_negative(key: str) -> None:
    """Kubernetes refuses the Pod (validateProbe)."""
    api = Client()
    for name in NUMBERS:
        probe = {
            "tcpSocket": {"port": 0},
            "periodSeconds": 1,
            "timeoutSeconds": 1,
            "failureThreshold": 1,
            name: -1,
        }
        code, told = api.call("POST", f"{SERVING}/services", ksvc(container={key: probe}))
        assert code == 400 and f"{key}.{name}" in told["message"], told


@pytest.mark.parametrize("kind", ["liveness", "startup", "readiness"])
def test_a_probe_pauses_between_its_tries(kind: str) -> None:
    """With a period of -1 a program was tried, and ordered to be killed, 49000 times a second."""

    class Instance:
        tries = 0

        def connect(self, port: int) -> socket.socket:
            raise AssertionError

        async def exec(self, container: str, argv: list[str], timeout: float) -> int:
            self.tries += 1
            return 1

    async def test() -> tuple[int, int]:
        instance, changes = Instance(), []
        probe = {
            "exec": {"command": ["x"]},
            "periodSeconds": -1,
            "timeoutSeconds": -1,
            "failureThreshold": -1,
        }
        prober = Prober(instance, probe, kind, lambda good, message: changes.append(good))
        prober.start()
        for _ in range(1000):
            await asyncio.sleep(0)
        prober.stop()
        return instance.tries, len(changes)

    assert asyncio.run(test()) == (1, 0)


def test_targets_of_a_route_have_a_bound() -> None:
    """With 4000 tags each look at the route took 4 s of the loop, and a body has room for 60000."""
    api = Client()
    for count, wanted in ((500, 201), (501, 400)):
        tags = [{"percent": 0, "latestRevision": True, "tag": f"t{n}"} for n in range(count - 1)]
        obj = ksvc(f"of-{count}", traffic=[*tags, {"percent": 100, "latestRevision": True}])
        assert api.call("POST", f"{SERVING}/services", obj)[0] == wanted


def test_values_of_a_body_have_a_bound() -> None:
    """200000 keys of a ConfigMap took 10 s of the loop; 60000 containers, whose errors were compared with each other, minutes."""
    api = Client()
    path = "/api/v1/namespaces/default/configmaps"
    for count, wanted in ((49_000, 201), (50_001, 400)):
        data = {f"k{n}": "" for n in range(count)}
        code, told = api.call("POST", path, {"metadata": {"name": f"of-{count}"}, "data": data})
        assert code == wanted and (code == 201 or "more than 50000 values" in told["message"])
    change = {"data": {"another": "x"}}
    assert api.call("PATCH", f"{path}/of-49000", change, "application/merge-patch+json")[0] == 200


def test_equal_errors_are_joined_in_one_pass() -> None:
    errors = fielderror.Errors(fielderror.missing(f"x[{n % 30_000}]") for n in range(60_000))
    (one,) = errors.merged()
    assert len(one.paths) == 30_000 and one.paths == sorted(one.paths)


def test_an_apply_that_drops_as_many_fields_as_it_brings_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each field that went all others were joined anew: 49000 keys took three minutes, 256 owners 6 s."""
    looks = 0
    real = managed._word

    def word(item: Any, keys: tuple[str, ...]) -> str:
        nonlocal looks
        looks += 1
        return real(item, keys)

    def unions(self: set[Any], other: set[Any]) -> set[Any]:
        nonlocal looks
        looks += len(self) + len(other)
        return set(self).union(other)

    monkeypatch.setattr(managed, "_word", word)
    monkeypatch.setattr(
        managed, "fields", lambda obj, status=False, real=managed.fields: Counted(real(obj, status))
    )
    monkeypatch.setattr(Counted, "__or__", unions)
    for name, fields in (
        ("keys", lambda way: {"data": {f"{way}{n}": "" for n in range(3000)}}),
        ("owners", lambda way: {"metadata": {"ownerReferences": [{"uid": f"{way}{n}"} for n in range(256)]}}),
    ):
        _, entries = managed.Managers(None, "now").apply("m", "v1", {}, fields("a"), False)
        live = {**fields("a"), "metadata": {**fields("a").get("metadata", {}), "managedFields": entries}}
        looks = 0
        merged, _ = managed.Managers(live, "now").apply("m", "v1", live, fields("b"), False)
        assert looks < 50_000, name
        assert merged.get("data") == fields("b").get("data")


class Counted(set):  # type: ignore[type-arg]
    """A set whose unions are counted."""
