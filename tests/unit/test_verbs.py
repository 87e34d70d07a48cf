"""The verbs around a container, against a process that plays its init; state directories of every kind of
accident.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from krun.cli import fast
from krun.errors import KrunError, NotFoundError, UsageError
from krun.log import Log
from krun.oci import delete, events, kill, pause, ps, spec_cmd, state_cmd, teardown, update
from krun.oci import list as list_verb
from krun.oci import state as st
from krun.oci.cgroup import group as cgroups

ROOT = Path(__file__).parents[2]
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Box:
    """A state directory with a sleeping process."""

    def __init__(
        self, base: Path, name: str = "box", cgroup: bool = False, argv: tuple[str, ...] = ("sleep", "1000")
    ) -> None:
        self.dir = st.StateDir(str(base / "root"), name)
        self.dir.create()
        self.process = subprocess.Popen(argv)
        start = st.process_start_time(self.process.pid)
        self.state = st.ContainerState("1.3.0", name, "/b", self.process.pid, start, "T", "/b/r", {}, 0)
        self.cgroup = None
        if cgroup:
            self.cgroup = cgroups.create(f"/krun-test-{os.getpid()}-{name}", None, name, Log())
            self.cgroup.join(self.process.pid)
            self.state.cgroup_paths = self.cgroup.paths
        else:
            self.state.manager = "disabled"
        self.dir.save(self.state)

    def end(self) -> None:
        self.process.kill()
        if self.cgroup:
            self.cgroup.kill()  # thaws: a frozen process of cgroup v1 would not end
        self.process.wait()
        if self.cgroup:
            self.cgroup.destroy()

    def opts(self, line: str):
        opts = fast.parse(line.split())[1]
        opts.root = self.dir.root
        opts.logger = Log()
        return opts


@pytest.fixture
def box(tmp_path):
    found = Box(tmp_path)
    yield found
    found.end()


@pytest.fixture
def grouped(tmp_path):
    found = Box(tmp_path, "grouped", cgroup=True)
    yield found
    found.end()


# --- signals
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9", 9),
        ("TERM", 15),
        ("sigterm", 15),
        ("SIGKILL", 9),
        ("kill", 9),
        ("0", 0),
        ("rtmin+3", 37),
        ("RTMAX-1", 63),
    ],
)
def test_signal_names(text, number):
    assert kill.parse_signal(text) == number


@pytest.mark.parametrize(
    "text", ["", "-9", "65", "NOPE", "SIG", "_DFL", "SIG_BLOCK", "TERM+1", "RTMIN+99", "٩", "9 "]
)
def test_bad_signals(text):
    with pytest.raises(KrunError, match="unknown signal"):
        kill.parse_signal(text)


def test_kill(box):
    assert kill.main(box.opts("kill box USR1")) == 0
    assert box.process.wait() == -signal.SIGUSR1
    with pytest.raises(KrunError, match="^container not running$"):
        kill.main(box.opts("kill box"))
    assert kill.main(box.opts("kill --all box 9")) == 0, "only --all makes it a success, as in runc"
    with pytest.raises(NotFoundError, match="container does not exist"):
        kill.main(box.opts("kill other"))


def test_a_reused_pid_is_never_hit(box):
    box.state.start_time += 1
    box.dir.save(box.state)
    with pytest.raises(KrunError, match="container not running"):
        kill.main(box.opts("kill box KILL"))
    delete.main(box.opts("delete --force box"))
    assert box.process.poll() is None


def test_kill_by_expression(box):
    assert kill.main(box.opts("kill --regex ^b.x$ 9")) == 0
    assert box.process.wait() == -9
    assert kill.main(box.opts("kill --regex nothing")) == 0
    with pytest.raises(KrunError, match="invalid regular expression"):
        kill.main(box.opts("kill --regex ("))


@root
def test_kill_all_reaches_everybody(grouped):
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            grouped.cgroup.join(other.pid)
            kill.main(grouped.opts("kill -a grouped TERM"))
            assert other.wait(10) == -15
        finally:
            other.kill()
    assert grouped.process.wait() == -15


# --- delete
# ----------------------------------------------------------------------------------------------------------


def test_delete_refuses_what_runs(box):
    with pytest.raises(KrunError, match="cannot delete container box that is not stopped: running"):
        delete.main(box.opts("delete box"))
    assert delete.main(box.opts("delete -f box")) == 0
    assert box.process.wait() == -9
    assert not box.dir.exists()
    with pytest.raises(NotFoundError, match="does not exist"):
        delete.main(box.opts("delete box"))
    assert delete.main(box.opts("delete --force box")) == 0


#: The first thread ends by exit(2) (60), the second one stays.
LEADERLESS = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=[99]).start(); ctypes.CDLL(None).syscall(60, 0)"


@pytest.mark.parametrize("cgroup", [False, pytest.param(True, marks=root)])
def test_a_process_whose_first_thread_has_ended_is_alive(tmp_path, cgroup):
    box = Box(tmp_path, "box", cgroup, (sys.executable, "-c", LEADERLESS))
    try:
        end = time.monotonic() + 20
        while st.process_fields(box.process.pid)[0] != b"Z" and time.monotonic() < end:
            time.sleep(0.005)
        assert st.status(box.state, box.dir) == "running"
        if box.cgroup:
            assert box.cgroup.procs() == [box.process.pid]
        delete.main(box.opts("delete --force box"))
        assert box.process.poll() == -9, "delete has forgotten a process that runs"
    finally:
        box.end()


def test_delete_takes_a_created_container(box):
    os.mkfifo(box.dir.path + "/start.fifo")
    os.mkfifo(box.dir.path + "/result.fifo")
    assert delete.main(box.opts("delete box")) == 0
    assert box.process.wait() == -9
    assert not box.dir.exists()


def test_poststop_hooks_run_and_may_fail(box, tmp_path, capfd):
    script = f"cat > {tmp_path}/in; test -e {box.dir.path} && echo still there >&2; exit 3"
    hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    box.dir.write("config.json", json.dumps({"hooks": {"poststop": [hook]}}).encode())
    delete.main(box.opts("delete -f box"))
    state = json.loads((tmp_path / "in").read_text())
    assert state["status"] == "stopped" and state["id"] == "box" and "pid" not in state
    err = capfd.readouterr().err
    assert "level=warning" in err and "exit status 3" in err and "still there" not in err


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"state.json": b""},
        {"state.json": b'{"id": '},
        {"config.json": b"{"},
        {".state.json.77": b"x", "config.json": b'{"linux": {"cgroupsPath": "/krun-test-nothing"}}'},
        {"state.json": b'{"id": "half", "pid": 0}'},
        {"state.json": b'{"id": "half", "pid": 999999999, "start_time": 5}'},
    ],
)
def test_what_a_killed_create_left_behind(tmp_path, files):
    half = st.StateDir(str(tmp_path), "half")
    half.create()
    for name, data in files.items():
        Path(half.path, name).write_bytes(data)
    os.mkfifo(half.path + "/start.fifo")
    teardown.delete(half, True, Log())
    assert not half.exists()


@root
def test_the_empty_cgroup_of_a_killed_create_goes(tmp_path):
    half = st.StateDir(str(tmp_path), "half")
    half.create()
    name = f"/krun-test-half-{os.getpid()}"
    cgroup = cgroups.create(name, None, "half", Log())
    half.write("config.json", json.dumps({"linux": {"cgroupsPath": name}}).encode())
    teardown.delete(half, True, Log())
    assert not any(os.path.exists(path) for path in cgroup.directories())


@root
def test_delete_removes_cgroup_and_everybody_in_it(grouped):
    grouped.cgroup.freeze()
    assert json.loads(state(grouped))["status"] == "paused"
    delete.main(grouped.opts("delete -f grouped"))
    assert grouped.process.wait() == -9
    assert not any(os.path.exists(path) for path in grouped.cgroup.directories())


def test_delete_waits_for_a_lock_and_kills_its_container(box):
    code = (
        "import sys, time; from krun.oci.state import StateDir\n"
        f"with StateDir({box.dir.root!r}, 'box').lock():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with subprocess.Popen(
            [sys.executable, "-m", "krun", "--root", box.dir.root, "delete", "-f", "box"], cwd=ROOT
        ) as deleter:
            assert box.process.wait(5) == -9, "killed although somebody holds the lock"
            assert deleter.poll() is None
            holder.stdin.close()
            assert deleter.wait() == 0
    assert not box.dir.exists()


# --- state, list, ps
# -------------------------------------------------------------------------------------------------


def state(box, capture=None):
    done = subprocess.run(
        [sys.executable, "-m", "krun", "--root", box.dir.root, "state", box.dir.id],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_state_as_runc_prints_it(box, capfd):
    state_cmd.main(box.opts("state box"))
    text = capfd.readouterr().out
    assert text.startswith('{\n  "ociVersion": "1.3.0",\n  "id": "box",\n  "pid": ') and text.endswith("}")
    assert json.loads(text)["status"] == "running"
    box.process.kill()
    time.sleep(0.05)
    state_cmd.main(box.opts("state box"))
    shown = json.loads(capfd.readouterr().out)
    assert (shown["status"], shown["pid"]) == ("stopped", 0)


def test_list(box, capsys):
    list_verb.main(box.opts("list"))
    header, line = capsys.readouterr().out.splitlines()
    assert header == "ID          PID         STATUS      BUNDLE      CREATED     OWNER"
    assert line.split() == ["box", str(box.process.pid), "running", "/b", "T", line.split()[-1]]
    list_verb.main(box.opts("list -f json"))
    entries = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in entries] == ["box"] and entries[0]["owner"]
    list_verb.main(box.opts("list -q"))
    assert capsys.readouterr().out == "box\n"
    with pytest.raises(UsageError, match="invalid format option"):
        list_verb.main(box.opts("list -f xml"))
    Path(box.dir.root, "half").mkdir()
    list_verb.main(box.opts("list -q"))
    assert capsys.readouterr().out == "box\n", "a directory without state is skipped"
    empty = box.opts("list -f json")
    empty.root = box.dir.root + "-none"
    list_verb.main(empty)
    assert capsys.readouterr().out == "null\n"


@root
def test_ps(grouped, capsys):
    ps.main(grouped.opts("ps --format json grouped"))
    assert json.loads(capsys.readouterr().out) == [grouped.process.pid]
    ps.main(grouped.opts("ps grouped"))
    header, line = capsys.readouterr().out.splitlines()
    assert "PID" in header and "sleep 1000" in line
    ps.main(grouped.opts("ps grouped -o pid,comm"))
    assert capsys.readouterr().out.split() == ["PID", "COMMAND", str(grouped.process.pid), "sleep"]
    with pytest.raises(KrunError, match="couldn't find PID field"):
        ps.main(grouped.opts("ps grouped -o comm"))


# --- pause, resume, update, events
# -----------------------------------------------------------------------------------


@root
def test_pause_and_resume(grouped):
    with pytest.raises(KrunError, match="container not paused"):
        pause.resume(grouped.opts("resume grouped"))
    pause.pause(grouped.opts("pause grouped"))
    assert st.status(grouped.state, grouped.dir) == "paused"
    with pytest.raises(KrunError, match="container not running"):
        pause.pause(grouped.opts("pause grouped"))
    pause.resume(grouped.opts("resume grouped"))
    assert st.status(grouped.state, grouped.dir) == "running"
    grouped.cgroup.freeze()
    kill.main(grouped.opts("kill grouped KILL"))
    assert grouped.process.wait(5) == -9, "a frozen container can be killed"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("100", 100), ("1k", 1024), ("2M", 2 << 20), ("1.5g", 3 << 29), ("3KiB", 3072), ("1tb", 1 << 40),
     ("-1", -1), ("7b", 7), ("1 k", 1024)],
)  # fmt: skip
def test_sizes(text, number):
    assert update.size(text, "memory") == number


@pytest.mark.parametrize("text", ["", "x", "1x", "-2", "1.5", "1..5k", "k", "0x10", "1e3", "٣"])
def test_bad_sizes(text):
    with pytest.raises(UsageError):
        update.size(text, "memory")


def test_update_flags(box):
    line = (
        "update --memory 32m --memory-swap -1 --memory-reservation 1m --cpu-share 7 --cpu-quota -1 --cpu-period 9 "
        "--cpu-burst 0 --cpu-idle 1 --cpuset-cpus 0 --cpuset-mems 0 --pids-limit 5 --blkio-weight 10 box"
    )
    assert update.from_flags(box.opts(line)) == {
        "blockIO": {"weight": 10},
        "cpu": {"period": 9, "quota": -1, "burst": 0, "shares": 7, "idle": 1, "cpus": "0", "mems": "0"},
        "memory": {"limit": 32 << 20, "reservation": 1 << 20, "swap": -1},
        "pids": {"limit": 5},
    }
    assert update.from_flags(box.opts("update box")) == {}


@root
def test_update(grouped, tmp_path):
    update.main(grouped.opts("update --pids-limit 5 grouped"))
    main = grouped.cgroup.paths.get("pids") or grouped.cgroup.paths[""]
    assert cgroups.read(main + "/pids.max") == "5"
    (tmp_path / "r").write_text('{"pids": {"limit": 6}, "devices": [{"allow": true}]}')
    update.main(grouped.opts(f"update -r {tmp_path}/r grouped"))
    assert cgroups.read(main + "/pids.max") == "6"
    done = subprocess.run(
        [sys.executable, "-m", "krun", "--root", grouped.dir.root, "update", "--resources=-", "grouped"],
        cwd=ROOT, input=b'{"pids": {"limit": 7}}',
    )  # fmt: skip
    assert done.returncode == 0 and cgroups.read(main + "/pids.max") == "7"
    for text, place in (
        ('{"memory": {"limit": "x"}}', "/linux/resources/memory/limit: want a whole number"),
        ('{"pids": {"limit": 0.5}}', "/linux/resources/pids/limit"),
        ("[]", "not a JSON object"),
        ("x", "invalid JSON"),
    ):
        (tmp_path / "r").write_text(text)
        with pytest.raises(KrunError, match=place):
            update.main(grouped.opts(f"update -r {tmp_path}/r grouped"))
    for text in ("null", "{}", '{"memory": null}', '{"unknown": 1}'):
        (tmp_path / "r").write_text(text)
        update.main(grouped.opts(f"update -r {tmp_path}/r grouped"))
    assert cgroups.read(main + "/pids.max") == "7"
    with pytest.raises(KrunError, match="no resctrl group"):
        update.main(grouped.opts("update --l3-cache-schema L3:0=f grouped"))
    grouped.process.kill()
    grouped.process.wait()
    with pytest.raises(KrunError, match="container not running"):
        update.main(grouped.opts("update --pids-limit 5 grouped"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("1m30s", 90), ("100ms", 0.1), ("1.5h", 5400), ("2us", 2e-6)]
)
def test_durations(text, seconds):
    assert events.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "x", "5 s", "s", "-1s"])
def test_bad_durations(text):
    with pytest.raises(UsageError, match="invalid duration"):
        events.duration(text)


@root
def test_events(grouped):
    command = [sys.executable, "-m", "krun", "--root", grouped.dir.root, "events"]
    done = subprocess.run([*command, "--stats", "grouped"], cwd=ROOT, capture_output=True, check=True)
    event = json.loads(done.stdout)
    assert event["type"] == "stats" and event["id"] == "grouped"
    assert {"cpu", "cpuset", "memory", "pids", "blkio", "hugetlb", "intel_rdt", "network_interfaces"} <= set(
        event["data"]
    )
    assert event["data"]["memory"]["usage"]["limit"] > 0 and event["data"]["pids"]["current"] == 1
    with subprocess.Popen(
        [*command, "--interval", "50ms", "grouped"], cwd=ROOT, stdout=subprocess.PIPE
    ) as watcher:
        for _ in range(2):
            assert json.loads(watcher.stdout.readline())["type"] == "stats"
        grouped.process.kill()
        watcher.stdout.read()
        assert watcher.wait() == 0, "ends with the container"


@root
def test_oom_is_an_event(tmp_path):
    box = Box(tmp_path, "oom", cgroup=True)
    try:
        box.cgroup.apply({"memory": {"limit": 20 << 20, "swap": 20 << 20}})
        command = [sys.executable, "-m", "krun", "--root", box.dir.root, "events", "--interval", "1h", "oom"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as watcher:
            assert json.loads(watcher.stdout.readline())["type"] == "stats"
            code = "import sys; sys.stdin.readline(); x = bytearray(100 << 20)"
            with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as eater:
                box.cgroup.join(eater.pid)
                eater.stdin.write(b"go\n")
                eater.stdin.close()
                assert eater.wait() == -9
            # A watcher that says nothing must fail the test, not hang it.
            guard = threading.Timer(30, watcher.kill)
            guard.daemon = True
            guard.start()
            assert json.loads(watcher.stdout.readline()) == {"type": "oom", "id": "oom"}
            box.process.kill()
            watcher.wait()
    finally:
        box.end()


# --- spec
# ------------------------------------------------------------------------------------------------------------


def test_spec(tmp_path, box):
    line = f"spec --bundle {tmp_path}"
    spec_cmd.main(box.opts(line))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["ociVersion"] == "1.3.0" and config["process"]["args"] == ["sh"]
    with pytest.raises(KrunError, match="exists"):
        spec_cmd.main(box.opts(line))
    rootless = spec_cmd.example(True)
    kinds = [entry["type"] for entry in rootless["linux"]["namespaces"]]
    assert "user" in kinds and "network" not in kinds and "resources" not in rootless["linux"]


def test_spec_is_a_spec_we_take(tmp_path):
    from krun.oci import spec

    for rootless in (False, True):
        text = json.dumps(spec_cmd.example(rootless))
        (tmp_path / "rootfs").mkdir(exist_ok=True)
        spec.parse(text.encode(), str(tmp_path))


def test_features_has_only_keys_of_the_specification():
    from krun.oci.features import features

    found = features()
    assert set(found) <= {
        "ociVersionMin", "ociVersionMax", "hooks", "mountOptions", "linux", "annotations",
        "potentiallyUnsafeConfigAnnotations",
    }  # fmt: skip
    assert set(found["linux"]) <= {
        "namespaces", "capabilities", "cgroup", "seccomp", "apparmor", "selinux", "intelRdt", "memoryPolicy",
        "mountExtensions", "netDevices",
    }  # fmt: skip
    assert found["ociVersionMax"] == "1.3.0" and "rro" in found["mountOptions"]
    assert "SCMP_ACT_NOTIFY" in found["linux"]["seccomp"]["actions"]
    assert set(found["linux"]["cgroup"]) == {"v1", "v2", "systemd", "systemdUser", "rdma"}
