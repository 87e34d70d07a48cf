"""tests/perf/bench.py and what it stands on: where a runtime is found, what one that leaves mounts behind may break."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import runtime
from perf import bench


def test_a_runtime_on_path_is_found(tmp_path, monkeypatch):
    """gVisor's runsc is where its user has put it."""
    program = tmp_path / "runsc-of-a-user"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(FileNotFoundError, match="runsc-of-a-user is missing"):
        runtime.find(program.name)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path}")
    assert runtime.find(program.name) == program


def test_the_systems_runtime_comes_before_one_on_path(tmp_path, monkeypatch):
    (tmp_path / "sh").write_text("#!/bin/sh\n")
    (tmp_path / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert runtime.find("sh").parent != tmp_path


def test_mounts_below_a_directory_last_first():
    text = "1 0 0:1 / / rw - ext4 a b\n2 1 0:2 / /w/x rw - tmpfs a b\n3 2 0:3 / /w/x/a\\040b rw - tmpfs a b\n4 1 0:4 / /wide rw - t a b\n"
    assert bench.left_mounts(Path("/w"), text) == ["/w/x/a b", "/w/x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_mount_left_behind_is_named_and_the_run_ends_well(capfd):
    with bench.workspace() as work:
        for name in ("state", "state/inner"):
            (work / name).mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "left", str(work / name)], check=True)
    assert not work.exists()
    said = capfd.readouterr().err
    assert said.splitlines() == [
        f"bench: a runtime has left a mount behind: {work}/{name}" for name in ("state/inner", "state")
    ]
