"""linux.cgroupsPath and linux.resources, on cgroup v1 and v2: limits are in the control files and hold."""

import os
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
