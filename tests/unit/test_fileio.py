"""fileio.replace_file: the old file or the new one, and nothing beside it."""

import os

import pytest

from krun.fileio import replace_file


def test_a_private_file_takes_the_place(tmp_path):
    target = tmp_path / "kept"
    target.write_text("old")
    replace_file(str(target), b"new")
    assert target.read_bytes() == b"new" and target.stat().st_mode & 0o777 == 0o600
    fd = os.open(tmp_path, os.O_PATH)
    try:
        replace_file("kept", b"newer", dir_fd=fd)
    finally:
        os.close(fd)
    assert target.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["kept"]


def test_what_a_dead_process_left_does_not_count(tmp_path):
    secret = tmp_path / "elsewhere"
    secret.write_text("untouched")
    (tmp_path / f"kept.{os.getpid()}").symlink_to(secret)
    replace_file(str(tmp_path / "kept"), b"new")
    assert (tmp_path / "kept").read_bytes() == b"new" and not (tmp_path / "kept").is_symlink()
    assert secret.read_text() == "untouched"


def test_a_failure_leaves_the_old_file_alone(tmp_path, monkeypatch):
    target = tmp_path / "kept"
    target.write_text("old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "no space")

    for name in ("write", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(OSError, match="no space"):
                replace_file(str(target), b"new")
        assert target.read_text() == "old" and os.listdir(tmp_path) == ["kept"]
