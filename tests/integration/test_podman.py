"""podman with `--runtime PATH`: what people type, with runc first."""

import os
import subprocess
import time

import pytest
from helpers.engines import ENVIRONMENT, LIMITS, Podman, Session, command, remove, runtimes, short_directory
from helpers.notify import Manager, build_sender
from helpers.runtime import cgroup_file, wait_for

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


@pytest.mark.parametrize("mode", ["container", "conmon", "ignore"])
def test_sdnotify(podman, mode, tmp_path):
    """What a service manager hears of a container whose program says READY=1 (podman-run(1), --sdnotify)."""
    sender = build_sender(tmp_path / "sender")
    name = f"/tmp/krun-podman-notify-{os.getpid()}"
    manager = Manager(name)
    ENVIRONMENT["NOTIFY_SOCKET"] = name
    try:
        podman.run(
            "sh", "-c", "test -z $NOTIFY_SOCKET && sleep 1000 || /sender READY=1 sleep",
            options=("-d", f"--sdnotify={mode}", "-v", f"{sender}:/sender:ro"),
        ).ok()  # fmt: skip
        wait_for(lambda: mode == "ignore" or b"READY=1" in b" ".join(manager.messages), "not told")
    finally:
        del ENVIRONMENT["NOTIFY_SOCKET"]
        manager.close()
        os.unlink(name)
    assert (manager.messages == []) == (mode == "ignore"), manager.messages


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
    # podman 4.3 loses what a container prints that ends before it has attached (seen with runc): so it stays a moment.
    shell = ["sh", "-c", "'tty; sleep 1'"]
    line = " ".join(podman.argv("run", "--rm", "-it", "--network", "none", *LIMITS, IMAGE, *shell))
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


def test_resize(podman):
    """The size of the person's terminal is the program's, at once and after a change; of run and of exec."""
    words = ["run", "--name", "c", "-it", "--network", "none", *LIMITS, IMAGE, "sh"]
    first = Session(podman.argv(*words), 30, 90)
    try:
        wait_for(lambda: podman("exec", "c", "true").status == 0, "not up")
        for session in (first, Session(podman.argv("exec", "-it", "c", "sh"), 31, 91)):
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


def test_capabilities_and_user_namespace(podman):
    """krun must show what runc has shown."""
    script = "grep -E '^Cap' /proc/self/status; cat /proc/self/uid_map; id -u; touch /tmp/x && stat -c %u /tmp/x; mount -t tmpfs x /tmp"
    for options in (
        ("--cap-drop", "ALL"),
        ("--cap-add", "SYS_ADMIN"),
        ("--security-opt", "seccomp=unconfined"),
        ("--uidmap", "0:100000:5000", "--gidmap", "0:100000:5000"),
        ("--uidmap", "0:100000:5000", "--gidmap", "0:100000:5000", "--user", "1000:1000"),
    ):
        done = podman.run("sh", "-c", script, options=("--rm", *options))
        value = (done.status, done.out, done.err)
        assert _seen.setdefault(options, value) == value, options


_seen = {}


def test_limits(podman):
    options = ("--cpus", "0.5", "--pids-limit", "20", "--memory", "64m", "--name", "c")
    podman.run("sleep", "1000", options=("-d", *options)).ok()
    pid = int(podman("inspect", "--format", "{{.State.Pid}}", "c").ok().out)
    quota = int(cgroup_file(pid, "cpu", "cpu.cfs_quota_us").read_text())
    assert quota / int(cgroup_file(pid, "cpu", "cpu.cfs_period_us").read_text()) == 0.5
    assert cgroup_file(pid, "pids", "pids.max").read_text() == "20\n"
    assert int(cgroup_file(pid, "memory", "memory.limit_in_bytes").read_text()) == 64 << 20
    done = podman("exec", "c", "sh", "-c", "for i in $(seq 40); do sleep 5 & done; wait")
    assert "fork" in done.err, done


def test_out_of_memory_is_reported(podman):
    options = ("--name", "c", "--memory", "32m", "--memory-swap", "32m")
    done = podman.run("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1", options=options)
    assert done.status == 137, done
    killed = podman("inspect", "--format", "{{.State.OOMKilled}}", "c").ok().out
    # This podman says false beside hybrid cgroups, with any runtime.
    assert _seen.setdefault("oom", killed) == killed


def test_two_containers_talk(podman):
    options = ("-d", "--name", "server")
    podman.run("sh", "-c", "echo hello | nc -l -p 7000; sleep 1000", options=options).ok()
    script = "for i in $(seq 50); do nc 127.0.0.1 7000 </dev/null && exit; sleep 0.1; done; exit 1"
    words = ("run", "--rm", "--network", "container:server", *LIMITS, IMAGE)
    assert podman(*words, "sh", "-c", script).ok().out == "hello\n"


def test_cp_stats_health(podman, tmp_path):
    options = ("-d", "--name", "c", "--health-cmd", "test -e /well", "--health-interval", "disable")
    podman.run("sh", "-c", "echo made >/made; sleep 1000", options=options).ok()
    (tmp_path / "in").write_text("in\n")
    podman("cp", str(tmp_path / "in"), "c:/in").ok()
    assert podman("exec", "c", "cat", "/in").ok().out == "in\n"
    podman("cp", "c:/made", str(tmp_path / "out")).ok()
    assert (tmp_path / "out").read_text() == "made\n"
    # KVM has a worker thread in the cgroup of each VM (docs/limits.md).
    count = "1\n" if podman.name == "runc" else "2\n"
    assert podman("stats", "--no-stream", "--format", "{{.PIDs}}", "c").ok().out == count
    assert podman("healthcheck", "run", "c").status == 1
    podman("exec", "c", "touch", "/well").ok()
    assert podman("healthcheck", "run", "c").status == 0


def test_restart_policy(podman):
    options = ("-d", "--name", "c", "--restart", "on-failure:2")
    podman.run("sh", "-c", "echo up; exit 3", options=options).ok()
    wait_for(lambda: podman("logs", "c").out.count("up") == 3, "not started three times", 60)
    wait_for(lambda: "Exited (3)" in podman("ps", "-a").out, "still restarting")


def test_init(podman):
    """--init: a process of the engine's is pid 1; the engine's own helper may be a package that is not installed."""
    options = ("-d", "--name", "c", "--init", "--init-path", "/bin/busybox")
    done = podman.run("sleep", "1000", options=options)
    assert _seen.setdefault("init", done.status) == done.status
