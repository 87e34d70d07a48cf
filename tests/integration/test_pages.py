"""The commands of the pages for operators, run as the page gives them: one shell for each page, podman with storage of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.bundle import make_busybox_root
from helpers.console import steps
from helpers.engines import ENVIRONMENT, Podman, remove, short_directory
from helpers.runtime import find

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("workloads", "migrating", "builds", "upgrade", "devices", "incident")
MARK = "---- end of a command ----"


@pytest.fixture(scope="module")
def engine():
    work = short_directory("pages")
    podman = Podman(work)
    root = work / "busybox"
    make_busybox_root(root)
    podman.load(root, "localhost/busybox")
    commands = work / "bin"
    commands.mkdir()
    (commands / "krun").symlink_to(find("krun"))
    options = podman.argv("runc")[1:-2]
    (commands / "podman").write_text(f'#!/bin/sh\nexec {shutil.which("podman")} {" ".join(options)} "$@"\n')
    (commands / "podman").chmod(0o755)
    yield podman, root, commands
    podman.close()
    remove(work)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", PAGES)
def test_page(name, engine, tmp_path):
    podman, root, commands = engine
    shutil.copytree(root, tmp_path / "rootfs", symlinks=True)
    chosen = steps(DOCS / f"{name}.md")
    assert chosen, "the page has no commands"
    script = "".join(f"{step.command}\necho {MARK!r}\n" for step in chosen)
    environment = {**podman.environment, "PATH": f"{commands}:{ENVIRONMENT['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    printed = done.stdout.split(f"{MARK}\n")
    assert [(step.command, text) for step, text in zip(chosen, printed, strict=False)] == [
        (step.command, step.output) for step in chosen
    ], done.stderr
