"""A private dockerd with krun added as a runtime; runc first."""

import json
import os
import subprocess
import time

import pytest
from helpers.engines import LIMITS, Docker, Session, command, remove, runtimes, short_directory
from helpers.runtime import cgroup_file, wait_for

pytestmark = pytest.mark.engine
IMAGE = "busybox:test"


@pytest.fixture(scope="module")
def engine(as_root, busybox_root):
    work = short_directory("docker")
    docker = None
    try:
        docker = Docker(work)
        docker.load(busybox_root, IMAGE)
        yield docker
    finally:
        if docker is not None:
            docker.close()
        remove(work)


@pytest.fixture(params=runtimes())
def docker(request, engine):
    def call(*args, **more):
        return engine.call(*args, **more)

    def run(*args, options=(), **more):
        return call(
            "run", "--runtime", request.param, "--network", "none", *LIMITS, *options, IMAGE, *args, **more
        )

    call.run = run
    call.name = request.param
    call.argv = engine.argv
    yield call
    for id in call("ps", "-aq").out.split():
        call("rm", "--force", id)


def state(docker, name):
    return json.loads(docker("inspect", "--format", "{{json .State}}", name).ok().out)


def test_run(docker):
    assert docker.run("/bin/echo", "hello", options=("--rm",)).ok().out == "hello\n"


def test_exit_code(docker):
    assert docker.run("sh", "-c", "exit 7", options=("--rm",)).status == 7


def test_stdin(docker):
    assert docker.run("tr", "a-z", "A-Z", options=("--rm", "-i"), input="abc\n").ok().out == "ABC\n"


@pytest.mark.parametrize(("program", "status"), [("/no/such", 127), ("nosuch", 127), ("/etc/passwd", 126)])
def test_program_that_cannot_be_started(docker, program, status):
    done = docker.run(program, options=("--rm",))
    assert done.status == status, done


def test_death_by_sigkill_is_137(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    docker("kill", "box").ok()
    assert docker("wait", "box").ok().out.split() == ["137"]


def test_exec(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    done = docker("exec", "--env", "A=b", "box", "sh", "-c", "echo $A; exit 5")
    assert (done.status, done.out) == (5, "b\n"), done
    assert docker("exec", "box", "/no/such").status in (126, 127)
    assert docker("exec", "-i", "box", "cat", input="through\n").ok().out == "through\n"


def test_stop_asks_first(docker):
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    docker.run("sh", "-c", script, options=("-d", "--name", "box")).ok()
    wait_for(lambda: "up" in docker("logs", "box").out, "not up")
    begin = time.monotonic()
    docker("stop", "--time", "20", "box").ok()
    assert time.monotonic() - begin < 15 and "asked" in docker("logs", "box").out
    assert state(docker, "box")["ExitCode"] == 0


def test_stop_kills_after_the_time(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    docker("stop", "--time", "1", "box").ok()
    assert state(docker, "box")["ExitCode"] == 137


def test_running_state(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    found = state(docker, "box")
    assert found["Running"] and found["Pid"] > 0
    os.kill(found["Pid"], 0)


def test_restart(docker):
    docker.run("sh", "-c", "echo up; sleep 1000", options=("-d", "--name", "box")).ok()
    first = state(docker, "box")["Pid"]
    docker("restart", "--time", "0", "box").ok()
    wait_for(lambda: docker("logs", "box").out.count("up") == 2, "not up again")
    assert state(docker, "box")["Pid"] != first


def test_out_of_memory_is_reported(docker):
    """The kernel's kill in the container's cgroup reaches the engine as OOMKilled."""
    options = ("--name", "box", "--memory", "32m", "--memory-swap", "32m")
    done = docker.run("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1", options=options)
    assert done.status == 137, done
    wait_for(lambda: state(docker, "box")["OOMKilled"], "not reported")


def test_top_and_stats(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    assert "1000" in docker("top", "box").ok().out
    assert docker("stats", "--no-stream", "box").ok().out.count("\n") == 2


def test_pause(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    docker("pause", "box").ok()
    assert state(docker, "box")["Paused"]
    docker("unpause", "box").ok()
    assert not state(docker, "box")["Paused"]


def test_update(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box", "--pids-limit", "50")).ok()
    docker("update", "--pids-limit", "60", "box").ok()
    limit = docker("inspect", "--format", "{{.HostConfig.PidsLimit}}", "box").ok().out.strip()
    assert limit == "60"


def test_cp(docker, tmp_path):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    (tmp_path / "f").write_text("copied\n")
    docker("cp", str(tmp_path / "f"), "box:/tmp/f").ok()
    assert docker("exec", "box", "cat", "/tmp/f").ok().out == "copied\n"


def test_terminal(docker):
    words = ["run", "--rm", "-it", "--runtime", docker.name, "--network", "none", *LIMITS, IMAGE]
    done = command(["script", "-qec", " ".join(docker.argv(*words, "tty")), "/dev/null"])
    assert done.status == 0 and "/dev/pts/" in done.out, done


def test_terminal_session(docker):
    words = ["run", "--rm", "-it", "--runtime", docker.name, "--network", "none", *LIMITS, IMAGE, "sh"]
    done = subprocess.run(
        ["script", "-qec", " ".join(docker.argv(*words)), "/dev/null"],
        input="echo $((6*7))\nexit 3\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3 and "42" in done.stdout, done


def test_exec_on_a_terminal(docker):
    docker.run("sleep", "1000", options=("-d", "--name", "box")).ok()
    done = command(["script", "-qec", " ".join(docker.argv("exec", "-it", "box", "tty")), "/dev/null"])
    assert done.status == 0 and "/dev/pts/" in done.out, done


def test_resize(docker):
    """The size of the person's terminal is the program's, at once and after a change; of run and of exec."""
    words = [
        "run",
        "--name",
        "box",
        "-it",
        "--runtime",
        docker.name,
        "--network",
        "none",
        *LIMITS,
        IMAGE,
        "sh",
    ]
    first = Session(docker.argv(*words), 30, 90)
    try:
        wait_for(lambda: docker("exec", "box", "true").status == 0, "not up")
        for session in (first, Session(docker.argv("exec", "-it", "box", "sh"), 31, 91)):
            session.type("stty size; echo no''w")
            session.until("now")
            session.resize(41, 101)
            wait_for(lambda s=session: _size(s) == "41 101", "not resized")
        session.type("exit 4")
        assert session.end() == 4
        first.type("exit 3")
        assert first.end() == 3
    finally:
        first.process.kill()


def _size(session):
    session.text = ""
    session.type("stty size; echo no''w")
    return session.until("now").replace("\r", "").split("\nnow")[0].rpartition("\n")[2].strip()


def test_volume_user_read_only(docker, tmp_path):
    (tmp_path / "in").write_text("volume\n")
    tmp_path.chmod(0o777)
    options = ("--rm", "-v", f"{tmp_path}:/data", "--user", "1000:1000", "--workdir", "/data", "--read-only")
    done = docker.run("sh", "-c", "cat in; id -u; pwd; echo y >out; touch /tmp/x", options=options)
    assert done.out.split() == ["volume", "1000", "/data"] and "Read-only" in done.err, done
    assert (tmp_path / "out").read_text() == "y\n"
    assert (tmp_path / "out").stat().st_uid == 1000


def test_capabilities_and_security_options(docker):
    script = "grep -E '^Cap(Bnd|Eff)|NoNewPrivs' /proc/self/status; mount -t tmpfs x /tmp; mkdir /a; unshare -U true"
    for options in (
        (),
        ("--cap-drop", "ALL"),
        ("--cap-add", "SYS_ADMIN"),
        ("--security-opt", "no-new-privileges"),
        ("--security-opt", "seccomp=unconfined"),
    ):
        done = docker.run("sh", "-c", script, options=("--rm", *options))
        lines = [line for line in done.out.split("\n") if line.startswith("Cap")]
        # krun's processes never gain privileges (docs/limits.md), whatever was asked; so that line is not compared.
        observe = (options, lines, done.status, done.err)
        same(docker.name, "capabilities", observe)


_seen = {}


def same(runtime, what, value):
    """What krun shows must be what runc has shown."""
    key = (what, value[0])
    if runtime == "runc":
        _seen[key] = value
    elif key in _seen:
        assert value == _seen[key]


def test_limits(docker):
    options = ("--cpus", "0.5", "--pids-limit", "20", "--memory", "64m", "--name", "box")
    docker.run("sleep", "1000", options=("-d", *options)).ok()
    pid = state(docker, "box")["Pid"]
    quota = int(cgroup_file(pid, "cpu", "cpu.cfs_quota_us").read_text())
    assert quota / int(cgroup_file(pid, "cpu", "cpu.cfs_period_us").read_text()) == 0.5
    assert cgroup_file(pid, "pids", "pids.max").read_text() == "20\n"
    assert int(cgroup_file(pid, "memory", "memory.limit_in_bytes").read_text()) == 64 << 20
    done = docker("exec", "box", "sh", "-c", "for i in $(seq 40); do sleep 5 & done; wait")
    assert "fork" in done.err, done


def test_two_containers_talk(docker):
    options = ("-d", "--name", "server")
    docker.run("sh", "-c", "echo hello | nc -l -p 7000; sleep 1000", options=options).ok()
    words = ("run", "--rm", "--runtime", docker.name, "--network", "container:server", *LIMITS, IMAGE)
    script = "for i in $(seq 50); do nc 127.0.0.1 7000 </dev/null && exit; sleep 0.1; done; exit 1"
    assert docker(*words, "sh", "-c", script).ok().out == "hello\n"


def test_health_check(docker):
    options = ("--health-cmd", "test -e /well", "--health-interval", "1s", "--health-retries", "1")
    docker.run("sleep", "1000", options=("-d", "--name", "box", *options)).ok()
    wait_for(lambda: state(docker, "box")["Health"]["Status"] == "unhealthy", "not unhealthy", 60)
    docker("exec", "box", "touch", "/well").ok()
    wait_for(lambda: state(docker, "box")["Health"]["Status"] == "healthy", "not healthy", 60)


def test_restart_policy(docker):
    options = ("-d", "--name", "box", "--restart", "on-failure:2")
    docker.run("sh", "-c", "echo up; exit 3", options=options).ok()
    wait_for(lambda: docker("logs", "box").out.count("up") == 3, "not started three times", 60)
    wait_for(lambda: not state(docker, "box")["Restarting"], "still restarting")
    count = docker("inspect", "--format", "{{.RestartCount}}", "box").ok().out.strip()
    assert count == "2" and state(docker, "box")["ExitCode"] == 3


def test_init(docker):
    """--init: a process of the engine's is pid 1 and reaps."""
    options = ("-d", "--name", "box", "--init")
    docker.run("sh", "-c", "sh -c 'sleep 0.2 &'; sleep 1000", options=options).ok()
    wait_for(lambda: "sleep 1000" in docker("top", "box").out, "not up")
    assert "docker-init" in docker("exec", "box", "cat", "/proc/1/cmdline").ok().out
    wait_for(lambda: " Z " not in docker("exec", "box", "ps", "-o", "pid,stat,args").out, "zombies")
    docker("stop", "--time", "10", "box").ok()


def test_logs(docker):
    script = "echo err >&2; sleep 0.2; for i in 1 2 3; do echo out $i; done"
    docker.run("sh", "-c", script, options=("--name", "box"))
    assert docker("logs", "--tail", "2", "box").ok().out == "out 2\nout 3\n"
    assert docker("logs", "box").ok().err == "err\n"
    assert "T" in docker("logs", "--timestamps", "box").ok().out


def test_cp_out_and_diff(docker, tmp_path):
    docker.run("sh", "-c", "echo made >/made; sleep 1000", options=("-d", "--name", "box")).ok()
    wait_for(lambda: docker("exec", "box", "cat", "/made").out == "made\n", "not made")
    docker("cp", "box:/made", str(tmp_path / "out")).ok()
    assert (tmp_path / "out").read_text() == "made\n"
    assert "A /made" in docker("diff", "box").ok().out
