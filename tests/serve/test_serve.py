"""krun serve as a process, with real instances: runc first, then krun.  From zero, kill -9 and restart, logs, the end."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.ports import free_port
from helpers.runtime import ROOT, find
from helpers.serveapi import SERVING, ksvc
from helpers.wsclient import Client, exec_path

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]

SOURCE = Path(__file__).with_name("payload.c")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    directory = tmp_path_factory.mktemp("images")
    root = directory / "reg.example/payload/rootfs"
    root.mkdir(parents=True)
    subprocess.run(["gcc", "-static", "-O1", "-o", str(root / "payload"), str(SOURCE)], check=True)
    (root.parent / "config.json").write_text('{"Entrypoint":["/payload"],"User":"1000"}')
    return directory


class Server:
    """A krun serve. The ports stay the same over restarts."""

    def __init__(self, directory, runtime, images):
        self.directory, self.runtime, self.images = directory, runtime, images
        self.api, self.ingress = free_port(), free_port()
        self.process = None
        self.flags = []

    def start(self):
        (self.directory / "kubeconfig").unlink(missing_ok=True)
        command = [sys.executable, "-m", "krun", "serve", "--directory", str(self.directory), "--api", f"127.0.0.1:{self.api}",
                   "--listen", f"127.0.0.1:{self.ingress}", "--runtime", self.runtime, "--images", str(self.images), "--no-pull",
                   "--access-log", str(self.directory / "access"), *self.flags]  # fmt: skip
        self.directory.mkdir(exist_ok=True)
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.until(self.started, "krun serve starts")

    def started(self):
        return (self.directory / "kubeconfig").exists()

    def end(self, number=signal.SIGINT):
        if self.process is not None:
            self.process.send_signal(number)
            code = self.process.wait(60)
            self.process = None
            return code
        return None

    def until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < end, f"{what}\n{(self.directory / 'log').read_text()[-3000:]}"
            time.sleep(0.02)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.api, timeout=30)
        connection.request(
            method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text[:1] == b"{" else text.decode()

    def request(self, path="/", host="hello.default.localhost"):
        connection = http.client.HTTPConnection("127.0.0.1", self.ingress, timeout=30)
        connection.request("GET", path, headers={"host": host})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def env(self, name):
        """A variable of the program's environment, None while it cannot be asked."""
        code, text = self.request("/env")
        return dict(line.partition("=")[::2] for line in text.splitlines()).get(name) if code == 200 else None

    def ready(self, name="hello"):
        def check():
            obj = self.ask("GET", f"{SERVING}/services/{name}")[1]
            found = {one["type"]: one["status"] for one in obj.get("status", {}).get("conditions", [])}
            current = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
            return current and found.get("Ready") == "True"

        self.until(check, f"{name} is ready", 90)

    def pods(self):
        return self.ask("GET", "/api/v1/namespaces/default/pods")[1]["items"]


@pytest.fixture(params=os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(","))
def server(request, tmp_path, images):
    made = Server(tmp_path / "data", str(find(request.param)), images)
    made.start()
    yield made
    made.end()
    # The worker ends with its last instance; nothing of it is left.
    made.until(lambda: not workers(tmp_path), "the worker has ended")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert os.listdir(tmp_path / "data" / "instances") == []


def workers(tmp_path):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and str(tmp_path).encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
    return found


def service(**notes):
    annotations = {f"autoscaling.knative.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    return ksvc(image="reg.example/payload", template={"metadata": {"annotations": annotations}})


def test_a_service_from_creation_to_deletion(server):
    assert server.ask("POST", f"{SERVING}/services", service())[0] == 201
    server.ready()
    assert server.env("K_SERVICE") == "hello"
    assert server.request(host="other.default.localhost")[0] == 404
    pod = server.pods()[0]["metadata"]["name"]
    assert server.ask("GET", f"/api/v1/namespaces/default/pods/{pod}/log")[0] == 200
    assert "revision" in server.ask("GET", "/metrics")[1]
    assert server.ask("DELETE", f"{SERVING}/services/hello")[0] == 200
    server.until(lambda: not server.pods(), "the instance has ended")
    assert server.request()[0] == 404


def test_scale_to_zero_and_back(server):
    server.ask("POST", f"{SERVING}/services", service(window="6s"))
    server.ready()
    server.until(lambda: not server.pods(), "no instance is left", 40)
    began = time.monotonic()
    assert server.env("K_REVISION") == "hello-00001"
    print(f"cold request: {(time.monotonic() - began) * 1000:.0f} ms")
    assert len(server.pods()) == 1


def test_kill_9_loses_neither_objects_nor_instances(server):
    server.ask("POST", f"{SERVING}/services", service())
    server.ready()
    before = server.ask("GET", f"{SERVING}/services/hello")[1]
    pods = [one["metadata"]["name"] for one in server.pods()]
    server.end(signal.SIGKILL)
    server.start()
    after = server.ask("GET", f"{SERVING}/services/hello")[1]
    assert after["metadata"]["uid"] == before["metadata"]["uid"] and after["spec"] == before["spec"]
    assert int(after["metadata"]["resourceVersion"]) >= int(before["metadata"]["resourceVersion"])
    server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")
    assert [one["metadata"]["name"] for one in server.pods()] == pods


def test_sigterm_leaves_the_instances_to_the_next_server(server):
    server.ask("POST", f"{SERVING}/services", service())
    server.ready()
    pods = [one["metadata"]["name"] for one in server.pods()]
    assert server.end(signal.SIGTERM) == 0
    server.start()
    server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")
    assert [one["metadata"]["name"] for one in server.pods()] == pods


def freeze(server):
    """Makes a service that is frozen without requests, and waits until it is; returns what says that it is frozen."""
    obj = service()
    obj["spec"]["template"]["metadata"]["annotations"] |= {
        "serve.krun.dev/idle": "freeze",
        "serve.krun.dev/idle-delay": "1s",
    }
    assert server.ask("POST", f"{SERVING}/services", obj)[0] == 201
    server.ready()

    def frozen():
        return ">frozen<" in server.ask("GET", "/status")[1]

    server.until(frozen, "it is frozen")
    return frozen


def test_freeze_when_idle(server):
    """Frozen without requests, thawed by one, and as it was after kill -9 of the server."""
    frozen = freeze(server)
    pods = [one["metadata"]["name"] for one in server.pods()]
    assert server.env("K_SERVICE") == "hello"
    server.until(frozen, "it is frozen again")
    server.end(signal.SIGKILL)
    server.start()
    server.until(frozen, "it is still frozen")
    server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")
    assert [one["metadata"]["name"] for one in server.pods()] == pods
    server.until(frozen, "it is frozen when the server ends")


def test_a_session_in_a_frozen_instance(server):
    """It is thawed, stays so while the session lasts, and is frozen again; the access log has the session."""
    frozen = freeze(server)
    (pod,) = [one["metadata"]["name"] for one in server.pods()]

    async def session():
        path = exec_path(pod, "/payload", "copy", stdin="true", stdout="true")
        client = await Client.connect(server.api, path, "v5.channel.k8s.io")
        assert client.status == 101, client.text
        client.send(b"\0one")
        while (await client.message())[1] != b"\1one":
            pass
        await asyncio.sleep(2.5)  # longer than the delay, and than the period of the freezer
        assert not frozen()
        client.send(b"\0two")
        client.send(b"\xff\0")
        found, status = await client.channels()
        assert found == {1: b"two"} and status["details"]["causes"][0]["message"] == "5"

    asyncio.run(asyncio.wait_for(session(), 60))
    server.until(frozen, "it is frozen again")
    entries = [json.loads(line) for line in (server.directory / "access").read_text().splitlines()]
    assert [one["command"] for one in entries if one.get("session") == "exec"] == [["/payload", "copy"]]


def kill_worker(server):
    for name in workers(server.directory.parent):
        if b"serve.run.worker" in Path(f"/proc/{name}/cmdline").read_bytes():
            os.kill(int(name), signal.SIGKILL)


def test_the_worker_s_death_costs_the_instances_and_nothing_else(server):
    server.ask("POST", f"{SERVING}/services", service(min_scale="1"))
    server.ready()
    pods = [one["metadata"]["name"] for one in server.pods()]
    kill_worker(server)
    server.until(
        lambda: [one["metadata"]["name"] for one in server.pods()] not in ([], pods), "another instance"
    )
    server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")


def test_the_worker_and_the_server_killed(server):
    """The next server takes down what both have left, and starts new instances."""
    server.ask("POST", f"{SERVING}/services", service(min_scale="1"))
    server.ready()
    pods = [one["metadata"]["name"] for one in server.pods()]
    kill_worker(server)
    server.end(signal.SIGKILL)
    server.start()
    server.until(lambda: server.env("K_SERVICE") == "hello", "it answers again")
    assert not set(pods) & {one["metadata"]["name"] for one in server.pods()}
    states = os.listdir(server.directory / "state")
    assert all(not name.startswith(pod) for name in states for pod in pods)


def test_a_service_manager_is_told_once_and_no_instance_can_tell_it(server, tmp_path, monkeypatch):
    server.end()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        server.until(lambda: not workers(tmp_path), "the worker without instances has ended")
        server.start()
        assert manager.recv(100) == b"READY=1"
        assert server.ask("GET", "/healthz")[0] == 200
        server.ask("POST", f"{SERVING}/services", service())
        server.ready()
        assert "NOTIFY_SOCKET" not in server.request("/env")[1]


def test_an_instance_of_nobody_that_does_not_go_holds_up_no_start(server, tmp_path):
    """Its revision was deleted while it drained, and the server ended. The next one did not start while its removal failed."""
    server.end(signal.SIGINT)
    script, mark = tmp_path / "runtime", tmp_path / "mark"
    fails = f'for w; do [ "$w" = delete ] && [ -e {mark} ] && exit 9\ndone'
    script.write_text(f'#!/bin/sh\n{fails}\nexec {server.runtime} "$@"\n')
    script.chmod(0o755)
    server.runtime = str(script)
    server.start()
    server.ask("POST", f"{SERVING}/services", service())
    server.ready()
    server.end(signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(server.directory / "store.sqlite")) as store, store:
        assert store.execute("DELETE FROM objects WHERE plural = 'pods'").rowcount == 1
    mark.touch()
    server.start()
    assert server.env("K_REVISION") == "hello-00001"
    mark.unlink()
    server.until(lambda: len(os.listdir(server.directory / "instances")) == 1, "it is removed")


def _more(server):
    """From one instance to three: a new revision of the same program."""
    server.ask("POST", f"{SERVING}/services", service(window="6s"))
    server.ready()
    obj = server.ask("GET", f"{SERVING}/services/hello")[1]
    obj["spec"]["template"]["metadata"]["annotations"] = {"autoscaling.knative.dev/min-scale": "3"}
    assert server.ask("PUT", f"{SERVING}/services/hello", obj)[0] == 200


def _fewer(server):
    """From two instances to none."""
    server.ask("POST", f"{SERVING}/services", service(min_scale="2"))
    server.ready()
    assert server.ask("DELETE", f"{SERVING}/services/hello")[0] == 200


#: Step -> how it begins, instances of which revision there are at its end.
STEPS = {
    "from none to two": (
        lambda server: server.ask("POST", f"{SERVING}/services", service(min_scale="2")), "hello-00001", 2
    ),
    "a rollout, from one to three": (_more, "hello-00002", 3),
    "from two to none": (_fewer, "hello-00001", 0),
}  # fmt: skip


@pytest.mark.parametrize("wait", (0.0, 0.15), ids=("at-once", "150ms"))
@pytest.mark.parametrize("step", STEPS)
def test_kill_9_in_the_middle_of(server, step, wait):
    """Whatever had been ordered, written or started: the next server brings it to its end, and nothing else is left."""
    begin, revision, count = STEPS[step]
    begin(server)
    time.sleep(wait)
    server.end(signal.SIGKILL)
    server.start()

    def settled():
        pods = [one for one in server.pods() if one["status"]["phase"] == "Running"]
        own = [one for one in pods if one["metadata"]["labels"]["serving.knative.dev/revision"] == revision]
        there = os.listdir(server.directory / "instances")
        names = sorted(one["metadata"]["name"] for one in own)
        return len(own) == count and sorted(there) == names

    if count:
        server.ready()
        server.until(lambda: server.env("K_REVISION") == revision, "it answers")
    # An instance of the old revision has the autoscaler's windows before it goes.
    server.until(settled, f"{count} instances of {revision}", 60)
