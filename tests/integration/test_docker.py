"""A private dockerd with krun added as a runtime; runc first."""

import json
import os
import subprocess
import time

import pytest
from helpers.engines import LIMITS, Docker, command, remove, runtimes, short_directory
from helpers.runtime import wait_for

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
