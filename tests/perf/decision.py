"""How long krun serve takes from the arrival of a request at a service without an instance to the order to start one.

Part of `./dev bench --series serve`. The server is the real one, with SERVICES services at zero on a disk; in place of its worker stands a
process that answers at once and notes when each order came (CLOCK_MONOTONIC, which all processes share). "answer" is the whole of such a
request: what the server itself adds to a cold start. `load`: so many clients ask an instance that is there, all the time, meanwhile.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SERVICES = 120
_BUSY = "busy"


def worker(directory: str, orders: str) -> None:
    """The worker's place: takes the server's connection, makes nothing, and answers."""
    from krun.serve.run import wire

    backend = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(directory, "worker.sock"))
    listener.listen(1)
    print(backend.getsockname()[1], flush=True)
    threading.Thread(target=_backend, args=(backend,), daemon=True).start()
    netns = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    log = open(orders, "w", buffering=1)
    sock, _ = listener.accept()
    while (received := wire.receive(sock)) is not None:
        message, _ = received
        now = time.monotonic()
        answer: dict[str, Any] = {"seq": message["seq"]}
        fds: list[int] = []
        if message["do"] == "hello":
            answer.update(version=wire.VERSION, pid=os.getpid(), instances=[], network=None)
        elif message["do"] == "image":
            answer.update(digest="sha256:" + "1" * 64, config={"config": {}}, layers=[])
        elif message["do"] == "sandbox":
            log.write(f"{message['id'].partition('-')[0]} {now:.6f}\n")
            answer["address"], fds = "127.0.0.1", [netns]
        elif message["do"] == "start":
            answer.update(pid=1, digest="", starts=1)
        wire.send(sock, answer, fds)


def _backend(listener: socket.socket) -> None:
    """An HTTP server: every request gets two bytes."""

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := sock.recv(65536):
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * data.count(b"\r\n\r\n"))
        sock.close()

    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def server(work: Path, services: int) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A krun serve with services at zero, and one with an instance. Yields it, the port of its ingress, the file of orders."""
    data, orders = work.absolute() / "data", work.absolute() / "orders"
    data.mkdir(parents=True)
    python = [sys.executable, __file__]
    stand_in = subprocess.Popen([*python, "worker", str(data), str(orders)], stdout=subprocess.PIPE)
    assert stand_in.stdout is not None
    port = int(stand_in.stdout.readline())
    api, ingress = _free_port(), _free_port()
    options = [
        "--directory",
        str(data),
        "--api",
        f"127.0.0.1:{api}",
        "--listen",
        f"127.0.0.1:{ingress}",
        "--no-pull",
    ]
    options += ["--max-instances", "10000", "--memory-budget", "1Ti"]
    log = open(work / "serve.log", "wb")
    command = [sys.executable, "-m", "krun", "serve", *options, "--runtime", "/bin/true"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        _until(lambda: (data / "kubeconfig").exists() or process.poll() is not None, "the server's start")
        ask = http.client.HTTPConnection("127.0.0.1", api)

        def call(method: str, path: str, value: Any = None, kind: str = "application/json") -> Any:
            ask.request(method, path, json.dumps(value) if value else None, {"content-type": kind})
            answer = ask.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:300]!r}")
            return json.loads(text)

        zero = {"data": {"allow-zero-initial-scale": "true"}}
        call(
            "PATCH",
            "/api/v1/namespaces/knative-serving/configmaps/config-autoscaler",
            zero,
            "application/merge-patch+json",
        )
        for name in [_BUSY, *(f"s{number}" for number in range(services))]:
            call("POST", "/apis/serving.knative.dev/v1/namespaces/default/services", _service(name, port))

        def ready() -> bool:
            found = call("GET", "/apis/serving.knative.dev/v1/namespaces/default/services")["items"]
            return all(
                any(one["type"] == "Ready" and one["status"] == "True" for one in (item.get("status") or {}).get("conditions") or ())
                for item in found
            )  # fmt: skip

        _until(ready, "ready services")
        yield process, ingress, orders
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        stand_in.kill()
        stand_in.wait()
        log.close()


def _service(name: str, port: int) -> dict[str, Any]:
    container = {"image": "reg.example/hello", "ports": [{"containerPort": port}]}
    notes = {"autoscaling.knative.dev/initial-scale": "0"}
    if name == _BUSY:
        notes = {"autoscaling.knative.dev/min-scale": "1"}
    template = {"metadata": {"annotations": notes}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "serving.knative.dev/v1", "kind": "Service",
        "metadata": {"name": name}, "spec": {"template": template},
    }  # fmt: skip


def _until(done: Any, what: str) -> None:
    end = time.monotonic() + 120
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"bench: {what}: not within two minutes")
        time.sleep(0.1)


def _get(port: int, host: str) -> tuple[float, float]:
    """Asks a service; returns when it was asked and when it had answered."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        time.sleep(0.02)  # the server has accepted the connection
        began = time.monotonic()
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {host}.default.localhost\r\n\r\n".encode())
        answer = sock.recv(65536)
        ended = time.monotonic()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"bench: {host} answered {answer[:100]!r}")
    return began, ended


def _clients(port: int, count: int, ended: threading.Event) -> list[threading.Thread]:
    """Clients that ask the busy service, one request after the other."""

    def ask() -> None:
        with socket.create_connection(("127.0.0.1", port), 20) as sock:
            while not ended.is_set():
                sock.sendall(f"GET / HTTP/1.1\r\nHost: {_BUSY}.default.localhost\r\n\r\n".encode())
                if not sock.recv(65536):
                    return
                time.sleep(0.001)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def measure(work: Path, services: int = SERVICES, load: int = 0) -> dict[str, float]:
    """Returns the milliseconds of decisions and of whole answers, and the server's CPU time for a cold request."""
    with server(work, services) as (process, port, orders):
        time.sleep(2)
        ended = threading.Event()
        threads = _clients(port, load, ended)
        before = _cpu(process.pid)
        asked = {}
        for number in range(services):
            asked[f"s{number}"] = _get(port, f"s{number}")
        used = _cpu(process.pid) - before
        ended.set()
        for thread in threads:
            thread.join()
        ordered = {name: float(at) for name, at in (line.split() for line in orders.read_text().splitlines())}
    decisions = sorted((ordered[name] - began) * 1e3 for name, (began, _) in asked.items())
    answers = sorted((end - began) * 1e3 for began, end in asked.values())
    found = {"cpu_ms": used * 1e3 / services}
    for name, values in (("decision", decisions), ("answer", answers)):
        found |= {
            f"{name}_min": values[0],
            f"{name}_p50": values[len(values) // 2],
            f"{name}_p99": values[int(len(values) * 0.99)],
        }
    return found


def _cpu(pid: int) -> float:
    """Returns the CPU seconds of a process so far, to the nanosecond (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


HEAD = ["a request at zero, ms", "decision min", "p50", "p99", "answer min", "p50", "p99", "CPU"]


def rows(data: dict[str, dict[str, float]]) -> list[list[str]]:
    """Rows of a table."""
    keys = (
        "decision_min",
        "decision_p50",
        "decision_p99",
        "answer_min",
        "answer_p50",
        "answer_p99",
        "cpu_ms",
    )
    return [[name, *(f"{figures[key]:.2f}" for key in keys)] for name, figures in data.items()]


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT)]
    if sys.argv[1] == "worker":
        worker(sys.argv[2], sys.argv[3])
    else:
        print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
