"""Pure cgroup v2, which only the emulated machine has: limits, OOM, freeze, devices, delegation, statistics, update; as a
payload, a caller and the kernel's files see them. runc, crun and krun, one beside the other (./dev test-amd cgroup)."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.runtime import cgroup_v2, wait_for

pytestmark = pytest.mark.skipif(
    not cgroup_v2(), reason="cgroup v1 or hybrid here: ./dev test-amd has v2 (tests/README.md)"
)
TOP = Path("/sys/fs/cgroup")
SLEEP = ("sleep", "1000")


def directory(pid):
    """The unified cgroup of a process, on the host."""
    return Path(f"{TOP}{Path(f'/proc/{pid}/cgroup').read_text().strip().rpartition(':')[2]}")


def files(pid, *names):
    """What the control files say."""
    found = directory(pid)
    return {name: (found / name).read_text().strip() for name in names}


# --- limits -------------------------------------------------------------------------------------------------------

LIMITS = {
    "memory": {"limit": 64 << 20, "swap": 96 << 20, "reservation": 32 << 20},
    "cpu": {"shares": 512, "quota": 50000, "period": 100000, "cpus": "0", "mems": "0"},
    "pids": {"limit": 50},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 4 << 20}],
}
HELD = {
    "memory.max": str(64 << 20),
    "memory.swap.max": str(32 << 20),
    "memory.low": str(32 << 20),
    "pids.max": "50",
    "cpu.max": "50000 100000",
    "cpuset.cpus": "0",
    "cpuset.mems": "0",
    "hugetlb.2MB.max": str(4 << 20),
}


def test_limits(runtime, bundle):
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.args(*SLEEP))
    assert files(container.pid, *HELD) == HELD
    weight = files(container.pid, "cpu.weight")["cpu.weight"]
    assert int(weight) in (20, 59)  # the old and the new conversion of 512 shares


def test_unified(runtime, bundle):
    wanted = {
        "memory.high": str(48 << 20),
        "memory.min": str(4 << 20),
        "pids.max": "41",
        "cpu.max": "30000 60000",
    }
    wanted |= {"memory.oom.group": "1", "cpu.weight": "77"}
    bundle.linux["resources"]["unified"] = wanted
    container = runtime.start(bundle.args(*SLEEP))
    assert files(container.pid, *wanted) == wanted


@pytest.mark.parametrize(
    ("unified", "krun_says"),
    [
        ({"memory.nothing": "1"}, "memory.nothing"),
        ({"nocontroller.x": "1"}, "not available"),
        ({"../memory.max": "1"}, "file name"),
        ({"memory.max": "much"}, "'much'"),
    ],
)
def test_unified_refused(runtime, bundle, unified, krun_says):
    if runtime.name == "crun":  # 1.8 leaves the group that it has made
        return
    bundle.linux["resources"]["unified"] = unified
    container = runtime.new(bundle.args(*SLEEP))
    done = container.create()
    assert done.status != 0 and container.left() == [], done
    if runtime.name == "krun":
        assert krun_says in done.err, done


def test_io_limits(runtime, bundle):
    """Throttling of the root disk, by its number."""
    number = os.stat("/dev/vda").st_rdev
    device = {"major": os.major(number), "minor": os.minor(number)}
    block = {
        "throttleReadBpsDevice": [{**device, "rate": 1 << 20}],
        "throttleWriteIOPSDevice": [{**device, "rate": 500}],
    }
    bundle.linux["resources"]["blockIO"] = block
    container = runtime.start(bundle.args(*SLEEP))
    line = files(container.pid, "io.max")["io.max"]
    assert line == f"{device['major']}:{device['minor']} rbps={1 << 20} wbps=max riops=max wiops=500"


@pytest.mark.parametrize("nested", ["/krt-{}/a/b/c", "krt-{}/x"])
def test_paths(runtime, bundle, nested):
    """Every level is made with its controllers; delete takes the container's own away."""
    top = f"{runtime.name}{os.getpid()}"
    path = nested.format(top)
    bundle.linux["cgroupsPath"] = path
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.args(*SLEEP))
    found = directory(container.pid)
    assert str(found).endswith(path) and files(container.pid, *HELD) == HELD
    container.call("delete", "--force").ok()
    assert not found.exists()
    for parent in found.parents:
        if f"krt-{top}" in str(parent) and parent.exists():
            parent.rmdir()


def test_a_used_group_is_refused(runtime, bundle, make_bundle):
    bundle.linux["cgroupsPath"] = f"/krt-used-{runtime.name}"
    if runtime.name == "crun":  # it lets two share
        return
    first = runtime.start(bundle.args(*SLEEP))
    other = make_bundle().args(*SLEEP)
    other.linux["cgroupsPath"] = bundle.linux["cgroupsPath"]
    second = runtime.new(other)
    done = second.create()
    # runc 1.1 says so and goes on; later ones refuse.
    assert (
        "non-empty" in done.err if runtime.name == "runc" and done.status == 0 else "not empty" in done.err
    ), done
    assert first.state()["status"] == "running"


def test_a_frozen_group_is_refused(runtime, bundle):
    path = TOP / f"krt-frozen-{runtime.name}"
    path.mkdir()
    try:
        (path / "cgroup.freeze").write_text("1")
        bundle.linux["cgroupsPath"] = f"/{path.name}"
        if runtime.name != "crun":  # crun waits in it
            done = runtime.new(bundle.args(*SLEEP)).create()
            assert done.status != 0 and "frozen" in done.err, done
    finally:
        if path.exists():
            (path / "cgroup.freeze").write_text("0")
            path.rmdir()


def test_pids(runtime, bundle):
    """fork says EAGAIN at the limit. In a VM's group KVM's kernel thread counts: docs/limits.md."""
    bundle.linux["resources"]["pids"] = {"limit": 12}
    script = "i=0; while [ $i -lt 20 ]; do sleep 100 & i=$((i+1)); done; echo all"
    done = runtime.run(bundle.shell(script))
    assert "all" not in done.out and "fork" in done.err, done


# --- out of memory ------------------------------------------------------------------------------------------------


def test_out_of_memory(runtime, bundle):
    """The kernel kills in this cgroup and counts it where engines look; `events` tells its reader."""
    bundle.linux["resources"] = {"memory": {"limit": 32 << 20, "swap": 32 << 20}}
    script = "read x </go; dd if=/dev/zero of=/dev/null bs=100M count=1; echo code $?; sleep 1000"
    os.mkfifo(bundle.rootfs / "go")
    container = runtime.start(bundle.shell(script))
    log = container.runtime.work / "events"
    events = None
    if runtime.name != "crun":  # it has no events
        argv = [str(runtime.path), "--root", str(runtime.root), "events", "--interval", "1s", container.id]
        with log.open("wb") as out:
            events = subprocess.Popen(argv, stdout=out, env=runtime.environment)
        wait_for(lambda: b'"stats"' in log.read_bytes(), "no first statistics")
    (bundle.rootfs / "go").write_text("go\n")
    wait_for(lambda: "code 137" in container.out(), "not killed", 60)
    counted = dict(
        line.split() for line in files(container.pid, "memory.events")["memory.events"].splitlines()
    )
    assert int(counted["oom_kill"]) >= 1
    if events is not None:
        wait_for(lambda: b'"oom"' in log.read_bytes(), "events says no oom")
        container.call("kill", "KILL").ok()
        assert container.wait() == 137
        events.wait(60 * 10)
        assert events.returncode == 0


def test_out_of_memory_of_the_init(runtime, bundle):
    """The container's own program is killed: 137, as by any SIGKILL."""
    bundle.linux["resources"] = {"memory": {"limit": 32 << 20, "swap": 32 << 20}}
    container = runtime.start(bundle.args("dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"))
    assert container.wait(60) == 137
    container.call("delete").ok()


def test_out_of_memory_takes_all(runtime, bundle):
    """memory.oom.group: every process of the group goes."""
    bundle.linux["resources"] = {
        "memory": {"limit": 32 << 20, "swap": 32 << 20},
        "unified": {"memory.oom.group": "1"},
    }
    container = runtime.start(
        bundle.shell("sleep 1000 & dd if=/dev/zero of=/dev/null bs=100M count=1; echo survived")
    )
    assert container.wait(60) == 137 and "survived" not in container.out()


# --- freezer ------------------------------------------------------------------------------------------------------


def test_freeze(runtime, bundle):
    container = runtime.start(bundle.shell("while :; do echo x; sleep 0.05; done"))
    wait_for(lambda: "x" in container.out(), "not running")
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    assert files(container.pid, "cgroup.freeze") == {"cgroup.freeze": "1"}
    size = len(container.out())
    listed = container.call("ps", options=("--format", "json")).ok().out
    assert str(container.pid) in listed
    refused = container.exec("true")
    assert refused.status != 0 and "paused" in refused.err, refused
    assert len(container.out()) == size
    container.call("resume").ok()
    wait_for(lambda: len(container.out()) > size, "does not go on")
    assert container.state()["status"] == "running"


def test_kill_of_the_paused(runtime, bundle):
    """SIGKILL ends what is frozen; another signal waits for resume."""
    bundle.shell("trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    container = runtime.start(bundle)
    wait_for(lambda: "ready" in container.out(), "not ready")
    container.call("pause").ok()
    container.call("kill", "TERM").ok()
    assert container.state()["status"] == "paused"
    container.call("resume").ok()
    assert container.wait() == 3 and "got" in container.out()
    second = runtime.start(bundle)
    second.call("pause").ok()
    second.call("kill", "KILL").ok()
    assert second.wait() == 137


def test_pause_of_a_tree(runtime, bundle):
    """Children and what exec added stand as well."""
    container = runtime.start(bundle.shell("(while :; do echo x; sleep 0.05; done) & wait"))
    container.exec_detached("sh", "-c", "while :; do echo y >>/y; sleep 0.05; done")
    added = bundle.rootfs / "y"
    wait_for(lambda: "x" in container.out() and added.exists(), "not running")
    container.call("pause").ok()
    size = len(container.out()), added.stat().st_size
    assert container.state()["status"] == "paused"  # takes a while here: whoever ran would have written
    assert (len(container.out()), added.stat().st_size) == size
    container.call("resume").ok()
    wait_for(lambda: added.stat().st_size > size[1], "does not go on")


# --- devices ------------------------------------------------------------------------------------------------------

FUSE = {"type": "c", "major": 10, "minor": 229}


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ([], "no no"),
        ([{"allow": True, **FUSE, "access": "rw"}], "yes yes"),
        ([{"allow": True, **FUSE, "access": "r"}], "yes no"),
        ([{"allow": True, "type": "c", "major": 10, "access": "rwm"}], "yes yes"),
        ([{"allow": True, "access": "rwm"}], "yes yes"),
        (
            [
                {"allow": True, "type": "c", "major": 10, "access": "rwm"},
                {"allow": False, **FUSE, "access": "w"},
            ],
            "yes no",
        ),
    ],
    ids=["none", "one", "read", "wildcard", "all", "allowed-then-denied"],
)
def test_devices(runtime, bundle, rules, wanted):
    """The eBPF program, rule by rule, asked by the payload and by exec; what every container has stays."""
    if runtime.name == "runc" and len(rules) == 2:  # it refuses to take a part out of a wildcard
        return
    bundle.linux["devices"] = [{"path": "/dev/fuse", **FUSE, "fileMode": 0o666}]
    bundle.linux["resources"]["devices"] = [{"allow": False, "access": "rwm"}, *rules]
    script = """if true </dev/fuse; then r=yes; else r=no; fi; if true >/dev/fuse; then w=yes; else w=no; fi
        head -c 4 /dev/zero >/dev/null && echo $r $w"""
    container = runtime.start(bundle.shell(f"({script}) 2>/dev/null; echo end; sleep 1000"))
    wait_for(lambda: "end" in container.out(), "does not end", 60)
    assert container.out() == f"{wanted}\nend\n"
    assert container.exec("sh", "-c", f"({script}) 2>/dev/null").out == f"{wanted}\n"
    container.call("update", options=("--pids-limit", "100")).ok()
    assert container.exec("sh", "-c", f"({script}) 2>/dev/null").out == f"{wanted}\n"


def test_making_nodes(runtime, bundle):
    """mknod is allowed by the defaults, opening what was made is not."""
    capabilities = bundle.process["capabilities"]
    for kind in capabilities:
        capabilities[kind] = [*capabilities[kind], "CAP_MKNOD"]
    script = "mknod /dev/x c 10 229 && echo made; true </dev/x || echo closed; mknod /dev/n c 1 3 && true </dev/n && echo null"
    done = runtime.run(bundle.shell(script))
    assert done.out == "made\nclosed\nnull\n", done


# --- delegation ---------------------------------------------------------------------------------------------------


def writable_cgroup(bundle):
    bundle.namespaces(add=("cgroup",))
    for mount in bundle.config["mounts"]:
        if mount["type"] == "cgroup":
            mount["options"] = [o for o in mount["options"] if o != "ro"]


def test_delegation(runtime, bundle):
    """With a cgroup namespace and a writable mount, the container's root makes cgroups below its own and limits them."""
    writable_cgroup(bundle)
    script = """cd /sys/fs/cgroup; cat /proc/self/cgroup; mkdir sub leaf; echo $$ >leaf/cgroup.procs; cat /proc/self/cgroup
        if echo +pids +memory >cgroup.subtree_control; then echo 20 >sub/pids.max; cat sub/pids.max; fi; echo end; sleep 1000"""
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "end" in container.out(), f"does not end: {container.out()}", 60)
    # KVM's kernel thread cannot leave the group before Linux 6.14: docs/limits.md.
    stays = runtime.name == "krun" and files(container.pid, "../cgroup.procs")["../cgroup.procs"]
    assert stays or container.out() == "0::/\n0::/leaf\n20\nend\n"
    assert not stays or container.out().startswith("0::/\n0::/leaf\n") and "busy" in container.out(), (
        container.out()
    )
    assert container.state()["status"] == "running"
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    container.call("delete", "--force").ok()


def test_delegation_to_a_user_namespace(runtime, bundle):
    """The mapped root owns what the kernel lists as delegated, not the limits (runc 1.1: with the systemd driver only)."""
    if runtime.name == "runc":
        return
    writable_cgroup(bundle)
    bundle.namespaces(add=("user",))
    for kind in ("uidMappings", "gidMappings"):
        bundle.linux[kind] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    for path in (bundle.path, bundle.rootfs, *bundle.path.parents[:3]):
        path.chmod(0o755)
    subprocess.run(["chown", "-R", "100000:100000", str(bundle.rootfs)], check=True)
    script = """cd /sys/fs/cgroup; mkdir sub && echo $$ >sub/cgroup.procs && cat /proc/self/cgroup
        echo 1 >pids.max || echo refused; echo end; sleep 1000"""
    container = runtime.start(bundle.shell(f"({script}) 2>/dev/null"))
    wait_for(lambda: "end" in container.out(), f"does not end: {container.out()}", 60)
    assert container.out() == "0::/sub\nrefused\nend\n"
    assert directory(container.pid).stat().st_uid in (0, 100000)


def test_read_only_without_asking(runtime, bundle):
    """The usual read-only mount: nobody makes anything."""
    bundle.namespaces(add=("cgroup",))
    done = runtime.run(bundle.shell("cat /proc/self/cgroup; mkdir /sys/fs/cgroup/x || echo refused"))
    assert done.out == "0::/\nrefused\n", done


# --- statistics ---------------------------------------------------------------------------------------------------


def shape(value):
    """The names in a JSON object, to any depth; lists and what counts per device or file are one name."""
    return (
        {k: shape(v) for k, v in value.items() if k != "raw"}
        if isinstance(value, dict)
        else type(value).__name__
    )


@pytest.fixture(scope="module")
def seen():
    return {}


def test_statistics(runtime, bundle, seen):
    if runtime.name == "crun":
        assert "events" not in runtime.call("--help").out
        return
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.shell("head -c 3000000 /dev/zero >/tmp/x; echo end; exec sleep 1000"))
    wait_for(lambda: "end" in container.out(), "does not end")
    event = json.loads(container.call("events", options=("--stats",)).ok().out)
    assert event["type"] == "stats" and event["id"] == container.id
    data = event["data"]
    assert data["memory"]["usage"]["limit"] == 64 << 20 and 0 < data["memory"]["usage"]["usage"] <= 64 << 20
    assert data["memory"]["cache"] == data["memory"]["raw"]["file"] and data["memory"]["raw"]["anon"] > 0
    assert data["pids"]["limit"] == 50 and data["pids"]["current"] >= 1
    assert data["cpu"]["usage"]["total"] >= data["cpu"]["usage"]["user"] > 0
    now = files(container.pid, "memory.current", "cpu.stat")
    assert abs(int(now["memory.current"]) - data["memory"]["usage"]["usage"]) < 16 << 20
    seen[runtime.name] = data
    if runtime.name == "krun" and "runc" in seen:
        reference = seen["runc"]
        for part in ("pids", "memory", "cpu", "hugetlb"):
            missing = set(names(reference[part])) - set(names(data[part]))
            assert not missing, (part, missing)


def names(value, prefix=""):
    """Dotted names of all members, without those that a count of zero leaves out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield prefix + key
            yield from names(inner, f"{prefix}{key}.")


# --- update -------------------------------------------------------------------------------------------------------

EVERYBODY = ("runc", "crun", "krun")
FLAGS = [
    ("--memory", str(80 << 20), "memory.max", str(80 << 20), EVERYBODY),
    ("--memory-reservation", str(20 << 20), "memory.low", str(20 << 20), EVERYBODY),
    ("--cpu-quota", "20000", "cpu.max", "20000 100000", EVERYBODY),
    ("--cpu-period", "50000", "cpu.max", "50000 50000", ("runc", "krun")),
    ("--cpu-share", "1024", "cpu.weight", ("39", "100"), EVERYBODY),
    ("--cpu-burst", "10000", "cpu.max.burst", "10000", ("krun",)),
    ("--cpu-idle", "1", "cpu.idle", "1", ("krun",)),
    ("--cpuset-cpus", "0", "cpuset.cpus", "0", EVERYBODY),
    ("--cpuset-mems", "0", "cpuset.mems", "0", EVERYBODY),
    ("--pids-limit", "60", "pids.max", "60", EVERYBODY),
    ("--pids-limit", "-1", "pids.max", "max", ("runc", "krun")),
]


@pytest.mark.parametrize("row", FLAGS, ids=lambda row: f"{row[0][2:]}={row[1]}")
def test_update_by_flag(runtime, bundle, row):
    """Each flag changes its file, and no other limit."""
    flag, value, file, wanted, known = row
    if runtime.name not in known:
        assert flag not in runtime.call("update", "--help").out or runtime.name == "crun", (
            "the table is out of date"
        )
        return
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.args(*SLEEP))
    container.call("update", options=(flag, value)).ok()
    assert files(container.pid, file)[file] in ((wanted,) if isinstance(wanted, str) else wanted)
    others = {name: held for name, held in HELD.items() if name != file}
    assert files(container.pid, *others) == others


def test_update_of_swap(runtime, bundle):
    """memory plus swap on the command line, swap alone in the file."""
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.args(*SLEEP))
    container.call("update", options=("--memory", str(80 << 20), "--memory-swap", str(90 << 20))).ok()
    wanted = {"memory.max": str(80 << 20), "memory.swap.max": str(10 << 20)}
    assert files(container.pid, *wanted) == wanted
    container.call("update", options=("--memory", "-1", "--memory-swap", "-1")).ok()
    assert files(container.pid, *wanted) == dict.fromkeys(wanted, "max")


def test_update_by_resources(runtime, bundle):
    """--resources FILE: linux.resources in JSON; runc and krun take it from standard input as well."""
    bundle.linux["resources"].update(LIMITS)
    container = runtime.start(bundle.args(*SLEEP))
    resources = {
        "memory": {"limit": 72 << 20},
        "pids": {"limit": 31},
        "cpu": {"quota": 25000, "period": 50000},
    }
    (bundle.path / "new.json").write_text(json.dumps(resources))
    container.call("update", options=("--resources", str(bundle.path / "new.json"))).ok()
    wanted = {
        "memory.max": str(72 << 20),
        "pids.max": "31",
        "cpu.max": "25000 50000",
        "memory.low": str(32 << 20),
    }
    assert files(container.pid, *wanted) == wanted
    if runtime.name != "crun":
        resources["pids"]["limit"] = 32
        runtime.call("update", "--resources", "-", container.id, input=json.dumps(resources)).ok()
        assert files(container.pid, "pids.max") == {"pids.max": "32"}


def test_update_by_unified(runtime, bundle):
    container = runtime.start(bundle.args(*SLEEP))
    wanted = {"memory.high": str(40 << 20), "pids.max": "44"}
    (bundle.path / "new.json").write_text(json.dumps({"unified": wanted}))
    container.call("update", options=("--resources", str(bundle.path / "new.json"))).ok()
    assert files(container.pid, *wanted) == wanted


def test_realtime_is_refused(runtime, bundle):
    container = runtime.start(bundle.args(*SLEEP))
    done = container.call("update", options=("--cpu-rt-runtime", "1000", "--cpu-rt-period", "100000"))
    if runtime.name == "krun":
        assert done.status != 0 and "cgroup v2 has no such limit" in done.err, done


# --- exec ---------------------------------------------------------------------------------------------------------


def test_exec_into_a_group_below(runtime, bundle):
    """--cgroup puts the program into a group of the container's own making."""
    if runtime.name == "crun":  # --cgroup came later there
        return
    writable_cgroup(bundle)
    container = runtime.start(bundle.shell("mkdir /sys/fs/cgroup/sub; echo ready; sleep 1000"))
    wait_for(lambda: "ready" in container.out(), "not ready")
    done = container.exec("cat", "/proc/self/cgroup", options=("--cgroup", "sub")).ok()
    assert done.out == "0::/sub\n"
    assert container.exec("true", options=("--cgroup", "missing")).status != 0


def test_nothing_is_left(runtime, bundle):
    """Groups that the payload made go with the container, nested and killed."""
    writable_cgroup(bundle)
    script = """cd /sys/fs/cgroup; mkdir -p a/b/c d; sleep 1000 & echo $! >a/b/c/cgroup.procs
        sleep 1000 & echo $! >d/cgroup.procs; echo ready; wait"""
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "ready" in container.out(), "not ready")
    found = directory(container.pid)
    container.call("delete", "--force").ok()
    assert not found.exists()
