"""podman with `--runtime PATH`: what people type, with runc first."""

import os
import subprocess
import time

import pytest
from helpers.engines import LIMITS, Podman, command, remove, runtimes, short_directory
from helpers.runtime import wait_for

pytestmark = pytest.mark.engine
IMAGE = "localhost/busybox:test"


@pytest.fixture(scope="module")
def engine(as_root, busybox_root):
    work = short_directory("podman")
    podman = Podman(work)
    try:
        podman.load(busybox_root, IMAGE)
        yield podman
        podman.close()
    finally:
        remove(work)


@pytest.fixture(params=runtimes())
def podman(request, engine):
    def call(*args, **more):
        return engine.call(request.param, *args, **more)

    def run(*args, options=(), **more):
        return call("run", "--network", "none", *LIMITS, *options, IMAGE, *args, **more)

    call.run = run
    call.name = request.param
    call.argv = lambda *args: engine.argv(request.param, *args)
    yield call
    call("rm", "--all", "--force", "--time", "0")


def test_run(podman):
    done = podman.run("/bin/echo", "hello", options=("--rm",)).ok()
    assert done.out == "hello\n"


def test_exit_code(podman):
    assert podman.run("sh", "-c", "exit 7", options=("--rm",)).status == 7


def test_stdin(podman):
    assert podman.run("tr", "a-z", "A-Z", options=("--rm", "-i"), input="abc\n").ok().out == "ABC\n"


@pytest.mark.parametrize(("program", "status"), [("/no/such", 127), ("nosuch", 127), ("/etc/passwd", 126)])
def test_program_that_cannot_be_started(podman, program, status):
    done = podman.run(program, options=("--rm",))
    assert done.status == status, done


def test_death_by_signal(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c")).ok()
    podman("kill", "--signal", "KILL", "c").ok()
    assert podman("wait", "c").ok().out.split() == ["137"]


def test_exec(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c")).ok()
    done = podman("exec", "--env", "A=b", "c", "sh", "-c", "echo $A; hostname; exit 5")
    assert done.status == 5 and done.out.split()[0] == "b", done
    assert podman("exec", "c", "/no/such").status == 127


def test_stop_asks_first(podman):
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    podman.run("sh", "-c", script, options=("-d", "--name", "c")).ok()
    wait_for(lambda: "up" in podman("logs", "c").out, "not up")
    begin = time.monotonic()
    podman("stop", "--time", "20", "c").ok()
    assert time.monotonic() - begin < 15
    assert "asked" in podman("logs", "c").out
    assert (
        podman("inspect", "--format", "{{.State.ExitCode}} {{.State.Status}}", "c").ok().out.split()[0] == "0"
    )


def test_stop_kills_after_the_time(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c")).ok()
    podman("stop", "--time", "1", "c").ok()
    assert podman("inspect", "--format", "{{.State.ExitCode}}", "c").ok().out.strip() == "137"


def test_create_start_logs_rm(podman):
    podman(
        "create", "--network", "none", *LIMITS, "--name", "c", IMAGE, "sh", "-c", "echo out; echo err >&2"
    ).ok()
    podman("start", "--attach", "c").ok()
    logs = podman("logs", "c").ok()
    assert "out" in logs.out and "err" in logs.err
    podman("rm", "c").ok()
    assert podman("ps", "-aq").ok().out == ""


def test_start_again(podman):
    podman.run("sh", "-c", "echo once more", options=("--name", "c")).ok()
    assert "once more" in podman("start", "--attach", "c").ok().out


def test_ps_top_inspect(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c")).ok()
    assert "Up" in podman("ps").ok().out
    pid = int(podman("inspect", "--format", "{{.State.Pid}}", "c").ok().out)
    os.kill(pid, 0)
    assert "sleep" in podman("top", "c", "args").ok().out


def test_volume_user_workdir(podman, tmp_path):
    (tmp_path / "in").write_text("volume\n")
    tmp_path.chmod(0o777)
    options = ("--rm", "-v", f"{tmp_path}:/data", "--user", "1000:1000", "--workdir", "/data", "--env", "X=y")
    done = podman.run("sh", "-c", "cat in; id -u; pwd; echo $X >out", options=options).ok()
    assert done.out.split() == ["volume", "1000", "/data"] and (tmp_path / "out").read_text() == "y\n"


def test_read_only_and_tmpfs(podman):
    done = podman.run(
        "sh", "-c", "touch /x; touch /tmp/y && echo ok", options=("--rm", "--read-only", "--tmpfs", "/tmp")
    )
    assert done.ok().out == "ok\n" and "Read-only" in done.err


def test_memory_limit_is_reported(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c", "--memory", "64m")).ok()
    assert podman("inspect", "--format", "{{.HostConfig.Memory}}", "c").ok().out.strip() == str(64 << 20)


def test_pause(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "c")).ok()
    podman("pause", "c").ok()
    assert podman("inspect", "--format", "{{.State.Status}}", "c").ok().out.strip() == "paused"
    podman("unpause", "c").ok()
    assert podman("inspect", "--format", "{{.State.Status}}", "c").ok().out.strip() == "running"


def test_terminal(podman):
    """-t under script(1), as a person has it."""
    line = " ".join(podman.argv("run", "--rm", "-it", "--network", "none", *LIMITS, IMAGE, "tty"))
    done = command(["script", "-qec", line, "/dev/null"])
    assert done.status == 0 and "/dev/pts/" in done.out, done


def test_attached_terminal_session(podman):
    line = " ".join(podman.argv("run", "--rm", "-it", "--network", "none", *LIMITS, IMAGE, "sh"))
    done = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        input="echo $((6*7))\nexit 3\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert done.returncode == 3 and "42" in done.stdout, done


def test_pod_of_two(podman):
    podman.run("sleep", "1000", options=("-d", "--name", "a", "--ipc", "shareable")).ok()
    options = ("--rm", "--pid", "container:a", "--ipc", "container:a")
    out = podman.run("ps", options=options).ok().out
    assert "sleep 1000" in out
