"""Mounts whose names have other ends of lines than \\n, which /proc/PID/mountinfo does not escape, or are no UTF-8."""

import os
import subprocess

#: What str.splitlines() and universal newlines take for the end of a line; blanks of other kinds; no UTF-8.
ODD = "a\r9\x0b8\x0c\x1c\x85\u2028\xa0b"


def test_a_destination(runtime, bundle, tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    (source / "in").write_text("there\n")
    bundle.mount(f"/{ODD}", source, "rbind")
    assert runtime.run(bundle.shell("cat /a*b/in")).ok().out == "there\n"


def test_a_tmpfs(runtime, bundle):
    """Its name as the program sees it: the kernel escapes the line feed only."""
    bundle.mount("/a\u2028b\vc", "tmpfs", type="tmpfs")
    done = runtime.run(bundle.args("sh", "-c", "grep -c '^[0-9].* /a.*b.*c .*tmpfs' /proc/self/mountinfo"))
    assert done.ok().out == "1\n"


def test_of_the_host(runtime, bundle, tmp_path):
    """Any user of the host may have made it, with fusermount(1)."""
    place = os.path.join(os.fsencode(tmp_path), os.fsencode(ODD) + b"\xff")
    os.mkdir(place)
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        assert runtime.run(bundle.shell("echo runs")).ok().out == "runs\n"
    finally:
        subprocess.run(["umount", place], check=True)
