"""What docker has and podman has not: update, compose, user namespaces for all; runc first.  The rest is in test_engines.py."""

import json
import os
import shutil
import subprocess

import pytest
from helpers.engines import ENVIRONMENT, LIMITS, Docker, command, remove, runtimes, short_directory
from helpers.runtime import wait_for

pytestmark = pytest.mark.engine
IMAGE = "busybox:test"


def engine_with(root, name, **more):
    work = short_directory(name)
    docker = None
    try:
        docker = Docker(work, **more)
        docker.load(root, IMAGE)
        yield docker
    finally:
        if docker is not None:
            docker.close()
        remove(work)


@pytest.fixture(scope="module")
def engine(as_root, busybox_root):
    # Its networks and their rules are of a namespace that goes with it.
    yield from engine_with(
        busybox_root,
        "docker",
        settings={
            "bridge": "",
            "iptables": True,
            "default-address-pools": [{"base": "10.188.0.0/16", "size": 24}],
        },
        before="ip link set lo up",
    )


REMAP = """for f in subuid subgid; do echo nobody:300000:65536 >{work}/$f; mount --bind {work}/$f /etc/$f; done; ip link set lo up"""


@pytest.fixture(scope="module")
def remapped(as_root, busybox_root):
    work = f"/tmp/krun-remap-{os.getpid()}"
    yield from engine_with(
        busybox_root,
        "remap",
        settings={"userns-remap": "nobody:nogroup"},
        before=REMAP.format(work=work),
    )


@pytest.fixture(params=runtimes())
def runtime(request):
    return request.param


def clean(engine):
    for id in engine.call("runc", "ps", "-aq").out.split():
        engine.call("runc", "rm", "--force", id)


@pytest.fixture
def docker(engine, runtime):
    yield lambda *args, **more: engine.call(runtime, *args, **more)
    clean(engine)


def test_update(docker, runtime):
    docker(
        "run",
        "-d",
        "--name",
        "box",
        "--runtime",
        runtime,
        "--network",
        "none",
        *LIMITS,
        "--pids-limit",
        "50",
        IMAGE,
        "sleep",
        "1000",
    ).ok()
    docker("update", "--pids-limit", "60", "--memory", "64m", "--memory-swap", "64m", "box").ok()
    out = (
        docker(
            "exec",
            "box",
            "cat",
            "/sys/fs/cgroup/pids/pids.max",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        )
        .ok()
        .out
    )
    assert out.split() == ["60", str(64 << 20)]


def test_restart_count(docker, runtime):
    words = ("--restart", "on-failure:1", "--network", "none", *LIMITS, IMAGE, "sh", "-c", "exit 3")
    docker("run", "-d", "--name", "box", "--runtime", runtime, *words).ok()
    wait_for(
        lambda: docker("inspect", "--format", "{{.RestartCount}}", "box").out == "1\n", "not restarted", 60
    )
    wait_for(
        lambda: not json.loads(docker("inspect", "--format", "{{json .State}}", "box").out)["Running"],
        "runs on",
    )


def test_two_containers_of_a_network(docker, runtime):
    """The engine's bridge and its name server."""
    docker("network", "create", "net").ok()
    try:
        words = ("--runtime", runtime, "--network", "net", *LIMITS)
        docker(
            "run",
            "-d",
            "--name",
            "server",
            *words,
            IMAGE,
            "sh",
            "-c",
            "echo hello | nc -l -p 7000; sleep 1000",
        ).ok()
        script = "for i in $(seq 50); do nc server 7000 </dev/null && exit; sleep 0.1; done; exit 1"
        assert docker("run", "--rm", *words, IMAGE, "sh", "-c", script).ok().out == "hello\n"
        # A published port, by the engine's proxy.
        docker(
            "run",
            "-d",
            "--name",
            "web",
            "-p",
            "127.0.0.1:18080:80",
            *words,
            IMAGE,
            "httpd",
            "-f",
            "-h",
            "/etc",
        ).ok()
    finally:
        docker("rm", "--force", "server", "web")
        docker("network", "rm", "net").ok()


COMPOSE = """version: "2.4"
services:
  server:
    image: busybox:test
    runtime: {runtime}
    ulimits: {{nofile: 1024, nproc: 1024}}
    command: ["sh", "-c", "echo served | nc -l -p 7000; sleep 1000"]
    healthcheck: {{test: ["CMD", "true"], interval: 1s}}
  client:
    image: busybox:test
    runtime: {runtime}
    ulimits: {{nofile: 1024, nproc: 1024}}
    depends_on: [server]
    volumes: ["./shared:/shared"]
    command: ["sh", "-c", "for i in $$(seq 100); do nc server 7000 </dev/null >/shared/got && test -s /shared/got && exit 5; sleep 0.1; done; exit 1"]
"""


def compose(engine):
    """The command that is there: the plug-in of newer versions, or the first version's program."""
    if (
        subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False, env=ENVIRONMENT
        ).returncode
        == 0
    ):
        return ["docker", "compose"]
    found = shutil.which("docker-compose", path=ENVIRONMENT["PATH"])
    assert found, "docker-compose is missing: run ./dev test, which installs it"
    return [found]


def test_compose_of_two_services(engine, docker, runtime, tmp_path):
    folder = tmp_path / f"project{runtime}"
    (folder / "shared").mkdir(parents=True)
    (folder / "docker-compose.yml").write_text(COMPOSE.format(runtime=runtime))

    def call(*args):
        return command([*compose(engine), *args], environment=engine.environment, cwd=folder)

    done = call("up", "--abort-on-container-exit", "--exit-code-from", "client", "--timeout", "0")
    assert done.status == 5, done
    assert (folder / "shared" / "got").read_text() == "served\n"
    call("up", "-d", "server").ok()
    assert call("exec", "-T", "server", "hostname").ok().out
    assert "Up" in call("ps", "server").ok().out
    call("down", "--timeout", "0", "--volumes").ok()
    assert docker("ps", "-aq").ok().out == ""


def test_user_namespaces_for_all(remapped, runtime, tmp_path, same):
    """dockerd --userns-remap: root of every container is nobody's subordinate id."""
    tmp_path.chmod(0o777)
    script = "cat /proc/self/uid_map; id -u; touch /data/x; touch /y && stat -c %u /y; mount -t tmpfs x /mnt; cat /proc/self/setgroups"
    # Every folder on the way is the engine's: a remapped root must be able to pass.
    words = ("--runtime", runtime, "--network", "none", *LIMITS, "-v", f"{tmp_path}:/data")
    try:
        done = remapped.call(runtime, "run", "--name", "box", *words, IMAGE, "sh", "-c", script)
        same((done.status, done.out, done.err), "remap")
        assert done.out.split()[:3] == ["0", "300000", "65536"], done
        done = remapped.call(runtime, "run", "-d", "--name", "long", *words, IMAGE, "sleep", "1000").ok()
        assert remapped.call(runtime, "exec", "long", "id", "-u").ok().out == "0\n"
        assert remapped.call(runtime, "exec", "--user", "5", "long", "id", "-u").ok().out == "5\n"
        remapped.call(runtime, "stop", "--time", "0", "long").ok()
    finally:
        clean(remapped)
