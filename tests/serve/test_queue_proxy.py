"""What real Knative puts beside a program: its queue-proxy, in one network namespace with it; runc first, then krun.

The binary is that of the module knative.dev/serving: KRUN_QUEUE_PROXY names it (go build ./cmd/queue). As on a cluster it runs with
the security fields of knative/serving, pkg/reconciler/revision/resources/queue.go.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.instances import get, ready, run, runner, spec, until

from krun.serve.run.instance import Instance
from krun.serve.run.probe import Prober
from krun.serve.run.spec import ContainerExit

QUEUE_PROXY = os.environ.get("KRUN_QUEUE_PROXY", "")
pytestmark = [
    pytest.mark.root,
    pytest.mark.kvm,
    pytest.mark.usefixtures("as_root"),
    pytest.mark.skipif(not QUEUE_PROXY, reason="KRUN_QUEUE_PROXY names no queue-proxy (docs/knative.md)"),
]

SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
PORT, ADMIN, USER = 8012, 8022, 8080
ENVIRONMENT = {
    "CONTAINER_CONCURRENCY": "1",
    "QUEUE_SERVING_PORT": str(PORT),
    "QUEUE_SERVING_TLS_PORT": "8112",
    "USER_PORT": str(USER),
    "REVISION_TIMEOUT_SECONDS": "300",
    "SERVING_LOGGING_CONFIG": "",
    "SERVING_LOGGING_LEVEL": "info",
    "SERVING_NAMESPACE": "ns",
    "SERVING_SERVICE": "svc",
    "SERVING_CONFIGURATION": "cfg",
    "SERVING_REVISION": "rev",
    "SERVING_POD": "pod",
    "SERVING_POD_IP": "127.0.0.1",
    "SERVING_READINESS_PROBE": json.dumps(
        {"tcpSocket": {"port": USER, "host": "127.0.0.1"}, "successThreshold": 1}
    ),
    "METRICS_COLLECTOR_ADDRESS": "",
    "HOST_IP": "127.0.0.1",
}


@pytest.fixture
def beside(images: Path) -> Path:
    """The images with one of the queue-proxy."""
    root = images / "dev.local/queue/rootfs"
    if not root.exists():
        root.mkdir(parents=True)
        shutil.copy(QUEUE_PROXY, root / "queue")
        (root.parent / "config.json").write_text('{"Entrypoint":["/queue"],"User":"65532"}')
    return images


def containers() -> list[dict[str, Any]]:
    env = [{"name": name, "value": value} for name, value in ENVIRONMENT.items()]
    return [
        {"name": "user-container", "image": "dev.local/payload", "args": ["serve"]},
        {"name": "queue-proxy", "image": "dev.local/queue", "env": env, "securityContext": SECURITY},
    ]


async def ask(
    instance: Instance, port: int, path: str, fields: str = "", method: str = "GET"
) -> tuple[int, str]:
    """Status and body of an answer inside the instance."""
    loop = asyncio.get_running_loop()
    with instance.connect(port) as sock:
        connected = loop.create_future()
        loop.add_writer(sock, lambda: connected.done() or connected.set_result(None))
        await connected
        loop.remove_writer(sock)
        head = f"{method} {path} HTTP/1.1\r\nHost: hello\r\nConnection: close\r\n{fields}\r\n"
        await loop.sock_sendall(sock, head.encode())
        data = b""
        while part := await loop.sock_recv(sock, 65536):
            data += part
    head, _, body = data.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


async def probed(instance: Instance, probe: dict[str, Any]) -> None:
    """Wait for a probe's success."""
    good = asyncio.Event()
    prober = Prober(
        instance, probe, "readiness", lambda well, message: good.set() if well else None, port=PORT
    )
    prober.start()
    try:
        await asyncio.wait_for(good.wait(), 60)
    finally:
        prober.stop()


def test_queue_proxy_and_program_share_a_network(directory: Path, runtime: str, beside: Path) -> None:
    async def test() -> None:
        exits: list[ContainerExit] = []
        async with runner(directory, runtime, beside) as r:
            instance = await r.start(spec("pod", containers=containers(), port=USER))
            instance.on_exit = lambda _, exit: exits.append(exit)
            await ready(instance)
            # The kubelet's probe of the queue-proxy, which answers when the program does; the activator's has a field of its own.
            await probed(instance, {"httpGet": {"path": "/", "port": PORT, "httpHeaders": [
                {"name": "K-Network-Probe", "value": "queue"}]}, "periodSeconds": 1})  # fmt: skip
            activator = "User-Agent: Knative-Activator-Probe\r\nK-Network-Probe: queue\r\n"
            assert await ask(instance, PORT, "/", activator) == (200, "queue")
            code, body = await ask(instance, PORT, "/env")
            assert code == 200 and "K_REVISION=rev" in body
            assert await get(instance, "/uid") == "1000"
            # An exec probe in the program's container, as liveness has it.
            status = await instance.exec("user-container", ["/payload", "fail"], 30.0)
            assert status == 7
            # preStop of the program's container: the queue-proxy answers when it has drained.
            assert (await ask(instance, ADMIN, "/wait-for-drain"))[0] == 200
            assert exits == []
            await instance.stop(60)
            ended = {exit.container: exit.code for exit in exits}
            assert ended == {"user-container": 3, "queue-proxy": 0}

    run(test)


def test_queue_proxy_s_security_fields_hold(directory: Path, runtime: str, beside: Path) -> None:
    """They are in force: its own process says so in /proc."""

    async def test() -> None:
        async with runner(directory, runtime, beside) as r:
            instance = await r.start(spec("pod", containers=containers(), port=USER))
            await until(lambda: len(instance.pids) == 2, "both run")
            pid = instance.pids["queue-proxy"]
            if "krun" not in runtime:  # a monitor has privileges of its own, which its payload has not
                text = Path(f"/proc/{pid}/status").read_text()
                fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
                assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2"
                assert int(fields["CapBnd"], 16) == 0 and fields["Uid"].split()[0] == "65532"
            await ready(instance)

    run(test)
