"""Instances for tests of krun serve: a runner with a worker of its own, specs, requests to the payload."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from krun.serve.run.instance import Instance, Runner
from krun.serve.run.probe import Prober
from krun.serve.run.spec import InstanceSpec


@asynccontextmanager
async def runner(
    directory: Path, runtime: str, images: Path, keep: bool = False, **config: Any
) -> AsyncIterator[Runner]:
    made = Runner(
        {"directory": str(directory), "runtime": runtime, "flags": [], "images": [str(images)], "pull": False,
         "cgroup": f"/krun-serve-test-{os.getpid()}", "layerLimit": 1 << 30, **config}
    )  # fmt: skip
    hello = await made.open()
    made.found = hello["instances"]  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        if not keep:
            for instance in list(made.instances.values()):
                await instance.stop(0)
            pid = (await made.worker.call("hello"))[0]["pid"]
            await made.close(True)
            for _ in range(500):
                if ended(pid):
                    break
                await asyncio.sleep(0.01)
            remove_cgroup(made.config["cgroup"])
        else:
            await made.close(False)


def spec(id: str, **changes: Any) -> InstanceSpec:
    """A spec with one container; the keys of `container` change that one."""
    container = {"name": "user-container", "image": "dev.local/payload", **changes.pop("container", {})}
    own: dict[str, Any] = {
        "id": id, "namespace": "ns", "service": "svc", "configuration": "cfg", "revision": "rev", "containers": [container],
        "volumes": [], "lookup": lambda kind, name: None, "port": 8080, "grace_seconds": 5,
    }  # fmt: skip
    return InstanceSpec(**(own | changes))


async def ready(instance: Instance, probe: dict[str, Any] | None = None) -> None:
    event = asyncio.Event()
    prober = Prober(
        instance,
        probe or {"tcpSocket": {"port": 0}},
        "readiness",
        lambda good, message: event.set(),
        port=instance.spec.port,
    )
    prober.start()
    try:
        await asyncio.wait_for(event.wait(), 20)
    finally:
        prober.stop()


async def get(instance: Instance, path: str) -> str:
    """The body of an answer of the payload."""
    loop = asyncio.get_running_loop()
    sock = instance.connect(instance.spec.port)
    with sock:
        event = loop.create_future()
        loop.add_writer(sock, lambda: event.done() or event.set_result(None))
        await event
        loop.remove_writer(sock)
        await loop.sock_sendall(sock, f"GET {path} HTTP/1.1\r\n\r\n".encode())
        data = b""
        while part := await loop.sock_recv(sock, 65536):
            data += part
    return data.partition(b"\r\n\r\n")[2].decode()


async def until(condition: Callable[[], Any], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def remove_cgroup(path: str) -> None:
    """Remove the parent of the containers' cgroups, which the runtimes have made, in every hierarchy: by the last of several runners."""
    for mount in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        own = mount / path.lstrip("/")
        if own.is_dir() and not any(entry.is_dir() for entry in own.iterdir()):
            own.rmdir()


def states(directory: Path) -> list[str]:
    """The containers that a worker's runtime knows; files beside them are krun's own (krun/kvm/host.py)."""
    return [path.name for path in (directory / "state").iterdir() if path.is_dir()]


def ended(pid: int) -> bool:
    """Whether a process has ended: it may wait for its new parent, which is this one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def run(test: Callable[[], Awaitable[None]], seconds: float = 90) -> None:
    asyncio.run(asyncio.wait_for(test(), seconds))  # type: ignore[arg-type]
