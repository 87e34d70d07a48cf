"""Kubernetes' way: a pod of two containers by crictl, containerd's CRI plug-in and CNI; the handler is runc, then krun.

crictl is built where it is not there yet (`go` fetches its source); `./dev test-suites cri` also runs critest (tests/suites/cri.py).
"""

import json
import os
import signal
import subprocess
import time

import pytest
from helpers.cri import BUSYBOX, Cri
from helpers.engines import ENVIRONMENT, Session, remove, runtimes, short_directory
from helpers.runtime import cgroup_directories, cgroup_file, wait_for
from suites import cri

# The first case may have to build crictl.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engine(as_root):
    cri.build("crictl")
    work = short_directory("cri")
    engine = None
    try:
        engine = Cri(work)
        yield engine
    finally:
        if engine is not None:
            engine.close()
        remove(work)
        # The pods' cgroups are the caller's to remove, as they are kubelet's.
        for directory in sorted(cgroup_directories("kt-cri-"), reverse=True):
            os.rmdir(directory)


#: Values of the interface's NamespaceMode.
POD, CONTAINER = 0, 1


class Pod:
    """A pod sandbox with one runtime handler."""

    def __init__(self, engine, handler, **more):
        self.engine, self.handler = engine, handler
        self.work = engine.work / "pods" / f"{handler}{time.monotonic_ns()}"
        (self.work / "logs").mkdir(parents=True)
        self.config = self.work / "pod.json"
        metadata = {"name": f"pod-{handler}", "namespace": "test", "uid": self.work.name, "attempt": 1}
        linux = {"cgroup_parent": f"/kt-cri-{handler}"}
        self.config.write_text(
            json.dumps(
                {
                    "metadata": metadata,
                    "hostname": "in-the-pod",
                    "log_directory": str(self.work / "logs"),
                    "dns_config": {"servers": ["10.9.8.7"]},
                    "linux": linux,
                    **more,
                }
            )
        )
        self.id = self.crictl("runp", "--runtime", handler, str(self.config)).ok().out.strip()

    def crictl(self, *args, **more):
        return self.engine.crictl(*args, **more)

    def create(self, name, *command, **more):
        file = self.work / f"{name}.json"
        image = {"image": BUSYBOX}
        config = {
            "metadata": {"name": name},
            "image": image,
            "command": list(command),
            "log_path": f"{name}.log",
        }
        file.write_text(json.dumps({**config, "linux": {}, **more}))
        return self.crictl("create", self.id, str(file), str(self.config)).ok().out.strip()

    def start(self, name, *command, **more):
        id = self.create(name, *command, **more)
        self.crictl("start", id).ok()
        return id

    def inspect(self, id):
        return json.loads(self.crictl("inspect", id).ok().out)

    def address(self):
        return json.loads(self.crictl("inspectp", self.id).ok().out)["status"]["network"]["ip"]


@pytest.fixture(params=runtimes())
def pod(request, engine):
    yield Pod(engine, request.param)
    engine.clean()


@pytest.fixture
def two(pod):
    """The pod with a web server and a container that sleeps; their ids."""
    web = "echo up; echo error >&2; exec httpd -f -p 8080 -h /etc"
    limits = {
        "linux": {"resources": {"memory_limit_in_bytes": 64 << 20, "cpu_quota": 50000, "cpu_period": 100000}}
    }
    return pod.start("web", "/bin/sh", "-c", web, **limits), pod.start("other", "/bin/sleep", "1000")


def test_two_containers_share_the_pods_network_and_names(pod, two):
    web, other = two
    get = "for i in $(seq 50); do wget -qO- http://127.0.0.1:8080/hostname && exit; sleep 0.1; done; exit 1"
    assert pod.crictl("exec", "--sync", other, "sh", "-c", get).ok().out.strip() == "in-the-pod"
    assert pod.crictl("exec", "--sync", other, "hostname").ok().out.strip() == "in-the-pod"
    assert "10.9.8.7" in pod.crictl("exec", "--sync", other, "cat", "/etc/resolv.conf").ok().out
    address = pod.address()
    assert address in pod.crictl("exec", "--sync", web, "ip", "address").ok().out
    # From another pod, across the bridge.
    second = Pod(pod.engine, pod.handler)
    id = second.start("third", "/bin/sleep", "1000")
    done = second.crictl("exec", "--sync", id, "wget", "-qO-", f"http://{address}:8080/passwd")
    assert "root:x:0:0" in done.ok().out
    containers = pod.crictl("ps", "-q", "--pod", pod.id).ok().out.split()
    assert sorted(containers) == sorted(two)


def test_exec(pod, two):
    script = "echo out; echo err >&2; exit 5"
    # crictl itself ends with 1 and tells the code.
    done = pod.crictl("exec", two[1], "sh", "-c", script)
    assert done.status == 1 and done.out.strip() == "out" and "exit code 5" in done.err, done
    assert "err\n" in done.err, done
    done = pod.crictl("exec", "--sync", two[1], "sh", "-c", script)
    assert done.status == 1 and "exited with 5: err" in done.err, done
    done = pod.crictl("exec", "-i", two[1], "cat", input="through\n")
    assert done.ok().out == "through\n"
    large = "x" * 300000
    assert pod.crictl("exec", "-i", two[1], "wc", "-c", input=large).ok().out == "300000\n"
    done = pod.crictl("exec", two[1], "/no/such")
    assert done.status == 1 and "no such file or directory" in done.err, done
    # The time limit of a probe: the program is ended.
    done = pod.crictl("exec", "--sync", "--timeout", "1", two[1], "sleep", "4321")
    assert done.status == 1 and "exceed" in done.err, done
    assert "4321" not in pod.crictl("exec", "--sync", two[1], "ps").ok().out


def test_exec_on_a_terminal_with_resize(pod, two):
    session = Session(pod.engine.argv("exec", "-i", "-t", two[1], "sh"), 31, 91)
    try:
        session.type("stty size; echo no''w")
        assert "31 91" in session.until("now")
        session.resize(41, 101)
        wait_for(lambda: "41 101" in size(session), "not resized")
        session.type("tty; exit 4")
        assert "/dev/pts/" in session.until("/dev/pts/")
        assert session.end() == 1
    finally:
        session.process.kill()


def size(session):
    session.text = ""
    session.type("stty size; echo no''w")
    return session.until("now")


def test_attach(pod):
    id = pod.create("shell", "/bin/sh", stdin=True, stdin_once=True)
    pod.crictl("start", id).ok()
    done = pod.crictl("attach", "-i", id, input="echo $((6*7))\nexit 3\n")
    assert "42" in done.out, done
    wait_for(lambda: pod.inspect(id)["status"]["state"] == "CONTAINER_EXITED", "not ended")
    assert pod.inspect(id)["status"]["exitCode"] == 3


def test_logs(pod, two):
    wait_for(lambda: "up" in pod.crictl("logs", two[0]).out, "no log")
    done = pod.crictl("logs", two[0]).ok()
    assert (done.out, done.err) == ("up\n", "error\n")
    lines = (pod.work / "logs" / "web.log").read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == ["stderr", "stdout"]
    argv = pod.engine.argv("logs", "-f", two[0])
    follow = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        assert follow.stdout.readline() == b"up\n"
        pod.crictl("stop", "--timeout", "0", two[0]).ok()
        assert follow.wait(30) == 0
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()


def test_stats_and_limits(pod, two):
    stats = json.loads(pod.crictl("stats", "-o", "json", two[0]).ok().out)["stats"][0]
    assert stats["attributes"]["metadata"]["name"] == "web"
    assert int(stats["cpu"]["usageCoreNanoSeconds"]["value"]) > 0
    assert 0 < int(stats["memory"]["workingSetBytes"]["value"]) < 64 << 20
    pid = pod.inspect(two[0])["info"]["pid"]
    assert int(cgroup_file(pid, "memory", "memory.limit_in_bytes").read_text()) == 64 << 20
    assert f"/kt-cri-{pod.handler}/" in str(cgroup_file(pid, "memory", "tasks"))
    pod.crictl("update", "--memory", str(48 << 20), two[0]).ok()
    assert int(cgroup_file(pid, "memory", "memory.limit_in_bytes").read_text()) == 48 << 20


def test_port_forward(pod, two):
    argv = pod.engine.argv("port-forward", pod.id, "18080:8080")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
    try:
        assert b"Forwarding" in process.stdout.readline()
        wget = pod.engine.inside("busybox", "wget", "-qO-", "http://127.0.0.1:18080/group")
        for _ in range(3):
            done = subprocess.run(wget, capture_output=True, timeout=30, env=ENVIRONMENT, check=False)
            assert b"root:x:0" in done.stdout, done
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


def test_out_of_memory_is_the_reason(pod):
    resources = {"memory_limit_in_bytes": 32 << 20, "memory_swap_limit_in_bytes": 32 << 20}
    words = ("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1")
    id = pod.start("hungry", *words, linux={"resources": resources})
    wait_for(lambda: pod.inspect(id)["status"]["state"] == "CONTAINER_EXITED", "not ended", 60)
    status = pod.inspect(id)["status"]
    assert (status["exitCode"], status["reason"]) == (137, "OOMKilled"), status


def test_exit_code_and_reason(pod):
    good = pod.start("good", "/bin/true")
    bad = pod.start("bad", "/bin/sh", "-c", "exit 7")
    for id, code, reason in ((good, 0, "Completed"), (bad, 7, "Error")):
        wait_for(lambda id=id: pod.inspect(id)["status"]["state"] == "CONTAINER_EXITED", "not ended")
        status = pod.inspect(id)["status"]
        assert (status["exitCode"], status["reason"]) == (code, reason), status


def test_program_that_cannot_be_started(pod):
    id = pod.create("none", "/no/such")
    done = pod.crictl("start", id)
    assert done.status == 1 and "no such file or directory" in done.err, done
    status = pod.inspect(id)["status"]
    assert (status["state"], status["reason"]) == ("CONTAINER_EXITED", "StartError"), status
    # kubelet shows this number: 128, as for any task that could not be made.
    assert status["exitCode"] == 128, status


def test_security_context(pod):
    script = "id -u; id -g; id -G; grep -E 'CapEff|NoNewPrivs' /proc/self/status; touch /x; touch /tmp/y && echo wrote"
    context = {
        "run_as_user": {"value": 1000},
        "run_as_group": {"value": 1000},
        "supplemental_groups": [77],
        "readonly_rootfs": True,
        "no_new_privs": True,
        "capabilities": {"drop_capabilities": ["ALL"]},
        "masked_paths": ["/proc/kcore"],
        "readonly_paths": ["/proc/sys"],
        "seccomp": {"profile_type": 0},
    }
    data = pod.work / "data"
    data.mkdir(mode=0o777)
    data.chmod(0o777)
    mounts = [{"host_path": str(data), "container_path": "/tmp"}]
    id = pod.start("user", "/bin/sh", "-c", script, linux={"security_context": context}, mounts=mounts)
    wait_for(lambda: pod.inspect(id)["status"]["state"] == "CONTAINER_EXITED", "not ended")
    done = pod.crictl("logs", id).ok()
    lines = ["1000", "1000", "1000 77", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "wrote"]
    assert done.out.splitlines() == lines, done
    assert "Read-only file system" in done.err and (data / "y").stat().st_uid == 1000


def test_shared_pid_namespace_and_pause_reaps(engine, pod):
    shared = {"security_context": {"namespace_options": {"pid": POD}}}
    second = Pod(engine, pod.handler, linux=shared)
    one = second.start("one", "/bin/sh", "-c", "sh -c 'sleep 0.1 &'; exec sleep 1000", linux=shared)
    two = second.start("two", "/bin/sleep", "2000", linux=shared)
    out = second.crictl("exec", "--sync", two, "ps", "-o", "pid,args").ok().out
    assert "/pause" in out and "sleep 1000" in out and "sleep 2000" in out, out
    wait_for(
        lambda: " Z " not in second.crictl("exec", "--sync", one, "ps", "-o", "pid,stat,args").out, "zombies"
    )


def test_pid_namespace_of_its_own(engine, pod):
    own = {"security_context": {"namespace_options": {"pid": CONTAINER}}}
    second = Pod(engine, pod.handler, linux=own)
    id = second.start("own", "/bin/sleep", "1000", linux=own)
    assert (
        second.crictl("exec", "--sync", id, "cat", "/proc/1/cmdline").ok().out.strip()
        == "/bin/sleep\0001000\0"
    )


def test_stop_in_time_and_remove(pod):
    polite = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    one = pod.start("polite", "/bin/sh", "-c", polite)
    # The pod's pid namespace is the sandbox's: no program here is its pid 1, which a signal without a handler spares.
    two = pod.start("stubborn", "/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    wait_for(lambda: "up" in pod.crictl("logs", two).out, "not up")
    wait_for(lambda: "up" in pod.crictl("logs", one).out, "not up")
    begin = time.monotonic()
    pod.crictl("stop", "--timeout", "20", one).ok()
    assert time.monotonic() - begin < 15
    assert "asked" in pod.crictl("logs", one).out and pod.inspect(one)["status"]["exitCode"] == 0
    pod.crictl("stop", "--timeout", "1", two).ok()
    assert pod.inspect(two)["status"]["exitCode"] == 137
    pod.crictl("rm", one, two).ok()
    pod.crictl("stopp", pod.id).ok()
    assert pod.crictl("pods", "-q", "--state", "Ready", "--id", pod.id).ok().out == ""
    pod.crictl("rmp", pod.id).ok()
    assert pod.crictl("pods", "-q", "--id", pod.id).ok().out == ""
