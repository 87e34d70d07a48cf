"""Each field of v1alpha1 is answered as the table says: served, converted, refused with these words, or ignored; and none is missing."""

from __future__ import annotations

import pytest
from helpers.serveapi import ALPHA, SERVING, Client

from krun.serve.model import alphafields, v1alpha1
from krun.serve.model.alphafields import FIELDS, IGNORED, REFUSED
from krun.serve.model.kinds import CONFIGURATION, REVISION, ROUTE, SERVICE


@pytest.fixture
def api():
    client = Client()
    yield client
    client.store.close()


def posted(spec):
    """The kind that takes a row's example."""
    if "revisionTemplate" in spec:
        return CONFIGURATION
    if "traffic" in spec and "template" not in spec:
        return ROUTE
    return SERVICE


def look(value, path):
    for part in path.split(".") if path else []:
        if isinstance(value, list):
            value = value[int(part)]
        else:
            value = value.get(part)
    return value


@pytest.mark.parametrize("row", FIELDS, ids=[f"{row.kind.kind}.{row.path}" for row in FIELDS])
def test_a_field_is_answered_as_the_table_says(api, row):
    kind = CONFIGURATION if row.kind is CONFIGURATION else posted(row.example)
    obj = {
        "apiVersion": "serving.knative.dev/v1alpha1",
        "kind": kind.kind,
        "metadata": {"name": "x"},
        "spec": row.example,
    }
    code, answer = api.call("POST", f"{ALPHA}/{kind.plural}?fieldValidation=Strict", obj)
    if row.how == REFUSED:
        assert code == 400 and row.seen in answer["message"], answer
        assert api.call("GET", f"{SERVING}/{kind.plural}/x")[0] == 404
        return
    assert code == 201, answer
    # It is answered in the shape that was posted, and stored as v1.
    # An inline shape is that of v1, with its defaults.
    assert answer["spec"] == row.example or "template" in row.example
    stored = api.call("GET", f"{SERVING}/{kind.plural}/x")[1]["spec"]
    assert look(stored, row.v1) == row.seen
    if row.how == IGNORED:
        assert row.path.split(".")[-1] not in str(stored)


def test_no_field_of_the_schema_is_missing():
    """A field is in the table, or it is one of v1 with the same name."""
    listed = {
        kind: {row.path.partition("[")[0].split(" ")[0] for row in FIELDS if row.kind is kind}
        for kind in (SERVICE, CONFIGURATION, REVISION, ROUTE)
    }
    service = v1alpha1._spec_schema(SERVICE)["properties"]
    for name, node in service.items():
        below = [f"{name}.{part}" for part in node.get("properties", {}) if name in v1alpha1.MODES]
        assert set(below or [name]) <= listed[SERVICE], name
    assert set(v1alpha1._spec_schema(CONFIGURATION)["properties"]) <= listed[CONFIGURATION]
    own = {"container", "concurrencyModel", "buildName", "buildRef", "servingState", "generation"}
    assert own <= listed[REVISION]
    target = v1alpha1._spec_schema(ROUTE)["properties"]["traffic"]["items"]["properties"]
    assert {f"traffic[].{name}" for name in target} <= {row.path for row in FIELDS if row.kind is ROUTE}


def test_other_fields_of_a_revision_have_the_answers_of_v1(api):
    own = {row.path for row in FIELDS if row.kind is REVISION}
    properties = v1alpha1._revision_schema()["properties"]
    values = {"string": "x", "integer": 1, "boolean": True, "array": [{}], "object": {"x": "y"}}
    asked = 0
    for name, node in properties.items():
        if name in own or name == "volumes":
            continue
        value = values[v1alpha1.schema.resolve(node).get("type", "object")]
        inner = {"template": {"spec": {"containers": [{"image": alphafields.IMAGE}], name: value}}}
        answers = []
        for where, version in ((ALPHA, "v1alpha1"), (SERVING, "v1")):
            obj = {
                "apiVersion": f"serving.knative.dev/{version}",
                "kind": "Service",
                "metadata": {"name": "x"},
                "spec": inner,
            }
            code, answer = api.call("POST", f"{where}/services?dryRun=All", obj)
            answers.append((code, answer.get("message")))
        assert answers[0] == answers[1], name
        asked += 1
    assert asked > 10


STATUS = {
    "url": "http://x.default.example.com",
    "address": {"url": "http://x.default.svc.cluster.local"},
    "traffic": [{"revisionName": "x-1", "tag": "t", "percent": 100}],
    "containerStatuses": [{"name": "c", "imageDigest": "reg/x@sha256:1"}],
}
SEEN = {
    "domain": ("domain", "x.default.example.com"),
    "domainInternal, address.hostname": ("address.hostname", "x.default.svc.cluster.local"),
    "traffic[].name": ("traffic.0.name", "t"),
    "imageDigest": ("imageDigest", "reg/x@sha256:1"),
    "serviceName": ("serviceName", "x"),
}


@pytest.mark.parametrize("kind, name, _", alphafields.STATUS)
def test_the_status_has_the_fields_of_2019(kind, name, _):
    obj = {"metadata": {"name": "x", "annotations": {}}, "spec": {}, "status": STATUS}
    status = v1alpha1.from_v1(kind, obj)["status"]
    path, value = SEEN[name]
    assert look(status, path) == value
    if path == "address.hostname":
        assert status["domainInternal"] == value


@pytest.mark.parametrize("kind", (CONFIGURATION, REVISION))
def test_the_route_is_a_label_as_in_2019(kind):
    """Upstream's suite of v0.15 looks for it (validateLabelsPropagation); a client that writes back what it read stores none."""
    data = {
        "name": "x",
        "labels": {"own": "label"},
        "annotations": {"serving.knative.dev/routes": "second,first"},
    }
    obj = {"metadata": data, "spec": {}}
    seen = v1alpha1.from_v1(kind, obj)
    assert seen["metadata"]["labels"] == {"own": "label", "serving.knative.dev/route": "first"}
    assert "serving.knative.dev/lastPinned" not in seen["metadata"]["annotations"]
    assert data["labels"] == {"own": "label"}  # the stored object is shared by all readers
    assert v1alpha1.to_v1(kind, seen)[0]["metadata"]["labels"] == {"own": "label"}
    assert "labels" not in v1alpha1.from_v1(ROUTE, {"metadata": {"name": "x"}, "spec": {}})["metadata"]


def test_a_revision_with_a_route_is_pinned_as_in_2019():
    """Upstream's suite of v0.15 waits for the annotation (IsRevisionPinned)."""
    notes = {
        "serving.knative.dev/routes": "x",
        "serving.knative.dev/routingStateModified": "2026-01-01T00:00:00Z",
    }
    seen = v1alpha1.from_v1(REVISION, {"metadata": {"name": "x", "annotations": notes}, "spec": {}})
    assert seen["metadata"]["annotations"]["serving.knative.dev/lastPinned"] == "1767225600"
    assert (
        "serving.knative.dev/lastPinned" not in v1alpha1.to_v1(REVISION, seen)[0]["metadata"]["annotations"]
    )


def test_a_target_without_a_share_has_no_percent_as_in_2019():
    """Upstream's suite of v0.15 compares the entry `latest` of a release (validateReleaseServiceShape)."""
    traffic = [
        {"revisionName": "x-1", "percent": 100},
        {"revisionName": "x-2", "tag": "latest", "percent": 0},
    ]
    obj = {"metadata": {"name": "x"}, "spec": {}, "status": {"traffic": traffic}}
    seen = v1alpha1.from_v1(SERVICE, obj)["status"]["traffic"]
    assert seen[0] == traffic[0]
    assert seen[1] == {"revisionName": "x-2", "tag": "latest", "name": "latest"}


@pytest.mark.parametrize(
    "data",
    [
        {"labels": {"a": 5}},
        {"annotations": {"x": {"y": 1}}},
        {"annotations": "abc"},
        {"labels": [["a", "b"]]},
        {"name": 5},
        "x",
    ],
)
def test_the_metadata_of_a_template_has_the_types_of_v1(api, data):
    """They were stored as they came, and no reconciler got past them."""
    revision = {"metadata": data, "spec": {"container": {"image": "reg.example/hello"}}}
    obj = {"kind": "Configuration", "metadata": {"name": "a"}, "spec": {"revisionTemplate": revision}}
    assert api.call("POST", f"{ALPHA}/configurations", obj)[0] == 422


@pytest.mark.parametrize("shape", ["nonsense", '"x"', '{"container":5}'])
def test_a_shape_that_a_template_brought_into_a_revision_is_none(shape):
    """An earlier server stored it; no list of revisions was answered from then on."""
    data = {"name": "a", "namespace": "default", "annotations": {v1alpha1.SHAPE: shape}}
    revision = {"metadata": data, "spec": {"containers": [{"image": "reg.example/hello"}]}}
    shown = v1alpha1.from_v1(REVISION, revision)
    assert shown["spec"] == revision["spec"] and "annotations" not in shown["metadata"]
