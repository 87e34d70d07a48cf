"""The engines of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator

from krun.cli.health.finding import OK, PATH, Finding, read


def engines(_root: str) -> Iterator[Finding]:
    """Engines on this host, and whether krun is registered with them."""
    import shutil

    any_there = False
    for engine, program, files in (
        ("podman", "podman", ("/etc/containers/containers.conf", "/etc/containers/containers.conf.d")),
        ("docker", "dockerd", ("/etc/docker/daemon.json",)),
        ("containerd", "containerd", ("/etc/containerd/config.toml",)),
        ("crio", "crio", ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")),
    ):
        found = shutil.which(program, path=PATH)
        if not found:
            continue
        any_there = True
        known = any("krun" in text for file in files for text in _texts(file))
        text = f"{_version(found)}; krun is {'' if known else 'not '}registered"
        yield Finding(engine, OK, text if known else f"{text} (krun install {engine})")
    if not any_there:
        yield Finding("engines", OK, "none found; krun can be used by hand")


def _texts(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            yield read(os.path.join(path, name))
    else:
        yield read(path)


def _version(program: str) -> str:
    import subprocess

    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program}: {error}"
    return done.stdout.strip().split("\n")[0] or program
