"""What payloads and images leave behind goes: trees of any depth, without holding up what comes after them."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.instances import run, runner, spec, until

from krun.serve.run import trash as trash_module
from krun.serve.run.trash import Trash
from krun.serve.run.workermain import clean

DEEP = 1500  # deeper than Python calls


def nest(path: Path, name: str = "d") -> None:
    path.mkdir(parents=True)
    fd = os.open(path, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


class _Runtime:
    def __init__(self, root: Path) -> None:
        self.root = str(root)
        root.mkdir()

    def delete(self, *_: Any) -> None:
        pass


def test_a_worker_starts_over_the_deep_trees_of_a_dead_one(tmp_path: Path) -> None:
    """RecursionError came out of rmtree(ignore_errors=True): no worker started in this data directory again."""
    nest(tmp_path / "instances" / "one" / "containers" / "c" / "upper")
    trash = Trash(str(tmp_path / "trash"))
    clean(str(tmp_path), _Runtime(tmp_path / "state"), trash)  # type: ignore[arg-type]
    assert os.listdir(tmp_path / "instances") == []
    trash.wait(60)
    assert os.listdir(tmp_path / "trash") == []


def test_a_long_removal_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is free at once, and what a worker leaves is the next one's."""
    go = threading.Event()
    real = trash_module.remove_tree
    monkeypatch.setattr(trash_module, "remove_tree", lambda path: go.wait(60) and real(path))
    trash = Trash(str(tmp_path / "trash"))
    for _ in range(2):
        (tmp_path / "one" / "below").mkdir(parents=True)
        trash.put(str(tmp_path / "one"))
    trash.put(str(tmp_path / "one"))  # gone already
    assert not (tmp_path / "one").exists() and len(os.listdir(tmp_path / "trash")) == 2
    go.set()
    trash.wait(60)
    assert os.listdir(tmp_path / "trash") == []
    nest(tmp_path / "trash" / "left")
    again = Trash(str(tmp_path / "trash"))
    again.start()
    again.wait(60)
    assert os.listdir(tmp_path / "trash") == []


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_an_instance_with_a_deep_tree_goes(directory: Path, runtime: str, images: Path) -> None:
    """Its removal failed with RecursionError, and was tried again every 5 s for ever."""

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(
                spec("one", container={"args": ["serve"]}, volumes=[{"name": "v", "emptyDir": {}}])
            )
            data = Path(r.config["directory"])
            nest(next((data / "instances" / "one" / "containers").iterdir()) / "upper" / "top")
            nest(data / "instances" / "one" / "volumes" / "v" / "top")
            await instance.stop(0)
            assert os.listdir(data / "instances") == []
            await until(lambda: os.listdir(data / "trash") == [], "the trash is not empty")

    run(test)
