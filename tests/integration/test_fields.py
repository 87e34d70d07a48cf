"""Fields of config.json that a program can only ask the kernel for. They are younger than Debian's runc, which ignores them: what
the program finds without the field (runc first, then krun, equal) is one half, krun with the field the other."""

import os
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
from helpers.runtime import wait_for

only_krun = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
#: "1" on most machines, "0" on one with a single processor.
LAST_CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "fields"
    source = Path(__file__).with_name("fields.c")
    subprocess.run(["gcc", "-static", "-o", path, source], check=True)
    return path


@pytest.fixture
def look(runtime, bundle, probe):
    """look(*options): run the probe in the bundle; its lines as a dictionary."""
    bundle.mount("/probe", probe, "bind", "ro")

    def look(*options):
        done = runtime.run(bundle.args("/probe"), *options).ok()
        return dict(
            line.split(" ", 1) for line in done.out.splitlines() if not line.startswith("ioprio group")
        )

    return look


def test_without_any(look, observe):
    seen = look()
    seen.pop("keyring")
    for clock in ("monotonic", "boottime"):
        assert abs(int(seen.pop(clock)) - time.clock_gettime(getattr(time, f"CLOCK_{clock.upper()}"))) < 20
    observe(seen)


SCHEDULERS = [
    ({"policy": "SCHED_OTHER", "nice": 5}, {"policy": "0", "nice": "5"}),
    ({"policy": "SCHED_BATCH", "nice": 3}, {"policy": "3", "nice": "3"}),
    ({"policy": "SCHED_IDLE"}, {"policy": "5"}),
    ({"policy": "SCHED_FIFO", "priority": 7}, {"policy": "1", "priority": "7"}),
    ({"policy": "SCHED_RR", "priority": 9, "flags": ["SCHED_FLAG_RESET_ON_FORK"]}, {"policy": "2", "priority": "9", "flags": "1"}),
    (
        {
            "policy": "SCHED_DEADLINE",
            "flags": ["SCHED_FLAG_RESET_ON_FORK"],
            "runtime": 9000000,
            "deadline": 10000000,
            "period": 20000000,
        },
        {"policy": "6", "flags": "1", "deadline": "9000000 10000000 20000000"},
    ),
    (
        {"policy": "SCHED_DEADLINE", "runtime": 9000000, "deadline": 10000000, "period": 20000000},
        {"policy": "6", "flags": "0", "deadline": "9000000 10000000 20000000"},
    ),
]  # fmt: skip


def native(scheduler):
    """Whether this host lets root set that policy: cgroup v1's cpu controller may have no real-time share to give."""
    words = {"SCHED_FIFO": "-f", "SCHED_RR": "-r", "SCHED_DEADLINE": "-d"}
    flag = words.get(scheduler["policy"])
    if flag is None:
        return True
    more = (
        ["-T", "1000000", "-D", "10000000", "-P", "20000000", "0"]
        if flag == "-d"
        else [str(scheduler["priority"])]
    )
    return (
        subprocess.run(["chrt", flag, *more, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    )


@only_krun
@pytest.mark.parametrize(
    ("scheduler", "wanted"), SCHEDULERS, ids=[s["policy"] + "+flags" * ("flags" in s) for s, _ in SCHEDULERS]
)
def test_scheduler(runtime, bundle, look, scheduler, wanted):
    """Set, or refused with the kernel's reason: never ignored."""
    bundle.process["scheduler"] = scheduler
    bundle.linux["resources"] = {}
    bundle.linux["cgroupsPath"] = ""
    for kind in ("bounding", "permitted", "effective"):
        bundle.process["capabilities"][kind] = [*bundle.process["capabilities"][kind], "CAP_SYS_NICE"]
    if not native(scheduler):
        done = runtime.run(bundle.args("true"))
        assert done.status == 1 and f"set scheduler {scheduler['policy']}" in done.err
        return
    done = runtime.run(bundle.args("/probe"))
    if done.status and scheduler["policy"] in ("SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"):
        # A v1 cpu cgroup of its own has no real-time share (cpu.rt_runtime_us is 0).
        assert f"set scheduler {scheduler['policy']}: operation not permitted" in done.err, done
        return
    seen = dict(line.split(" ", 1) for line in done.ok().out.splitlines())
    assert {key: seen[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("scheduler", "text"),
    [
        ({"policy": "SCHED_NOSUCH"}, "SCHED_NOSUCH"),
        ({"nice": 1}, "scheduler policy is required"),
        ({"policy": "SCHED_OTHER", "nice": 20}, "invalid scheduler.nice: 20"),
        ({"policy": "SCHED_OTHER", "priority": 1}, "can only be specified for SchedFIFO or SchedRR"),
        ({"policy": "SCHED_OTHER", "runtime": 1}, "only for SCHED_DEADLINE"),
        ({"policy": "SCHED_OTHER", "flags": ["SCHED_FLAG_X"]}, "SCHED_FLAG_X"),
    ],
)
@only_krun
def test_scheduler_that_is_wrong(runtime, bundle, scheduler, text):
    bundle.process["scheduler"] = scheduler
    done = runtime.run(bundle)
    assert done.status == 1 and "/process/scheduler" in done.err and text in done.err, done


@only_krun
@pytest.mark.parametrize(
    ("kind", "number"), [("IOPRIO_CLASS_RT", 1), ("IOPRIO_CLASS_BE", 2), ("IOPRIO_CLASS_IDLE", 3)]
)
def test_io_priority(bundle, look, kind, number):
    bundle.process["ioPriority"] = {"class": kind, "priority": 4}
    assert look()["ioprio"] == f"{number} 4"


@only_krun
@pytest.mark.parametrize(
    "wrong", [{"class": "IOPRIO_CLASS_BE", "priority": 8}, {"class": "X", "priority": 1}]
)
def test_io_priority_that_is_wrong(runtime, bundle, wrong):
    bundle.process["ioPriority"] = wrong
    done = runtime.run(bundle)
    assert done.status == 1 and "/process/ioPriority" in done.err


@only_krun
@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({"mode": "MPOL_BIND", "nodes": "0"}, "0 2 1"),
        ({"mode": "MPOL_INTERLEAVE", "nodes": "0"}, "0 3 1"),
        ({"mode": "MPOL_PREFERRED", "nodes": "0"}, "0 1 1"),
        ({"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}, f"0 {2 | 1 << 15} 1"),
        ({"mode": "MPOL_LOCAL"}, "0 4 0"),
        ({"mode": "MPOL_DEFAULT"}, "0 0 0"),
    ],
)
def test_memory_policy(runtime, bundle, look, policy, wanted):
    bundle.linux["memoryPolicy"] = policy
    if not Path("/proc/self/numa_maps").exists():
        # A kernel without NUMA has no such call.
        done = runtime.run(bundle)
        assert done.status == 1 and "set memory policy MPOL" in done.err and "not implemented" in done.err
        return
    assert look()["mempolicy"] == wanted


@only_krun
@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"mode": "MPOL_X"}, "/linux/memoryPolicy/mode"),
        ({"nodes": "0"}, "/linux/memoryPolicy/mode: is missing"),
        ({"mode": "MPOL_BIND", "nodes": "a"}, "/linux/memoryPolicy/nodes"),
    ],
)
def test_memory_policy_that_is_wrong(runtime, bundle, policy, text):
    bundle.linux["memoryPolicy"] = policy
    done = runtime.run(bundle)
    assert done.status == 1 and text in done.err, done


@only_krun
@pytest.mark.parametrize(("domain", "wanted"), [("LINUX", ("0", "x86_64")), ("LINUX32", ("8", "i686"))])
def test_personality(bundle, look, domain, wanted):
    bundle.linux["personality"] = {"domain": domain}
    seen = look()
    assert (seen["personality"], seen["machine"]) == wanted


@only_krun
def test_personality_of_an_exec(runtime, bundle):
    """It is the container's (crun; runc from 1.2 on)."""
    bundle.linux["personality"] = {"domain": "LINUX32"}
    assert runtime.start(bundle.args("sleep", "1000")).exec("uname", "-m").ok().out == "i686\n"


@only_krun
def test_domainname(bundle, look):
    bundle.config["domainname"] = "some.domain"
    assert look()["domainname"] == "some.domain"


@only_krun
def test_time_offsets(bundle, look):
    bundle.namespaces(add=("time",))
    bundle.linux["timeOffsets"] = {"monotonic": {"secs": 86400}, "boottime": {"secs": 604800, "nanosecs": 1}}
    seen = look()
    assert abs(int(seen["monotonic"]) - 86400 - time.clock_gettime(time.CLOCK_MONOTONIC)) < 20
    assert abs(int(seen["boottime"]) - 604800 - time.clock_gettime(time.CLOCK_BOOTTIME)) < 20


@only_krun
def test_time_offsets_in_a_user_namespace(bundle, look):
    bundle.namespaces(add=("time", "user"))
    bundle.linux["uidMappings"] = bundle.linux["gidMappings"] = [
        {"containerID": 0, "hostID": 0, "size": 65536}
    ]
    bundle.linux["timeOffsets"] = {"boottime": {"secs": 86400}}
    assert abs(int(look()["boottime"]) - 86400 - time.clock_gettime(time.CLOCK_BOOTTIME)) < 20


@only_krun
@pytest.mark.parametrize("verb", ["run", "exec"])
def test_the_callers_affinity_is_not_the_containers(runtime, bundle, verb):
    """It has the processors of its cpuset, as with runc from 1.3 on."""
    shown = ("grep", "Cpus_allowed_list", "/proc/self/status")
    everything = runtime.run(bundle.args(*shown)).ok().out
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(ours)})
    try:
        if verb == "run":
            assert runtime.run(bundle).ok().out == everything
        else:
            assert runtime.start(bundle.args("sleep", "1000")).exec(*shown).ok().out == everything
    finally:
        os.sched_setaffinity(0, ours)


@only_krun
@pytest.mark.parametrize("affinity", [{"final": "0"}, {"initial": "0"}, {"initial": LAST_CPU, "final": "0"}])
def test_cpus_of_an_exec(runtime, bundle, probe, affinity):
    import json

    bundle.mount("/probe", probe, "bind", "ro")
    container = runtime.start(bundle.args("sleep", "1000"))
    process = {**bundle.process, "args": ["/probe"], "execCPUAffinity": affinity}
    file = runtime.work / "process.json"
    file.write_text(json.dumps(process))
    out = runtime.call("exec", "--process", str(file), container.id).ok().out
    wanted = "1 1" if affinity.get("final") == "0" or "final" not in affinity else "1 0"
    assert f"cpus {wanted}" in out.splitlines()


def test_keyring(bundle, look, runtime):
    """A session keyring of its own, unless the caller says no."""
    assert look()["keyring"].startswith("_ses.")
    assert not look("--no-new-keyring")["keyring"].startswith("_ses.kt")


def test_the_caller_keeps_its_keyring(bundle, probe, runtime):
    """The parent of the program is a process of the host, which runs hooks."""
    bundle.mount("/probe", probe, "bind", "ro")
    done = runtime.run(bundle.args("/probe", "give")).ok()
    assert done.out == "joined 1\ngiven Operation not permitted\n"


@pytest.mark.parametrize("option", ["", "--no-new-keyring"])
def test_keyring_of_exec(bundle, probe, runtime, option):
    """The container's as well: the caller's keys are not the program's."""
    bundle.mount("/probe", probe, "bind", "ro")
    container = runtime.create(bundle.args("sleep", "1000"), *filter(None, [option]))
    container.call("start").ok()
    names = [
        line.split()[1]
        for line in container.exec("/probe").ok().out.splitlines()
        if line.startswith("keyring ")
    ]
    assert names[0].startswith(f"_ses.{container.id}") == (not option)


@only_krun
def test_nobody_makes_the_keyring_beforehand(bundle, probe, runtime):
    """Its name is that of all users of the user namespace: who has made it would read what the container puts there."""
    bundle.mount("/probe", probe, "bind", "ro")
    container = runtime.new(bundle.args("/bin/sh", "-c", "/probe; exec sleep 1000"))
    fd = os.open(probe, os.O_PATH)  # another user cannot pass the directories
    argv = [f"/proc/self/fd/{fd}", "hold", f"_ses.{container.id}"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, pass_fds=[fd], user=1000, group=1000, extra_groups=[]
    ) as holder:
        os.close(fd)
        try:
            assert holder.stdout.readline() == "held 1\n"
            container.create().ok()
            container.call("start").ok()
            wait_for(lambda: "keyring" in container.out(), "no keyring")
            seen = [
                text.split("keyring ")[1].split()[0]
                for text in (container.out(), container.exec("/probe").ok().out)
            ]
        finally:
            holder.kill()
    assert seen[0] == seen[1] != f"_ses.{container.id}"
    assert seen[0].startswith(f"_ses.{container.id}.")


@pytest.mark.parametrize("kind", ["c", "u", "b", "p"])
def test_devices(runtime, bundle, kind, observe):
    device = {"path": f"/dev/sub/{kind}", "type": kind, "fileMode": 0o640, "uid": 12, "gid": 34}
    if kind != "p":
        device |= {"major": 7, "minor": 300}
    bundle.linux["devices"] = [device]
    if runtime.name == "runc" and kind == "u":
        # runc 1.1 does not know the unbuffered kind's name for rules; the node is the same as c's.
        return
    out = runtime.run(bundle.shell(f"stat -c '%F %a %u %g %t:%T' /dev/sub/{kind}")).ok().out
    assert " 640 12 34 " in out
    if kind != "u":
        observe(out)


@only_krun
def test_recursive_read_only(runtime, bundle, tmp_path):
    """rro: the mounts below are read-only, too; with ro they are not."""
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    # Not a tmpfs: one can be id-mapped since Linux 6.3 only.
    (tmp_path / "other").mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path / "other"), str(source / "below")], check=True)
    try:
        bundle.mount("/rro", source, "rbind", "rro").mount("/ro", source, "rbind", "ro")
        script = "for d in /rro /rro/below /ro /ro/below; do touch $d/x 2>/dev/null && echo $d; done; true"
        assert runtime.run(bundle.shell(script)).ok().out == "/ro/below\n"
    finally:
        subprocess.run(["umount", str(source / "below")], check=True)


@only_krun
@pytest.mark.parametrize("word", ["idmap", "ridmap"])
def test_idmapped_mounts(runtime, bundle, tmp_path, word):
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    # Not a tmpfs: one can be id-mapped since Linux 6.3 only.
    (tmp_path / "other").mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path / "other"), str(source / "below")], check=True)
    try:
        for name in ("file", "below/file"):
            (source / name).touch()
            os.chown(source / name, 5, 6)
        maps = [{"containerID": 0, "hostID": 1000, "size": 1000}]
        mount = {"destination": "/m", "type": "bind", "source": str(source), "options": ["rbind", word]}
        bundle.config["mounts"].append({**mount, "uidMappings": maps, "gidMappings": maps})
        out = runtime.run(bundle.shell("stat -c '%u %g' /m/file /m/below/file")).ok().out
        assert out.splitlines() == ["1005 1006", "1005 1006" if word == "ridmap" else "5 6"]
    finally:
        subprocess.run(["umount", str(source / "below")], check=True)


@only_krun
def test_network_devices(runtime, bundle):
    """Moved, renamed, with the permanent address, and up."""
    name = f"kf{os.getpid() % 100000}"
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "192.0.2.7/24", "dev", name], check=True)
        bundle.linux["netDevices"] = {name: {"name": "inside%d"}}
        out = runtime.run(bundle.args("ip", "addr")).ok().out
        assert (
            "inside0" in out and "192.0.2.7/24" in out and "UP" in out.partition("inside0")[2].splitlines()[0]
        ), out
    finally:
        subprocess.run(["ip", "link", "del", name], stderr=subprocess.DEVNULL, check=False)


@only_krun
@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ({"no-such-link": {}}, "no such interface on the host"),
        ({"lo": {"name": "a/b"}}, "is no name of a network interface"),
        ({"a" * 16: {}}, "is no name of a network interface"),
    ],
)
def test_network_devices_that_are_wrong(runtime, bundle, devices, text):
    bundle.linux["netDevices"] = devices
    done = runtime.run(bundle)
    assert done.status == 1 and text in done.err, done


@only_krun
@pytest.mark.parametrize(
    ("verb", "payload"), [("create", b"standard"), ("run", b"standard"), ("exec", b"setns")]
)
def test_pidfd_socket(runtime, bundle, verb, payload):
    """--pidfd-socket (runc 1.2): one descriptor, of the process that the pid file names."""
    path = f"/tmp/krun-pidfd-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    server.settimeout(30)
    try:
        bundle.args("sleep", "1000")
        if verb == "create":
            container = runtime.create(bundle, "--pidfd-socket", path)
            pid = container.pid
        else:
            container = runtime.start(bundle) if verb == "exec" else runtime.new(bundle)
            pid_file = runtime.work / "pid"
            words = ["--detach", "--pidfd-socket", path, "--pid-file", str(pid_file)]
            if verb == "exec":
                runtime.call("exec", *words, container.id, "sleep", "1000").ok()
                container.children.append(int(pid_file.read_text()))
            else:
                runtime.call("run", *words, "--bundle", str(bundle.write()), container.id).ok()
                container.pid = int(pid_file.read_text())
            pid = int(pid_file.read_text())
        connection, _ = server.accept()
        data, fds, _, _ = socket.recv_fds(connection, 100, 4)
        assert data == payload and len(fds) == 1
        info = Path(f"/proc/self/fdinfo/{fds[0]}").read_text()
        assert f"Pid:\t{pid}\n" in info
        os.close(fds[0])
        connection.close()
    finally:
        server.close()
        os.unlink(path)


def test_no_pivot(runtime, bundle):
    out = (
        runtime.run(bundle.shell("ls / | grep -c work; ls -d /bin; readlink /proc/1/root"), "--no-pivot")
        .ok()
        .out
    )
    assert out == "0\n/bin\n/\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc", "/no/such", "/etc/link"])
@pytest.mark.parametrize("field", ["maskedPaths", "readonlyPaths"])
def test_paths(runtime, bundle, path, field, observe):
    """A file, a directory, nothing, a link."""
    (bundle.rootfs / "etc" / "link").symlink_to("passwd")
    bundle.linux[field] = [path]
    script = f"cat {path} 2>&1 | head -1; ls -A {path} 2>&1 | wc -l; (echo x >>{path}) 2>&1 | tail -1; touch /etc/new; ls /etc | wc -l"
    observe(runtime.run(bundle.shell(script)).out.replace(str(bundle.path), ""))


def test_a_fifo_is_a_fifo(runtime, bundle):
    bundle.linux["devices"] = [{"path": "/fifo", "type": "p", "fileMode": 0o622}]
    assert runtime.run(bundle.shell("(echo hello >/fifo &); cat /fifo")).ok().out == "hello\n"
    assert stat.S_ISFIFO(os.stat(bundle.rootfs / "fifo").st_mode)


def test_annotations_are_in_the_state(runtime, bundle):
    bundle.config["annotations"] = {"a.b/c": "d", "empty": ""}
    container = runtime.start(bundle.args("sleep", "1000"))
    assert container.state()["annotations"] == {"a.b/c": "d", "empty": ""}
    wait_for(lambda: container.state()["status"] == "running", "not running")
