"""An echo server with epoll under runc, under krun, and under krun with calls completed inside the guest, by turns.

    python tests/perf/echo.py [--clients N] [--bytes N] [--seconds S] [--turns N]

The load runs beside the container, on the host's network. A row for each turn and each kind: requests a second, CPU us of the server for
a request, times that threads left the guest for a request. Loads of the machine make the rates too small: compare rows of one run.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.bundle import Bundle
from helpers.runtime import Container, Runtime
from helpers.settings import complete_calls

HERE = Path(__file__).resolve().parent
KINDS = ("runc", "off", "on")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def exits(container: Container) -> int:
    done = container.call("events", options=("--stats",)).ok()
    return int(json.loads(done.out)["data"]["krun"]["calls"]["exits"])


class Server(threading.Thread):
    """The server, as a process of the container."""

    def __init__(self, container: Container, port: str) -> None:
        super().__init__()
        self.container, self.port, self.out = container, port, ""

    def run(self) -> None:
        self.out = self.container.exec("/echo", "server", self.port).ok().out


def turn(kind: str, program: Path, work: Path, options: argparse.Namespace) -> str:
    runtime = Runtime("runc" if kind == "runc" else "krun", work)
    if kind != "runc":
        complete_calls(runtime, f"local: {kind}, sockets: {kind}")
    try:
        bundle = Bundle(work / "bundle").namespaces(drop=("network",))
        bundle.mount("/echo", program, "bind", "ro")
        container = runtime.start(bundle.args("sleep", "1000"))
        before = 0 if kind == "runc" else exits(container)
        port = str(free_port())
        server = Server(container, port)
        server.start()
        rate = subprocess.run(
            [program, "load", port, str(options.clients), str(options.seconds), str(options.bytes)],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        server.join()
        requests, cpu = server.out.split()
        left = "-" if kind == "runc" else f"{(exits(container) - before) / int(requests):.2f}"
        return f"{kind:5} {rate:>8} {cpu:>8} {left:>6}"
    finally:
        runtime.clean()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--bytes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "echo"
        subprocess.run(["gcc", "-O2", "-static", "-o", program, HERE / "echo.c"], check=True)
        print("kind  requests/s  CPU us  exits")
        for number in range(options.turns):
            for kind in KINDS:
                work = Path(folder) / f"{kind}{number}"
                work.mkdir()
                print(turn(kind, program, work, options), flush=True)
                time.sleep(0.2)


if __name__ == "__main__":
    main()
