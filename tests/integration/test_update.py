"""update, events, ps, list, kill: what each says and changes, equal to runc's; the limits are read back from the cgroup."""

import json
import os
import re
from pathlib import Path

import pytest
from helpers.runtime import cgroup_directories, cgroup_file, cgroup_v2, wait_for

pytestmark = pytest.mark.skipif(
    cgroup_v2(), reason="the files are v1's; tests/amd/test_cgroup_v2.py reads v2's"
)

FLAGS = [
    (("--cpu-period", "50000"), "cpu", "cpu.cfs_period_us"),
    (("--cpu-quota", "25000"), "cpu", "cpu.cfs_quota_us"),
    (("--cpu-quota=-1",), "cpu", "cpu.cfs_quota_us"),
    (("--cpu-share", "512"), "cpu", "cpu.shares"),
    (("--cpuset-cpus", "0"), "cpuset", "cpuset.cpus"),
    (("--cpuset-mems", "0"), "cpuset", "cpuset.mems"),
    (("--memory", "64M"), "memory", "memory.limit_in_bytes"),
    (("--memory", "100MiB"), "memory", "memory.limit_in_bytes"),
    (("--memory", "12345678"), "memory", "memory.limit_in_bytes"),
    (("--memory=-1",), "memory", "memory.limit_in_bytes"),
    (("--memory", "32m", "--memory-swap", "128M"), "memory", "memory.memsw.limit_in_bytes"),
    (("--memory-reservation", "32m"), "memory", "memory.soft_limit_in_bytes"),
    (("--pids-limit", "50"), "pids", "pids.max"),
    (("--pids-limit=-1",), "pids", "pids.max"),
]

DOCUMENTS = [
    ({"memory": {"limit": 33554432, "swap": 67108864}}, "memory", "memory.memsw.limit_in_bytes"),
    ({"cpu": {"shares": 100, "quota": 10000, "period": 20000}}, "cpu", "cpu.cfs_quota_us"),
    ({"pids": {"limit": 20}}, "pids", "pids.max"),
    ({}, "pids", "pids.max"),
    ({"unknown": 1}, "pids", "pids.max"),
    ({"devices": [{"allow": True, "access": "rwm"}]}, "devices", "devices.list"),
]


@pytest.mark.parametrize(("flags", "controller", "file"), FLAGS, ids=[" ".join(f) for f, _, _ in FLAGS])
def test_a_flag(running, flags, controller, file, observe):
    running.call("update", options=flags).ok()
    observe(cgroup_file(running.pid, controller, file).read_text())


@pytest.mark.parametrize(("document", "controller", "file"), DOCUMENTS)
@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_document(runtime, running, document, controller, file, how, observe, tmp_path):
    text = json.dumps(document)
    if how == "file":
        (tmp_path / "resources").write_text(text)
        runtime.call("update", "--resources", tmp_path / "resources", running.id).ok()
    else:
        runtime.call("update", "-r", "-", running.id, input=text).ok()
    # The order of device rules is the kernel's own affair.
    observe(sorted(cgroup_file(running.pid, controller, file).read_text().splitlines()))


@pytest.mark.parametrize(
    "flags",
    [
        ("--memory", "bad"),
        ("--memory", "1x"),
        ("--pids-limit", "x"),
        ("--memory", "1k"),
        ("--cpuset-cpus", "77"),
        ("--resources", "/no/such"),
        ("--no-such-flag",),
    ],
)
def test_what_is_wrong(running, flags, observe):
    before = cgroup_file(running.pid, "memory", "memory.limit_in_bytes").read_text()
    done = running.call("update", options=flags)
    assert done.err
    observe(done.status)
    assert cgroup_file(running.pid, "memory", "memory.limit_in_bytes").read_text() == before


@pytest.mark.parametrize("text", ["x", "[]", '{"memory": {"limit": "x"}}'])
def test_documents_that_are_wrong(runtime, running, text, observe):
    done = runtime.call("update", "-r", "-", running.id, input=text)
    assert done.status == 1 and done.err


@pytest.fixture
def pod(bundle):
    """The bundle's container will be in a pod's group, which has limits of its own. A function to set one of them."""
    name = f"krun-test-pod-{os.getpid()}"
    tops = {kind: Path("/sys/fs/cgroup", kind, name) for kind in ("cpu", "cpuset", "memory", "pids")}

    def set(controller, file, text):
        (tops[controller] / file).write_text(text)

    for top in tops.values():
        top.mkdir()
    for words in (
        ("cpu", "cpu.cfs_quota_us", "50000"),
        ("cpuset", "cpuset.cpus", "0"),
        ("cpuset", "cpuset.mems", "0"),
        ("memory", "memory.limit_in_bytes", "67108864"),
        ("pids", "pids.max", "50"),
    ):
        set(*words)
    bundle.linux["cgroupsPath"] = f"/{name}/inner"
    bundle.linux["resources"] = {}
    yield set
    for directory in cgroup_directories(name):
        os.rmdir(directory)


SEEN = (
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.cfs_period_us"),
    ("memory", "memory.limit_in_bytes"),
    ("cpuset", "cpuset.cpus"),
    ("pids", "pids.max"),
)


def test_below_a_pods_limits(runtime, pod, bundle, observe):
    """The pod's group bounds the quota and the processors of its containers, and neither memory nor pids."""
    container = runtime.start(bundle.args("sleep", "1000"))
    for flags in (
        ("--cpu-quota", "40000"),
        ("--cpu-quota", "90000"),
        ("--cpu-period", "20000", "--cpu-quota", "9000"),
        ("--cpu-period", "20000", "--cpu-quota", "19000"),
        ("--cpu-quota=-1",),
        ("--cpuset-cpus", "1"),
        ("--memory", "128M"),
        ("--pids-limit", "100"),
    ):
        done = container.call("update", options=flags)
        observe((flags, done.status, [cgroup_file(container.pid, *file).read_text() for file in SEEN]))
    pod("cpu", "cpu.cfs_quota_us", "-1")  # the pod is resized
    container.call("update", options=("--cpu-quota", "90000")).ok()
    container.call("delete", "--force").ok()


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_an_update_that_fails_in_the_middle(runtime, pod, bundle):
    """The limits are the old ones. runc puts back what config.json says: a limit that only an update has set stays half new."""
    container = runtime.start(bundle.args("sleep", "1000"))
    container.call("update", options=("--cpu-period", "20000", "--cpu-quota", "9000", "--memory", "32M")).ok()
    before = [cgroup_file(container.pid, *file).read_text() for file in SEEN]
    for flags in (
        ("--memory", "300M", "--cpuset-cpus", "1"),
        ("--memory", "300M", "--cpu-period", "40000", "--cpu-quota", "30000"),
    ):
        assert container.call("update", options=flags).status == 1
        assert [cgroup_file(container.pid, *file).read_text() for file in SEEN] == before
    container.call("delete", "--force").ok()


def shape(value, path=""):
    """Every member of a document with the type of its value; of memory.raw and of empty lists nothing."""
    if isinstance(value, dict) and not path.endswith(".raw"):
        return {entry for key in value for entry in shape(value[key], f"{path}.{key}")}
    if isinstance(value, list):
        return {f"{path}[]"} | {entry for item in value for entry in shape(item, f"{path}[]")}
    return {f"{path} {type(value).__name__}"}


def test_events_have_runcs_shape(running, observe):
    """Members that are 0 are left out by Go; which block devices have figures is chance."""
    found = json.loads(running.call("events", options=("--stats",)).ok().out)
    chance = ("cache", ".blkio", "percpu", "failcnt")
    own = ".data.krun"  # docs/calls.md
    entries = [entry for entry in shape(found) if not any(word in entry for word in chance)]
    assert any(entry.startswith(own) for entry in entries) == (running.runtime.name == "krun")
    observe(sorted(entry for entry in entries if not entry.startswith(own)))


def test_list(runtime, running, observe):
    table = runtime.call("list").ok().out
    observe(table.splitlines()[0].split())
    row = table.splitlines()[1].split()
    assert row[0] == running.id and row[1] == str(running.pid) and row[2] == "running"
    assert runtime.call("list", "--quiet").ok().out == f"{running.id}\n"
    found = json.loads(runtime.call("list", "--format", "json").ok().out)
    observe(sorted(found[0]))
    assert found[0]["id"] == running.id and found[0]["owner"] == "root"
    observe(runtime.call("list", "--format", "bad").status)


def test_list_of_none(runtime, observe):
    observe((runtime.call("list").ok().out.split(), runtime.call("list", "-f", "json").ok().out.strip()))
    observe(runtime.call("list", "-q").ok().out)


def test_ps(runtime, running, observe):
    assert json.loads(runtime.call("ps", "--format", "json", running.id).ok().out) == [running.pid]
    head = runtime.call("ps", running.id).ok().out.splitlines()[0]
    observe(head.split())
    table = runtime.call("ps", running.id, "-o", "pid,comm").ok().out
    observe(re.sub(str(running.pid), "N", table).split())
    observe(runtime.call("ps", running.id, "-o", "nosuch").status)
    observe(runtime.call("ps", "--format", "bad", running.id).status)


@pytest.mark.parametrize(
    "name",
    [
        "TERM",
        "SIGTERM",
        "term",
        "sigterm",
        "15",
        "HUP",
        "usr1",
        "34",
        "64",
        "0",
        "NOSUCH",
        "65",
        "-1",
        "",
        "9x",
    ],
)
def test_signal_names(runtime, bundle, name, observe):
    container = runtime.start(
        bundle.shell("trap 'echo got' TERM HUP USR1; echo up; while :; do sleep 0.1; done")
    )
    wait_for(lambda: container.out() == "up\n", "not up")
    done = runtime.call("kill", container.id, name)
    observe(done.status)
    if done.status == 0 and name.upper().removeprefix("SIG") in ("TERM", "15", "HUP", "USR1"):
        wait_for(lambda: container.out() == "up\ngot\n", "no signal")
