"""Directory trees that a payload has made: of any depth, with links, moved while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from krun import treeio
from krun.treeio import Cursor, copy_tree, remove_tree

DEEP = 3000  # deeper than Python calls
NAME = "n" * 20  # DEEP of them exceed PATH_MAX (4096) by far


def nest(path, depth: int, name: str = NAME) -> None:
    """Make directories in one another; no path is that long."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


def test_a_tree_deeper_than_calls_descriptors_and_paths(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    nest(top, DEEP)
    (top / NAME / "file").write_text("")
    (top / NAME / "link").symlink_to(tmp_path)
    before = sorted(os.listdir("/proc/self/fd"))
    remove_tree(str(top))
    assert not top.exists() and tmp_path.exists()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_links_are_removed_and_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept)
    for name in ("top", "link", "gone"):
        remove_tree(str(tmp_path / name))
    assert [str(p) for p in tmp_path.rglob("*")] == [str(kept), str(kept / "file")]


def test_a_directory_that_is_moved_while_it_is_read_leads_nowhere(tmp_path):
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    cursor = Cursor(str(tmp_path / "top"))
    assert cursor.down("a") and cursor.down("b")
    os.rename(tmp_path / "top" / "a" / "b", tmp_path / "b")
    with pytest.raises(OSError, match="was moved"):
        cursor.up()
    assert os.fstat(cursor.fd).st_ino == os.stat(tmp_path / "b").st_ino
    cursor.close()


def test_a_directory_that_is_removed_while_it_is_read_is_left(tmp_path):
    (tmp_path / "a").mkdir()
    cursor = Cursor(str(tmp_path))
    assert cursor.down("a") and not cursor.down("gone")
    os.rmdir(tmp_path / "a")
    assert cursor.directories() == [] and cursor.up() == "a"
    assert cursor.path() == str(tmp_path)
    cursor.close()


def test_another_file_system_is_not_entered():
    cursor = Cursor("/")
    assert not cursor.down("proc")
    cursor.close()


def test_a_path_in_a_message_is_short(tmp_path):
    nest(tmp_path, 20)
    cursor = Cursor(str(tmp_path))
    for _ in range(20):
        cursor.down(NAME)
    assert len(cursor.path(NAME)) < 250 and cursor.path(NAME).endswith("(21 directories deep)")
    cursor.close()
    remove_tree(str(tmp_path / NAME))


def copy(source, target) -> None:
    target.mkdir()
    old, new = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target))
    try:
        copy_tree(old, new)
    finally:
        os.close(old)
        os.close(new)


def test_a_copy_of_a_tree_deeper_than_calls_descriptors_and_paths(tmp_path):
    """An image decides how deep the directory is that tmpcopyup copies."""
    top = tmp_path / "top"
    top.mkdir()
    nest(top, DEEP)
    before = len(os.listdir("/proc/self/fd"))
    copy(top, tmp_path / "copy")
    assert len(os.listdir("/proc/self/fd")) == before
    cursor, depth = Cursor(str(tmp_path / "copy")), 0
    while cursor.down(NAME):
        depth += 1
    cursor.close()
    assert depth == DEEP
    for name in ("top", "copy"):
        remove_tree(str(tmp_path / name))


def test_a_copy_has_modes_and_links_and_leaves_other_kinds_out(tmp_path, monkeypatch):
    top = tmp_path / "top"
    (top / "below").mkdir(parents=True)
    (top / "below").chmod(0o1750)
    (top / "below" / "file").write_text("words" * 100)
    (top / "below" / "file").chmod(0o4711)
    (top / "link").symlink_to("/etc")
    os.mkfifo(top / "fifo")
    write = os.write
    # A file system that is nearly full takes a part of what is written.
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    copy(top, tmp_path / "copy")
    made = tmp_path / "copy"
    assert sorted(os.listdir(made)) == ["below", "link"] and os.readlink(made / "link") == "/etc"
    assert (made / "below").stat().st_mode & 0o7777 == 0o1750
    assert (made / "below" / "file").stat().st_mode & 0o7777 == 0o4711
    assert (made / "below" / "file").read_text() == "words" * 100


def test_another_kind_of_file_in_the_place_of_one_is_left_out(tmp_path, monkeypatch):
    """A container that shares the image puts a device in a file's place (/dev/zero has no end) between the look and the copy."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").write_text("")
    real = treeio._copy_file

    def swapped(name: str, source: int, target: int) -> None:
        os.unlink(name, dir_fd=source)
        os.mkfifo(name, dir_fd=source)
        real(name, source, target)

    monkeypatch.setattr(treeio, "_copy_file", swapped)
    before = len(os.listdir("/proc/self/fd"))
    copy(top, tmp_path / "copy")
    assert os.listdir(tmp_path / "copy") == [] and len(os.listdir("/proc/self/fd")) == before


def test_a_wide_tree_is_removed_in_parts(tmp_path, monkeypatch):
    """Neither a directory of many entries nor many such directories in one another are in memory as a whole."""
    monkeypatch.setattr(treeio, "_BATCH", 5)
    monkeypatch.setattr(treeio, "_PENDING", 12)
    top = tmp_path / "top"
    for i in range(23):
        (top / f"{i}" / "a" / "b").mkdir(parents=True)
        (top / f"file{i}").write_text("")
        for k in range(9):
            (top / "0" / "a" / "b" / f"{k}").mkdir(parents=True, exist_ok=True)
            (top / "0" / f"{k}").mkdir(exist_ok=True)
    looks = []
    look = treeio._unlink_files

    def noted(cursor, most):
        found = look(cursor, most)
        looks.append(len(found[0]))
        return found

    monkeypatch.setattr(treeio, "_unlink_files", noted)
    remove_tree(str(top))
    assert not top.exists() and max(looks) == 5


def test_a_removal_that_cannot_go_on_ends(tmp_path, monkeypatch):
    """A directory that cannot be entered is an error, not a look after the other."""
    (tmp_path / "top" / "mounted").mkdir(parents=True)
    (tmp_path / "top" / "mounted" / "file").write_text("")
    monkeypatch.setattr(Cursor, "down", lambda self, name: False)
    with pytest.raises(OSError, match="not empty"):
        remove_tree(str(tmp_path / "top"))


def test_directories_above_are_nobody_elses(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        treeio.make_directories(str(tmp_path / "a" / "b" / "c"))
        treeio.make_directories(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c")]
    assert modes == [0o755] * 3
