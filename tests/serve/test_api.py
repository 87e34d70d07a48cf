"""The API without sockets: verbs, errors, patches, tables, watches, discovery, bodies."""

import json

import pytest
from helpers.serveapi import ALPHA, SERVING, Client, ksvc

from krun.serve.api import patch


@pytest.fixture
def api():
    client = Client()
    yield client
    client.store.close()


def test_create_get_list_delete(api):
    code, made = api.call("POST", f"{SERVING}/services", ksvc())
    assert code == 201 and made["metadata"]["generation"] == 1
    notes = made["metadata"]["annotations"]
    assert notes == {"serving.knative.dev/creator": "krun", "serving.knative.dev/lastModifier": "krun"}
    spec = made["spec"]["template"]["spec"]
    assert spec["timeoutSeconds"] == 300 and spec["containerConcurrency"] == 0
    assert spec["containers"][0]["name"] == "user-container"
    assert spec["containers"][0]["readinessProbe"] == {"successThreshold": 1, "tcpSocket": {"port": 0}}
    assert made["spec"]["traffic"] == [{"latestRevision": True, "percent": 100}]
    assert api.call("GET", f"{SERVING}/services/hello") == (200, made)
    code, listed = api.call("GET", "/apis/serving.knative.dev/v1/services")
    assert code == 200 and listed["kind"] == "ServiceList" and listed["items"] == [made]
    code, gone = api.call("DELETE", f"{SERVING}/services/hello", {"propagationPolicy": "Foreground"})
    assert code == 200 and gone["status"] == "Success" and gone["details"]["uid"] == made["metadata"]["uid"]
    code, status = api.call("GET", f"{SERVING}/services/hello")
    assert code == 404 and status["reason"] == "NotFound"
    assert status["message"] == 'services.serving.knative.dev "hello" not found'
    assert status["details"] == {"name": "hello", "kind": "services", "group": "serving.knative.dev"}


def test_a_put_with_an_old_version_is_a_conflict(api):
    made = api.call("POST", f"{SERVING}/services", ksvc())[1]
    fresh = json.loads(json.dumps(made))
    fresh["spec"]["template"]["spec"]["containers"][0]["image"] = "reg.example/two"
    code, stored = api.call("PUT", f"{SERVING}/services/hello", fresh)
    assert code == 200 and stored["metadata"]["generation"] == 2
    code, status = api.call("PUT", f"{SERVING}/services/hello", {**fresh, "metadata": made["metadata"]})
    assert code == 409 and status["reason"] == "Conflict"


def test_generate_name_and_dry_run(api):
    obj = ksvc()
    obj["metadata"] = {"generateName": "gen-"}
    code, made = api.call("POST", f"{SERVING}/services?dryRun=All", obj)
    assert code == 201 and made["metadata"]["name"].startswith("gen-") and not api.store.list(_services())
    names = {api.call("POST", f"{SERVING}/services", obj)[1]["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3


def _services():
    from krun.serve.model.kinds import SERVICE

    return SERVICE


DENIED = 'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: '


@pytest.mark.parametrize(
    "obj, text",
    [
        (ksvc(container={"ports": [{"containerPort": 1}, {"containerPort": 2}]}),
         "more than one container port is set: spec.template.spec.containers[*].ports\nOnly a single port is allowed across all containers"),
        (ksvc(container={"ports": [{"name": "arbitrary", "containerPort": 1}]}),
         "Port name arbitrary is not allowed: spec.template.spec.containers[0].ports\nName must be empty, or one of: 'h2c', 'http1'"),
        (ksvc(container={"env": [{"name": "PORT", "value": "1"}]}),
         '"PORT" is a reserved environment variable: spec.template.spec.containers[0].env[0].name'),
        (ksvc(container={"securityContext": {"runAsUser": -10}}),
         "expected 0 <= -10 <= 2147483647: spec.template.spec.containers[0].securityContext.runAsUser"),
        (ksvc(image=""), "missing field(s): spec.template.spec.containers[0].image"),
        (ksvc(traffic=[{"percent": 90, "latestRevision": True}]), "Traffic targets sum to 90, want 100: spec.traffic"),
        (ksvc(traffic=[{"percent": 50, "latestRevision": True, "tag": "x"}] * 2),
         'Multiple definitions for "x": spec.traffic[0].tag, spec.traffic[1].tag'),
        (ksvc(template={"metadata": {"name": "other-1"}}),
         'invalid value: "other-1" must have prefix "hello-": spec.template.metadata.name'),
        (ksvc(template={"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "3", "autoscaling.knative.dev/max-scale": "2"}}}),
         "max-scale=2 is less than min-scale=3: spec.template.metadata.annotations.autoscaling.knative.dev/max-scale,"
         " spec.template.metadata.annotations.autoscaling.knative.dev/min-scale"),
    ],
)  # fmt: skip
def test_admission_says_what_knative_says(api, obj, text):
    code, status = api.call("POST", f"{SERVING}/services", obj)
    assert (code, status["reason"]) == (400, "BadRequest")
    assert status["message"] == DENIED + text


def test_service_account_names_have_the_words_that_conformance_wants(api):
    obj = ksvc()
    obj["spec"]["template"]["spec"]["serviceAccountName"] = "foo@bar.baz"
    _, status = api.call("POST", f"{SERVING}/services", obj)
    assert (
        "invalid value: foo@bar.baz: spec.template.spec.serviceAccountName\na lowercase RFC 1123 subdomain must consist"
        in status["message"]
    )


def test_unknown_fields(api):
    obj = ksvc(container={"lifecycle": {}, "tty": True}, foo=1)
    code, status = api.call("POST", f"{SERVING}/services?fieldValidation=Strict", obj)
    assert code == 400 and status["message"] == (
        'Service in version "v1" cannot be handled as a Service: strict decoding error: unknown field "spec.foo", unknown'
        ' field "spec.template.spec.containers[0].lifecycle", unknown field "spec.template.spec.containers[0].tty"'
    )
    code, made = api.call("POST", f"{SERVING}/services", obj)
    assert (
        code == 201
        and "foo" not in made["spec"]
        and "tty" not in made["spec"]["template"]["spec"]["containers"][0]
    )
    assert "299 - \"unknown field 'spec.foo'\"" in api.warnings()
    obj["metadata"]["name"] = "two"
    assert api.call("POST", f"{SERVING}/services?fieldValidation=Ignore", obj)[0] == 201
    assert not any("unknown" in line for line in api.warnings())


def test_wrong_types_are_invalid(api):
    obj = ksvc()
    obj["spec"]["template"]["spec"]["containers"] = "x"
    code, status = api.call("POST", f"{SERVING}/services", obj)
    assert (code, status["reason"]) == (422, "Invalid")
    assert status["message"] == (
        'Service.serving.knative.dev "hello" is invalid: spec.template.spec.containers: Invalid value: "string":'
        ' spec.template.spec.containers in body must be of type array: "string"'
    )


def test_a_named_revision_must_change_its_name(api):
    obj = ksvc(template={"metadata": {"name": "hello-one"}})
    assert api.call("POST", f"{SERVING}/services", obj)[0] == 201
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "reg.example/bb"}]}}}}
    code, status = api.call("PATCH", f"{SERVING}/services/hello", patch, "application/merge-patch+json")
    assert code == 400
    assert (
        "Saw the following changes without a name change (-old +new): spec.template.metadata.name"
        in status["message"]
    )


def test_merge_and_json_patch(api):
    api.call("POST", f"{SERVING}/services", ksvc())
    code, obj = api.call(
        "PATCH",
        f"{SERVING}/services/hello",
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        "application/merge-patch+json",
    )
    assert code == 200 and obj["metadata"]["generation"] == 1
    code, obj = api.call(
        "PATCH",
        f"{SERVING}/services/hello",
        [
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "remove", "path": "/metadata/labels/a"},
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "reg.example/zz"},
        ],
        "application/json-patch+json",
    )
    assert code == 200 and obj["metadata"]["labels"] == {"b": "2"} and obj["metadata"]["generation"] == 2
    bad = [{"op": "remove", "path": "/metadata/none"}]
    assert api.call("PATCH", f"{SERVING}/services/hello", bad, "application/json-patch+json")[0] == 422
    strategic = "application/strategic-merge-patch+json"
    assert api.call("PATCH", f"{SERVING}/services/hello", {}, strategic)[0] == 415


def test_an_object_that_patches_make_larger_has_a_bound(api, monkeypatch):
    """Each patch of 100 bytes copied 3 MiB, without an end."""
    monkeypatch.setattr("krun.serve.store.store._LARGEST", 200_000)
    wanted = ksvc(container={"args": ["x" * 50_000]})
    assert api.call("POST", f"{SERVING}/services", wanted)[0] == 201
    args = "/spec/template/spec/containers/0/args"
    change = [{"op": "copy", "from": f"{args}/0", "path": f"{args}/-"}]
    codes = [
        api.call("PATCH", f"{SERVING}/services/hello", change, "application/json-patch+json")[0]
        for _ in range(5)
    ]
    assert codes == [200, 200, 413, 413, 413]
    assert api.call("POST", f"{SERVING}/services", ksvc("big", container={"args": ["x" * 300_000]}))[0] == 413


def test_a_move_copies_nothing(monkeypatch):
    """10000 moves of a large value copied it 10000 times: the bound of copies counted only the operation of this name."""
    copies = []
    deepcopy = patch.copy.deepcopy
    monkeypatch.setattr(
        patch.copy, "deepcopy", lambda value, *memo: (copies.append(1), deepcopy(value, *memo))[1]
    )
    there, back = {"op": "move", "from": "/a", "path": "/b"}, {"op": "move", "from": "/b", "path": "/a"}
    target = {"a": [1, {"c": 2}], "list": [0, {"x": 1}]}
    assert patch.json_patch(target, [there, back] * 50) == target and len(copies) < 20
    moved = [
        {"op": "move", "from": "/list/1", "path": "/list/0"},
        {"op": "add", "path": "/list/0/y", "value": 2},
    ]
    assert patch.json_patch(target, moved)["list"] == [{"x": 1, "y": 2}, 0]
    assert target == {"a": [1, {"c": 2}], "list": [0, {"x": 1}]}


def test_apply_creates_merges_and_removes_what_it_owned(api):
    path = f"{SERVING}/services/hello?fieldManager=me&force=true"
    wanted = ksvc(template={"metadata": {"annotations": {"k": "1", "l": "2"}}})
    assert api.call("PATCH", path, wanted, "application/apply-patch+yaml")[0] == 201
    api.call(
        "PATCH",
        f"{SERVING}/services/hello",
        {"metadata": {"labels": {"other": "x"}}},
        "application/merge-patch+json",
    )
    wanted = ksvc(template={"metadata": {"annotations": {"l": "3"}}})
    code, obj = api.call("PATCH", path, wanted, "application/apply-patch+yaml")
    assert code == 200 and obj["spec"]["template"]["metadata"]["annotations"] == {"l": "3"}
    assert obj["metadata"]["labels"] == {"other": "x"}
    assert not any(key.startswith("internal.") for key in obj["metadata"]["annotations"])
    assert obj["spec"]["template"]["spec"]["timeoutSeconds"] == 300


def test_clients_can_neither_see_nor_set_hidden_annotations(api):
    obj = ksvc()
    obj["metadata"]["annotations"] = {"internal.serve.krun.dev/v1alpha1-spec": "{}"}
    assert "internal" not in json.dumps(api.call("POST", f"{SERVING}/services", obj)[1])
    assert "internal" not in json.dumps(api.store.list(_services()))


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


def test_a_table_for_kubectl(api):
    api.call("POST", f"{SERVING}/services", ksvc())
    code, table = api.call("GET", f"{SERVING}/services?limit=500", accept=TABLE)
    assert code == 200 and table["kind"] == "Table" and table["apiVersion"] == "meta.k8s.io/v1"
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "URL", "LatestCreated", "LatestReady", "Ready", "Reason"]
    assert (
        table["rows"][0]["cells"][0] == "hello"
        and table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    )


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_watch_replays_and_ends(api):
    made = api.call("POST", f"{SERVING}/services", ksvc())[1]
    api.call(
        "PATCH",
        f"{SERVING}/services/hello",
        {"metadata": {"labels": {"a": "b"}}},
        "application/merge-patch+json",
    )
    version = made["metadata"]["resourceVersion"]
    query = f"watch=true&fieldSelector=metadata.name%3Dhello&resourceVersion={version}&timeoutSeconds=1"
    code, text = api.call("GET", f"{SERVING}/services?{query}")
    found = lines(text) if isinstance(text, str) else [text]
    assert code == 200 and [one["type"] for one in found] == ["MODIFIED"]
    assert found[0]["object"]["metadata"]["labels"] == {"a": "b"}


def test_a_streaming_list_ends_with_the_bookmark_that_kubectl_waits_for(api):
    api.call("POST", f"{SERVING}/services", ksvc())
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    found = lines(api.call("GET", f"{SERVING}/services?{query}")[1])
    assert [one["type"] for one in found][:2] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_pages_of_a_list(api):
    for name in ("a", "b", "c"):
        api.call("POST", f"{SERVING}/services", ksvc(name))
    _, page = api.call("GET", f"{SERVING}/services?limit=2")
    assert [one["metadata"]["name"] for one in page["items"]] == ["a", "b"]
    _, rest = api.call("GET", f"{SERVING}/services?limit=2&continue={page['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["c"] and "continue" not in rest["metadata"]
    assert api.call("GET", f"{SERVING}/services?continue=x")[0] == 400


PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number, value):
    data = value if isinstance(value, bytes) else value.encode()
    return bytes([number << 3 | 2, len(data)]) + data


def test_a_secret_in_protobuf(api):
    data = field(1, "k") + field(2, b"v\xff")
    secret = field(1, field(1, "name1") + field(11, field(1, "l") + field(2, "w"))) + field(2, data) + field(4, data[:3] + field(2, "text"))  # fmt: skip
    body = b"k8s\0" + field(1, field(1, "v1") + field(2, "Secret")) + field(2, secret)
    code, made = api.call("POST", "/api/v1/namespaces/default/secrets", body, PROTOBUF)
    assert code == 201 and made["metadata"]["labels"] == {"l": "w"} and made["type"] == "Opaque"
    assert made["data"] == {"k": "dGV4dA=="}
    options = (
        b"k8s\0" + field(1, field(1, "v1") + field(2, "DeleteOptions")) + field(2, field(4, "Background"))
    )
    assert api.call("DELETE", "/api/v1/namespaces/default/secrets/name1", options, PROTOBUF)[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"k8s", b"k8s\0\xff", b"k8s\0" + b"\x80" * 20, b"k8s\0\x0a\x7f", b"k8s\0" + field(1, field(1, "v1") + field(2, "Pod"))],
)  # fmt: skip
def test_broken_protobuf_is_a_bad_request(api, body):
    code, status = api.call("POST", "/api/v1/namespaces/default/secrets", body or b"\0", PROTOBUF)
    assert code == 400 and status["reason"] == "BadRequest"


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"1", b'"x"', b"\xff", b'{"metadata": 1}', b'{"metadata":{"name":"\\ud800"}}', b'{"a":1e999}',
        b'{"a":NaN}', b"[" * 100000, b'{"a":' * 200 + b"1" + b"}" * 200, b"1" * 5000,
    ],
)  # fmt: skip
def test_hostile_bodies_are_bad_requests(api, body):
    code, status = api.call("POST", f"{SERVING}/services", body)
    assert code == 400 and status["kind"] == "Status", status
    assert not api.store.list(_services())


def test_a_large_body_is_refused(api):
    assert api.call("POST", f"{SERVING}/services", b" " * (4 << 20))[0] == 413


def test_a_huge_traffic_list_is_answered(api):
    obj = ksvc(traffic=[{"percent": 1, "latestRevision": True, "tag": f"t{index}"} for index in range(5000)])
    code, status = api.call("POST", f"{SERVING}/services", obj)
    assert code == 400 and "Traffic targets sum to 5000, want 100" in status["message"]


@pytest.mark.parametrize(
    "method, path, code",
    [
        ("GET", "/", 200), ("GET", "/healthz", 200), ("GET", "/version", 200), ("GET", "/api", 200), ("GET", "/apis", 200),
        ("GET", "/apis/serving.knative.dev", 200), ("GET", "/apis/serving.knative.dev/v1", 200), ("GET", "/api/v1", 200),
        ("GET", "/apis/serving.knative.dev/v1alpha1", 200), ("GET", "/apis/serving.knative.dev/v1beta1", 200),
        ("GET", "/openapi/v3", 200), ("GET", "/openapi/v3/apis/serving.knative.dev/v1", 200), ("GET", "/openapi/v2", 404),
        ("GET", "/apis/sources.knative.dev/v1", 404), ("GET", "/nothing", 404), ("GET", "/api/v1/namespaces/x/services/y/z/w", 404),
        ("POST", f"{SERVING}/services/x", 405), ("PUT", f"{SERVING}/services", 405), ("POST", "/api/v1/namespaces/x/pods", 405),
        ("OPTIONS", f"{SERVING}/services", 405), ("GET", f"{SERVING}/services/x/scale", 404), ("DELETE", "/api/v1/namespaces", 405),
    ],
)  # fmt: skip
def test_paths(api, method, path, code):
    assert api.call(method, path)[0] == code


def test_kubectl_finds_what_it_needs_in_openapi(api):
    _, doc = api.call("GET", "/openapi/v3/apis/serving.knative.dev/v1")
    patch = doc["paths"]["/apis/serving.knative.dev/v1/namespaces/{namespace}/services/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "serving.knative.dev",
        "version": "v1",
        "kind": "Service",
    }
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    model = doc["components"]["schemas"]["dev.knative.serving.v1.Service"]
    assert "template" in model["properties"]["spec"]["properties"]


def test_who_may_ask():
    client = Client(token="secret")
    assert client.call("GET", "/version")[0] == 401 and client.call("GET", "/healthz")[0] == 200
    assert client.call("GET", "/version", authorization="Bearer wrong")[0] == 401
    assert client.call("GET", "/version", authorization="bearer secret")[0] == 200
    client = Client()
    assert client.call("GET", "/version", origin="http://evil.example")[0] == 403
    assert client.call("GET", "/version", origin="http://localhost")[0] == 200
    client.api.hosts = ("none",)
    assert client.call("GET", "/version")[0] == 403


def alpha(**spec):
    return {
        "apiVersion": "serving.knative.dev/v1alpha1",
        "kind": "Service",
        "metadata": {"name": "old"},
        "spec": spec,
    }


CONFIG = {"revisionTemplate": {"spec": {"container": {"image": "reg.example/xx"}}}}


@pytest.mark.parametrize(
    "spec, traffic",
    [
        ({"runLatest": {"configuration": CONFIG}}, [{"latestRevision": True, "percent": 100}]),
        ({"pinned": {"revisionName": "old-1", "configuration": CONFIG}},
         [{"percent": 100, "revisionName": "old-1", "latestRevision": False}]),
        ({"release": {"revisions": ["old-1", "@latest"], "rolloutPercent": 20, "configuration": CONFIG}},
         [{"percent": 80, "tag": "current", "revisionName": "old-1", "latestRevision": False},
          {"percent": 20, "tag": "candidate", "latestRevision": True}, {"percent": 0, "tag": "latest", "latestRevision": True}]),
        ({"manual": {}}, None),
    ],
)  # fmt: skip
def test_the_shapes_of_2019_are_answered_as_they_were_posted(api, spec, traffic):
    code, made = api.call("POST", f"{ALPHA}/services", alpha(**spec))
    assert code == 201 and made["spec"] == spec and made["apiVersion"] == "serving.knative.dev/v1alpha1"
    assert api.call("GET", f"{ALPHA}/services/old")[1]["spec"] == spec
    _, now = api.call("GET", f"{SERVING}/services/old")
    if traffic is None:
        assert now["spec"] == {}
        return
    assert now["spec"]["traffic"] == traffic
    container = now["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "reg.example/xx" and container["resources"]["requests"] == {"cpu": "400m"}
    now["spec"]["template"]["spec"]["containers"][0]["image"] = "reg.example/new"
    api.call("PUT", f"{SERVING}/services/old", now)
    assert "template" in api.call("GET", f"{ALPHA}/services/old")[1]["spec"]


@pytest.mark.parametrize(
    "spec, text",
    [
        ({}, "expected exactly one, got neither: spec.manual, spec.pinned, spec.release, spec.runLatest"),
        ({"runLatest": {"configuration": CONFIG}, "manual": {}}, "expected exactly one, got both: spec.manual, spec.runLatest"),
        ({"pinned": {"configuration": CONFIG}}, "missing field(s): spec.pinned.revisionName"),
        ({"release": {"revisions": [], "configuration": CONFIG}}, "missing field(s): spec.release.revisions"),
        ({"release": {"revisions": ["a", "b", "c"], "configuration": CONFIG}}, "expected 1 <= 3 <= 2: spec.release.revisions"),
        ({"release": {"revisions": ["a", "b"], "rolloutPercent": 100, "configuration": CONFIG}},
         "expected 0 <= 100 <= 99: spec.release.rolloutPercent"),
        ({"runLatest": {"configuration": {"build": {"x": 1}, **CONFIG}}}, "must not set the field(s): spec.runLatest.configuration.build"),
        ({"runLatest": {"configuration": {"revisionTemplate": {"spec": {"container": {"name": "n", "image": "i"}}}}}},
         "must not set the field(s): spec.runLatest.configuration.revisionTemplate.spec.container.name"),
        ({"runLatest": {"configuration": {"revisionTemplate": {"spec": {"concurrencyModel": "Single", "containerConcurrency": 5,
          "container": {"image": "ii"}}}}}}, "expected exactly one, got both: spec.runLatest.configuration.revisionTemplate.spec.concurrencyModel"),
    ],
)  # fmt: skip
def test_what_v1alpha1_refuses(api, spec, text):
    code, status = api.call("POST", f"{ALPHA}/services", alpha(**spec))
    assert code == 400 and text in status["message"], status["message"]
