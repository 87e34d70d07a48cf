"""ownpath.open_directory: a directory in which root may write, because nobody else can put another one in its place."""

import os
import re

import pytest

from krun.errors import KrunError
from krun.ownpath import open_directory

NOBODY = 65533


@pytest.fixture
def tree(tmp_path):
    """a/b/c of root's."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    return tmp_path


def opened(path) -> bool:
    """Whether it is opened: then as the directory that it is."""
    fd = open_directory(str(path))
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    finally:
        os.close(fd)


def refused(path) -> str:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(KrunError) as error:
        open_directory(str(path))
    assert os.listdir("/proc/self/fd") == before
    return error.value.message


def test_a_directory_of_ours(as_root, tree, monkeypatch):
    assert opened(tree / "a/b/c") and opened(f"{tree}//a/./b/../b/c/")
    monkeypatch.chdir(tree / "a")
    assert opened("b/c")
    (tree / "a").chmod(0o1777)
    assert opened(tree / "a/b/c")


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/c"])
def test_a_directory_on_the_way_is_anothers(as_root, tree, name):
    os.chown(tree / name, NOBODY, NOBODY)
    said = refused(tree / "a/b/c")
    assert re.search(
        f"{tree / name}:? (is )?owned by uid {NOBODY}, mode 0755: others could change it; ", said
    )


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_others_write_on_the_way(as_root, tree, mode):
    (tree / "a/b").chmod(mode)
    assert f"{tree}/a/b is owned by uid 0, mode 0{mode:o}: " in refused(tree / "a/b/c")
    assert opened(tree / "a")


def test_others_make_files_in_the_directory_itself(as_root, tree):
    (tree / "a/b/c").chmod(0o1777)
    assert f"use directory {tree}/a/b/c: owned by uid 0, mode 1777: " in refused(tree / "a/b/c")


def test_links(as_root, tree):
    """A link of root's leads where root wants it; one of another user's, in /tmp, where he wants it. The target's way counts, too."""
    (tree / "relative").symlink_to("a/b")
    (tree / "absolute").symlink_to(tree / "a")
    assert opened(tree / "relative/c") and opened(tree / "absolute/b/c")
    os.chown(tree / "a/b", NOBODY, NOBODY)
    assert f"{tree}/a/b is owned by uid {NOBODY}" in refused(tree / "relative/c")
    os.chown(tree / "a/b", 0, 0)
    (tree / "shared").mkdir()
    (tree / "shared").chmod(0o1777)
    (tree / "shared/link").symlink_to(tree / "a/b/c")
    assert opened(tree / "shared/link")
    os.lchown(tree / "shared/link", NOBODY, NOBODY)
    assert f"{tree}/shared/link: owned by uid {NOBODY}, mode 0777" in refused(tree / "shared/link")


def test_what_is_no_directory(as_root, tree):
    (tree / "file").touch()
    (tree / "round").symlink_to("round")
    for name, number in (
        ("file", "Not a directory"),
        ("file/x", "Not a directory"),
        ("none", "No such file"),
        ("round", "Too many"),
    ):
        with pytest.raises(OSError, match=number):
            open_directory(str(tree / name))
