"""Paths below a root: what an image's symlinks can and cannot do. No root needed: plain directories stand for the root."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from stat import S_IFBLK, S_IFCHR
from typing import cast

import pytest

from krun.errors import KrunError, SysError
from krun.oci import cwd, devices, masks, mounts, places, steps
from krun.oci.spec import Process, Spec


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    fd = os.open(tmp_path / "root", os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def context(root: int) -> steps.Context:
    """What a step gets, with nothing but a root."""
    ctx = steps.Context(cast(Spec, None), cast(Process, None), "x")
    ctx.root = root
    return ctx


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
    ctx = context(root)
    (tmp_path / "root/proc").symlink_to("a")
    with pytest.raises(KrunError, match='"/proc" is a symbolic link'):
        places.plain_directory(ctx, "/proc", 'filesystem "proc"')
    for name in ("/a", "/absent", "/made/deep"):
        os.close(places.plain_directory(ctx, name, "x"))
    assert (tmp_path / "root/made/deep").is_dir()


def test_symlinked_dev_is_refused(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/dev").symlink_to(tmp_path / "outside")
    with pytest.raises(KrunError, match="/dev is not a directory"):
        devices.open_dev(context(root))


def test_a_place_is_looked_for_in_its_mount(root: int, tmp_path: Path) -> None:
    """A directory outside of the root stands for the mount on /m, whose directory somebody has renamed."""
    mount = tmp_path / "outside"
    (mount / "d").mkdir()
    (mount / "leave").symlink_to("../root/a")
    (mount / "stay").symlink_to("d")
    (tmp_path / "root/m/d").mkdir(parents=True)
    (tmp_path / "root/m/leave").mkdir()
    ctx = context(root)
    fd = os.open(mount, os.O_PATH | os.O_DIRECTORY)
    ctx.attached.append(("/m", fd))

    def at(place: int) -> str:
        path = os.readlink(f"/proc/self/fd/{place}")
        os.close(place)
        return str(Path(path).relative_to(tmp_path))

    assert [at(places.find(ctx, name)) for name in ("/m", "/m/d", "/m/stay", "/mm/../m/d/")] == [
        "outside", "outside/d", "outside/d", "outside/d",
    ]  # fmt: skip
    assert places.find(ctx, "/m/absent") == -2
    # A link out of the mount, and what lies in no mount, are the root's.
    assert [at(places.find(ctx, name)) for name in ("/m/leave", "/a")] == ["root/m/leave", "root/a"]
    # What is to be hidden is hidden at the name, too.
    assert [at(place) for place in places.find_all(ctx, "/m/d")] == ["outside/d", "root/m/d"]
    assert [at(place) for place in places.find_all(ctx, "/a")] == ["root/a"]
    assert at(places.directory(ctx, "/m/x/y")) == "outside/x/y"
    assert at(places.file(ctx, "/m/x/f")) == "outside/x/f"
    os.close(fd)


def test_a_hosts_file_is_no_device(tmp_path: Path) -> None:
    """Neither a file, nor a link to another device, nor a device of another number or kind is bound as the device."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "null").symlink_to("/dev/null")
    for name, kind, minor in (
        ("file", S_IFCHR, 3),
        ("link", S_IFCHR, 3),
        ("null", S_IFCHR, 5),
        ("null", S_IFBLK, 3),
    ):
        with pytest.raises(KrunError, match=f"{name} is not (character|block) device 1:{minor}"):
            devices.open_node(str(tmp_path / name), kind | 0o666, 1, minor)
    with pytest.raises(SysError, match="no such file"):
        devices.open_node(str(tmp_path / "absent"), S_IFCHR, 1, 3)
    os.close(devices.open_node(str(tmp_path / "null"), S_IFCHR | 0o666, 1, 3))


def test_a_device_is_bound_over_no_link(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/a/null").symlink_to("../x")
    with pytest.raises(KrunError, match="the image has a symbolic link there"):
        devices.node_place(root, "a/null", "/dev/null")
    assert not (tmp_path / "root/x").exists()
    os.close(devices.node_place(root, "a/made", "/dev/made"))
    assert (tmp_path / "root/a/made").is_file()


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


def test_which_mounts_are_covered() -> None:
    """A host's tree on /h, with a binfmt_misc in it, and mounts over it, beside it and below what hides them."""

    def row(id: int, parent: int, point: str) -> steps.MountRow:
        return steps.MountRow(id, parent, point, True, "x")

    root, host, misc = row(1, 0, "/"), row(2, 1, "/h"), row(3, 2, "/h/proc/misc")
    for other, expected in (
        (row(4, 3, "/h/proc/misc"), True),  # on the mount itself
        (row(4, 3, "/h/proc/misc/status"), False),  # on a file of it
        (row(4, 2, "/h/proc"), True),  # above it
        (row(4, 2, "/h"), True),  # on the whole tree
        (row(4, 2, "/h/pro"), False),  # beside it
        (row(4, 1, "/h/proc"), False),  # hidden by /h itself
    ):
        rows = [root, host, misc, other]
        assert masks.covered(masks.way_up(misc, rows), rows) is expected, other.point
    # Where the mount on /h is kept, a mount above it counts no more: somebody has moved /h there for the moment.
    rows = [root, host, misc, row(4, 1, "/h/proc"), row(5, 1, "/")]
    assert masks.covered(masks.way_up(misc, rows), rows)
    assert not masks.covered(masks.way_up(misc, rows, [2]), rows)
    rows.append(row(6, 2, "/h/proc"))
    assert masks.covered(masks.way_up(misc, rows, [2]), rows)


@pytest.mark.parametrize("numbers", [[7], [8, -1, 7], [8]])
def test_binfmt_misc_is_sealed_by_its_number(monkeypatch: pytest.MonkeyPatch, numbers: list[int]) -> None:
    """What its path leads to while somebody renames directories (another mount, nothing, the mount) is not taken for it."""
    sealed: list[int] = []
    looks = iter(numbers + [numbers[-1]] * 100)
    monkeypatch.setattr(
        masks, "mounts_seen", lambda ctx: [steps.MountRow(7, 1, "/h/m", not sealed, "binfmt_misc")]
    )
    monkeypatch.setattr(masks, "try_openat2", lambda *words: next(looks))
    monkeypatch.setattr(masks, "mount_id", lambda fd: fd)
    monkeypatch.setattr(masks, "mount_setattr", lambda fd, flags, name: sealed.append(fd))
    monkeypatch.setattr(masks.os, "close", lambda fd: None)
    if numbers == [8]:
        with pytest.raises(KrunError, match="make binfmt_misc on /h/m read-only"):
            masks.SealBinfmt().execute(context(-1))
    else:
        masks.SealBinfmt().execute(context(-1))
    assert sealed == ([] if numbers == [8] else [7])


#: file -> what it may look for by its name below the root, and how often. All else goes by oci/places.py.
BY_NAME = {
    "places.py": {"find_in_root": 2},  # where no mount of ours is above it; beside the place in the mount
    "cwd.py": {"find_in_root": 1, "make_dir": 1},  # the payload's own name, looked at again as the payload
    "console.py": {"find_in_root": 1},  # a null device, looked at
    "masks.py": {"try_openat2": 1},  # the number of the mount decides
    "steps.py": {"try_openat2": 5, "make_dir": 1},
}


def test_who_looks_by_name() -> None:
    """A name below the root means another place as soon as somebody who shares the root directory renames a directory."""
    oci = Path(steps.__file__).parent
    found = {}
    for path in oci.glob("*.py"):
        names = Counter(
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("find_in_root", "make_dir", "make_file", "try_openat2")
            and not any(
                isinstance(word, ast.Name) and word.id in ("fd", "AT_FDCWD") for word in node.args[:1]
            )
        )
        if names:
            found[path.name] = dict(names)
    assert found == BY_NAME
