"""`krun metrics`: Prometheus text of containers, read from outside of them; the calls that krun refuses."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from helpers.runtime import wait_for

from krun.oci import metrics

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
SAMPLE = re.compile(r'^(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)$')


def parse(text):
    """The samples by name and labels; every line is one of the exposition format, and each family is declared once."""
    found, declared = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            mark, kind, name, words = line.split(" ", 3)
            assert (mark, kind) in (("#", "HELP"), ("#", "TYPE")) and words
            declared.append((kind, name))
            continue
        name, labels, value = SAMPLE.match(line).groups()
        assert ("TYPE", name) in declared and name in metrics.FAMILIES
        found[name, tuple(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    assert len(declared) == len(set(declared))
    return found


def of(found, name, **labels):
    return found.get((name, tuple(labels.items())))


@pytest.fixture
def refuser(bundle, tmp_path):
    """A program that makes calls which krun refuses."""
    (tmp_path / "r.c").write_text(
        "#include <unistd.h>\n#include <sys/syscall.h>\n"
        "int main(void) { for (int i = 0; i < 3; i++) syscall(SYS_ptrace, 0, 0, 0, 0); return syscall(480) != -1; }\n"
    )
    subprocess.run(["gcc", "-static", "-o", bundle.rootfs / "bin" / "r", tmp_path / "r.c"], check=True)


def test_metrics_of_a_container(runtime, bundle, refuser):
    bundle.linux["resources"]["memory"] = {"limit": 64 << 20}
    one = runtime.start(bundle.args("sleep", "1000"))
    other = runtime.create(bundle)
    for _ in range(2):
        one.exec("r").ok()
    found = parse(runtime.call("metrics").ok().out)
    assert of(found, "krun_container_state", id=one.id, state="running") == 1
    assert of(found, "krun_container_state", id=other.id, state="created") == 1
    assert of(found, "krun_container_memory_limit_bytes", id=one.id) == 64 << 20
    assert 0 < of(found, "krun_container_memory_usage_bytes", id=one.id) <= 64 << 20
    assert of(found, "krun_container_processes", id=one.id) >= 1
    assert of(found, "krun_container_cpu_seconds_total", id=one.id) > 0
    assert of(found, "krun_container_oom_kills_total", id=one.id) == 0
    assert of(found, "krun_container_exits_total", id=one.id) > 0
    assert of(found, "krun_container_calls_refused_total", id=one.id) >= 6
    assert of(found, "krun_container_calls_unknown_total", id=one.id) == 2
    assert of(found, "krun_container_calls_refused_total", id=other.id) == 0
    assert of(found, "krun_container_call_refused", id=one.id, call="ptrace", errno="EPERM") == 1
    assert of(found, "krun_container_call_refused", id=one.id, call="syscall_480", errno="ENOSYS") == 1
    only = parse(runtime.call("metrics", other.id).ok().out)
    assert {dict(labels).get("id") for _, labels in only} == {None, other.id}
    done = runtime.call("metrics", "nosuch")
    assert done.status == 1 and "container does not exist: nosuch" in done.err


def test_refused_calls_have_the_tables_reason(runtime, bundle, refuser):
    container = runtime.start(bundle.args("sleep", "1000"))
    container.exec("r").ok()
    stats = json.loads(container.call("events", options=("--stats",)).ok().out)
    calls = {call["call"]: call for call in stats["data"]["krun"]["calls"]["refusedCalls"]}
    assert "monitor's registers" in calls["ptrace"]["reason"] and calls["ptrace"]["errno"] == "EPERM"
    runtime.options = ["--debug"]
    lines = container.call("delete", "--force").ok().err.splitlines()
    assert len([line for line in lines if "ptrace was refused (EPERM): the tracer" in line]) == 1, lines


def test_a_file_is_replaced(runtime, bundle, tmp_path):
    container = runtime.create(bundle)
    file = tmp_path / "krun.prom"
    file.write_text("old")
    runtime.call("metrics", "--file", file).ok()
    assert of(parse(file.read_text()), "krun_container_state", id=container.id, state="created") == 1
    assert os.listdir(tmp_path).count("krun.prom") == 1 and not list(tmp_path.glob("krun.prom.*"))
    assert runtime.call("metrics", "--file", "/no/such/file").status == 1
    (tmp_path / "directory").mkdir()
    assert runtime.call("metrics", "--file", tmp_path / "directory").status == 1
    assert not list(tmp_path.glob("directory.*"))


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def get(path, what):
    connection = Connection(path)
    connection.request("GET", what)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_socket(runtime, bundle):
    container = runtime.create(bundle)
    path = f"/tmp/kt-{os.getpid()}.metrics"
    argv = [str(runtime.path), "--root", str(runtime.root), "metrics", "--listen", path]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=runtime.environment) as server:
        try:
            wait_for(lambda: server.poll() is not None or answers(path), "no answer")
            assert os.stat(path).st_mode & 0o777 == 0o600
            for state in ("created", "running"):
                status, text = get(path, "/metrics")
                assert status == 200
                assert of(parse(text), "krun_container_state", id=container.id, state=state) == 1
                if state == "created":
                    bundle.args("sleep", "1000")
                    container.call("delete").ok()
                    container.create().ok()
                    container.call("start").ok()
            assert get(path, "/other")[0] == 404
            silent = socket.socket(socket.AF_UNIX)  # one that goes away without a word
            silent.connect(path)
            silent.close()
            assert get(path, "/metrics")[0] == 200
        finally:
            server.send_signal(signal.SIGTERM)
    assert server.returncode == 0 and not os.path.exists(path)


def test_a_socket_that_a_killed_server_has_left(runtime):
    """Its successor takes its place; one that lives keeps it."""
    path = f"/tmp/kt-{os.getpid()}.stale"
    argv = [str(runtime.path), "--root", str(runtime.root), "metrics", "--listen", path]
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    try:
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=runtime.environment) as server:
            try:
                wait_for(lambda: server.poll() is not None or answers(path), "no answer")
                second = runtime.call("metrics", "--listen", path)
                assert second.status == 1 and "address already in use" in second.err.lower()
                assert get(path, "/metrics")[0] == 200
            finally:
                server.send_signal(signal.SIGTERM)
        assert server.returncode == 0
    finally:
        if os.path.exists(path):
            os.unlink(path)


def answers(path):
    try:
        return get(path, "/metrics")[0] == 200
    except OSError:
        return False
