"""The systemd cgroup driver under a real systemd (./dev test-amd systemd): transient scopes, properties, life and end.

Each case runs with runc, crun and krun. What systemd says of the unit and what the kernel's files say must both be right.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.bundle import make_busybox_root
from helpers.engines import Podman, remove, short_directory
from helpers.runtime import wait_for

pytestmark = pytest.mark.skipif(
    not Path("/run/systemd/system").exists(),
    reason="no systemd here: ./dev test-amd systemd has one (tests/README.md)",
)
TOP = Path("/sys/fs/cgroup")
SLICE = "krtest.slice"


def systemctl(*arguments):
    """The output of systemctl, which must succeed."""
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done
    return done.stdout


def show(unit, *names):
    """Properties of a unit by name."""
    text = systemctl("show", *(f"--property={name}" for name in names), unit)
    return dict(line.split("=", 1) for line in text.splitlines())


def loaded(unit):
    return show(unit, "LoadState")["LoadState"] == "loaded"


@pytest.fixture
def unit(runtime, bundle):
    """The bundle's cgroupsPath is a scope in krtest.slice; the runtime uses systemd. The unit's name."""
    runtime.options = ["--systemd-cgroup"]
    name = f"{runtime.name}{os.getpid()}{time.monotonic_ns()}"
    bundle.linux["cgroupsPath"] = f"{SLICE}:pre:{name}"
    bundle.args("sleep", "1000")
    return f"pre-{name}.scope"


def directory(unit, slices=(SLICE,)):
    """Where the container's processes are; crun 1.8 makes a group `container` of its own in the scope."""
    found = TOP.joinpath(*slices, unit)
    return found / "container" if (found / "container").exists() else found


def control(unit, *names):
    return {name: (directory(unit) / name).read_text().strip() for name in names}


def procs(unit):
    """The user processes of the unit: below KVM's virtual machines stands a kernel thread, whose flags say so."""
    found = []
    for pid in (directory(unit) / "cgroup.procs").read_text().split():
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if not int(stat[6]) & 0x00200000:
            found.append(int(pid))
    return found


def test_scope(runtime, bundle, unit):
    """A transient, delegated scope in the slice, the init in it; gone with the container, and no failed unit stays."""
    container = runtime.start(bundle)
    properties = (
        "LoadState",
        "ActiveState",
        "SubState",
        "Transient",
        "Slice",
        "Delegate",
        "DefaultDependencies",
    )
    properties += ("CollectMode", "ControlGroup", "TasksAccounting", "MemoryAccounting", "CPUAccounting")
    found = show(unit, *properties)
    assert found.pop("CollectMode") in ("inactive", "inactive-or-failed")
    assert found == {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "Transient": "yes",
        "Slice": SLICE,
        "Delegate": "yes",
        "DefaultDependencies": "no",
        "ControlGroup": f"/{SLICE}/{unit}",
        "TasksAccounting": "yes",
        "MemoryAccounting": "yes",
        "CPUAccounting": "yes",
    }
    assert procs(unit) == [container.pid]
    container.call("delete", "--force").ok()
    assert not loaded(unit) and not directory(unit).exists()
    assert "0 loaded units" in systemctl("list-units", "--failed")


def test_default_place(runtime, bundle):
    """Without cgroupsPath: system.slice, and the scope is named after runtime and container."""
    runtime.options = ["--systemd-cgroup"]
    container = runtime.start(bundle.args("sleep", "1000"))
    path = Path(f"/proc/{container.pid}/cgroup").read_text().strip()
    below = "/container" if runtime.name == "crun" else ""
    assert path == f"0::/system.slice/{runtime.name}-{container.id}.scope{below}"


def test_nested_slices(runtime, bundle, unit):
    """A dash in a slice's name makes a tree (systemd.slice(5))."""
    bundle.linux["cgroupsPath"] = bundle.linux["cgroupsPath"].replace(SLICE, "krtest-a-b.slice")
    container = runtime.start(bundle)
    slices = (SLICE, "krtest-a.slice", "krtest-a-b.slice")
    assert (directory(unit, slices) / "cgroup.procs").exists()
    assert show(unit, "Slice")["Slice"] == "krtest-a-b.slice"
    container.call("delete", "--force").ok()
    assert not directory(unit, slices).exists()


RESOURCES = {
    "memory": {"limit": 64 << 20, "swap": 96 << 20, "reservation": 32 << 20},
    "cpu": {"shares": 1024, "quota": 50000, "period": 100000, "cpus": "0", "mems": "0"},
    "pids": {"limit": 50},
}
PROPERTIES = {
    "MemoryMax": str(64 << 20),
    "MemorySwapMax": str(32 << 20),
    "MemoryLow": str(32 << 20),
    "CPUQuotaPerSecUSec": "500ms",
    "CPUQuotaPeriodUSec": "100ms",
    "TasksMax": "50",
    "AllowedCPUs": "0",
    "AllowedMemoryNodes": "0",
}
FILES = {
    "memory.max": str(64 << 20),
    "memory.swap.max": str(32 << 20),
    "memory.low": str(32 << 20),
    "cpu.max": "50000 100000",
    "pids.max": "50",
    "cpuset.cpus": "0",
    "cpuset.mems": "0",
}


def test_properties(runtime, bundle, unit):
    """systemd knows the limits, so that they survive its reload; the kernel holds them."""
    bundle.linux["resources"].update(RESOURCES)
    runtime.start(bundle)
    assert control(unit, *FILES) == FILES
    if runtime.name == "crun":  # 1.8 tells systemd of none, and writes the files of its group only
        return
    assert show(unit, *PROPERTIES) == PROPERTIES
    weight = show(unit, "CPUWeight")["CPUWeight"]
    assert weight in ("39", "100")  # the old and the new conversion of 1024 shares
    assert control(unit, "cpu.weight") == {"cpu.weight": weight}
    systemctl("daemon-reload")
    # A unit started beside it makes systemd write the attributes of its siblings again.
    subprocess.run(["systemd-run", "--scope", f"--slice={SLICE}", "-p", "MemoryMax=1G", "true"], check=True)
    assert control(unit, *FILES) == FILES


UNIFIED = {"memory.high": str(48 << 20), "memory.min": str(8 << 20), "pids.max": "77", "cpu.weight": "200"}


def test_unified(runtime, bundle, unit):
    """Of linux.resources.unified systemd is told what it has words for."""
    bundle.linux["resources"]["unified"] = {**UNIFIED, "memory.oom.group": "1", "cpu.max": "max 50000"}
    runtime.start(bundle)
    assert control(unit, *UNIFIED, "memory.oom.group", "cpu.max") == {
        **UNIFIED,
        "memory.oom.group": "1",
        "cpu.max": "max 50000",
    }
    if runtime.name == "crun":  # 1.8.1 writes the files only
        return
    assert show(unit, "MemoryHigh", "MemoryMin", "TasksMax", "CPUWeight") == {
        "MemoryHigh": UNIFIED["memory.high"],
        "MemoryMin": UNIFIED["memory.min"],
        "TasksMax": "77",
        "CPUWeight": "200",
    }
    systemctl("daemon-reload")
    assert control(unit, *UNIFIED) == UNIFIED


def test_update(runtime, bundle, unit):
    """update changes both the properties and the files, and what it does not name stays."""
    bundle.linux["resources"].update(RESOURCES)
    container = runtime.start(bundle)
    options = ("--memory", str(80 << 20), "--memory-swap", str(100 << 20), "--pids-limit", "60")
    container.call("update", options=(*options, "--cpu-quota", "20000", "--cpu-period", "100000")).ok()
    wanted = {**FILES, "memory.max": str(80 << 20), "memory.swap.max": str(20 << 20), "pids.max": "60"}
    wanted["cpu.max"] = "20000 100000"
    assert control(unit, *wanted) == wanted
    if runtime.name == "crun":
        return
    assert show(unit, "MemoryMax", "MemorySwapMax", "TasksMax", "CPUQuotaPerSecUSec", "MemoryLow") == {
        "MemoryMax": str(80 << 20),
        "MemorySwapMax": str(20 << 20),
        "TasksMax": "60",
        "CPUQuotaPerSecUSec": "200ms",
        "MemoryLow": str(32 << 20),
    }
    systemctl("daemon-reload")
    assert control(unit, *wanted) == wanted


def test_update_to_unlimited(runtime, bundle, unit):
    bundle.linux["resources"].update(RESOURCES)
    container = runtime.start(bundle)
    container.call("update", options=("--memory", "-1", "--memory-swap", "-1", "--pids-limit", "-1")).ok()
    wanted = {"memory.max": "max", "memory.swap.max": "max", "pids.max": "max"}
    if runtime.name == "crun":  # 1.8.1 leaves pids.max for -1
        del wanted["pids.max"]
    assert control(unit, *wanted) == wanted


def test_devices_after_reload(runtime, bundle, unit):
    """The device program holds, and goes on to hold when systemd reads its units again."""
    bundle.linux["devices"] = [
        {"path": f"/dev/{name}", "type": "c", "major": major, "minor": minor, "fileMode": 0o666}
        for name, major, minor in (("fuse", 10, 229), ("serial", 4, 64))
    ]
    rule = {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"}
    bundle.linux["resources"]["devices"].append(rule)
    container = runtime.start(bundle)
    script = (
        "for d in fuse serial zero; do if true </dev/$d; then echo yes; else echo no; fi; done 2>/dev/null"
    )

    def seen():
        return container.exec("sh", "-c", script).out.split()

    assert seen() == ["yes", "no", "yes"]
    systemctl("daemon-reload")
    container.call("update", options=("--pids-limit", "70")).ok()
    assert seen() == ["yes", "no", "yes"]


def test_exec_is_in_the_scope(runtime, bundle, unit):
    container = runtime.start(bundle)
    pid = container.exec_detached("sleep", "1000")
    assert Path(f"/proc/{pid}/cgroup").read_text().startswith(f"0::/{SLICE}/{unit}")
    assert sorted(procs(unit)) == sorted([container.pid, pid])
    done = container.call("ps", options=("--format", "json"))
    if runtime.name != "crun":  # it has a format of its own
        assert sorted(int(p) for p in done.ok().out.strip().strip("[]").split(",")) == sorted(
            [container.pid, pid]
        )


def test_the_scope_ends_with_the_payload(runtime, bundle, unit):
    """systemd sees the last process go and forgets the unit, before anybody deletes the container."""
    container = runtime.start(bundle)
    container.call("kill", "KILL").ok()
    assert container.wait() == 137
    wait_for(lambda: not loaded(unit), "the scope does not end", 60)
    assert container.state()["status"] == "stopped"
    container.call("delete").ok()


def test_a_name_that_another_unit_has_got(runtime, bundle, unit):
    """Our scope has ended with its payload, and another one has its name: delete leaves it alone (runc and crun stop it)."""
    if runtime.name != "krun":
        return
    container = runtime.start(bundle)
    container.call("kill", "KILL").ok()
    assert container.wait() == 137
    wait_for(lambda: not loaded(unit), "the scope does not end", 60)
    command = ["systemd-run", "--scope", f"--slice={SLICE}", f"--unit={unit}", "sleep", "1000"]
    with subprocess.Popen(command) as other:
        try:
            wait_for(
                lambda: show(unit, "ActiveState")["ActiveState"] == "active", "the other does not start", 60
            )
            done = container.call("delete", "--force").ok()
            assert "another unit has the name" in done.err and procs(unit) == [other.pid]
            assert other.poll() is None
        finally:
            other.kill()


def test_systemctl_stop(runtime, bundle, unit):
    """The administrator stops the scope: the payload ends as by any SIGTERM, or SIGKILL after the time-out."""
    container = runtime.start(bundle.shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done"))
    wait_for(lambda: "ready" in container.out(), "not ready")
    systemctl("stop", unit)
    assert container.wait(60) == 7
    container.call("delete").ok()
    assert not loaded(unit)


def test_systemctl_kill(runtime, bundle, unit):
    container = runtime.start(
        bundle.shell("trap 'echo got; exit 8' USR1; echo ready; while :; do sleep 0.1; done")
    )
    wait_for(lambda: "ready" in container.out(), "not ready")
    systemctl("kill", "--signal=USR1", unit)
    assert container.wait(60) == 8


def test_kill_all_with_children(runtime, bundle, unit):
    container = runtime.start(bundle.shell("sleep 1000 & sleep 1000 & echo ready; wait"))
    wait_for(lambda: "ready" in container.out(), "not ready")
    container.call("kill", "--all", "KILL").ok()
    assert container.wait() == 137
    container.call("delete").ok()
    assert not loaded(unit) and not directory(unit).exists()


def test_pause(runtime, bundle, unit):
    container = runtime.start(bundle)
    container.call("pause").ok()
    assert container.state()["status"] == "paused"
    assert control(unit, "cgroup.freeze") == {"cgroup.freeze": "1"}
    container.call("resume").ok()
    assert container.state()["status"] == "running"
    container.call("pause").ok()
    container.call("delete", "--force").ok()
    assert not loaded(unit)


def test_out_of_memory(runtime, bundle, unit):
    bundle.linux["resources"]["memory"] = {"limit": 32 << 20, "swap": 32 << 20}
    bundle.shell("dd if=/dev/zero of=/dev/null bs=100M count=1; echo code $?; sleep 1000")
    container = runtime.start(bundle)
    wait_for(lambda: "code 137" in container.out(), "not killed", 60)
    assert "oom_kill 1" in (directory(unit) / "memory.events").read_text()


def test_delegation(runtime, bundle, unit):
    """In a cgroup namespace with a writable mount the payload makes groups; systemd's reload leaves them alone."""
    bundle.namespaces(add=("cgroup",))
    for mount in bundle.config["mounts"]:
        if mount["type"] == "cgroup":
            mount["options"] = [o for o in mount["options"] if o != "ro"]
    script = """cd /sys/fs/cgroup; mkdir leaf sub; echo $$ >leaf/cgroup.procs; cat /proc/self/cgroup
    echo $(grep -c . cgroup.procs) left; echo ready; sleep 1000"""
    container = runtime.start(bundle.shell(script))
    wait_for(lambda: "ready" in container.out(), f"not ready: {container.out()}", 60)
    systemctl("daemon-reload")
    subprocess.run(["systemd-run", "--scope", f"--slice={SLICE}", "-p", "MemoryMax=1G", "true"], check=True)
    assert (directory(unit) / "sub").exists()
    assert Path(f"/proc/{container.pid}/cgroup").read_text().endswith("/leaf\n")
    assert "0::/leaf\n" in container.out()
    container.call("delete", "--force").ok()
    assert not loaded(unit) and not directory(unit).exists()


def test_delegation_to_a_user_namespace(runtime, bundle, unit):
    """The mapped root owns the group and what the kernel lists as delegated, not the limits."""
    bundle.namespaces(add=("cgroup", "user"))
    for mount in bundle.config["mounts"]:
        if mount["type"] == "cgroup":
            mount["options"] = [o for o in mount["options"] if o != "ro"]
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


def test_a_taken_name(runtime, bundle, unit, make_bundle):
    """A second container on the same unit is refused, and the first does not notice (runc and crun let them share)."""
    if runtime.name != "krun":
        return
    first = runtime.start(bundle)
    other = make_bundle().args("sleep", "1000")
    other.linux["cgroupsPath"] = bundle.linux["cgroupsPath"]
    second = runtime.new(other)
    done = second.create()
    assert done.status != 0, done
    assert first.state()["status"] == "running" and procs(unit) == [first.pid]
    assert second.left() == []
    assert unit in done.err


@pytest.mark.parametrize("path", ["/a/b", "a:b", "nodash:x:y", "a/b.slice:x:y"])
def test_bad_paths(runtime, bundle, unit, path):
    bundle.linux["cgroupsPath"] = path
    if runtime.name == "crun":  # it takes whatever it gets for parts of a path
        return
    container = runtime.new(bundle)
    assert container.create().status != 0
    assert container.left() == []


def test_annotations(runtime, bundle, unit):
    """org.systemd.property.NAME sets any property, in the syntax of busctl and gvariant (runc's docs/systemd.md)."""
    bundle.config["annotations"] = {
        "org.systemd.property.TimeoutStopUSec": "uint64 7000000",
        "org.systemd.property.CollectMode": "'inactive-or-failed'",
        "org.systemd.property.SendSIGHUP": "true",
    }
    runtime.start(bundle)
    assert show(unit, "TimeoutStopUSec", "CollectMode", "SendSIGHUP") == {
        "TimeoutStopUSec": "7s",
        "CollectMode": "inactive-or-failed",
        "SendSIGHUP": "yes",
    }


def test_created_is_in_the_scope(runtime, bundle, unit):
    """Between create and start the scope stands already; kill and delete take it away."""
    container = runtime.create(bundle)
    assert procs(unit) == [container.pid]
    container.call("kill", "KILL").ok()
    assert container.wait() == 128 + signal.SIGKILL
    container.call("delete", "--force").ok()
    assert not loaded(unit)


def test_a_create_that_fails(runtime, bundle, unit):
    """No scope stays of a container whose program is not there."""
    container = runtime.new(bundle.args("/not/there"))
    assert container.create().status != 0
    assert not loaded(unit) and container.left() == []


def test_run(runtime, bundle, unit):
    done = runtime.run(bundle.shell("cat /proc/self/cgroup; exit 5"))
    assert done.status == 5 and unit in done.out, done
    assert not loaded(unit)


# --- an ordinary user's systemd -----------------------------------------------------------------------------------


USER = 1000


@pytest.fixture(scope="module")
def user_bus():
    """user@1000.service, whose manager serves /run/user/1000/bus."""
    subprocess.run(["useradd", "--uid", str(USER), "--create-home", "krun-user"], check=False)
    subprocess.run(["loginctl", "enable-linger", "krun-user"], check=False)
    systemctl("start", f"user@{USER}.service")
    bus = Path(f"/run/user/{USER}/bus")
    wait_for(bus.exists, "no user bus")
    os.chmod("/dev/kvm", 0o666)
    yield bus
    systemctl("stop", f"user@{USER}.service")


def test_rootless(runtime, bundle, user_bus, tmp_path):
    """The user's own manager makes the scope, with the limits that are delegated to it."""
    spec = bundle.config
    spec["linux"]["namespaces"] = [{"type": t} for t in ("pid", "ipc", "uts", "mount", "user")]
    for kind in ("uidMappings", "gidMappings"):
        spec["linux"][kind] = [{"containerID": 0, "hostID": USER, "size": 1}]
    spec["mounts"] = [m for m in spec["mounts"] if m["type"] in ("proc", "tmpfs")]
    for mount in spec["mounts"]:
        mount["options"] = [o for o in mount.get("options", []) if not o.startswith("gid=")]
    name = f"{runtime.name}{os.getpid()}"
    spec["linux"]["cgroupsPath"] = f"user.slice:pre:{name}"
    spec["linux"]["resources"] = {"memory": {"limit": 64 << 20}, "pids": {"limit": 40}}
    bundle.shell("cat /proc/self/cgroup; echo ready")
    bundle.write()
    state = Path(f"/run/user/{USER}/state-{name}")
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(bundle.path)], check=True)
    command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env"]
    command += [f"XDG_RUNTIME_DIR=/run/user/{USER}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={user_bus}"]
    command += ["systemd-run", "--user", "--pipe", "--wait", "--quiet", "--collect"]
    command += [str(runtime.path), "--root", str(state), "--systemd-cgroup", "run", "--bundle"]
    done = subprocess.run([*command, str(bundle.path), name], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.endswith("ready\n"), done
    path = done.stdout.splitlines()[0]
    assert path.startswith(f"0::/user.slice/user-{USER}.slice/user@{USER}.service/") or path == "0::/", done
    assert f"/pre-{name}.scope" in path, done
    assert not list(TOP.glob(f"user.slice/**/pre-{name}.scope"))


# --- podman --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def podman():
    work = short_directory("podman")
    make_busybox_root(work / "rootfs")
    engine = Podman(work, "systemd")
    engine.load(work / "rootfs", "localhost/busybox:1")
    yield engine
    engine.close()
    remove(work)


@pytest.fixture(params=["runc", "crun", "krun"])
def podman_runtime(request):
    return request.param


def test_podman(podman, podman_runtime):
    """podman's default on such a host: libpod-ID.scope in machine.slice, limits as properties, gone after rm."""
    options = ("--network", "none", "-m", "64m", "--pids-limit", "50", "--cpus", "0.5")
    id = (
        podman.call(podman_runtime, "run", "-d", *options, "localhost/busybox:1", "sleep", "1000")
        .ok()
        .out.strip()
    )
    unit = f"libpod-{id}.scope"
    assert show(unit, "Slice", "Delegate") == {"Slice": "machine.slice", "Delegate": "yes"}
    limits = {"MemoryMax": str(64 << 20), "TasksMax": "50", "CPUQuotaPerSecUSec": "500ms"}
    if podman_runtime != "crun":
        assert show(unit, *limits) == limits
    done = podman.call(podman_runtime, "exec", id, "cat", "/sys/fs/cgroup/memory.max")
    assert done.out == f"{64 << 20}\n", done
    stats = podman.call(podman_runtime, "stats", "--no-stream", "--format", "{{.MemUsage}}", id).ok().out
    assert "/ 67.11MB" in stats, stats
    podman.call(podman_runtime, "pause", id).ok()
    podman.call(podman_runtime, "unpause", id).ok()
    podman.call(podman_runtime, "update", "--memory", "80m", id).ok()
    done = podman.call(podman_runtime, "exec", id, "cat", "/sys/fs/cgroup/memory.max")
    assert done.out == f"{80 << 20}\n", done
    if podman_runtime != "crun":
        assert show(unit, "MemoryMax") == {"MemoryMax": str(80 << 20)}
    podman.call(podman_runtime, "stop", "-t", "1", id, timeout=300).ok()
    podman.call(podman_runtime, "rm", id, timeout=300).ok()
    assert not loaded(unit) and not list(TOP.glob(f"machine.slice/*{id}*"))


@pytest.fixture(scope="module")
def told():
    return {}


def test_podman_oom(podman, podman_runtime, told):
    """Killed for want of memory: the exit code, and what podman says of it (conmon looks at the group's events)."""
    options = ("--network", "none", "-m", "32m", "--memory-swap", "32m", "--name", "oom")
    script = "dd if=/dev/zero of=/dev/null bs=100M count=1; echo code $?; sleep 3; exit 9"
    done = podman.call(
        podman_runtime, "run", *options, "localhost/busybox:1", "sh", "-c", script, timeout=300
    )
    killed = podman.call(
        podman_runtime, "inspect", "--format", "{{.State.OOMKilled}} {{.State.ExitCode}}", "oom"
    ).ok()
    podman.call(podman_runtime, "rm", "-f", "oom", timeout=300).ok()
    assert done.status == 9 and "code 137" in done.out, done
    told[podman_runtime] = killed.out
    assert killed.out == told["runc"], told


def test_podman_pod(podman, podman_runtime):
    """A cgroup parent that is a slice; podman makes it and krun starts its scope there."""
    done = podman.call(
        podman_runtime, "run", "--rm", "--network", "none", "--cgroup-parent", "krpod.slice", "--cgroupns", "host",
        "localhost/busybox:1", "cat", "/proc/self/cgroup", timeout=300,
    )  # fmt: skip
    below = "/container" if podman_runtime == "crun" else ""
    assert done.ok().out.startswith("0::/krpod.slice/libpod-") and done.out.endswith(f".scope{below}\n"), done
