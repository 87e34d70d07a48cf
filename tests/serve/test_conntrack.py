"""The host's table of connections: what an instance leaves there is gone before its address is another's. In namespaces of the test's own."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from helpers.instances import ended, run, runner, spec, until
from helpers.runtime import find
from helpers.twonets import OUTSIDE, two_nets

from krun.serve.run.instance import Instance

from .test_outbound import connect, inside, network

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]


def entries(source: str) -> list[str]:
    lines = Path("/proc/thread-self/net/nf_conntrack").read_text().splitlines()
    return [line for line in lines if f" src={source} " in line.partition(" dst=")[0] + " "]


def test_an_address_comes_without_connections(directory: Path, images: Path) -> None:
    """After the end of an instance, and after the death of the worker, whose doors had other ports.

    A question from a port that the instance before had used was dropped at the front, and a new instance began with the connections of
    the one before it counted as its own.
    """

    async def use(instance: Instance, port: int) -> None:
        for number in range(5):
            with inside(instance, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind(("0.0.0.0", 20000 + number))
                sock.sendto(b"x", (OUTSIDE, port))
        assert len(entries(instance.address)) == 5

    async def test(port: int) -> None:
        options = network(flows=5)
        async with runner(directory, str(find("runc")), images, keep=True, network=options) as r:
            one, two = await r.start(spec("one")), await r.start(spec("two"))
            await use(one, port)
            await use(two, port)
            await two.stop(0)
            assert entries(two.address) == [] and len(entries(one.address)) == 5
            pid = (await r.worker.call("hello"))[0]["pid"]
            os.kill(pid, signal.SIGKILL)
            await until(lambda: ended(pid), "the worker's end")
        async with runner(directory, str(find("runc")), images, network=options) as r:
            again = await r.start(spec("again"))
            assert again.address == one.address and entries(one.address) == []
            assert (await connect(again, OUTSIDE, port)).endswith(f" from {again.address}")

    with two_nets() as nets:
        port = nets.outside.port
        run(lambda: test(port))
