"""A private containerd: its shim with the runtime's binary, runc first."""

import pytest
from helpers.engines import Containerd, remove, runtimes, short_directory
from helpers.runtime import find, wait_for
from helpers.seccompagent import Agent, build, profile

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def engine(as_root):
    work = short_directory("ctr")
    containerd = None
    try:
        containerd = Containerd(work)
        yield containerd
    finally:
        if containerd is not None:
            containerd.close()
        remove(work)


@pytest.fixture(params=runtimes())
def ctr(request, engine, busybox_root):
    def call(*args, **more):
        return engine.call(*args, **more)

    def run(id, *args, options=(), **more):
        flags = ("--runc-binary", str(find(request.param)), "--rootfs")
        return call("run", *flags, *options, str(busybox_root), id, *args, **more)

    call.run = run
    call.name = request.param
    yield call
    for task in call("task", "ls", "-q").out.split():
        call("task", "rm", "--force", task)
    for container in call("container", "ls", "-q").out.split():
        call("container", "rm", container)


def test_run(ctr):
    assert ctr.run("c1", "/bin/echo", "hello", options=("--rm",)).ok().out == "hello\n"


def test_exit_code(ctr):
    assert ctr.run("c2", "/bin/sh", "-c", "exit 7", options=("--rm",)).status == 7


def test_detached_exec_kill_delete(ctr):
    ctr.run("c3", "/bin/sleep", "1000", options=("--detach",)).ok()
    wait_for(lambda: "RUNNING" in ctr("task", "ls").out, "not running")
    done = ctr("task", "exec", "--exec-id", "e1", "c3", "/bin/sh", "-c", "echo inside; exit 4")
    assert (done.status, done.out) == (4, "inside\n"), done
    ctr("task", "kill", "--signal", "SIGKILL", "c3").ok()
    wait_for(lambda: "STOPPED" in ctr("task", "ls").out, "not stopped")
    assert ctr("task", "delete", "c3").status in (0, 137)
    ctr("container", "rm", "c3").ok()


def test_pause_and_resume(ctr):
    ctr.run("c4", "/bin/sleep", "1000", options=("--detach",)).ok()
    ctr("task", "pause", "c4").ok()
    assert "PAUSED" in ctr("task", "ls").out
    ctr("task", "resume", "c4").ok()
    assert "RUNNING" in ctr("task", "ls").out


def test_program_that_cannot_be_started(ctr):
    done = ctr.run("c5", "/no/such", options=("--rm",))
    assert done.status != 0 and "no such file or directory" in done.err


def test_a_profile_with_an_agent(ctr, busybox_root, bundle, tmp_path):
    """SCMP_ACT_NOTIFY in the specification that containerd's client gives; a further process has a listener of its own."""
    agent = Agent(build("seccomp_agent.c", tmp_path / "agent"), tmp_path)
    try:
        bundle.config["root"] = {"path": str(busybox_root)}
        bundle.mount("/tmp", "tmpfs", type="tmpfs").shell("mkdir /tmp/deny; mkdir /tmp/passed; sleep 1000")
        bundle.linux["seccomp"] = profile(agent.path, "mkdir")
        words = ("--runc-binary", str(find(ctr.name)), "--config", str(bundle.write() / "config.json"))
        ctr("run", *words, "--detach", "c8").ok()
        agent.until("passed")
        done = ctr("task", "exec", "--exec-id", "e1", "c8", "/bin/sh", "-c", "mkdir /tmp/value; echo $?")
        assert done.out == "0\n", done
        ctr("task", "kill", "--signal", "SIGKILL", "c8").ok()
        agent.until("hang-up", 2)
        told = ["mkdir /tmp/deny 777: 0", "mkdir /tmp/passed 777: 0", "mkdir /tmp/value 777: 0"]
        assert [line for line in agent.calls() if line.startswith("mkdir")] == told
    finally:
        agent.close()
