"""The socket of NOTIFY_SOCKET in the container (krun/oci/notify.py)."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from krun.log import Log
from krun.oci import notify


def test_the_socket_is_open_to_all_from_its_birth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chmod(2) after bind(2): it would follow a link that the payload puts in the socket's place meanwhile."""
    canary = tmp_path / "canary"
    canary.touch(0o600)
    notify.make_directory(str(tmp_path))
    name = tmp_path / notify.DIRECTORY / notify.NAME

    class Replaced(socket.socket):
        def bind(self, address: str) -> None:  # type: ignore[override]
            super().bind(address)
            assert stat.S_IMODE(name.stat().st_mode) == 0o777
            name.unlink()
            name.symlink_to(canary)

    umask = os.umask(0o077)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
            host.bind(str(tmp_path / "host"))
            monkeypatch.setattr(notify.socket, "socket", Replaced)
            relay = notify.Relay(str(tmp_path), str(tmp_path / "host"), Log())
            relay.close()
    finally:
        assert os.umask(umask) == 0o077
    assert stat.S_IMODE(canary.stat().st_mode) == 0o600


def test_chatter_on_the_readiness_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that says other things takes little of a CPU of the host's: a rest for every 64 messages."""
    rests: list[float] = []
    monkeypatch.setattr(notify.time, "sleep", rests.append)
    told, end = os.pipe()
    hearer = notify._Hearer(end)
    assert all(hearer(b"STATUS=chatter") for _ in range(640))
    assert rests == [0.01] * 10
    assert not hearer(b"STATUS=good\nREADY=1")
    assert os.read(told, 10) == b"1"
    os.close(told)
    os.close(end)
