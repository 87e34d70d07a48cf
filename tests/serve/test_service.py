"""The unit of systemd, and the word to a service manager, of the real command."""

from __future__ import annotations

import configparser
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.notify import unused_name
from helpers.runtime import ROOT

from krun.errors import KrunError
from krun.serve import service


def unit(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "krun", "serve", "unit", *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_unit_names_this_command_and_keeps_instances_over_a_restart() -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit())
    own = parser["Service"]
    command = own["ExecStart"].split()
    assert os.access(command[0], os.X_OK) and command[1] == "serve"
    # cli.py: SIGTERM keeps the instances, SIGINT ends them. The worker outlives both, in the unit's group.
    assert (own["RestartKillSignal"], own["KillSignal"], own["KillMode"]) == ("SIGTERM", "SIGINT", "process")
    assert own["Type"] == "notify"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is of the package systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "krun-serve.service"
    path.write_text(unit("--runtime", sys.executable))
    words = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and path.name not in done.stderr, done
    path.write_text(path.read_text().replace("Type=notify", "Type=notified"))
    assert "notified" in subprocess.run(words, capture_output=True, text=True).stderr


@pytest.mark.parametrize("abstract", [False, True])
def test_the_word_to_the_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    path = "@" + unused_name() if abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + path[1:] if abstract else path)
        assert service.take_notify_socket() == path and "NOTIFY_SOCKET" not in os.environ
        service.notify(path, "READY=1")
        assert sock.recv(100) == b"READY=1"
    assert service.take_notify_socket() == ""
    service.notify("", "READY=1")
    with pytest.raises(KrunError, match="tell the service manager"):
        service.notify(f"{tmp_path}/absent", "READY=1")
