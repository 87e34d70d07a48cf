"""A start on a full disk: an instance, or anything else on the host, may have filled it. What is stored is served."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.runtime import find
from helpers.serveapi import SERVING

from krun.serve.app import _Tokens

from .test_serve import Server, images, kill_worker, service, workers

__all__ = ["images"]


class Full(Server):
    """Its kubeconfig cannot be written."""

    def started(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.ask("GET", "/healthz")[0] == 200)
        return False


@pytest.fixture
def server(tmp_path: Path, images: Path) -> Iterator[Server]:
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "krun", data], check=True)
    try:
        made = Full(data, str(find("runc")), images)
        made.start()
        yield made
        (data / "fill").unlink(missing_ok=True)
        made.end()
        made.until(lambda: not workers(tmp_path), "the worker has ended")
    finally:
        subprocess.run(["umount", "-l", data], check=True)


def fill(directory: Path) -> None:
    with open(directory / "fill", "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    with pytest.raises(OSError), open(directory / "more", "wb", buffering=0) as file:
        file.write(b"x")


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_a_start_on_a_full_disk(server: Server) -> None:
    """After kill -9 of the server, then of the worker, too. The store could not be opened, and the server did not start."""
    assert server.ask("POST", f"{SERVING}/services", service())[0] == 201
    server.ready()
    server.end(signal.SIGKILL)
    fill(server.directory)
    server.start()
    assert server.env("K_SERVICE") == "hello"
    kill_worker(server)
    server.until(lambda: server.request()[0] == 503, "no instance can start")
    server.end(signal.SIGKILL)
    server.start()
    assert server.request()[0] == 503
    (server.directory / "fill").unlink()
    server.until(lambda: server.env("K_SERVICE") == "hello", "there is room again")


@pytest.mark.parametrize("left", [b"", b"x" * 31])
def test_a_key_of_which_a_full_disk_left_a_part(tmp_path: Path, left: bytes) -> None:
    """Tokens were signed with what was there: nothing, which anybody knows."""
    path = tmp_path / "token.key"
    path.write_bytes(left)
    first = _Tokens(str(tmp_path)).make("ns", "default", "", 60)
    key = path.read_bytes()
    assert len(key) == 32 and key != bytes(32) and os.stat(path).st_mode & 0o777 == 0o600
    assert _Tokens(str(tmp_path)).make("ns", "default", "", 60).count(".") == first.count(".") == 2
    assert path.read_bytes() == key
