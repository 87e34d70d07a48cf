"""The end of a container's process: opened once, killed through the descriptor that was opened."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from krun.log import Log
from krun.oci import kill, teardown
from krun.oci import state as st
from krun.oci.cgroup import tree

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.fixture
def thread() -> Iterator[int]:
    """The number of a thread that is no process."""
    end, numbers = threading.Event(), queue.SimpleQueue[int]()
    thread = threading.Thread(target=lambda: (numbers.put(threading.get_native_id()), end.wait()))
    thread.start()
    yield numbers.get()
    end.set()
    thread.join()


def test_a_thread_with_the_number_keeps_nobody_from_the_teardown(thread: int) -> None:
    """Threads get the numbers of processes that have ended: those of every container's payload."""
    state = st.ContainerState(id="c", pid=thread, start_time=1)
    teardown._end_init(state, {}, Log())
    assert not kill.signal_init(state, 9)


def test_a_process_of_a_cgroup_ends_and_a_thread_gets_its_number(thread: int, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text(f"{thread}\n")
    assert tree.signal_all(str(tmp_path), 0) == 1


def test_numbers_of_others_become_pidfds_in_one_place() -> None:
    """pidfd_open(2) of a process that is no child: state.open_process, which knows what a number may have become. The relay opens
    the agent's thread, which waits for it just then."""
    children = {"krun/oci/state.py", "krun/oci/spawn.py", "krun/oci/hooks.py", "krun/oci/unotify.py"}
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "krun/oci").rglob("*.py")
        if "pidfd_open(" in path.read_text()
    }
    assert found == children
