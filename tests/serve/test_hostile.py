"""Hostile and wrong requests to the API: each is answered as Kubernetes answers it, a wrong one changes nothing, and the object of another
tenant is served all the while. The cases are generated: every field of the schema with a value of another type, and lists of what
clients of a public API send.
"""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from helpers.serveapi import ALPHA, SERVING, Client, ksvc

from krun.serve.model import schema
from krun.serve.model.kinds import CONFIGURATION, ROUTE, SERVICE

OTHER = "/apis/serving.knative.dev/v1/namespaces/other"
MERGE, JSON_PATCH, APPLY = (
    "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml",
)  # fmt: skip
REASONS = {400: {"BadRequest", "Expired"}, 404: {"NotFound"}, 405: {"MethodNotAllowed"}, 409: {"AlreadyExists", "Conflict"}, 410: {"Expired", "Gone"},
           413: {"BadRequest", "RequestEntityTooLarge"}, 415: {"UnsupportedMediaType"}, 422: {"Invalid"}}  # fmt: skip


class Tenants(Client):
    """Two tenants; what the other one has must stay as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.call("POST", f"{OTHER}/services", ksvc("neighbour"))
        self.call("POST", f"{SERVING}/services", ksvc("mine"))
        self.neighbour = self.call("GET", f"{OTHER}/services/neighbour")
        self.mine = self.call("GET", f"{SERVING}/services/mine")

    def wrong(
        self, method: str, path: str, *rest: Any, codes: tuple[int, ...] = (400, 422), **fields: Any
    ) -> dict[str, Any]:
        """Send a request that must be refused with one of `codes`; returns the Status. Nothing has changed."""
        code, status = self.call(method, path, *rest, **fields)
        assert code in codes, (code, status)
        assert isinstance(status, dict) and status["kind"] == "Status" and status["status"] == "Failure"
        assert status["code"] == code and status["reason"] in REASONS[code] and status["message"], status
        if code == 422 and "details" in status:
            causes = status["details"].get("causes")
            assert (
                causes is None
                or causes
                and all(one["field"] and one["message"] and one["reason"] for one in causes)
            )
        self.check()
        return status

    def check(self) -> None:
        """Nothing has changed, and both forms of a list are there."""
        assert self.call("GET", f"{OTHER}/services/neighbour") == self.neighbour
        assert self.call("GET", f"{SERVING}/services/mine") == self.mine
        code, listed = self.call("GET", "/apis/serving.knative.dev/v1/services")
        assert code == 200 and [one["metadata"]["name"] for one in listed["items"]] == ["mine", "neighbour"]


@pytest.fixture
def api():
    client = Tenants()
    yield client
    client.store.close()


# ---------------------------------------------------------------------------------------- types x fields


def leaves(node: dict[str, Any], path: tuple[Any, ...], depth: int = 0):
    """Every field below a node of the schema: (path, type)."""
    node = schema.resolve(node)
    kind = "int-or-string" if node.get("x-kubernetes-int-or-string") else node.get("type")
    if path and kind:
        yield path, kind
    if depth > 14:
        return
    for name, child in node.get("properties", {}).items():
        yield from leaves(child, (*path, name), depth + 1)
    if "items" in node:
        yield from leaves(node["items"], (*path, 0), depth + 1)
    if isinstance(node.get("additionalProperties"), dict):
        yield from leaves(node["additionalProperties"], (*path, "key"), depth + 1)


WRONG: dict[str, list[Any]] = {
    "string": [5, True, [], {}],
    "integer": ["x", 1.5, True, 2**64, []],
    "number": ["x", []],
    "boolean": ["true", 1, {}],
    "array": [{}, "x", 1],
    "object": [[], "x", 1],
    "int-or-string": [True, [], {}],
}


def at(path: tuple[Any, ...], value: Any) -> Any:
    """An object that has `value` at a path."""
    for key in reversed(path):
        value = [value] if key == 0 else {key: value}
    return value


def shown(path: tuple[Any, ...]) -> str:
    """A path as Kubernetes writes it."""
    text = ""
    for key in path:
        text += "[0]" if key == 0 else f".{key}" if text else str(key)
    return text


@pytest.mark.parametrize("kind", [SERVICE, CONFIGURATION, ROUTE], ids=lambda kind: kind.kind)
def test_every_field_with_every_other_type(api, kind):
    asked = 0
    top = {
        "metadata": schema.of(kind)["properties"]["metadata"],
        "spec": schema.of(kind)["properties"]["spec"],
    }
    for path, type in [leaf for name, node in top.items() for leaf in leaves(node, (name,))]:
        if path in (("metadata",), ("metadata", "namespace")):
            continue  # the body's own shape, test_bodies; the path's namespace holds
        for value in WRONG[type]:
            obj = {"apiVersion": "serving.knative.dev/v1", "kind": kind.kind, **at(path, value)}
            if path[0] != "metadata":
                obj["metadata"] = {"name": "x"}
            code, status = api.call("POST", f"{SERVING}/{kind.plural}", obj)
            assert code in (400, 422) and status["reason"] in REASONS[code], (path, value, code, status)
            if code == 422:
                assert shown(path) in [cause["field"] for cause in status["details"]["causes"]], (
                    path,
                    value,
                    status,
                )
            asked += 1
    assert asked > 100
    api.check()


def test_every_field_as_null_is_absent(api):
    """A null is the same as no field (typed clients send them): never a failure of the server."""
    for path, _ in leaves(schema.of(SERVICE)["properties"]["spec"], ("spec",)):
        obj = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Service",
            "metadata": {"name": "x"},
            **at(path, None),
        }
        assert api.call("POST", f"{SERVING}/services?dryRun=All", obj)[0] in (201, 400, 422), path
    api.check()


@pytest.mark.parametrize("method, path", [("PUT", "/services/mine"), ("PATCH", "/services/mine"), ("PUT", "/services/mine/status"), ("PATCH", "/services/mine/status")])  # fmt: skip
@pytest.mark.parametrize("status", [5, "x", [], {"conditions": 5}, {"conditions": [5]}, {"traffic": "x"}, {"url": {}}, {"observedGeneration": "x"}, {"address": []}, {"conditions": [{"type": 5}]}], ids=repr)  # fmt: skip
def test_a_status_of_another_shape_breaks_no_reader(api, method, path, status):
    """A status that is stored as it comes would break each list and table for everybody."""
    body = {**api.mine[1], "status": status} if method == "PUT" else {"status": status}
    code, found = api.call(
        method, f"{SERVING}{path}", body, MERGE if method == "PATCH" else "application/json"
    )
    assert code == 422 if path.endswith("status") and status != [] else code in (200, 422), found
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for where in (f"{SERVING}/services", f"{ALPHA}/services", f"{ALPHA}/services/mine"):
        assert api.call("GET", where, accept=table)[0] == 200
        assert api.call("GET", where)[0] == 200
    assert api.call("GET", f"{OTHER}/services/neighbour") == api.neighbour


# ---------------------------------------------------------------------------------------- bodies


DEEP = 100_000
BODIES = {
    "empty": b" ", "half": b'{"metadata":', "list": b"[]", "number": b"1", "text": b'"x"', "null": b"null", "two": b"{}{}", "comment": b"{}//",
    "trailing comma": b'{"a":1,}', "single quotes": b"{'a':1}", "BOM": b"\xef\xbb\xbf{}", "UTF-16": '{"a":1}'.encode("utf-16"), "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}', "1e999": b'{"a":1e999}', "long number": b'{"a":' + b"9" * 10000 + b"}", "deep lists": b"[" * DEEP,
    "deep lists that end": b"[" * DEEP + b"]" * DEEP, "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP, "65 levels": b'{"a":' * 65 + b"1" + b"}" * 65,
    "metadata list": b'{"metadata":[]}', "metadata text": b'{"metadata":"x"}', "other kind": b'{"kind":"Route","metadata":{"name":"x"}}',
    "kind list": b'{"kind":["Service"]}', "other version": b'{"apiVersion":"v2"}', "version number": b'{"apiVersion":5}', "NUL": b'{"metadata":{"name":"a\\u0000b"}}',
    "raw NUL": b'{"metadata":{"name":"a\0b"}}', "half pair": b'{"metadata":{"name":"\\udfff"}}', "raw surrogate": b'{"a":"\xed\xa0\x80"}',
    "overlong": b'{"a":"\xc0\xaf"}', "beyond Unicode": b'{"a":"\xf4\x90\x80\x80"}', "cut UTF-8": b'{"a":"\xe2\x82"}', "latin-1": b'{"metadata":{"name":"caf\xe9"}}',
    "other namespace": b'{"metadata":{"name":"x","namespace":"other"}}', "no name": b'{"metadata":{}}',
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("media", ["application/json", "application/yaml", MERGE, JSON_PATCH, APPLY])
def test_bodies(api, name, media):
    body = BODIES[name]
    if media in (MERGE, JSON_PATCH, APPLY):
        code, status = api.call("PATCH", f"{SERVING}/services/none?fieldManager=m", body, media)
        # An apply creates; the other two need the object.
        assert code in (400, 404, 422), (code, status)
        assert status["kind"] == "Status" and status["reason"] in REASONS[code]
        api.check()
    else:
        api.wrong("POST", f"{SERVING}/services", body, media)


NAMES = ["", "UPPER", "a b", "-a", "a-", "a.b", "a/b", "..", "a" * 64, "a" * 300, "9a", "\u00e4", "a\n", "a\0", "\u202e", "${x}", "<script>", "a;b", "%00"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize(
    "plural, kind", [("services", "Service"), ("configurations", "Configuration"), ("routes", "Route")]
)
def test_names(api, name, plural, kind):
    obj = {**ksvc(name), "kind": kind}
    if kind == "Route":
        obj["spec"] = {"traffic": [{"configurationName": "c", "percent": 100}]}
    api.wrong("POST", f"{SERVING}/{plural}", obj)
    if name:
        api.wrong("GET", f"{SERVING}/{plural}/{quote(name, safe='')}", codes=(400, 404))


METADATA = {
    "label value": {"labels": {"a": "b" * 64}}, "label value's form": {"labels": {"a": "-"}}, "label key": {"labels": {"a/b/c": "d"}},
    "empty label key": {"labels": {"": "d"}}, "long label key": {"labels": {"a" * 64: "d"}}, "annotation key": {"annotations": {"a b": "c"}},
    "large annotations": {"annotations": {"a": "x" * (257 << 10)}}, "half annotations": {"annotations": {f"k{n}": "x" * 2000 for n in range(200)}},
    "autoscaling above": {"annotations": {"autoscaling.knative.dev/min-scale": "1"}}, "generateName": {"name": "", "generateName": "UPPER-"},
    "finalizer's form": {"finalizers": ["a b"]}, "owner without uid": {"ownerReferences": [{"apiVersion": "v1", "kind": "x", "name": "y"}]},
    "version": {"resourceVersion": "5"},
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA)
def test_metadata(api, name):
    obj = ksvc("x")
    obj["metadata"].update(METADATA[name])
    api.wrong("POST", f"{SERVING}/services", obj)


def container(**fields: Any) -> dict[str, Any]:
    return ksvc("x", container=fields)


MANIFESTS = {
    "no image": ksvc("x", image=""), "image": ksvc("x", image="UPPER/x:y:z"), "image with blanks": ksvc("x", image="a b"), "image of 5000": ksvc("x", image="a" * 5000),
    "no template": {"kind": "Service", "metadata": {"name": "x"}, "spec": {}}, "no containers": ksvc("x", template={"spec": {"containers": []}}),
    "two containers": ksvc("x", template={"spec": {"containers": [{"image": "a"}, {"image": "b"}]}}),
    "same names": ksvc("x", template={"spec": {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 1}]}, {"name": "a", "image": "b"}]}}),
    "300 containers": ksvc("x", template={"spec": {"containers": [{"name": f"c{n}", "image": "a"} for n in range(300)]}}),
    "port 70000": container(ports=[{"containerPort": 70000}]), "port -1": container(ports=[{"containerPort": -1}]), "reserved port": container(ports=[{"containerPort": 8012}]),
    "UDP": container(ports=[{"containerPort": 80, "protocol": "UDP"}]), "10000 ports": container(ports=[{"containerPort": n % 60000 + 1} for n in range(10000)]),
    "reserved variable": container(env=[{"name": "K_SERVICE", "value": "x"}]), "variable's name": container(env=[{"name": "a=b", "value": "x"}]),
    "no variable's name": container(env=[{"name": "", "value": "x"}]),
    "fieldRef": container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]), "cpu": container(resources={"limits": {"cpu": "much"}}),
    "negative memory": container(resources={"limits": {"memory": "-1"}}),
    "mount of no volume": container(volumeMounts=[{"name": "v", "mountPath": "/x"}]), "relative mount": container(volumeMounts=[{"name": "v", "mountPath": "x"}]),
    "probe with a wrong port": container(readinessProbe={"httpGet": {"port": "x"}}),
    "uid": container(securityContext={"runAsUser": 2**31}),
    "privileged": container(securityContext={"privileged": True}), "capability": container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
    "timeout 601": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "timeoutSeconds": 601}}), "timeout -1": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "timeoutSeconds": -1}}),
    "concurrency 1001": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "containerConcurrency": 1001}}),
    "hostPath": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
    "volume twice": ksvc("x", template={"spec": {"containers": [{"image": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "secret": {"secretName": "s"}}] * 2}}),
    "host's network": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "hostNetwork": True}}), "scheduler": ksvc("x", template={"spec": {"containers": [{"image": "a"}], "schedulerName": "s"}}),
    "traffic 90": ksvc("x", traffic=[{"latestRevision": True, "percent": 90}]), "traffic -1": ksvc("x", traffic=[{"latestRevision": True, "percent": -1}, {"latestRevision": True, "percent": 101}]),
    "traffic 2**62": ksvc("x", traffic=[{"latestRevision": True, "percent": 2**62}]), "both targets": ksvc("x", traffic=[{"revisionName": "x-1", "latestRevision": True, "percent": 100}]),
    "20000 targets": ksvc("x", traffic=[{"latestRevision": True, "percent": 1}] * 20000), "tag's form": ksvc("x", traffic=[{"latestRevision": True, "percent": 100, "tag": "A_b"}]),
    "long tag": ksvc("x", traffic=[{"latestRevision": True, "percent": 100, "tag": "a" * 64}]), "configurationName": ksvc("x", traffic=[{"configurationName": "x", "percent": 100}]),
    "url": ksvc("x", traffic=[{"latestRevision": True, "percent": 100, "url": "http://evil"}]), "revision's name": ksvc("x", template={"metadata": {"name": "other-1"}, "spec": {"containers": [{"image": "a"}]}}),
    **{f"annotation {key}={value[:8]}": ksvc("x", template={"metadata": {"annotations": {f"autoscaling.knative.dev/{key}": value}}, "spec": {"containers": [{"image": "a"}]}})
       for key, value in (("min-scale", "-1"), ("min-scale", "x"), ("max-scale", "9" * 30), ("target", "0"), ("target", "NaN"), ("target", "1e400"), ("window", "5s"), ("window", "2h"), ("window", "6"),
                          ("class", "x.knative.dev"), ("metric", "moons"), ("initial-scale", "0"), ("scale-down-delay", "-1s"), ("panic-threshold-percentage", "1"), ("target-burst-capacity", "-2"))},
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests(api, name):
    status = api.wrong("POST", f"{SERVING}/services", MANIFESTS[name])
    assert len(status["message"]) < 3 << 20


# ---------------------------------------------------------------------------------------- patches

ANNOTATIONS = "/metadata/annotations"
PATCHES: dict[str, Any] = {
    "no list": {"op": "add"}, "list of numbers": [1], "no op": [{"path": "/spec"}], "unknown op": [{"op": "eat", "path": "/spec"}], "op list": [{"op": [], "path": "/spec"}],
    "no path": [{"op": "remove"}], "path number": [{"op": "remove", "path": 5}], "no pointer": [{"op": "remove", "path": "spec"}], "no value": [{"op": "add", "path": "/spec/x"}],
    "no from": [{"op": "copy", "path": "/spec/x"}], "whole": [{"op": "remove", "path": ""}], "root as number": [{"op": "replace", "path": "", "value": 5}],
    "root as list": [{"op": "add", "path": "", "value": []}], "nowhere": [{"op": "remove", "path": "/spec/none"}], "index -1": [{"op": "remove", "path": "/spec/traffic/-1"}],
    "index 01": [{"op": "remove", "path": "/spec/traffic/01"}], "index huge": [{"op": "add", "path": "/spec/traffic/99999999999999999999", "value": 1}],
    "index \u0665": [{"op": "remove", "path": "/spec/traffic/\u0665"}], "into itself": [{"op": "move", "from": "/spec", "path": "/spec/x"}], "into text": [{"op": "add", "path": "/kind/x", "value": 1}],
    "failed test": [{"op": "test", "path": "/kind", "value": "Route"}], "true is not 1": [{"op": "test", "path": "/metadata/generation", "value": True}],
    "other name": [{"op": "replace", "path": "/metadata/name", "value": "x"}], "other kind": [{"op": "replace", "path": "/kind", "value": "Route"}],
    "metadata as text": [{"op": "replace", "path": "/metadata", "value": "x"}], "spec as text": [{"op": "replace", "path": "/spec", "value": "x"}],
    "10001 operations": [{"op": "test", "path": "/kind", "value": "Service"}] * 10001,
    "copies that double": [{"op": "copy", "from": ANNOTATIONS, "path": f"{ANNOTATIONS}/x{n}"} for n in range(60)],
    "copies into lists": [{"op": "copy", "from": "/spec/traffic", "path": "/spec/traffic/-"} for _ in range(60)],
    "a tower": [{"op": "add", "path": "/spec" + "/a" * n, "value": {}} for n in range(1, 900)],
    "a tower by copies": [{"op": "copy", "from": "/spec/template", "path": "/spec/template" + "/spec" * 1}, *[{"op": "copy", "from": "/spec", "path": "/spec/z"}] * 12],
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
def test_json_patches(api, name):
    begin = time.process_time()
    api.wrong("PATCH", f"{SERVING}/services/mine", PATCHES[name], JSON_PATCH, codes=(400, 413, 422))
    # Not a time of this machine: what doubles sixty times would never end.
    assert time.process_time() - begin < 60


MERGES: dict[str, Any] = {
    "list": [], "text": "x", "other name": {"metadata": {"name": "x"}}, "other namespace": {"metadata": {"namespace": "other"}}, "no metadata": {"metadata": 5},
    "spec as list": {"spec": []}, "other kind": {"kind": "Route"}, "no containers": {"spec": {"template": {"spec": {"containers": None}}}},
    "creator": {"metadata": {"annotations": {"serving.knative.dev/creator": "root"}}},
}  # fmt: skip


@pytest.mark.parametrize("name", MERGES)
@pytest.mark.parametrize("media", [MERGE, APPLY])
def test_merge_patches_and_applies(api, name, media):
    body = MERGES[name]
    if media == APPLY and isinstance(body, dict):
        body = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", **body}
    if media == APPLY and name == "no containers":
        body["spec"]["template"]["spec"]["containers"] = []
    api.wrong(
        "PATCH",
        f"{SERVING}/services/mine?fieldManager=m{'&force=true' if media == APPLY else ''}",
        body,
        media,
    )


def test_apply_needs_a_manager_and_an_object(api):
    api.wrong("PATCH", f"{SERVING}/services/mine", ksvc("mine"), APPLY)
    api.wrong("PATCH", f"{SERVING}/services/mine?fieldManager={'m' * 129}", ksvc("mine"), APPLY)
    for text in (b"a: &x [1]\nb: *x", b"? [a]\n: b", b"2026-01-01: x", b"a: !!python/object:os.system x", b"{" * DEEP, b"- " * DEEP, b"a:\n" + b" " * 5000 + b"b: c: d", b"\t", b"%YAML 9.9\n--- a"):  # fmt: skip
        api.wrong("PATCH", f"{SERVING}/services/mine?fieldManager=m", text, APPLY)


# ---------------------------------------------------------------------------------------- queries, deletes, watches

TOKEN = base64.urlsafe_b64encode
QUERIES = [
    "limit=-1", "limit=x", "limit=1e3", "limit=99999999999", "continue=x", "continue=%00", f"continue={TOKEN(b'{}').decode()}", f"continue={TOKEN(b'[' * 5000).decode()}",
    f"continue={TOKEN(json.dumps({'start': -1}).encode()).decode()}", f"continue={TOKEN(json.dumps({'start': 1e300}).encode()).decode()}", "labelSelector=%3D", "labelSelector=a%20b",
    "labelSelector=a%20in%20(", "labelSelector=a%20in%20x", "labelSelector=!", "labelSelector=" + "a" * 5000, "labelSelector=a%3Db%3Dc", "labelSelector=%F0%9F%98%80", "fieldSelector=x",
    "fieldSelector=%3D", "fieldSelector=" + "a" * 5000, "watch=true&resourceVersion=x", "watch=true&resourceVersion=-1", "watch=true&resourceVersion=" + "9" * 30, "watch=true&timeoutSeconds=-1",
    "watch=true&timeoutSeconds=x", "watch=true&timeoutSeconds=1e9", "watch=true&sendInitialEvents=true", "watch=true&labelSelector=(", "watch=true&fieldSelector=x",
    "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_queries(api, query):
    api.wrong("GET", f"{SERVING}/services?{query}", codes=(400, 410))


@pytest.mark.parametrize("query", ["dryRun=x", "dryRun=all", "fieldValidation=strict", "fieldValidation=x"])
def test_queries_of_writes(api, query):
    api.wrong("POST", f"{SERVING}/services?{query}", ksvc("x"))


OPTIONS: list[Any] = [5, [], "x", {"propagationPolicy": "x"}, {"propagationPolicy": []}, {"propagationPolicy": 5}, {"preconditions": 5}, {"preconditions": {"uid": 5}}, {"preconditions": {"uid": "x"}},
                      {"preconditions": {"resourceVersion": "0"}}, {"preconditions": []}, {"dryRun": 5}, {"dryRun": "All"}, {"dryRun": ["x"]}, {"dryRun": {}}, {"orphanDependents": "x"}, {"gracePeriodSeconds": "x"}]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("path", ["/services/mine", "/services?labelSelector=none"])
def test_delete_options(api, options, path):
    codes = (400, 409, 422) if path.endswith("mine") else (200, 400, 409, 422)
    code, status = api.call("DELETE", f"{SERVING}{path}", options)
    assert code in codes, (code, status)
    api.check()


PATHS = ["/apis/serving.knative.dev/v1/namespaces/%2e%2e/services/mine", "/apis//v1/services", "/apis/serving.knative.dev/v1/namespaces//services/mine/x/y", "/api/v1/namespaces/default/services/x/proxy",
         "/apis/serving.knative.dev/v1/services/mine", "/apis/serving.knative.dev/v9/services", "/api/v1/nodes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces/default/pods/x/exec",
         "/apis/serving.knative.dev/v1/namespaces/default/services/mine/scale", "/" + "a/" * 2000, "/apis/%00/v1", "/openapi/v3/../../etc/passwd", "/logs/../etc/passwd", "/debug/pprof"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_paths(api, path):
    api.wrong("GET", path, codes=(400, 404, 405))


@pytest.mark.parametrize("namespace", ["UPPER", "a b", "a" * 64, "..", "\u00e4"])
def test_namespaces_that_cannot_be(api, namespace):
    api.wrong(
        "POST",
        f"/apis/serving.knative.dev/v1/namespaces/{quote(namespace, safe='')}/services",
        ksvc("x"),
        codes=(400, 404, 422),
    )


@pytest.mark.parametrize("media", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/cbor", "application/json-patch+json; x", "x" * 5000])  # fmt: skip
def test_media_types(api, media):
    api.wrong("PATCH", f"{SERVING}/services/mine", {"a": 1}, media, codes=(400, 415, 422))


def test_duplicate_and_unknown_fields(api):
    twice = b'{"metadata":{"name":"x","name":"y"},"spec":{},"spec":{"unknown":1,"unknown":2}}'
    status = api.wrong("POST", f"{SERVING}/services?fieldValidation=Strict", twice)
    for text in ('unknown field "spec.unknown"', 'duplicate field "name"', 'duplicate field "spec"'):
        assert text in status["message"]
    many = ksvc("x", **{f"unknown{n}": n for n in range(5000)})
    status = api.wrong("POST", f"{SERVING}/services?fieldValidation=Strict", many)
    assert status["message"].startswith(
        'Service in version "v1" cannot be handled as a Service: strict decoding error'
    )
    code, _ = api.call("POST", f"{SERVING}/services?dryRun=All", many)
    assert code == 201
    # A field of an answer's head has a bound: Kubernetes cuts its warnings, too.
    assert sum(map(len, api.warnings())) < 16384
