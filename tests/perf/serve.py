"""Requests a second through krun serve's proxy, beside the same server without it and beside Knative's queue-proxy.

Part of `./dev bench --series serve`; all processes share the machine's processors with the load generator (wrk).  The CPU time of a proxy
for a request does not depend on what else runs, the rates do: compare columns of one run.  The queue-proxy is the binary that
KRUN_QUEUE_PROXY names (module knative.dev/serving, package cmd/queue).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
TICK = os.sysconf("SC_CLK_TCK")

#: What the queue-proxy wants to know (pkg/queue/sharedmain/main.go); ports are filled in.
QUEUE_PROXY = {
    "CONTAINER_CONCURRENCY": "0",
    "QUEUE_SERVING_TLS_PORT": "0",
    "REVISION_TIMEOUT_SECONDS": "300",
    "SERVING_LOGGING_CONFIG": "",
    "SERVING_LOGGING_LEVEL": "error",
    "SERVING_NAMESPACE": "default",
    "SERVING_CONFIGURATION": "bench",
    "SERVING_REVISION": "bench-1",
    "SERVING_POD": "bench",
    "SERVING_POD_IP": "127.0.0.1",
    "METRICS_COLLECTOR_ADDRESS": "",
}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Process:
    """A server: started, waited for, measured, ended."""

    def __init__(
        self, port: int, argv: list[str], env: dict[str, str] | None = None, log: Path | None = None
    ) -> None:
        self.port = port
        with open(log or os.devnull, "wb") as out:
            self.process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        self.end()
        raise SystemExit(f"bench: {argv[0]} does not listen on port {port}")

    def cpu(self) -> float:
        """Its CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rss(self) -> int:
        """Its resident memory in KiB."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])  # type: ignore[index]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def load(server: Process, connections: int, seconds: float) -> dict[str, float]:
    """One run of wrk."""
    begin = server.cpu()
    argv = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds:.0f}s",
        "--latency",
        f"http://127.0.0.1:{server.port}/",
    ]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    used = server.cpu() - begin
    count = int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    if "Non-2xx" in out or not count:
        raise SystemExit(f"bench: not every answer was good:\n{out}")
    found = dict(re.findall(r"^ +(50|99)% +(\S+)$", out, re.M))
    return {
        "rate": float(re.search(r"Requests/sec: +([\d.]+)", out)[1]),  # type: ignore[index]
        "p50_ms": milliseconds(found["50"]),
        "p99_ms": milliseconds(found["99"]),
        "cpu_us": used / count * 1e6,
    }


def measure(work: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """name -> connections -> the best of each figure; interleaved."""
    if not shutil.which("wrk"):
        raise SystemExit("bench: wrk is missing: apt-get install wrk")
    program = work / "httpd"
    source = ROOT / "tests" / "perf" / "httpd.c"
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
    port = free_port()
    servers = {"direct": Process(port, [str(program), str(port)])}
    try:
        front = free_port()
        servers["krun serve"] = Process(front, [sys.executable, __file__, str(front), str(port)])
        queue_proxy = os.environ.get("KRUN_QUEUE_PROXY")
        if queue_proxy:
            other = free_port()
            env = {
                **QUEUE_PROXY,
                "QUEUE_SERVING_PORT": str(other),
                "USER_PORT": str(port),
                "PATH": "/usr/bin:/bin",
            }
            servers["queue-proxy"] = Process(other, [queue_proxy], env, work / "queue-proxy.log")
        else:
            print("bench: no queue-proxy: KRUN_QUEUE_PROXY names none", file=sys.stderr)
        found: dict[str, Any] = {}
        for name, server in servers.items():
            load(server, 32, 1)
            found[name] = {}
        for _ in range(rounds):
            for connections in (1, 32):
                for name, server in servers.items():
                    figures = load(server, connections, seconds)
                    best = found[name].setdefault(connections, figures)
                    for key, value in figures.items():
                        best[key] = max(best[key], value) if key == "rate" else min(best[key], value)
        for name, server in servers.items():
            found[name]["rss_kb"] = server.rss()
        return found
    finally:
        for server in servers.values():
            server.end()


def rows(data: dict[str, Any]) -> list[list[str]]:
    """Rows of a table: name, connections, requests/s, p50, p99, CPU, memory."""
    found = []
    for name, by in data.items():
        for connections in (1, 32):
            f = by[connections]
            found.append(
                [name, str(connections), f"{f['rate']:.0f}", f"{f['p50_ms']:.2f}", f"{f['p99_ms']:.2f}", f"{f['cpu_us']:.1f}",
                 str(by["rss_kb"])]
            )  # fmt: skip
    return found


HEAD = ["best of the rounds", "connections", "requests/s", "p50 ms", "p99 ms", "CPU us/request", "RSS KiB"]


async def front(port: int, backend: int) -> None:
    """The proxy with one instance, as krun serve runs it: slots, time-outs, metrics."""
    from helpers.proxyrig import connector

    from krun.serve.proxy.ingress import Ingress
    from krun.serve.proxy.queue import Backend, RevisionConfig, RevisionQueue
    from krun.serve.proxy.routes import HostRoute, HostTable, Target

    table = HostTable()
    ingress = Ingress(table, report=lambda text: print(text, file=sys.stderr))
    now = asyncio.get_running_loop().time()
    queue = RevisionQueue(RevisionConfig(("default", "bench-1")), now)
    queue.add(Backend("bench", connector(("127.0.0.1", backend))), now)
    table.replace({"127.0.0.1": HostRoute((Target(queue),))})
    await ingress.listen(("127.0.0.1", port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    asyncio.run(front(int(sys.argv[1]), int(sys.argv[2])))
