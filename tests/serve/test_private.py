"""What krun serve keeps is its own user's: images bring set-user-ID programs and device nodes, the store has Secrets."""

import os
import socket
import stat
from pathlib import Path

import pytest
from helpers.instances import run, runner, spec

from krun.errors import KrunError
from krun.serve import private
from krun.serve.run import client


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o022, 0o177])
def test_a_private_directory_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    (tmp_path / "old").mkdir(0o755)
    (tmp_path / "old").chmod(0o711)
    before = os.umask(mask)
    try:
        for name in ("new", "old", "old/"):
            private.directory(f"{tmp_path}/{name}")
        with open(tmp_path / "file", "w", opener=private.opener):
            pass
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("new", "old")] == [0o700, 0o700]
    assert mode(tmp_path / "file") & 0o077 == 0


def test_a_directory_of_all_users_is_none(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    (tmp_path / "all" / "of-another").touch()
    with pytest.raises(KrunError, match="all users make files there"):
        private.directory(str(tmp_path / "all"))
    assert mode(tmp_path / "all") == 0o1777
    (tmp_path / "all" / "of-another").unlink()
    private.directory(str(tmp_path / "all"))  # a fresh tmpfs
    assert mode(tmp_path / "all") == 0o700


@pytest.mark.root
def test_a_directory_of_another_user_is_none(tmp_path: Path) -> None:
    """Its owner could take the mode back, and replace what is in it: the program of an instance, the worker's socket."""
    (tmp_path / "theirs").mkdir(0o755)
    os.chown(tmp_path / "theirs", 1000, 1000)
    with pytest.raises(KrunError, match="belongs to user 1000; give a directory of user 0"):
        private.directory(str(tmp_path / "theirs"))
    assert mode(tmp_path / "theirs") == 0o755
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    (tmp_path / "all" / "worker.log").touch()
    os.chown(tmp_path / "all" / "worker.log", 1000, 1000)
    with pytest.raises(KrunError, match="all users make files there"):
        private.directory(str(tmp_path / "all"))
    os.chown(tmp_path / "all" / "worker.log", 0, 0)
    private.directory(str(tmp_path / "all"))  # an earlier krun's


@pytest.mark.root
def test_a_directory_below_one_of_another_user_is_none(tmp_path: Path) -> None:
    """Its owner could rename ours, and put one of his own in its place."""
    (tmp_path / "theirs" / "ours").mkdir(0o755, parents=True)
    os.chown(tmp_path / "theirs", 1000, 1000)
    for name in ("theirs/ours/data", "theirs/new/data"):
        with pytest.raises(KrunError, match="owned by uid 1000, mode 0755: others could change it"):
            private.directory(str(tmp_path / name))
    assert [one.name for one in (tmp_path / "theirs").rglob("*")] == ["ours"]
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    private.directory(str(tmp_path / "all" / "new" / "data"))


@pytest.mark.root
def test_a_worker_of_another_user_is_none(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "worker.sock"))
        os.seteuid(1000)
        try:
            listener.listen(1)
        finally:
            os.seteuid(0)
        with pytest.raises(KrunError, match="user 1000 listens there"):
            client.start_worker({"directory": str(tmp_path)})


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_other_users_enter_nothing_of_a_data_directory(directory: Path, runtime: str, images: Path) -> None:
    """Data and image directories were 0711: any user could run a set-user-ID program of an image by its layer's digest."""
    for name in ("", "instances", "logs", "images", "images/layers"):
        (directory / name).mkdir(exist_ok=True)
        (directory / name).chmod(0o755)  # as an earlier krun has left them

    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            await r.start(spec("one", container={"args": ["serve"]}))
            found = [path for path in (directory, *directory.iterdir()) if path.is_dir()]
            assert {path.name for path in found} > {"instances", "logs", "images", "state", "trash"}
            assert {path.name: mode(path) for path in found if mode(path) != 0o700} == {}
            assert mode(directory / "images" / "layers") == mode(directory / "instances" / "one") == 0o700
            for path in directory.iterdir():
                assert path.is_dir() or not mode(path) & 0o077, path

    before = os.umask(0)
    try:
        run(test)
    finally:
        os.umask(before)
