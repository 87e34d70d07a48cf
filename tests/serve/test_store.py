"""The embedded store: versions, conflicts, owners, finalizers, watches, what a crash leaves."""

import asyncio
import json

import pytest

from krun.serve.api import watching
from krun.serve.model.kinds import CONFIG_MAP, CONFIGURATION, NAMESPACE, REVISION, SERVICE
from krun.serve.model.meta import owner_reference
from krun.serve.model.status import ApiError
from krun.serve.store.store import Store


@pytest.fixture
def store():
    found = Store(":memory:")
    yield found
    found.close()


def ksvc(name="a", namespace="default", **data):
    return {"metadata": {"name": name, "namespace": namespace, **data}, "spec": {"n": 1}}


def test_create_sets_what_the_server_sets(store):
    made = store.create(SERVICE, ksvc())
    data = made["metadata"]
    assert data["generation"] == 1 and data["uid"] and data["resourceVersion"] == str(store.rv)
    assert made["apiVersion"] == "serving.knative.dev/v1" and made["kind"] == "Service"
    assert store.get(SERVICE, "default", "a") == made
    assert store.get(NAMESPACE, "", "default")["status"] == {"phase": "Active"}
    with pytest.raises(ApiError) as error:
        store.create(SERVICE, ksvc())
    assert (error.value.code, error.value.reason) == (409, "AlreadyExists")
    assert error.value.text == 'services.serving.knative.dev "a" already exists'


def test_generated_names_are_five_characters_longer_and_differ(store):
    names = {store.create(SERVICE, {"metadata": {"generateName": "x-", "namespace": "d"}})["metadata"]["name"] for _ in range(20)}  # fmt: skip
    assert len(names) == 20 and all(len(name) == 7 and name.startswith("x-") for name in names)


def test_generation_counts_changes_of_the_spec_only(store):
    obj = store.create(SERVICE, ksvc())
    obj["metadata"]["labels"] = {"k": "v"}
    obj = store.update(SERVICE, obj)
    assert obj["metadata"]["generation"] == 1
    obj["spec"] = {"n": 2}
    obj["status"] = {"ignored": True}
    obj = store.update(SERVICE, obj)
    assert obj["metadata"]["generation"] == 2 and "status" not in obj
    obj["status"] = {"url": "u"}
    obj["spec"] = {"n": 3}
    obj = store.update_status(SERVICE, obj)
    assert obj["status"] == {"url": "u"} and obj["spec"] == {"n": 2} and obj["metadata"]["generation"] == 2


def test_a_stale_version_is_a_conflict_and_nothing_changes(store):
    first = store.create(SERVICE, ksvc())
    store.update(SERVICE, {**first, "spec": {"n": 2}})
    before = store.rv
    with pytest.raises(ApiError) as error:
        store.update(SERVICE, {**first, "spec": {"n": 3}})
    assert (error.value.code, error.value.reason) == (409, "Conflict") and store.rv == before
    assert store.get(SERVICE, "default", "a")["spec"] == {"n": 2}


def test_an_update_that_changes_nothing_makes_no_event(store):
    obj = store.create(SERVICE, ksvc())
    seen = []
    store.subscribe(seen.append)
    assert store.update(SERVICE, obj)["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    assert seen == []


def family(store):
    service = store.create(SERVICE, ksvc())
    config = ksvc(ownerReferences=[owner_reference(SERVICE, service)])
    config = store.create(CONFIGURATION, config)
    revision = ksvc("a-1", ownerReferences=[owner_reference(CONFIGURATION, config)])
    return service, config, store.create(REVISION, revision)


@pytest.mark.parametrize("how, order", [("Background", "SCR"), ("Foreground", "RCS")])
def test_deleting_an_owner_deletes_what_it_owns(store, how, order):
    family(store)
    seen = []
    store.subscribe(seen.append)
    store.delete(SERVICE, "default", "a", how)
    assert "".join(event.kind.kind[0] for event in seen) == order
    assert {event.type for event in seen} == {"DELETED"}
    assert not store.count(SERVICE) and not store.count(CONFIGURATION) and not store.count(REVISION)


@pytest.mark.parametrize("how, finalizers", [("Background", ["a.b/c"]), ("Foreground", [])])
def test_owners_in_a_circle_and_in_a_long_chain(store, how, finalizers):
    """Clients say who owns what."""
    first = before = store.create(CONFIG_MAP, ksvc("0", finalizers=finalizers))
    for n in range(1, 1050):
        one = ksvc(f"{n}", finalizers=finalizers, ownerReferences=[owner_reference(CONFIG_MAP, before)])
        before = store.create(CONFIG_MAP, one)
    first["metadata"]["ownerReferences"] = [owner_reference(CONFIG_MAP, before)]
    store.update(CONFIG_MAP, first)
    store.delete(CONFIG_MAP, "default", "0", how)
    left = store.list(CONFIG_MAP)
    assert len(left) == (1050 if finalizers else 0) and all(
        one["metadata"]["deletionTimestamp"] for one in left
    )


def test_orphans_stay_and_lose_the_reference(store):
    family(store)
    store.delete(SERVICE, "default", "a", "Orphan")
    assert "ownerReferences" not in store.get(CONFIGURATION, "default", "a")["metadata"]
    assert store.count(REVISION) == 1


def test_an_object_with_finalizers_stays_until_they_are_gone(store):
    obj = store.create(SERVICE, ksvc(finalizers=["a.b/c"]))
    store.delete(SERVICE, "default", "a")
    kept = store.get(SERVICE, "default", "a")
    assert kept["metadata"]["deletionTimestamp"]
    kept["metadata"]["finalizers"] = []
    seen = []
    store.subscribe(seen.append)
    store.update(SERVICE, kept)
    assert store.get(SERVICE, "default", "a") is None and seen[-1].type == "DELETED"
    assert obj["metadata"]["uid"] == seen[-1].obj["metadata"]["uid"]


def test_deleting_a_namespace_empties_it(store):
    family(store)
    store.create(SERVICE, ksvc("b", "other"))
    store.delete(NAMESPACE, "", "default")
    assert [row["metadata"]["namespace"] for row in store.list(SERVICE)] == ["other"]


def test_preconditions(store):
    store.create(SERVICE, ksvc())
    with pytest.raises(ApiError) as error:
        store.delete(SERVICE, "default", "a", preconditions={"uid": "x"})
    assert error.value.code == 409 and store.count(SERVICE) == 1


@pytest.mark.parametrize(
    "selector, wanted",
    [
        ("", "abc"), ("k=1", "a"), ("k==1", "a"), ("k!=1", "bc"), ("k in (1, 2)", "ab"), ("k notin (1)", "bc"),
        ("k", "ab"), ("!k", "c"), ("k,other=x", "b"), ("example.com/deep=1", "c"),
    ],
)  # fmt: skip
def test_label_selectors(store, selector, wanted):
    for name, labels in (
        ("a", {"k": "1"}),
        ("b", {"k": "2", "other": "x"}),
        ("c", {"example.com/deep": "1"}),
    ):
        store.create(SERVICE, ksvc(name, labels=labels))
    assert "".join(obj["metadata"]["name"] for obj in store.list(SERVICE, "default", selector)) == wanted


@pytest.mark.parametrize("selector", ["k in 1", "=x", "a b", "k in (1", "(", "k=ü"])
def test_a_wrong_selector_is_a_bad_request(store, selector):
    with pytest.raises(ApiError) as error:
        store.list(SERVICE, None, selector)
    assert error.value.code == 400


def test_field_selectors(store):
    for name in "ab":
        store.create(SERVICE, ksvc(name))
    assert [obj["metadata"]["name"] for obj in store.list(SERVICE, None, "", "metadata.name=b")] == ["b"]
    assert [
        obj["metadata"]["name"] for obj in store.list(SERVICE, None, "", "metadata.name!=b,spec.n=1")
    ] == ["a"]


def test_a_watch_replays_what_came_after_the_version(store):
    async def main():
        first = store.create(SERVICE, ksvc())
        store.create(CONFIG_MAP, ksvc())
        store.update(SERVICE, {**first, "spec": {"n": 2}})
        watch = store.watch(SERVICE, "default", int(first["metadata"]["resourceVersion"]))
        event = await anext(watch)
        assert (event.type, event.obj["spec"]) == ("MODIFIED", {"n": 2})
        store.delete(SERVICE, "default", "a")
        assert (await anext(watch)).type == "DELETED"
        store.create(SERVICE, ksvc("x", "other"))
        store.create(SERVICE, ksvc("y"))
        assert (await anext(watch)).obj["metadata"]["name"] == "y"
        watch.close()
        with pytest.raises(StopAsyncIteration):
            await anext(watch)

    asyncio.run(main())


def test_a_version_that_is_too_old_has_expired(store, monkeypatch):
    monkeypatch.setattr("krun.serve.store.store._RING", 4)
    store._load()
    for index in range(20):
        store.create(CONFIG_MAP, ksvc(f"m{index}"))
    with pytest.raises(ApiError) as error:
        store.watch(CONFIG_MAP, None, 1)
    assert (error.value.code, error.value.reason) == (410, "Expired")
    store.watch(CONFIG_MAP, None, store.rv)


def test_events_have_a_bound_in_bytes(store, monkeypatch):
    """4096 events of an object of 3 MiB were 12 GB of the file: a patch of 100 bytes makes one."""
    monkeypatch.setattr("krun.serve.store.store._RING_BYTES", 100_000)
    obj = store.create(
        CONFIG_MAP, {"metadata": {"name": "m", "namespace": "default"}, "data": {"x": "x" * 10_000}}
    )
    for index in range(60):
        obj["data"]["n"] = str(index)
        obj = store.update(CONFIG_MAP, obj)
    kept = store._db._db.execute("SELECT sum(length(json)), count(*) FROM events").fetchone()
    assert kept[0] < 250_000 and kept[1] >= 3
    store.watch(CONFIG_MAP, None, store.rv - 1)


def test_a_slow_watcher_is_told_so_and_costs_nothing(store, monkeypatch):
    monkeypatch.setattr("krun.serve.store.watch._BACKLOG", 3)

    async def main():
        watch = store.watch(CONFIG_MAP, None, store.rv)
        for index in range(9):
            store.create(CONFIG_MAP, ksvc(f"m{index}"))
        with pytest.raises(ApiError) as error:
            await anext(watch)
        assert error.value.code == 410 and not store._watches

    asyncio.run(main())


def test_what_a_watcher_has_not_taken_has_a_bound_in_bytes(store, monkeypatch):
    """4096 events of an object of 1 MiB were 8 GB, of a watch that is not read as of one that begins in the past."""
    monkeypatch.setattr("krun.serve.store.watch._BACKLOG_BYTES", 100_000)

    async def main():
        first = store.rv
        watch = store.watch(CONFIG_MAP, None, first)
        obj = {"metadata": {"name": "m", "namespace": "default"}, "data": {"x": "x" * 10_000}}
        obj = store.create(CONFIG_MAP, obj)
        for index in range(5):
            obj = store.update(CONFIG_MAP, {**obj, "data": {"x": "x" * 10_000, "n": str(index)}})
        assert [(await anext(watch)).rv for _ in range(6)] == list(range(store.rv - 5, store.rv + 1))
        for index in range(12):
            obj = store.update(CONFIG_MAP, {**obj, "data": {"x": "x" * 10_000, "m": str(index)}})
        for one in (watch, store.watch(CONFIG_MAP, None, first)):
            with pytest.raises(ApiError) as error:
                await anext(one)
            assert error.value.code == 410 and one not in store._watches

    asyncio.run(main())


def test_a_watch_does_not_keep_its_first_list(store):
    """The watch of a thousand services kept 50 MB for half an hour."""
    for index in range(20):
        store.create(SERVICE, ksvc(f"s{index}"))

    async def main():
        query = watching.WatchQuery(lambda name: "")
        lines = watching.stream(store, SERVICE, None, query, lambda obj: obj)
        names = [json.loads(await anext(lines))["object"]["metadata"]["name"] for _ in range(20)]
        assert names == sorted(names)
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        assert not lines.ag_frame.f_locals["current"]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(main())


def test_everything_is_there_after_a_restart(tmp_path):
    path = str(tmp_path / "s")
    store = Store(path)
    family(store)
    objects, version = store.list(REVISION), store.rv
    store.delete(SERVICE, "default", "a", "Orphan")
    after = store.rv
    store.close()
    again = Store(path)
    assert again.rv == after > version and len(again.list(REVISION)) == len(objects)
    assert again.owned(again.get(CONFIGURATION, "default", "a")["metadata"]["uid"])
    again.watch(SERVICE, None, version)
    assert again.create(CONFIG_MAP, ksvc())["metadata"]["resourceVersion"] == str(after + 1)
    again.close()


def test_a_failed_batch_leaves_nothing(store):
    store.create(SERVICE, ksvc())
    before, seen = store.rv, []
    store.subscribe(seen.append)
    with pytest.raises(RuntimeError), store.batch():
        store.create(SERVICE, ksvc("b"))
        raise RuntimeError
    assert store.rv == before and store.get(SERVICE, "default", "b") is None and not seen
    assert store.create(SERVICE, ksvc("b"))["metadata"]["resourceVersion"] == str(before + 1)


def test_two_servers_do_not_share_a_store(tmp_path):
    from krun.errors import KrunError

    path = str(tmp_path / "s")
    store = Store(path)
    with pytest.raises(KrunError, match="another krun serve"):
        Store(path)
    store.close()


def test_objects_one_at_a_time():
    """`each` gives the objects of its first step, whatever is changed meanwhile; `keys` parses nothing."""
    store = Store(":memory:")
    for name in ("b", "a", "c"):
        store.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}})
    assert store.keys(CONFIG_MAP) == [("default", "a"), ("default", "b"), ("default", "c")]
    seen = []
    for obj in store.each(CONFIG_MAP):
        seen.append(obj["metadata"]["name"])
        for name in ("a", "b", "c"):
            if store.get(CONFIG_MAP, "default", name):
                store.delete(CONFIG_MAP, "default", name)
    assert seen == ["a", "b", "c"] and store.list(CONFIG_MAP) == []
