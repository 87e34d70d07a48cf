"""State that belongs to another user: root kills no process and runs no hook that it names."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from krun.cli import fast
from krun.errors import KrunError
from krun.log import Log
from krun.oci import delete, kill, pause, ps, start
from krun.oci import list as list_verb
from krun.oci import state as st

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Box:
    """A state directory with a process."""

    def __init__(self, base: str) -> None:
        self.dir = st.StateDir(base, "box")
        self.dir.create()
        self.process = subprocess.Popen(["sleep", "1000"])
        start_time = st.process_start_time(self.process.pid)
        self.state = st.ContainerState("1.3.0", "box", "/b", self.process.pid, start_time, "T", "/b/r", {}, 0)
        self.state.manager = "disabled"
        self.dir.save(self.state)

    def opts(self, line: str):
        opts = fast.parse(line.split())[1]
        opts.root = self.dir.root
        opts.logger = Log()
        return opts


@pytest.fixture
def box(tmp_path):
    made = Box(str(tmp_path / "root"))
    yield made
    made.process.kill()
    made.process.wait()


@root
@pytest.mark.parametrize(
    "line", ["delete -f box", "delete box", "kill box 9", "start box", "ps box", "pause box"]
)
@pytest.mark.parametrize("whose", ["directory", "state"])
def test_another_users_state_ends_and_runs_nothing(box, tmp_path, line, whose):
    """It would name the process that root kills, and the hook that root runs. runc does both."""
    hook = {"path": "/bin/touch", "args": ["touch", f"{tmp_path}/ran"]}
    box.dir.write("config.json", json.dumps({"hooks": {"poststop": [hook], "poststart": [hook]}}).encode())
    names = ("", "/state.json", "/config.json") if whose == "directory" else ("/state.json", "/config.json")
    for name in names:
        os.chown(box.dir.path + name, 1000, 1000)
    opts = box.opts(line)
    if whose == "state" and line == "delete -f box":
        delete.main(opts)  # our own directory with strange files: it goes, and nothing that they name
    else:
        with pytest.raises(KrunError, match="it belongs to uid 1000; run krun as this user"):
            {
                "delete": delete.main,
                "kill": kill.main,
                "start": start.main,
                "ps": ps.main,
                "pause": pause.pause,
            }[line.split()[0]](opts)
        assert box.dir.exists()
    assert box.process.poll() is None and not (tmp_path / "ran").exists()


@root
def test_the_state_of_another_user_is_shown(box, capsys):
    os.chown(box.dir.path + "/state.json", 1000, 1000)
    assert list_verb.main(box.opts("list")) == 0 and "running" in capsys.readouterr().out


@root
@pytest.mark.parametrize("kind", ["fifo", "link", "bytes", "nul", "words"])
def test_what_another_users_state_says_keeps_no_other_from_the_list(box, tmp_path, capsys, kind):
    """Its cgroup's file is a FIFO, a link to a device that an open would change, no text; its path is none; it writes to the terminal."""
    file = tmp_path / "cgroup.freeze"
    (tmp_path / "device").write_bytes(b"1\xff")
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("device")
    else:
        file.write_bytes(b"1\xff")
    box.state.cgroup_paths = {"": f"{tmp_path}\0" if kind == "nul" else str(tmp_path)}
    if kind == "words":
        box.state.bundle, box.state.id = "/b\n\x1b[2J", "another"
    box.dir.save(box.state)
    os.chown(box.dir.path + "/state.json", 1000, 1000)
    assert list_verb.main(box.opts("list")) == 0
    row = capsys.readouterr().out.splitlines()[1:]
    assert len(row) == 1 and row[0].startswith("box ") and row[0].isprintable()
    assert ("paused" if kind in ("bytes", "words") else "running") in row[0]


def test_a_state_without_an_end_is_not_read(tmp_path):
    other = st.StateDir(str(tmp_path), "other")
    other.create()
    other.write("state.json", b"{")
    os.truncate(other.path + "/state.json", 1 << 30)
    with pytest.raises(KrunError, match="file too large"):
        other.load(anybody=True)


def test_a_state_that_is_a_fifo_holds_up_nobody(tmp_path):
    other = st.StateDir(str(tmp_path), "other")
    other.create()
    os.mkfifo(other.path + "/state.json")
    with pytest.raises(KrunError):
        other.load(anybody=True)
