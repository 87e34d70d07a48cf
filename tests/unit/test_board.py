"""Boards of other versions of krun (krun/kvm/board.py): `krun exec` joins none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from krun.errors import KrunError
from krun.kvm import board
from krun.oci import enter, state


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


@pytest.mark.parametrize("magic", [b"KRBOARD1", b"KRBOARD9", b"", b"KRBOA"], ids=repr)
def test_a_board_of_another_version(directory: state.StateDir, magic: bytes) -> None:
    Path(f"{directory.path}/board").write_bytes(magic)
    with pytest.raises(KrunError) as failure:
        enter.open_board(directory)
    assert str(failure.value) == (
        "cannot exec in container box: it was made by another version of krun; restart the container"
    )
