"""Names of containers and volumes become names of directories: a tenant chooses them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.instances import run, runner, spec
from helpers.serveapi import SERVING, Client, ksvc

from krun.errors import KrunError

NAMES = ["../x", "/x", "..", ".", "a/b", "A", "a b", "-a", "a" * 64, "a\n", "ä"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["containers", "sidecar"])
def test_the_api_takes_labels_only(name: str, kind: str) -> None:
    """Kubernetes: ValidateDNS1123Label, of each container of a Pod."""
    api = Client()
    wanted = ksvc()
    own = wanted["spec"]["template"]["spec"]["containers"]
    if kind == "sidecar":
        own[0]["ports"] = [{"containerPort": 8080}]
        own.append({"name": name, "image": "reg.example/x/y"})
    else:
        own[0]["name"] = name
    code, told = api.call("POST", f"{SERVING}/services", wanted)
    assert code == 400 and "name" in told["message"], told
    own[-1]["name"] = "a-name"
    assert api.call("POST", f"{SERVING}/services", wanted)[0] == 201


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("place", ["{up}outside", "{tmp}/outside"])
def test_the_worker_makes_and_removes_nothing_elsewhere(
    directory: Path, images: Path, tmp_path: Path, place: str
) -> None:
    """An instance's directories were made where the name led, its root was mounted there, and at its end all of it was removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    name = place.format(up="../" * 4, tmp=tmp_path)

    async def test() -> None:
        async with runner(directory, "true", images) as r:
            with pytest.raises(KrunError, match="malformed name"):
                await r.start(spec("one", container={"name": name}))
            with pytest.raises(KrunError, match="malformed name"):
                await r.start(spec("two", volumes=[{"name": name, "emptyDir": {}}]))

    run(test)
    assert os.listdir(outside) == ["precious"] and (outside / "precious").read_text() == "kept"
