"""linux.cgroupsPath and linux.resources, on cgroup v1 and v2: limits are in the control files and hold."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.runtime import cgroup_directories, cgroup_file, cgroup_v2, wait_for


def control(pid, controller, v1, v2):
    return cgroup_file(pid, controller, v2 if cgroup_v2() else v1).read_text().strip()


def test_own_cgroup(running):
    assert cgroup_directories(running.id)
    for line in Path(f"/proc/{running.pid}/cgroup").read_text().splitlines():
        controllers = line.split(":")[1]
        if controllers in ("memory", "pids", "cpu") or cgroup_v2():
            assert running.id in line


def inner(name):
    """The directories of /name/inner in all hierarchies."""
    return [d for d in cgroup_directories("inner") if d.endswith(f"/{name}/inner")]


def test_cgroups_path(runtime, bundle):
    name = f"krun-test-{os.getpid()}"
    bundle.linux["cgroupsPath"] = f"/{name}/inner"
    container = runtime.start(bundle.args("sleep", "1000"))
    assert f"/{name}/inner" in Path(f"/proc/{container.pid}/cgroup").read_text()
    assert inner(name)
    container.call("delete", "--force").ok()
    assert inner(name) == []
    for directory in cgroup_directories(name):
        os.rmdir(directory)


@pytest.mark.parametrize("cpus", ["", "0"])
def test_a_group_above_that_is_there_and_empty(runtime, bundle, cpus):
    """An empty cpuset of cgroup v1 takes no process: it is filled from above."""
    name = f"krun-test-{os.getpid()}"
    above = Path("/sys/fs/cgroup", "" if cgroup_v2() else "cpuset", name)
    above.mkdir()
    try:
        bundle.linux["cgroupsPath"] = f"/{name}/inner"
        if cpus:
            bundle.linux["resources"]["cpu"] = {"cpus": cpus}
        done = runtime.run(bundle.shell("grep Cpus_allowed_list /proc/self/status")).ok()
        assert not cpus or done.out.split() == ["Cpus_allowed_list:", cpus]
    finally:
        for directory in cgroup_directories(name):
            os.rmdir(directory)


def test_memory_limit(runtime, bundle):
    bundle.linux["resources"]["memory"] = {"limit": 64 << 20}
    container = runtime.start(bundle.args("sleep", "1000"))
    assert control(container.pid, "memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)


def test_memory_limit_kills(runtime, bundle):
    """The payload's memory is the cgroup's: its own out-of-memory end, reported as 137."""
    bundle.linux["resources"]["memory"] = {"limit": 32 << 20, "swap": 32 << 20}
    done = runtime.run(bundle.shell("dd if=/dev/zero of=/dev/null bs=200M count=1; echo status $?"))
    assert "status 137" in done.out or done.status == 137, done


def test_pids_limit(runtime, bundle):
    bundle.linux["resources"]["pids"] = {"limit": 10}
    container = runtime.start(bundle.args("sleep", "1000"))
    assert control(container.pid, "pids", "pids.max", "pids.max") == "10"
    done = container.exec("sh", "-c", "i=0; while [ $i -lt 20 ]; do sleep 1 & i=$((i+1)); done")
    assert "can't fork" in done.err, done


def test_pids_limit_that_is_full_for_moments(runtime, bundle):
    """Processes that come and go under a limit that has just room for them: none fails."""
    bundle.linux["resources"]["pids"] = {"limit": 10}
    loop = "i=0; while [ $i -lt 20 ]; do sleep 0.02 || echo failed; i=$((i+1)); done"
    done = runtime.run(bundle.shell(f"({loop}) & {loop}; wait; echo over"))
    assert (done.out, done.err, done.status) == ("over\n", "", 0), done


def test_cpu(runtime, bundle):
    bundle.linux["resources"]["cpu"] = {"shares": 512, "quota": 50000, "period": 100000}
    container = runtime.start(bundle.args("sleep", "1000"))
    if cgroup_v2():
        assert control(container.pid, "cpu", "", "cpu.max") == "50000 100000"
    else:
        assert control(container.pid, "cpu", "cpu.cfs_quota_us", "") == "50000"
        assert control(container.pid, "cpu", "cpu.shares", "") == "512"


def test_quota_holds_for_the_payload(runtime, bundle):
    """The time the payload burns in its VM counts: 20 % of a CPU stay 20 %."""
    bundle.linux["resources"]["cpu"] = {"quota": 20000, "period": 100000}
    container = runtime.start(bundle.shell("while :; do :; done"))

    def throttled():
        text = control(container.pid, "cpu", "cpu.stat", "cpu.stat")
        return dict(line.split() for line in text.splitlines()).get("nr_throttled", "0") != "0"

    wait_for(throttled, "never throttled")


def test_device_rules(runtime, bundle):
    """The default is to deny; the rules of runc's list of default devices stand."""
    for names in bundle.process["capabilities"].values():
        names.append("CAP_MKNOD")
    container = runtime.start(bundle.args("sleep", "1000"))
    if not cgroup_v2():
        rules = control(container.pid, "devices", "devices.list", "")
        assert "c 1:3 rwm" in rules and "a *:* rwm" not in rules
    # v2's rules are a program that shows nothing of itself: what it lets through is the same in both.
    script = "cd /dev && mknod may c 1 3 && mknod not c 1 11 && echo x >may && echo null; echo x >not || echo no kmsg"
    done = container.exec("sh", "-c", script)
    assert done.out == "null\nno kmsg\n" and "Operation not permitted" in done.err, done


@pytest.mark.parametrize("allow", [False, True])
def test_device_rules_hold(runtime, bundle, allow):
    bundle.linux["devices"] = [
        {"path": "/dev/kmsg2", "type": "c", "major": 1, "minor": 11, "fileMode": 0o666}
    ]
    if allow:
        rule = {"allow": True, "type": "c", "major": 1, "minor": 11, "access": "rwm"}
        bundle.linux["resources"]["devices"].append(rule)
    done = runtime.run(bundle.shell(": >/dev/kmsg2 && echo opened"))
    assert (done.out == "opened\n") == allow, done
    if not allow:
        assert "Operation not permitted" in done.err or "can't open" in done.err


def test_pause_and_resume(runtime, bundle):
    container = runtime.start(bundle.shell("while :; do echo x; sleep 0.01; done"))
    wait_for(lambda: container.out(), "no output")
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    size = container.out_file.stat().st_size
    import time

    time.sleep(0.2)
    assert container.out_file.stat().st_size == size
    container.call("resume").ok()
    wait_for(lambda: container.out_file.stat().st_size > size, "not resumed")
    assert container.state()["status"] == "running"


def test_delete_force_of_a_paused_container(running):
    running.call("pause").ok()
    running.call("delete", "--force").ok()
    assert running.wait() == 137 and running.left() == []


def test_update(running):
    running.call("update", options=("--pids-limit", "33")).ok()
    assert control(running.pid, "pids", "pids.max", "pids.max") == "33"


def test_events_stats(running):
    import json

    done = running.call("events", options=("--stats",)).ok()
    data = json.loads(done.out)
    assert data["type"] == "stats" and data["id"] == running.id
    assert data["data"]["pids"]["current"] >= 1 and data["data"]["memory"]["usage"]["usage"] > 0


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_events_count_exits(running):
    """Each process adds its own when it ends, also one that executes another program first."""
    import json

    def exits():
        done = running.call("events", options=("--stats",)).ok()
        return json.loads(done.out)["data"]["krun"]["calls"]["exits"]

    seen = [exits()]
    for text in ("true", "exec ls /", "ls / & wait"):
        running.exec("sh", "-c", text).ok()
        seen.append(exits())
        assert seen[-1] > seen[-2], text
    assert seen[-1] < 100000


@pytest.fixture(scope="session")
def nest(tmp_path_factory):
    program = tmp_path_factory.mktemp("nest") / "nest"
    source = Path(__file__).with_name("cgroup_nest.c")
    subprocess.run(["gcc", "-static", "-O1", "-w", "-o", program, source], check=True)
    return program


def nested(runtime, bundle, nest, *arguments):
    """A container that may write its cgroup, and has nested groups in it."""
    bundle.namespaces(add=("cgroup",))
    bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
    bundle.mount("/sys/fs/cgroup", "cgroup", "rw", type="cgroup")
    bundle.mount("/nest", nest, "bind", "ro")
    top = "/sys/fs/cgroup" + ("" if cgroup_v2() else "/freezer")
    container = runtime.start(bundle.args("/nest", top, *arguments))
    wait_for(container.out, "no output")
    assert container.out() == "ready\n"
    return container


@pytest.mark.parametrize(("depth", "length"), [(1500, 1), (400, 200)], ids=["calls", "PATH_MAX"])
def test_nested_groups_of_the_payload(runtime, bundle, nest, depth, length):
    """Deeper than a recursion of Python's, with paths longer than PATH_MAX: every verb works."""
    if runtime.name == "runc" and length > 1:
        return  # its paths are strings: "file name too long", and the groups stay
    container = nested(runtime, bundle, nest, str(depth), str(length))
    assert len(json.loads(container.call("ps", options=("--format", "json")).ok().out)) == 2
    stats = json.loads(container.call("events", options=("--stats",)).ok().out)
    assert stats["data"]["pids"]["current"] >= 2
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    container.call("resume").ok()
    container.exec("true").ok()
    container.call("kill", "KILL", options=("--all",)).ok()
    assert container.wait() == 137
    container.call("delete").ok()
    assert container.left() == []


@pytest.mark.skipif(cgroup_v2(), reason="a frozen process of cgroup v2 dies of SIGKILL")
@pytest.mark.parametrize("way", ["delete", "kill", "all"])
def test_a_group_that_the_payload_has_frozen(runtime, bundle, nest, way):
    """cgroup v1: the thaw of a parent leaves such a group frozen, and nothing in it dies."""
    if runtime.name == "runc":
        return  # it thaws the container's own group only: the process stays
    container = nested(runtime, bundle, nest, "3", "1", "freeze")
    if way != "delete":
        container.call("kill", "KILL", options=("--all",) if way == "all" else ()).ok()
        assert container.wait() == 137
    container.call("delete", "--force").ok()
    assert container.left() == []


@pytest.mark.skipif(cgroup_v2(), reason="a frozen process of cgroup v2 dies of SIGKILL")
def test_a_process_that_cannot_end_yet_is_told(runtime, bundle):
    """The host has frozen the group above, in a pid namespace that goes on: SIGKILL is sent, and its effect not awaited."""
    top = Path(f"/sys/fs/cgroup/freezer/kt-above-{os.getpid()}")
    bundle.namespaces(drop=("pid",))
    bundle.linux["cgroupsPath"] = f"/{top.name}/inside"
    try:
        container = runtime.start(bundle.args("sleep", "1000"))
        (top / "freezer.state").write_text("FROZEN")
        container.call("kill", "KILL").ok()
        (top / "freezer.state").write_text("THAWED")
        assert container.wait() == 137
        container.call("delete").ok()
        assert container.left() == []
    finally:
        if top.exists():
            (top / "freezer.state").write_text("THAWED")
        for path in Path("/sys/fs/cgroup").glob(f"*/{top.name}"):
            path.rmdir()


@pytest.mark.skipif(not cgroup_v2(), reason="cgroup v1 lets processes be in every group")
def test_exec_beside_groups_of_the_payload_with_controllers(runtime, bundle):
    """What systemd and dockerd do in a container: from then on nobody may be in the container's own group (cgroups(7))."""
    bundle.namespaces(add=("cgroup",))
    bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
    bundle.mount("/sys/fs/cgroup", "cgroup", "rw", type="cgroup")
    script = "cd /sys/fs/cgroup; mkdir init; echo 1 > init/cgroup.procs; echo +pids > cgroup.subtree_control; echo done; exec sleep 1000"
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "done" in container.out(), "no output")
    for _ in range(2):
        container.exec("true").ok()
    container.call("delete", "--force").ok()
    assert container.left() == []
