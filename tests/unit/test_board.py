"""Boards (krun/kvm/board.py): `krun exec` joins none of another version of krun; `krun events` shows the counters of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from krun.errors import KrunError
from krun.kvm import board
from krun.oci import enter, events, state


@pytest.fixture
def directory(tmp_path: Path) -> state.StateDir:
    (tmp_path / "box").mkdir()
    return state.StateDir(str(tmp_path), "box")


def test_a_board_of_ours(directory: state.StateDir) -> None:
    assert enter.open_board(directory) == -1
    with open(f"{directory.path}/board", "w+b", buffering=0) as file:
        board.fill(file.fileno())
    with open(enter.open_board(directory), "rb") as joined:
        assert board.is_ours(joined.fileno())


@pytest.mark.parametrize("magic", [b"KRBOARD1", b"KRBOARD2", b"KRBOARD9", b"", b"KRBOA"], ids=repr)
def test_a_board_of_another_version(directory: state.StateDir, magic: bytes) -> None:
    Path(f"{directory.path}/board").write_bytes(magic)
    with pytest.raises(KrunError) as failure:
        enter.open_board(directory)
    assert str(failure.value) == (
        "cannot exec in container box: it was made by another version of krun; restart the container"
    )


def test_the_counters(tmp_path: Path) -> None:
    path = tmp_path / "board"
    assert board.counters(str(path)) == [] and events.calls([]) is None
    with path.open("w+b", buffering=0) as file:
        board.fill(file.fileno())
        assert board.counters(str(path)) == [0] * board.COUNTS
        file.seek(board.COUNTS_AT + board.EXITS * 8)
        file.write((1 << 40).to_bytes(8, "little"))
        file.seek(board.COUNTS_AT + (board.COMPLETED + board.WAYS["action"]) * 8)
        file.write((7).to_bytes(8, "little"))
        file.seek(board.COUNTS_AT + (board.DECLINED + board.WAYS["fact"]) * 8)
        file.write((8).to_bytes(8, "little"))
        assert events.calls(board.counters(str(path))) == {
            "exits": 1 << 40,
            "sites": 0,
            "patched": 0,
            "completed": {"fact": 0, "action": 7, "read": 0, "queue": 0, "file": 0},
            "declined": {"fact": 8, "action": 0, "read": 0, "queue": 0, "file": 0},
            "refused": 0,
            "unknown": 0,
            "refusedCalls": [],
        }
        file.truncate(board.COUNTS_AT + 15)  # monitors may do so
        assert events.calls(board.counters(str(path))) is None
        file.seek(0)
        file.write(b"KRBOARD2")
        assert board.counters(str(path)) == []


def test_the_calls_that_were_refused() -> None:
    counters = [0] * board.COUNTS
    assert board.refused(counters) == [] and board.refused([]) == []
    counters[board.CALLS_AT + 101 // 64] = 1 << 101 % 64
    (call,) = board.refused(counters)
    assert (call["call"], call["errno"]) == ("ptrace", "EPERM") and "monitor" in call["reason"]
    # A monitor may write anything.
    found = board.refused([(1 << 64) - 1] * board.COUNTS)
    assert (
        len(found) == board.CALLS
        and {"call": "syscall_511", "errno": "ENOSYS", "reason": "krun does not know the call"} in found
    )
