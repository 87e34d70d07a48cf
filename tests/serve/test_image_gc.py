"""The collection of unused images: its rules, what is in use, crashes, and what is told of it."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.images import make_layout
from helpers.serveapi import ksvc

from krun.errors import KrunError
from krun.serve.control.config import Config
from krun.serve.control.context import Context
from krun.serve.control.imagegc import ImageGc
from krun.serve.model.kinds import EVENT, REVISION
from krun.serve.run import commands
from krun.serve.run.image.collector import Rules, collect
from krun.serve.run.image.store import Store
from krun.serve.settings import Images
from krun.serve.store.store import Store as Objects

NOW = 1_000_000.0


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "images"), [str(tmp_path / "local")], podman=["false"])


def entry(store, name, age, size=1 << 20):
    """An unpacked layer that was used `age` seconds before NOW."""
    path = os.path.join(store.directory, "layers", name)
    os.makedirs(path)
    Path(path, "file").write_bytes(b"x" * size)
    store.touch(path)
    os.utime(store._stamp(path), (NOW - age, NOW - age))
    return path


def names(told):
    return [(os.path.basename(name), reason) for name, _, reason in told["removed"]]


def run(store, rules, used=(), available=50):
    """Collects on a file system of 100 MiB with `available` MiB before the collection."""
    paths = {os.path.join(store.directory, "layers", name) for name in used}
    return collect(store, rules, paths.__contains__, lambda path: (100 << 20, available << 20), lambda: NOW)


def test_age(store):
    for name, age in (("old", 901), ("used", 2000), ("young", 899)):
        entry(store, name, age)
    told = run(store, Rules(most_age=900), used=["used"])
    assert names(told) == [("old", "age")]
    assert sorted(os.listdir(os.path.join(store.directory, "layers"))) == ["used", "young"]
    assert not os.listdir(os.path.join(store.directory, "trash"))
    # What was in use is used now.
    assert store.last_used(os.path.join(store.directory, "layers", "used")) > NOW


#: A podman whose storage is a directory: a file for each name, with the image's id. A registry has every name; an image in use by a
#: container is one whose id is in `busy`.
PODMAN = """#!/bin/sh
cd {storage}
last() {{ for word; do :; done; printf %s "$word" | tr / _; }}
name=$(last "$@")
case "$*" in
"image inspect --format json"*) [ -e "$name" ] && printf '[{{"Digest":"d","Config":{{}},"Id":"%s","Size":7}}]' "$(cat "$name")" ;;
"image inspect"*) [ -e "$name" ] && cat "$name" ;;
"images "*) [ -z "$(ls)" ] || cat * | sed s/^/sha256:/ ;;
"pull "*) printf '%s\\n' "${{PULLS:-new}}" >"$name" ;;
"image mount --format json") [ ! -e ../mounts ] || echo '[{{"id":"new"}}]' ;;
"image mount "*) echo x >>../mounts; echo {storage} ;;
"image unmount "*) sed -i 1d ../mounts; [ -s ../mounts ] || rm ../mounts ;;
"rmi "*) ! grep -qx "$(cat "$name")" ../busy && rm "$name" ;;
*) exit 9 ;;
esac
"""


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """A store with a podman, and podman's storage: the image `had` is podman's own."""
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "reg_had:1").write_text("mine\n")
    (tmp_path / "busy").write_text("")
    command = tmp_path / "podman"
    command.write_text(PODMAN.format(storage=storage))
    command.chmod(0o755)
    return Store(str(tmp_path / "images"), [], podman=[str(command)]), storage


def collected(store, used=(), **rules):
    told = collect(
        store,
        Rules(**{"most_age": 1, **rules}),
        lambda path: path in used,
        lambda path: (100 << 20, 1 << 20),
        lambda: 2e9,
    )
    return sorted(name for name, _, _ in told["removed"])


def test_only_what_was_pulled_is_removed_from_podman(podman, monkeypatch):
    store, storage = podman
    store.resolve("reg/had:1")
    for _ in range(3):
        store.resolve("reg/new:1")
    monkeypatch.setenv("PULLS", "mine")
    store.resolve("reg/alias:1")  # another name of an image that podman had
    (note,) = store.entries()
    assert (
        store.parts("reg/new:1") == {note}
        and store.layer_of(note) == str(storage)
        and store.size(note, 1) == 7
    )
    with store.using("reg/new:1"):
        assert collected(store) == []
    assert collected(store, used={note}) == []
    (storage.parent / "busy").write_text("new\n")  # podman has a container of it
    assert collected(store) == []
    (storage.parent / "busy").write_text("")
    again = Store(store.directory, [], podman=store.podman.command)
    assert collected(again) == []  # mounted by `store`
    store.close()
    assert not (storage.parent / "mounts").exists()
    # Another server on the directory knows what this one has pulled.
    assert collected(again) == ["reg/new:1"]
    assert sorted(os.listdir(storage)) == ["reg_alias:1", "reg_had:1"] and again.entries() == []
    assert not os.listdir(os.path.join(store.directory, "used"))


def test_a_name_that_podman_gave_to_another_image(podman):
    store, storage = podman
    store.resolve("reg/new:1")
    (storage / "reg_new:1").write_text("other\n")
    assert collected(store) == [] and store.entries() == [] and (storage / "reg_new:1").exists()


def test_images_of_another_file_system_make_no_room(podman, monkeypatch):
    store, storage = podman
    store.resolve("reg/new:1")
    (note,) = store.entries()
    space = {"most_age": 0, "least_age": 0, "high": 80, "low": 1}
    monkeypatch.setattr(Store, "is_here", lambda self, path: False)
    assert collected(store, **space) == []
    monkeypatch.undo()
    assert store.is_here(note) and collected(store, **space) == ["reg/new:1"]


def test_a_pull_does_not_hold_up_the_collection(podman):
    store, storage = podman
    store.resolve("reg/new:1")
    with store._lock("reg/new:1"):
        assert collected(store) == []


def test_no_age_by_default_and_nothing_below_the_threshold(store):
    entry(store, "old", 1e6)
    assert names(run(store, Rules(), available=16)) == []


def test_space_takes_the_least_recently_used_until_the_low_threshold(store):
    for number in range(8):
        entry(store, f"layer{number}", 1000 - number)
    # 15 % are available, 20 % shall be: 5 MiB.
    told = run(store, Rules(), used=["layer1"], available=15)
    assert names(told) == [(f"layer{number}", "space") for number in (0, 2, 3, 4, 5)]
    assert told["percent"] == 85 and told["freed"] >= told["wanted"] == 5 << 20


def test_space_spares_what_is_younger_than_the_minimum(store):
    entry(store, "young", 119)
    entry(store, "old", 121)
    told = run(store, Rules(), available=1)
    assert names(told) == [("old", "space")] and told["freed"] < told["wanted"]


def test_an_entry_of_which_nothing_is_known_is_used_now(store):
    path = entry(store, "unknown", 1e6)
    os.unlink(store._stamp(path))
    assert names(run(store, Rules(most_age=10), available=50)) == []
    assert os.path.exists(store._stamp(path))


def test_what_comes_into_use_at_the_last_moment_stays(store):
    path = entry(store, "layer", 1000)
    asked = []

    def used(path):
        asked.append(path)
        return len(asked) > 1

    told = collect(store, Rules(most_age=1), used, lambda path: (100, 50), lambda: NOW)
    assert told["removed"] == [] and os.path.isdir(path)


def test_a_crash_leaves_whole_entries(store, monkeypatch, tmp_path):
    """The process dies while it removes; the next worker finds no half of an entry, and empties the trash."""
    path = entry(store, "layer", 1000)
    half = os.path.join(store.directory, "layers", "sha256-ab.77.c0ffee")
    os.makedirs(half)

    def die(path):
        raise OSError(5, "the process dies here")

    monkeypatch.setattr("krun.serve.run.trash.remove_tree", die)
    run(store, Rules(most_age=1))
    assert not os.path.exists(path) and os.listdir(os.path.join(store.directory, "trash"))
    monkeypatch.undo()
    again = Store(store.directory, [], podman=["false"])
    again.trash.wait(60)
    assert again.entries() == [] and not os.listdir(os.path.join(store.directory, "trash"))
    assert not os.path.exists(half)


def tar(name):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 4
        archive.addfile(member, io.BytesIO(b"data"))
    return buffer.getvalue()


def image(tmp_path, name="dev.local/hello"):
    make_layout(tmp_path / "local" / name, [tar("one"), tar("two")], {"Cmd": ["/a"]})
    return name


def deep(path, levels=1200):
    """A directory deeper than Python recurses."""
    fd = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        child = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = child
    os.close(fd)


def test_a_hostile_layer_is_removed(store):
    """Depth, and a symlink that leads out."""
    path = entry(store, "deep", 1000)
    outside = Path(store.directory, "outside")
    outside.mkdir()
    (outside / "file").write_text("stays")
    os.symlink(outside, os.path.join(path, "link"))
    deep(path)
    assert names(run(store, Rules(most_age=1))) == [("deep", "age")]
    assert not os.listdir(os.path.join(store.directory, "trash")) and (outside / "file").exists()


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
class TestInUse:
    """Unpacking needs chroot(2)."""

    def worker(self, store, **sandboxes):
        return SimpleNamespace(store=store, sandboxes=sandboxes)

    def ask(self, worker, references):
        rules = {"least_age": 0.0, "most_age": 1e-9, "high": 85, "low": 80}
        return commands.collect(worker, {"references": references, "rules": rules})[0]["removed"]

    def test_a_revision_s_image_stays(self, store, tmp_path):
        name = image(tmp_path)
        store.resolve(name)
        assert len(store.entries()) == 2
        assert self.ask(self.worker(store), [name]) == []
        assert len(self.ask(self.worker(store), ["dev.local/other"])) == 2
        # It is unpacked anew.
        assert all(os.path.isdir(path) for path in store.resolve(name).layers)

    def test_an_instance_s_layers_stay_also_when_the_image_is_gone(self, store, tmp_path):
        layers = store.resolve(image(tmp_path)).layers
        (tmp_path / "local").rename(tmp_path / "gone")
        own = SimpleNamespace(layers={"user-container": layers})
        assert self.ask(self.worker(store, a=own), []) == []
        assert len(self.ask(self.worker(store), [])) == 2

    def test_what_a_start_has_in_hand_stays(self, store, tmp_path):
        """From before the look for its directory to the mount; another thread collects all the time."""
        name = image(tmp_path)
        ended = threading.Event()

        def always():
            while not ended.is_set():
                self.ask(self.worker(store), [])

        thread = threading.Thread(target=always)
        thread.start()
        try:
            for _ in range(40):
                with store.using(name) as found:
                    assert all(os.path.exists(os.path.join(path, "")) for path in found.layers)
                    assert [os.listdir(path) for path in found.layers] == [["two"], ["one"]]
        finally:
            ended.set()
            thread.join()
        assert not +store._pins

    def test_an_image_that_cannot_be_read_holds_nothing(self, store, tmp_path):
        name = image(tmp_path)
        store.resolve(name)
        (tmp_path / "local" / name / "index.json").write_text("{")
        assert store.parts(name) == set() and store.parts("Bad Name") == set()
        assert len(self.ask(self.worker(store), [name])) == 2


def test_log_event_and_metric():
    objects, lines, asked = Objects(":memory:"), [], []
    answers = [
        {
            "percent": 90,
            "wanted": 100,
            "freed": 30,
            "removed": [["layers/a", 10, "age"], ["layers/b", 20, "space"]],
        },
        KrunError("no worker"),
    ]

    class Runner:
        async def collect_images(self, references, rules):
            asked.append((references, rules))
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    spec = ksvc(image="reg.example/payload")["spec"]["template"]["spec"]
    objects.create(REVISION, {"metadata": {"name": "r", "namespace": "default"}, "spec": spec})
    context = Context(objects, Config, None, None, lambda key: None, lambda s, key: None)
    gc = ImageGc(objects, Runner(), Images, context, lines.append)

    async def twice():
        await gc.once()
        await gc.once()

    asyncio.run(twice())
    assert asked[0] == (["reg.example/payload"], {"least_age": 120.0, "most_age": 0.0, "high": 85, "low": 80})
    assert (
        "collect images: removed layers/a (10 bytes, age)" in lines and "collect images: no worker" in lines
    )
    events = {one["reason"]: one for one in objects.list(EVENT, "default")}
    assert set(events) == {"ImagesCollected", "FreeDiskSpaceFailed", "ImageGCFailed"}
    assert events["FreeDiskSpaceFailed"]["message"] == (
        "Failed to garbage collect required amount of images. Attempted to free 100 bytes, but only found 30 bytes"
        " eligible to free."
    )
    assert events["ImagesCollected"]["involvedObject"]["kind"] == "Node"
    found = {}
    gc.metrics(lambda name, kind: found.setdefault(name, []))
    assert 'kubelet_image_garbage_collected_total{reason="space"} 1' in sum(found.values(), [])
    assert 'krun_image_garbage_collected_bytes_total{reason="age"} 10' in sum(found.values(), [])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"imageGCHighThresholdPercent": "101"}, "must be between 0 and 100"),
        ({"imageGCLowThresholdPercent": "85"}, "must be less than imageGCHighThresholdPercent"),
        ({"imageMaximumGCAge": "1m"}, "imageMaximumGCAge must be greater than imageMinimumGCAge"),
        ({"imageMinimumGCAge": "soon"}, "failed to parse"),
    ],
)
def test_settings_out_of_bounds(data, words):
    with pytest.raises(ValueError, match=words):
        Images.parse(data)


def test_settings():
    assert Images.parse(
        {"imageMaximumGCAge": "24h", "imageGCHighThresholdPercent": "70", "imageGCLowThresholdPercent": "60"}
    ) == (Images(120.0, 86400.0, 70, 60))
