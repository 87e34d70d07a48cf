"""Paths below a root: what an image's symlinks can and cannot do. No root needed: plain directories stand for the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from krun.errors import KrunError, SysError
from krun.oci import cwd, devices, mounts, steps


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    fd = os.open(tmp_path / "root", os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_directories_are_made_inside(root: int, tmp_path: Path) -> None:
    for path in ("/x/y/z", "../../up", "a/../b"):
        os.close(steps.make_dir(root, path))
    assert {p.name for p in (tmp_path / "root").iterdir()} == {"a", "x", "up", "b"}
    assert (tmp_path / "root/x/y/z").is_dir()


@pytest.mark.parametrize(
    "target", ["/outside", "../outside", "../../../../../../../outside", "{tmp}/outside"]
)
def test_links_stay_inside(root: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/link").symlink_to(target.replace("{tmp}", str(tmp_path)))
    os.close(steps.make_dir(root, "/link/new"))
    os.close(steps.make_file(root, "/link/file"))
    assert not list((tmp_path / "outside").iterdir())


def test_dangling_last_link_of_a_file(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/f").symlink_to(f"{tmp_path}/outside/f")
    os.close(steps.make_file(root, "/f"))
    assert not (tmp_path / "outside/f").exists()


def test_loop_of_links(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/l").symlink_to("m")
    (tmp_path / "root/m").symlink_to("l")
    with pytest.raises(SysError, match="too many levels"):
        steps.make_dir(root, "/l/x")


def test_file_in_the_way(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/f").write_text("")
    with pytest.raises(SysError, match="not a directory"):
        steps.make_dir(root, "/f/x")


def test_magic_links_are_not_followed(root: int, tmp_path: Path) -> None:
    fd = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    inside = steps.find_in_root(fd, "/self/root")
    os.close(fd)
    assert inside == -40  # ELOOP


def test_symlinked_proc_is_refused(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/proc").symlink_to("a")
    with pytest.raises(KrunError, match="must be mounted on ordinary directory"):
        steps.refuse_symlink(root, "/proc", 'filesystem "proc"')
    steps.refuse_symlink(root, "/a", "x")
    steps.refuse_symlink(root, "/absent", "x")


def test_symlinked_dev_is_refused(root: int, tmp_path: Path) -> None:
    class Fake:
        root = -1

    Fake.root = root
    (tmp_path / "root/dev").symlink_to(tmp_path / "outside")
    with pytest.raises(KrunError, match="/dev is not a directory"):
        devices.open_dev(Fake)  # type: ignore[arg-type]


def test_mount_over_proc(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    mounts.check_over_proc("/proc/cpuinfo", fd)
    for name in ("/proc/self/attr", "/proc/sys", "/proc"):
        with pytest.raises(KrunError, match="cannot be mounted because it is inside /proc"):
            mounts.check_over_proc(name, fd)
    os.close(fd)
    fd = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    mounts.check_over_proc("/proc", fd)
    os.close(fd)


def test_cwd_outside_is_refused(tmp_path: Path) -> None:
    here = os.getcwd()
    gone = tmp_path / "gone"
    gone.mkdir()
    fd = os.open(gone, os.O_PATH | os.O_DIRECTORY)
    gone.rmdir()
    try:
        # A directory that getcwd(2) has no path for: what a leaked descriptor of the host's looks like after the pivot.
        with pytest.raises(KrunError, match="too many levels of symbolic links"):
            cwd.enter_cwd(f"/proc/self/fd/{fd}")
    finally:
        os.chdir(here)
        os.close(fd)
