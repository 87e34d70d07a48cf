"""The state directory: names, atomic files, lock, status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from krun.errors import ConfigError, KrunError, NotFoundError
from krun.oci import state as st

ROOT = Path(__file__).parents[2]


@pytest.fixture
def statedir(tmp_path):
    found = st.StateDir(str(tmp_path / "root"), "box")
    found.create()
    return found


@pytest.mark.parametrize("name", ["a", "A-b_c.d+1", "..a", "x" * 1024])
def test_good_ids(name):
    st.check_id(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "../x", "x" * 1025, "a\0"])
def test_bad_ids(name):
    with pytest.raises(KrunError, match="invalid container ID format"):
        st.StateDir("/run/krun", name)


def test_create_is_private_and_once(statedir):
    assert os.stat(statedir.path).st_mode & 0o777 == 0o700
    assert os.stat(statedir.root).st_mode & 0o777 == 0o700
    with pytest.raises(KrunError, match="container with given ID already exists"):
        statedir.create()


def test_a_link_in_our_place_is_not_followed(tmp_path):
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir()
    (root / "box").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KrunError, match="already exists"):
        st.StateDir(str(root), "box").create()
    with pytest.raises(KrunError):
        with st.StateDir(str(root), "box").lock():
            pass


def test_a_root_that_others_can_change_is_refused(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(KrunError, match="others could replace"):
        st.StateDir(str(root), "box").create()


def test_state_comes_back(statedir):
    state = st.ContainerState(
        "1.3.0", "box", "/b", 42, 7, "2026-01-01T00:00:00Z", "/b/r", {"k": "v"}, 0, {"": "/sys/fs/cgroup/x"}
    )
    statedir.save(state)
    loaded = statedir.load()
    assert all(getattr(loaded, name) == getattr(state, name) for name in st.ContainerState.__slots__)
    assert os.listdir(statedir.path) == ["state.json"]


def test_unknown_container(tmp_path):
    missing = st.StateDir(str(tmp_path), "none")
    with pytest.raises(NotFoundError, match="container does not exist"):
        missing.load()
    with pytest.raises(NotFoundError):
        with missing.lock():
            pass
    missing.destroy()
    assert st.ids(str(tmp_path / "nowhere")) == []


def test_a_damaged_state_is_one_line(statedir):
    statedir.write("state.json", b'{"pid": 1')
    with pytest.raises(ConfigError, match="state.json: invalid JSON"):
        statedir.load()
    statedir.write("state.json", b'{"pid": "1"}')
    with pytest.raises(KrunError, match="member pid has the wrong type"):
        statedir.load()


def test_a_reader_never_sees_half_a_state(statedir):
    state = st.ContainerState(id="box", annotations={"x": "y" * 10000})
    statedir.save(state)
    child = os.fork()
    if child == 0:
        while True:
            statedir.save(state)
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            assert statedir.load().annotations == state.annotations
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert statedir.load().id == "box"
    # A writer killed in the middle leaves a temporary file at most, which goes with the directory.
    statedir.destroy()
    assert not os.path.exists(statedir.path)


def test_the_lock_excludes_and_dies_with_its_holder(statedir):
    code = (
        "import sys, time; from krun.oci.state import StateDir\n"
        f"with StateDir({statedir.root!r}, 'box').lock():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(KrunError, match="another krun"):
            with statedir.lock(0.1):
                pass
        assert st.status(st.ContainerState(id="box"), statedir) == st.CREATING
        holder.kill()
    with statedir.lock(1):
        pass
    assert st.status(st.ContainerState(id="box"), statedir) == st.STOPPED


def test_a_lock_on_what_was_deleted_meanwhile(statedir):
    lock = statedir.lock()
    original = lock._acquire
    lock._acquire = lambda: (original(), statedir.destroy())
    with pytest.raises(NotFoundError):
        lock.__enter__()


def test_status_follows_the_process(statedir):
    child = subprocess.Popen(["sleep", "60"])
    state = st.ContainerState(id="box", pid=child.pid, start_time=st.process_start_time(child.pid))
    os.mkfifo(statedir.path + "/start.fifo")
    assert st.status(state, statedir) == st.CREATED
    os.unlink(statedir.path + "/start.fifo")
    assert st.status(state, statedir) == st.RUNNING
    other = st.ContainerState(id="box", pid=child.pid, start_time=state.start_time + 1)
    assert st.status(other, statedir) == st.STOPPED, "a reused pid"
    child.kill()
    while st.process_stat(child.pid)[0] != "Z":
        time.sleep(0.001)
    assert st.status(state, statedir) == st.STOPPED, "a zombie"
    child.wait()
    assert st.status(state, statedir) == st.STOPPED
    assert st.process_start_time(child.pid) == 0


def test_paused_by_either_freezer(statedir, tmp_path):
    state = st.ContainerState(id="box", pid=os.getpid(), start_time=st.process_start_time(os.getpid()))
    (tmp_path / "cgroup.freeze").write_text("1\n")
    (tmp_path / "freezer.state").write_text("FREEZING\n")
    for key in ("", "freezer"):
        state.cgroup_paths = {key: str(tmp_path)}
        assert st.status(state, statedir) == st.PAUSED


def test_a_command_name_with_parentheses(tmp_path):
    tool = tmp_path / "a) R (b"
    tool.symlink_to("/bin/sleep")
    with subprocess.Popen([str(tool), "60"]) as child:
        while b"(a) R (b)" not in Path(f"/proc/{child.pid}/stat").read_bytes():
            time.sleep(0.001)
        assert st.process_stat(child.pid)[0] in "SRD"
        assert st.process_start_time(child.pid) >= st.process_start_time(os.getpid())
        child.kill()


def test_shape_of_the_state():
    state = st.ContainerState("1.3.0", "box", "/b", 42, 7, "T", "/b/r", {"k": "v"})
    shown = st.oci_state(state, st.RUNNING)
    want = ["ociVersion", "id", "pid", "status", "bundle", "rootfs", "created", "annotations", "owner"]
    assert list(shown) == want
    assert st.oci_state(state, st.STOPPED)["pid"] == 0
    state.annotations = {}
    assert "annotations" not in st.oci_state(state, st.RUNNING)
    assert st.hook_state(state, st.CREATING) == {
        "ociVersion": "1.3.0",
        "id": "box",
        "status": "creating",
        "pid": 42,
        "bundle": "/b",
        "annotations": {},
    }
    assert "pid" not in st.hook_state(state, st.STOPPED, 0)
