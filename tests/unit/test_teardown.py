"""The end of a container's process: opened once, killed through the descriptor that was opened."""

from __future__ import annotations

import os
import subprocess

import pytest

from krun.log import Log
from krun.oci import state as st
from krun.oci import teardown


def calls_of(monkeypatch: pytest.MonkeyPatch, state: st.ContainerState) -> list[str]:
    """What the first step of the teardown asks of the process."""
    made: list[str] = []
    pidfd_open, fields = os.pidfd_open, st.process_fields
    monkeypatch.setattr(os, "pidfd_open", lambda pid: (made.append("pidfd_open"), pidfd_open(pid))[1])
    monkeypatch.setattr(st, "process_fields", lambda pid: (made.append("stat"), fields(pid))[1])
    teardown._end_init(state, {}, Log())
    return made


def test_the_process_is_opened_once_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        state = st.ContainerState(id="c", pid=process.pid, start_time=st.process_start_time(process.pid))
        assert calls_of(monkeypatch, state) == ["pidfd_open", "stat"]
        assert process.wait() == -9


def test_another_process_with_the_number_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        state = st.ContainerState(id="c", pid=process.pid, start_time=1)
        assert calls_of(monkeypatch, state) == ["pidfd_open", "stat"]
        assert process.poll() is None
        process.kill()
