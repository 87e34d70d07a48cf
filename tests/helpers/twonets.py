"""Two network namespaces and a wire: one is the host of a test's servers, the other is the world outside.

The calling thread is in the first while the context lasts, and so are the threads and processes that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from krun.sysio import CLONE_NEWNET, setns

HOST, OUTSIDE, METADATA = "198.51.100.1", "198.51.100.2", "169.254.169.254"
#: Addresses of clouds' metadata; the host of the tests has a route to each of them.
CLOUDS = (
    METADATA,
    "169.254.170.2",
    "169.254.170.23",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
)

# Answers each connection with the address that it comes from; each datagram as a line on standard output.
_SERVER = """
import socket, threading
tcp = socket.create_server(("0.0.0.0", 0), backlog=64)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", tcp.getsockname()[1]))
def datagrams():
    while True:
        data, peer = udp.recvfrom(2048)
        print(data.decode(), peer[0], flush=True)
threading.Thread(target=datagrams, daemon=True).start()
print(tcp.getsockname()[1], flush=True)
while True:
    connection, peer = tcp.accept()
    with connection:
        connection.sendall(peer[0].encode())
"""


class Service:
    """A server in a namespace. Fields: port; lines, its output: a line for each datagram."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", _SERVER],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.lines = self._process.stdout
        self.port = int(self.lines.readline())
        self.pid = self._process.pid

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self.lines.close()


class TwoNets:
    """Fields: host, outside: a Service in each namespace."""

    def __init__(self, host: int, outside: int) -> None:
        self.host, self.outside = Service(host), Service(outside)


def shell(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def two_nets() -> Iterator[TwoNets]:
    """Make both namespaces, and move the calling thread into the first one."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # `unshare` says a word when it is in its namespace.
    holders = [
        subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 3600"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    nets = None
    inside = -1
    try:
        for holder in holders:
            assert holder.stdout is not None and holder.stdout.readline()
        host, outside = (holder.pid for holder in holders)
        inside = os.open(f"/proc/{host}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        for pid, commands in (
            (host, [f"link add wire0 type veth peer name wire0 netns {outside}"]),
            (outside, ["link set lo up", f"addr add {OUTSIDE}/24 dev wire0", "link set wire0 up",
                       *(f"addr add {address}/32 dev lo" for address in CLOUDS)]),
            (host, ["link set lo up", f"addr add {HOST}/24 dev wire0", "link set wire0 up",
                    *(f"route add {address} via {OUTSIDE}" for address in CLOUDS)]),
        ):  # fmt: skip
            for command in commands:
                shell("nsenter", f"--net=/proc/{pid}/ns/net", "ip", *command.split())
        nets = TwoNets(host, outside)
        setns(inside, CLONE_NEWNET, "network namespace of the test")
        yield nets
    finally:
        setns(own, CLONE_NEWNET, "network namespace of pytest")
        if nets is not None:
            nets.host.end()
            nets.outside.end()
        for holder in holders:
            holder.kill()
            holder.wait()
            assert holder.stdout is not None
            holder.stdout.close()
        os.close(own)
        if inside >= 0:
            os.close(inside)
