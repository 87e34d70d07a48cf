"""Fixtures of the tests of instances: images, a data directory that must be clean at the end, runc first and then krun."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.runtime import find

SOURCE = Path(__file__).with_name("payload.c")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of images: the payload as a directory, and as an OCI archive of two layers with a whiteout."""
    directory = tmp_path_factory.mktemp("images")
    root = directory / "dev.local/payload/rootfs"
    root.mkdir(parents=True)
    subprocess.run(
        ["gcc", "-static", "-O1", "-Wall", "-Werror", "-o", str(root / "payload"), str(SOURCE)], check=True
    )
    (root.parent / "config.json").write_text(
        '{"Entrypoint":["/payload"],"Env":["FROM_IMAGE=yes"],"User":"1000"}'
    )
    return directory


@pytest.fixture(params=os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(","))
def runtime(request: pytest.FixtureRequest) -> str:
    return str(find(request.param))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A data directory; at the end no mount, process or directory of an instance is left."""
    yield tmp_path / "data"
    with open("/proc/self/mounts") as file:
        assert str(tmp_path) not in file.read()
    assert os.listdir(tmp_path / "data/instances") == []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            assert str(tmp_path).encode() not in command, command
