"""The monitor's file: nobody may read it, and it, or a copy in memory, belongs to root of the container's user namespace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from krun.errors import KrunError
from krun.kvm import image

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A monitor's file and its readable twin; returns the former."""
    path = tmp_path / "monitor"
    path.write_bytes(b"x")
    path.with_suffix(".readable").write_bytes(b"small")
    monkeypatch.setattr(image, "MONITOR_PATH", str(path))
    monkeypatch.setattr(image, "READABLE_PATH", str(path.with_suffix(".readable")))
    return path


def is_memory(fd: int) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:")


@pytest.mark.parametrize(
    ("owner", "mode", "after"),
    [
        (0, 0o755, 0o111),
        (0, 0o111, 0o111),
        (0, 0o115, 0o111),
        (0, 0o555, 0o111),
        (1000, 0o755, 0o755),
        (1000, 0o111, 0o111),
    ],
)
def test_nobody_can_read_what_is_executed(files: Path, owner: int, mode: int, after: int) -> None:
    """pip installs it with 0755; another owner's file is not ours to change, and is copied."""
    from krun.native.build_native import MONITOR_MODE

    assert image.MONITOR_MODE == MONITOR_MODE
    files.chmod(mode)
    os.chown(files, owner, owner)
    fd = image.open_monitor()
    info = os.fstat(fd)
    assert not image.can_be_read(info)
    assert info.st_uid == 0
    assert is_memory(fd) == (owner != 0)
    os.close(fd)
    assert stat.S_IMODE(files.stat().st_mode) == after


@pytest.mark.parametrize("missing", ["monitor", "monitor.readable"])
def test_a_file_that_is_missing_has_a_remedy(files: Path, missing: str) -> None:
    files.with_name(missing).unlink()
    with pytest.raises(KrunError, match=f"{missing} does not exist; build it"):
        os.close(image.open_monitor() if missing == "monitor" else image.open_readable())


def test_only_the_image_of_others_is_copied(files: Path) -> None:
    """What root of a user namespace does with a file of the host's, and with one of its own."""
    ours = image.open_monitor()
    before = len(os.listdir("/proc/self/fd"))
    assert image.own(ours, image.open_readable()) == ours
    os.chown(files, 1000, 0)
    copy = image.own(ours, image.open_readable())
    assert len(os.listdir("/proc/self/fd")) == before
    assert is_memory(copy) and not image.can_be_read(os.fstat(copy))
    assert Path(f"/proc/self/fd/{copy}").read_bytes() == b"small"
    os.close(copy)
