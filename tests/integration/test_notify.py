"""NOTIFY_SOCKET: the payload's READY=1 reaches the caller's service manager; runc first."""

import os
import signal
import subprocess

import pytest
from helpers.notify import Manager, build_linger, build_sender, unused_name
from helpers.runtime import wait_for


@pytest.fixture(scope="session")
def sender(tmp_path_factory):
    path = tmp_path_factory.mktemp("sender") / "sender"
    return build_sender(path)


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path_factory, runtime):
    name = unused_name()
    made = Manager(name if request.param == "path" else "\0" + name)
    runtime.environment["NOTIFY_SOCKET"] = name if request.param == "path" else "@" + name
    yield made
    made.close()
    if request.param == "path":
        os.unlink(name)


@pytest.fixture
def ready_bundle(bundle, sender):
    """Its program says something else, then READY=1, then sleeps."""
    bundle.mount("/sender", sender, "bind", "ro")
    return bundle.args("/sender", "STATUS=starting", "READY=1", "sleep")


def start_and_reap(container):
    """`start` of a program that will end: runc waits for its pid to be gone, so somebody must collect it."""
    runtime = container.runtime
    argv = [str(runtime.path), "--root", str(runtime.root), "start", container.id]
    start = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=runtime.environment)
    container.wait()
    assert start.wait(20) == 0


def told(runtime, manager, pid):
    """What the manager heard; the barrier came with runc 1.1.6."""
    wanted = [b"READY=1", b"MAINPID=%d" % pid, b"BARRIER=1"]
    if runtime.name == "krun":
        wait_for(lambda: len(manager.messages) >= 3, f"only {manager.messages}")
        assert manager.messages == wanted
    else:  # read by a thread, which may be a moment behind
        wait_for(lambda: len(manager.messages) >= 2, f"only {manager.messages}")
        assert manager.messages[:2] == wanted[:2]


@pytest.mark.parametrize("user", [0, 1000])
def test_create_and_start(runtime, ready_bundle, manager, user):
    """`start` returns when the payload is ready, and the manager knows its pid by then."""
    ready_bundle.process["user"] = {"uid": user, "gid": user}
    container = runtime.create(ready_bundle)
    assert manager.messages == []
    container.call("start").ok()
    told(runtime, manager, container.pid)
    words = ["/run/notify/notify.sock", "sent 15", "sent 7"]  # it speaks after it has sent
    wait_for(lambda: container.out().splitlines() == words, f"only {container.out()}")


def test_run_detached(runtime, ready_bundle, manager):
    container = runtime.new(ready_bundle)
    pid_file = runtime.work / "pid"
    argv = [str(runtime.path), "--root", str(runtime.root), "run", "--detach", "--pid-file", str(pid_file)]
    with open(runtime.work / "out", "wb") as out:
        subprocess.run(
            [*argv, "--bundle", str(ready_bundle.write()), container.id],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=runtime.environment,
            timeout=60,
            check=True,
        )
    container.pid = int(pid_file.read_text())
    told(runtime, manager, container.pid)


def test_run_in_the_foreground(runtime, ready_bundle, manager):
    """The service's process is the runtime, which hands signals on."""
    container = runtime.new(ready_bundle)
    argv = container.argv("run")
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=runtime.environment
    )
    wait_for(lambda: len(manager.messages) >= 2, "the manager was not told")
    told(runtime, manager, process.pid)
    runtime.call("kill", container.id, "KILL").ok()
    assert process.wait(20) == 128 + signal.SIGKILL


def test_a_program_that_ends_before_it_is_ready(runtime, ready_bundle, manager):
    container = runtime.create(ready_bundle.args("/sender", "STATUS=bye"))
    start_and_reap(container)
    assert manager.messages == [] and container.wait() == 0


def test_a_barrier_of_the_payload(runtime, ready_bundle, manager):
    """sd_notify_barrier(3) before READY: read means answered."""
    container = runtime.create(ready_bundle.args("/sender", "barrier", "READY=1", "sleep"))
    container.call("start").ok()
    wait_for(lambda: container.out().splitlines()[1:] == ["barrier 0", "sent 7"], f"only {container.out()}")
    assert manager.messages[0] == b"READY=1"


@pytest.mark.parametrize(
    "text", ["MAINPID=1", "READY=0", "X=1\nSTOPPING=1", "FDSTORE=1", "READY=1\nMAINPID=1\nSTOPPING=1"]
)
def test_only_ready_goes_on(runtime, ready_bundle, manager, text):
    """runc hands on any line after READY=; krun its own words only."""
    container = runtime.create(ready_bundle.args("/sender", text))
    start_and_reap(container)
    said = b" ".join(manager.messages)
    assert b"STOPPING" not in said and b"FDSTORE" not in said and b"MAINPID=1 " not in said + b" "
    assert (b"READY=1" in said) == (text[:7] == "READY=1"), said


def test_the_socket_cannot_be_replaced(runtime, ready_bundle, manager):
    ready_bundle.shell(
        "rm /run/notify/notify.sock; touch /run/notify/x; ls /run/notify; mount | grep -c '/run/notify.*ro,nosuid'"
    )
    container = runtime.create(ready_bundle)
    start_and_reap(container)
    assert container.out().splitlines()[-2:] == ["notify.sock", "1"]


def test_exec_has_none(runtime, ready_bundle, manager):
    container = runtime.create(ready_bundle)
    container.call("start").ok()
    assert container.exec("/sender", "READY=1").ok().out == "no NOTIFY_SOCKET\n"


def test_set_for_start_only(runtime, ready_bundle, manager):
    """The container was made without: somebody else's variable."""
    if runtime.name == "runc":
        return  # runc: start fails, its directory is not there
    name = runtime.environment.pop("NOTIFY_SOCKET")
    container = runtime.create(ready_bundle)
    runtime.environment["NOTIFY_SOCKET"] = name
    container.call("start").ok()
    wait_for(lambda: container.out() == "no NOTIFY_SOCKET\n", "no output")
    assert manager.messages == []


def test_nobody_listens(runtime, ready_bundle):
    """A stale variable does not keep a container from starting (runc's start fails after the program runs)."""
    if runtime.name == "runc":
        return
    runtime.environment["NOTIFY_SOCKET"] = "/run/no/such/socket"
    container = runtime.create(ready_bundle.args("sleep", "1000"))
    done = container.call("start").ok()
    assert "notify socket /run/no/such/socket: No such file" in done.err


def test_a_kill_while_start_waits(runtime, ready_bundle, manager):
    container = runtime.create(ready_bundle.args("sleep", "1000"))
    argv = [str(runtime.path), "--root", str(runtime.root), "start", container.id]
    start = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=runtime.environment)
    wait_for(lambda: container.state()["status"] == "running", "it does not run")
    assert start.poll() is None
    container.call("kill", "KILL").ok()
    container.wait()
    assert start.wait(20) == 0


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("user", [0, 1000])
def test_a_socket_whose_close_waits_for_hours(runtime, bundle, manager, tmp_path, user):
    """Descriptors that come with a message are closed by who reads it. `run` read them itself, and did not come back."""
    bundle.process["user"] = {"uid": user, "gid": user}
    bundle.mount("/linger", build_linger(tmp_path / "linger"), "bind", "ro")
    assert runtime.run(bundle.args("/linger")).ok().out == "over\n"
    assert runtime.call("list", "--quiet").out == ""
