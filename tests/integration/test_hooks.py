"""The six kinds of hooks: order, state on stdin, namespaces, timeouts, failures."""

import json
import subprocess

import pytest
from helpers.runtime import wait_for

KINDS = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]


@pytest.fixture
def log(bundle, tmp_path):
    """A directory that is at the same place on the host and in the container."""
    place = tmp_path / "log"
    place.mkdir()
    bundle.mount(str(place), place, "bind")
    return place


def hook(log, name, script="", **more):
    text = f"cat >{log}/{name}.state; echo {name} >>{log}/order; {script}"
    return {"path": "/bin/sh", "args": ["sh", "-c", text], "env": ["PATH=/usr/bin:/bin"], **more}


def test_order_and_state(runtime, bundle, log):
    bundle.config["annotations"] = {"org.example.a": "b"}
    bundle.config["hooks"] = {kind: [hook(log, kind)] for kind in KINDS}
    bundle.shell(f"echo program >>{log}/order")
    container = runtime.create(bundle)
    order = (log / "order").read_text().split()
    if runtime.name == "runc" and order[-1] == "poststart":
        order.pop()  # runc up to 1.2 runs it at create
    assert order == ["prestart", "createRuntime", "createContainer"]
    container.call("start").ok()
    assert container.wait() == 0
    container.call("delete").ok()
    order = (log / "order").read_text().split()
    assert order[-1] == "poststop" and sorted(order) == sorted([*KINDS, "program"])
    if runtime.name != "runc":
        assert order.index("startContainer") == 3
    for kind in KINDS:
        state = json.loads((log / f"{kind}.state").read_text())
        assert state["id"] == container.id and state["bundle"] == str(bundle.path), kind
        assert state["annotations"] == {"org.example.a": "b"}, kind
    for kind in ("prestart", "createRuntime"):
        state = json.loads((log / f"{kind}.state").read_text())
        assert state["pid"] == container.pid and state["status"] in ("creating", "created"), kind
    assert json.loads((log / "poststop.state").read_text())["status"] == "stopped"


def test_several_of_a_kind_in_order(runtime, bundle, log):
    bundle.config["hooks"] = {"createRuntime": [hook(log, "a"), hook(log, "b"), hook(log, "c")]}
    runtime.run(bundle).ok()
    assert (log / "order").read_text().split() == ["a", "b", "c"]


def test_namespaces_that_hooks_run_in(runtime, bundle, log):
    import os

    for kind in ("createRuntime", "createContainer", "poststart"):
        script = f"readlink /proc/self/ns/mnt >{log}/{kind}.mnt"
        bundle.config.setdefault("hooks", {})[kind] = [hook(log, kind, script)]
    runtime.run(bundle).ok()
    mine = os.readlink("/proc/self/ns/mnt")
    assert (log / "createRuntime.mnt").read_text().strip() == mine
    assert (log / "createContainer.mnt").read_text().strip() != mine
    assert (log / "poststart.mnt").read_text().strip() == mine


def test_create_runtime_sees_the_network_namespace(runtime, bundle, log):
    """How CNI plug-ins and dockerd work: by the pid in the state."""
    script = (
        f"pid=$(sed 's/.*\"pid\": *\\([0-9]*\\).*/\\1/' {log}/x.state); readlink /proc/$pid/ns/net >{log}/net"
    )
    bundle.config["hooks"] = {"createRuntime": [hook(log, "x", script)]}
    container = runtime.create(bundle)
    import os

    assert (log / "net").read_text().strip() == os.readlink(f"/proc/{container.pid}/ns/net")


@pytest.mark.parametrize("kind", ["prestart", "createRuntime", "createContainer"])
def test_failure_at_create_leaves_nothing(runtime, bundle, log, kind):
    bundle.config["hooks"] = {
        kind: [hook(log, kind, "echo why it failed >&2; exit 3")],
        "poststop": [hook(log, "poststop")],
    }
    container = runtime.new(bundle)
    done = container.create()
    assert done.status == 1 and "hook" in done.err, done
    assert container.left() == []
    assert not (log / "order").read_text().startswith("program")


def test_failure_at_start(runtime, bundle, log):
    bundle.config["hooks"] = {"startContainer": [hook(log, "s", "exit 1")]}
    container = runtime.create(bundle.shell(f"echo program >>{log}/order"))
    container.call("start")
    wait_for(lambda: container.state()["status"] == "stopped", "not stopped")
    assert "program" not in (log / "order").read_text()


def test_failure_of_poststop_is_only_logged(runtime, bundle, log):
    bundle.config["hooks"] = {"poststop": [hook(log, "a", "exit 1"), hook(log, "b")]}
    runtime.run(bundle)
    assert (log / "order").read_text().split()[0] == "a"


def test_timeout(runtime, bundle, log):
    bundle.config["hooks"] = {"createRuntime": [hook(log, "slow", "exec sleep 60", timeout=1)]}
    container = runtime.new(bundle)
    done = container.create()
    assert done.status == 1 and "hook" in done.err, done
    assert container.left() == []


def test_environment_of_a_hook_is_its_own(runtime, bundle, log):
    one = hook(log, "env", f"env >{log}/env")
    one["env"] = ["PATH=/usr/bin:/bin", "ONLY=this"]
    bundle.config["hooks"] = {"createRuntime": [one]}
    runtime.run(bundle).ok()
    names = {line.partition("=")[0] for line in (log / "env").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "ONLY"}


def test_missing_hook(runtime, bundle):
    bundle.config["hooks"] = {"createRuntime": [{"path": "/no/such/hook"}]}
    container = runtime.new(bundle)
    done = container.create()
    assert done.status == 1 and "/no/such/hook" in done.err, done
    assert container.left() == []


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
@pytest.mark.parametrize("kind", ["prestart", "startContainer", "poststop"])
def test_a_hook_without_path(runtime, bundle, kind):
    """An error of create, before anything is made; a poststop hook was found out at delete once."""
    bundle.config["hooks"] = {kind: [{"args": ["x"]}]}
    done = runtime.run(bundle)
    assert done.status == 1 and f"/hooks/{kind}/0/path: is missing" in done.err, done


def image_hook(bundle, script):
    """A hook that is a program of the image."""
    file = bundle.rootfs / "hook"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"path": "/hook"}


def test_environment_of_a_hook_in_the_container(runtime, bundle, observe):
    """Without one of its own it is that of the container's process."""
    bundle.process["env"] = ["PATH=/bin", "ONE=two words"]
    bundle.config["hooks"] = {"startContainer": [image_hook(bundle, "env | sort >/env")]}
    runtime.run(bundle.args("true")).ok()
    assert "ONE=two words\n" in observe((bundle.rootfs / "env").read_text())


@pytest.mark.parametrize("kind", ["createRuntime", "createContainer", "startContainer"])
def test_what_a_failing_hook_says_is_in_the_message(runtime, bundle, log, kind):
    script = "echo words >&2; exit 3"
    one = image_hook(bundle, script) if kind == "startContainer" else hook(log, "x", script)
    bundle.config["hooks"] = {kind: [one]}
    done = runtime.run(bundle)
    assert done.status == 1 and "exit status 3, " in done.err and "words" in done.err, done
    if runtime.name == "krun":
        assert done.err.count("\n") == 1 and done.err.endswith('exit status 3, output: words"\n'), done


@pytest.mark.parametrize("kind", ["createRuntime", "createContainer"])
def test_where_a_hook_begins(runtime, bundle, log, kind):
    """The bundle; in the container's namespaces its root directory, below which hooks add libraries."""
    bundle.config["hooks"] = {kind: [hook(log, "x", f"pwd >{log}/pwd")]}
    runtime.run(bundle).ok()
    wanted = bundle.rootfs if kind == "createContainer" else bundle.path
    assert (log / "pwd").read_text() == f"{wanted}\n"


def test_a_hook_of_the_container_that_is_missing(runtime, bundle):
    bundle.config["hooks"] = {"startContainer": [{"path": "/no/such/hook"}]}
    done = runtime.run(bundle)
    assert done.status == 1 and "/no/such/hook: no such file or directory" in done.err, done


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_hook_of_the_container_that_talks_without_end(runtime, bundle):
    """runc keeps all of it in memory."""
    bundle.config["hooks"] = {
        "startContainer": [image_hook(bundle, "yes | head -c 10000000; printf '\\0\\377'; yes & exit 1")]
    }
    done = runtime.run(bundle)
    assert done.status == 1 and "output: y y y" in done.err and len(done.err) < 1000, done


LOWERS = """
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    struct rlimit none = {0, 0};
    prlimit(1, RLIMIT_NOFILE, &none, 0);
    kill(1, SIGSEGV); // a poll(2) that waits already does not look at the limit: this one ends
    usleep(100000);
    return 1;
}
"""


def test_a_hook_lowers_the_limits_of_init(runtime, bundle, tmp_path):
    """poll(2) looks at RLIMIT_NOFILE. Whoever waits for the hook must still see its end."""
    (tmp_path / "lowers.c").write_text(LOWERS)
    subprocess.run(["gcc", "-static", "-o", bundle.rootfs / "lowers", tmp_path / "lowers.c"], check=True)
    bundle.config["hooks"] = {"startContainer": [{"path": "/lowers", "args": ["lowers"], "timeout": 5}]}
    container = runtime.create(bundle.args("/bin/true"))
    container.call("start")  # returns: the helper's time is bounded
    wait_for(lambda: container.state()["status"] == "stopped", "not stopped")
