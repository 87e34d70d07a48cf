"""metadata.managedFields and the conflicts of server-side apply, over the API and in its parts."""

from __future__ import annotations

import json

import pytest
from helpers.serveapi import SERVING, Client, ksvc

from krun.serve.api.managed import Managers, decode, encode, fields, manager_of, text_of
from krun.serve.model.status import ApiError

APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
MAPS = "/api/v1/namespaces/default/configmaps"
V1 = "serving.knative.dev/v1"


@pytest.fixture
def api():
    return Client()


def config(data, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", **metadata}, "data": data}


def apply(api, manager, obj, force=False, path=f"{MAPS}/m"):
    return api.call("PATCH", f"{path}?fieldManager={manager}{'&force=true' if force else ''}", obj, APPLY)


def managed(obj):
    """Manager, operation, subresource -> FieldsV1."""
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"]
        for one in obj["metadata"].get("managedFields") or []
    }


def test_a_conflict_in_kubectl_s_words(api):
    assert apply(api, "one", config({"a": "1", "b": "1"}))[0] == 201
    code, status = apply(api, "two", config({"a": "2"}))
    assert code == 409 and status["reason"] == "Conflict"
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    assert api.call("GET", f"{MAPS}/m")[1]["data"] == {"a": "1", "b": "1"}


def test_conflicts_with_several_managers(api):
    apply(api, "one", config({"a": "1", "b": "1"}))
    api.call("PATCH", f"{MAPS}/m?fieldManager=kn", {"data": {"c": "1"}}, MERGE)
    code, status = apply(api, "two", config({"a": "2", "b": "2", "c": "2"}))
    assert code == 409 and len(status["details"]["causes"]) == 3
    assert status["message"] == (
        'Apply failed with 3 conflicts: conflicts with "kn" using v1:\n- .data.c\nconflicts with "one":\n- .data.a\n- .data.b'
    )


def test_the_same_value_is_shared_and_a_field_goes_with_its_last_manager(api):
    apply(api, "one", config({"a": "1"}))
    assert apply(api, "two", config({"a": "1"}))[0] == 200
    code, obj = apply(api, "one", config({}))
    assert code == 200 and obj["data"] == {"a": "1"}
    assert managed(obj)["two", "Apply", ""] == {"f:data": {"f:a": {}}}
    # The first one still manages the map itself.
    assert apply(api, "two", config(None))[1]["data"] == {}


def test_force_takes_the_field(api):
    apply(api, "one", config({"a": "1", "b": "1"}))
    code, obj = apply(api, "two", config({"a": "2"}), force=True)
    assert code == 200 and obj["data"] == {"a": "2", "b": "1"}
    assert managed(obj) == {
        ("one", "Apply", ""): {"f:data": {"f:b": {}}},
        ("two", "Apply", ""): {"f:data": {"f:a": {}}},
    }
    # And back: now the first one has the conflict.
    assert apply(api, "one", config({"a": "1", "b": "1"}))[0] == 409


def test_an_update_takes_what_it_changes(api):
    """kubectl apply, kubectl edit, kubectl apply again: the conflict that everybody knows."""
    apply(api, "kubectl", config({"a": "1", "b": "1"}))
    obj = api.call("GET", f"{MAPS}/m")[1]
    obj["data"] = {"a": "3", "c": "1"}
    code, obj = api.call("PUT", f"{MAPS}/m?fieldManager=kubectl-edit", obj)
    assert code == 200
    assert managed(obj) == {("kubectl-edit", "Update", ""): {"f:data": {"f:a": {}, "f:c": {}}}}
    code, status = apply(api, "kubectl", config({"a": "1"}))
    assert code == 409
    assert status["message"].endswith('conflict with "kubectl-edit" using v1: .data.a')
    assert apply(api, "kubectl", config({"a": "3"}))[0] == 200


def test_create_patch_and_the_name_of_who_says_none(api):
    code, obj = api.call("POST", f"{MAPS}?fieldManager=kubectl-create", config({"a": "1"}))
    assert managed(obj) == {("kubectl-create", "Update", ""): {"f:data": {"f:a": {}}}}
    (entry,) = obj["metadata"]["managedFields"]
    assert entry["apiVersion"] == "v1" and entry["fieldsType"] == "FieldsV1" and entry["time"].endswith("Z")
    code, obj = api.call("PATCH", f"{MAPS}/m", [{"op": "add", "path": "/data/b", "value": "2"}],
                         "application/json-patch+json")  # fmt: skip
    assert code == 200 and {one[0] for one in managed(obj)} == {"kubectl-create", "unknown"}
    assert manager_of("", "kubectl/v1.30 (linux)") == "kubectl" and manager_of("x", "kubectl") == "x"
    with pytest.raises(ApiError, match="fieldManager"):
        manager_of("x" * 129, "")


def test_what_changes_nothing_writes_nothing(api):
    apply(api, "one", config({"a": "1"}))
    before = api.call("GET", f"{MAPS}/m")[1]
    assert apply(api, "one", config({"a": "1"}))[1] == before
    assert api.call("PUT", f"{MAPS}/m?fieldManager=other", before)[1] == before


def test_clients_do_not_write_managed_fields(api):
    forged = [
        {"manager": "root", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:a": {}}}}
    ]
    obj = api.call("POST", f"{MAPS}?fieldManager=me", config({"a": "1"}, managedFields=forged))[1]
    assert set(managed(obj)) == {("me", "Update", "")}
    obj["metadata"]["managedFields"] = forged
    assert set(managed(api.call("PUT", f"{MAPS}/m?fieldManager=me", obj)[1])) == {("me", "Update", "")}


def test_dry_run_shows_the_conflict_and_stores_nothing(api):
    apply(api, "one", config({"a": "1"}))
    path = f"{MAPS}/m?dryRun=All&fieldManager=two"
    assert api.call("PATCH", path, config({"a": "2"}), APPLY)[0] == 409
    code, obj = api.call("PATCH", f"{path}&force=true", config({"a": "2"}), APPLY)
    assert code == 200 and obj["data"] == {"a": "2"}
    assert set(managed(api.call("GET", f"{MAPS}/m")[1])) == {("one", "Apply", "")}


def test_a_service_s_lists_are_one_value(api):
    """The containers of Knative's kinds are atomic: who changes an image has the list."""
    path = f"{SERVING}/services/hello"
    code, obj = apply(api, "one", ksvc(image="reg.example/first"), path=path)
    assert code == 201, obj
    obj = api.call("GET", path)[1]
    assert managed(obj)["one", "Apply", ""] == {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "reg.example/second"
    code, obj = api.call("PUT", f"{path}?fieldManager=kn", obj)
    assert code == 200
    code, status = apply(api, "one", ksvc(image="reg.example/first"), path=path)
    assert code == 409
    assert status["message"] == (
        f'Apply failed with 1 conflict: conflict with "kn" using {V1}: .spec.template.spec.containers'
    )


def test_status_is_managed_apart(api):
    path = f"{SERVING}/services/hello"
    api.call("POST", f"{SERVING}/services?fieldManager=kn", ksvc())
    obj = {"apiVersion": V1, "kind": "Service", "metadata": {"name": "hello"}, "status": {"url": "http://a"}}
    code, found = apply(api, "controller", obj, path=f"{path}/status")
    assert code == 200 and found["status"] == {"url": "http://a"}
    assert managed(found)["controller", "Apply", "status"] == {"f:status": {"f:url": {}}}
    obj["status"]["url"] = "http://b"
    code, status = apply(api, "two", obj, path=f"{path}/status")
    assert code == 409
    assert status["message"].endswith('conflict with "controller" with subresource "status": .status.url')
    # A status in an apply of the object itself is nobody's.
    obj["spec"] = {"template": {"metadata": {"labels": {"x": "y"}}}}
    code, found = apply(api, "three", obj, path=path)
    assert code == 200 and found["status"]["url"] == "http://a"
    assert managed(found)["three", "Apply", ""] == {
        "f:spec": {"f:template": {"f:metadata": {"f:labels": {"f:x": {}}}}}
    }


def owner(uid, name="o"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}


def test_lists_that_are_merged(api):
    apply(api, "one", config({}, ownerReferences=[owner("1")], finalizers=["a.example/x"]))
    code, obj = apply(api, "two", config({}, ownerReferences=[owner("2")], finalizers=["b.example/y"]))
    assert code == 200 and [one["uid"] for one in obj["metadata"]["ownerReferences"]] == ["1", "2"]
    assert obj["metadata"]["finalizers"] == ["a.example/x", "b.example/y"]
    own = managed(obj)["two", "Apply", ""]["f:metadata"]
    assert (
        own["f:finalizers"] == {'v:"b.example/y"': {}}
        and own["f:ownerReferences"]['k:{"uid":"2"}']["."] == {}
    )
    code, status = apply(api, "two", config({}, ownerReferences=[owner("1", "p")]))
    assert (
        code == 409 and status["details"]["causes"][0]["field"] == '.metadata.ownerReferences[uid="1"].name'
    )
    obj = apply(api, "two", config({}))[1]
    assert [one["uid"] for one in obj["metadata"]["ownerReferences"]] == ["1"]
    assert obj["metadata"]["finalizers"] == ["a.example/x"]


def test_paths():
    found = fields(config({"a.b/c": "1"}, ownerReferences=[owner("1")], labels={"l": "x"}))
    assert decode(encode(found)) == found
    assert text_of(("f:metadata", "f:finalizers", 'v:"x"')) == '.metadata.finalizers[="x"]'


def test_what_one_object_can_cost():
    """Managers are bounded, long lists are one value, and old updates are one entry."""
    obj = config({"a": "0"})
    for number in range(30):
        fresh = config({**obj["data"], "a": str(number), f"k{number}": ""})
        managers = Managers(obj, f"2026-01-01T00:00:{number:02}Z")
        fresh["metadata"]["managedFields"] = managers.update(f"m{number}", "v1", obj, fresh)
        obj = fresh
    names = [one["manager"] for one in obj["metadata"]["managedFields"]]
    assert len(names) <= 11 and "ancient-changes" in names
    managers = Managers(None, "")
    for number in range(100):
        managers.apply(f"m{number}", "v1", config({}), config({"a": "1"}), True)
    with pytest.raises(ApiError, match="at most 100 managers"):
        managers.apply("more", "v1", config({}), config({"a": "1"}), True)
    many = [f"a.example/{number}" for number in range(300)]
    assert ("f:metadata", "f:finalizers") in fields(config({}, finalizers=many))


def test_reconcilers_keep_the_entries(api):
    """A write of the server's own (annotations, status) leaves managedFields as they are."""
    from krun.serve.model.kinds import CONFIG_MAP

    apply(api, "one", config({"a": "1"}))
    obj = api.store.get(CONFIG_MAP, "default", "m")
    before = json.dumps(obj["metadata"].pop("managedFields"))
    obj["data"]["own"] = "x"
    assert json.dumps(api.store.update(CONFIG_MAP, obj)["metadata"]["managedFields"]) == before
