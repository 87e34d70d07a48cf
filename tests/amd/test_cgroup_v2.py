"""Pure cgroup v2, which only the emulated machine has: limits, OOM, freeze, devices, delegation, as a payload and a caller see them."""

import os
from pathlib import Path

import pytest
from helpers.runtime import cgroup_v2, wait_for

pytestmark = pytest.mark.skipif(
    not cgroup_v2(), reason="cgroup v1 or hybrid here: ./dev test-amd has v2 (tests/README.md)"
)


def directory(pid):
    """The unified cgroup of a process, on the host."""
    path = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]
    return Path("/sys/fs/cgroup" + path)


def test_limits(runtime, bundle):
    bundle.linux["resources"] = {
        "memory": {"limit": 64 << 20, "swap": 64 << 20, "reservation": 32 << 20},
        "cpu": {"shares": 512, "quota": 50000, "period": 100000},
        "pids": {"limit": 50},
        "unified": {"memory.high": "50331648"},
    }
    found = directory(runtime.start(bundle.args("sleep", "1000")).pid)
    values = {
        "memory.max": str(64 << 20),
        "memory.low": str(32 << 20),
        "pids.max": "50",
        "cpu.max": "50000 100000",
    }
    values["memory.high"] = "50331648"
    assert {name: (found / name).read_text().strip() for name in values} == values
    assert int((found / "cpu.weight").read_text()) in (20, 59)  # the old and the new conversion of 512 shares


def test_update(runtime, bundle):
    container = runtime.start(bundle.args("sleep", "1000"))
    container.call("update", options=("--memory", str(48 << 20), "--pids-limit", "40")).ok()
    found = directory(container.pid)
    assert (found / "memory.max").read_text() == f"{48 << 20}\n" and (
        found / "pids.max"
    ).read_text() == "40\n"


def test_out_of_memory(runtime, bundle):
    """The kernel kills in this cgroup and counts it where engines look."""
    bundle.linux["resources"] = {"memory": {"limit": 32 << 20, "swap": 32 << 20}}
    script = "dd if=/dev/zero of=/dev/null bs=100M count=1; echo code $?; sleep 1000"
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "code 137" in container.out(), "not killed", 60)
    events = dict(
        line.split() for line in (directory(container.pid) / "memory.events").read_text().splitlines()
    )
    assert int(events["oom_kill"]) >= 1


def test_freeze(runtime, bundle):
    container = runtime.start(bundle.shell("while :; do echo x; sleep 0.05; done"))
    wait_for(lambda: "x" in container.out(), "not running")
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    assert (directory(container.pid) / "cgroup.freeze").read_text() == "1\n"
    container.call("resume").ok()
    length = len(container.out())
    wait_for(lambda: len(container.out()) > length, "does not go on")


def test_devices(runtime, bundle):
    """The eBPF program forbids what no rule allows, and leaves what every container has."""
    bundle.linux["devices"] = [
        {"path": f"/dev/{name}", "type": "c", "major": 1, "minor": minor, "fileMode": 0o666}
        for name, minor in (("kmsg", 11),)
    ]
    container = runtime.start(
        bundle.shell("cat /dev/kmsg; head -c 4 /dev/zero | wc -c; echo end; sleep 1000")
    )
    wait_for(lambda: "end" in container.out(), "does not end", 60)
    assert "not permitted" in container.out() and "\n4\n" in container.out(), container.out()


def test_delegation(runtime, bundle):
    """With a cgroup namespace and a writable mount, the container's root makes cgroups below its own."""
    bundle.namespaces(add=("cgroup",))
    for mount in bundle.config["mounts"]:
        if mount["type"] == "cgroup":
            mount["options"] = ["nosuid", "noexec", "nodev"]
    script = "cd /sys/fs/cgroup; cat /proc/self/cgroup; mkdir sub; echo $$ >sub/cgroup.procs; cat /proc/self/cgroup; sleep 1000"
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "0::/sub\n" in container.out(), f"not moved: {container.out()}", 60)
    assert container.out().startswith("0::/\n")
    os.kill(container.pid, 0)
