"""exec, attach and port-forward over WebSocket, with real instances: runc first, then krun."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.instances import ready, run, runner, spec, until
from helpers.wsclient import Client, Spdy, exec_path, split

from krun.serve.api.remote import SESSIONS
from krun.serve.api.remote import Remote as Api
from krun.serve.api.router import Api as Router
from krun.serve.control.remote import Remote
from krun.serve.http.server import serve
from krun.serve.model.kinds import POD
from krun.serve.model.options import Options
from krun.serve.run.instance import Instance, Runner
from krun.serve.store.store import Store

pytestmark = [pytest.mark.root, pytest.mark.kvm, pytest.mark.usefixtures("as_root")]

ALL = {"stdin": "true", "stdout": "true", "stderr": "true"}
#: The last argument of programs that are looked for: other tests run on the machine.
TAG = f"remote-{os.getpid()}"
V5, V4, FORWARD = "v5.channel.k8s.io", "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"


class Member:
    """What Remote asks of a member and of the pools."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.frozen = False
        self.sessions = 0
        self.members = {instance.id: self}
        self.pools = {"": self}


class Rig:
    """An API with one Pod, `one`, and what its audit was told."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.member = Member(instance)
        self.audit: list[dict[str, Any]] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        store = Store(":memory:")
        containers = [{"name": "user-container"}]
        store.create(
            POD, {"metadata": {"name": "one", "namespace": "default"}, "spec": {"containers": containers}}
        )
        self.api = Api(store, Remote(self.member), self.audit.append)  # type: ignore[arg-type]
        router = Router(store, Options, remote=self.api)
        server = await serve(router.handle, address=("127.0.0.1", 0))
        self.port = server.port
        try:
            yield
        finally:
            await server.close()
            for _ in range(500):
                await asyncio.sleep(0.01 if self.api.count else 0)
            assert self.member.sessions == self.api.count == 0

    async def exec(self, *argv: str, protocol: str = V5, **flags: str) -> Client:
        client = await Client.connect(
            self.port, exec_path("one", "/payload", *argv, **(flags or ALL)), protocol
        )
        assert client.status == 101, client.text
        return client


def rigged(
    directory: Path, runtime: str, images: Path, test: Callable[[Rig, Runner], Awaitable[None]]
) -> None:
    async def body() -> None:
        async with runner(directory, runtime, images) as r:
            instance = await r.start(spec("one", container={"args": ["serve", f"stays-{TAG}"]}))
            await ready(instance)
            rig = Rig(instance)
            async with rig.listen():
                await test(rig, r)

    run(body)


def programs(word: str = TAG) -> list[int]:
    """The processes of the host whose last argument is a word: a payload's, natively or in its monitor."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal():
                line = Path(f"/proc/{name}/cmdline").read_bytes()
                # Not the runtime, whose arguments end with the program's.
                if line.startswith(b"/payload\0") and line.endswith(f"\0{word}\0".encode()):
                    found.append(int(name))
    return found


async def running(rig: Rig) -> Client:
    """A session whose program has answered."""
    client = await rig.exec("copy", TAG)
    client.send(b"\0x")
    while (await client.message()) != (2, b"\1x"):
        pass
    return client


def written(pid: int) -> int:
    """The bytes that a process has written so far (proc_pid_io(5), wchar)."""
    return int(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0])


def test_streams_and_exit_codes(directory: Path, runtime: str, images: Path) -> None:
    async def test(rig: Rig, r: Runner) -> None:
        client = await rig.exec("fail", stdout="true", stderr="true")
        assert await client.message() == (2, b"\1"), "an empty message tells that the session has begun"
        found, status = await client.channels()
        assert found == {2: b"X marks\n"}
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        # v5 ends the input by a message; both ways have more than any buffer holds.
        client = await rig.exec("copy")
        text = os.urandom(1 << 16)

        async def feed() -> None:
            for _ in range(64):
                client.send(b"\0" + text)
                await client.writer.drain()
            client.send(b"\xff\0")

        feeding = asyncio.create_task(feed())
        found, status = await client.channels()
        await feeding
        assert found[1] == text * 64 and status["details"]["causes"][0]["message"] == "5"
        # A process that the program leaves behind, and that holds its output, does not hold up the end.
        found, status = await (await rig.exec("daemon", protocol=V4)).channels()
        assert found[1] == b"left" and status["details"]["causes"][0]["message"] == "4"
        client = await Client.connect(rig.port, exec_path("one", "/nothing", **ALL), V5)
        found, status = await client.channels()
        assert status["reason"] == "InternalError" and "/nothing" in status["message"]
        assert [one["status"] for one in rig.audit] == ["NonZeroExitCode"] * 3 + ["InternalError"]
        assert rig.audit[1]["command"] == ["/payload", "copy"] and rig.audit[1]["podName"] == "one"

    rigged(directory, runtime, images, test)


def test_a_terminal(directory: Path, runtime: str, images: Path) -> None:
    """Its size, and its changes; what is wrong in a message is passed over; control-D ends the input."""

    async def test(rig: Rig, r: Runner) -> None:
        client = await rig.exec("terminal", stdin="true", stdout="true", tty="true")
        for size, want in (
            (b'{"Width":80,"Height":24}', b"1 xterm 80x24"),
            (b'{"Width":-1,"Height":99999}', b"1 xterm 0x65535"),
        ):
            for message in (
                b"\4" + size,
                b"\4[",
                b"\4" + b"[" * 250,
                b'\4{"Width":"1","Height":1}',
                b"\7x",
                b"",
                b"\0\n",
            ):
                client.send(message)
            text = b""
            while want not in text:
                opcode, payload = await client.message()
                assert opcode == 2 and payload[0] == 1, (payload, text)
                text += payload[1:]
        client.send(b"\0\4")
        _, status = await client.channels()
        assert status["details"]["causes"][0]["message"] == "6"

    rigged(directory, runtime, images, test)


def test_a_flood_is_held_back_and_ends_with_its_client(directory: Path, runtime: str, images: Path) -> None:
    async def test(rig: Rig, r: Runner) -> None:
        client = await rig.exec("flood", TAG)
        await client.message()
        await until(lambda: client.reader._paused, "the client's buffer is full")  # type: ignore[attr-defined]
        # The buffers of the connection are full, then the pipe: the kernel puts the program to sleep.
        (pid,) = programs()
        before = -1
        while (now := written(pid)) != before:
            assert now < 64 << 20
            before = now
            await asyncio.sleep(0.3)
        client.writer.transport.abort()
        await until(lambda: not programs(), "the program has ended")
        await until(lambda: rig.audit, "the audit")
        assert rig.audit[0]["status"] == "ClientGone"

    rigged(directory, runtime, images, test)


def test_a_session_ends_with_its_instance_and_with_the_server(
    directory: Path, runtime: str, images: Path
) -> None:
    async def test(rig: Rig, r: Runner) -> None:
        client = await running(rig)
        assert programs()
        # The server lets its worker go, as at SIGTERM: the instance stays, the program does not.
        await r.close(False)
        await until(lambda: not programs(), "the program has ended")
        assert programs("stays-" + TAG)
        client.close()
        found = (await r.open())["instances"]
        instance = rig.member.instance = await r.adopt(found[0], rig.instance.spec)
        client = await running(rig)
        await instance.stop(0)
        _, status = await client.channels()
        assert status["details"]["causes"][0]["message"] == "137"

    rigged(directory, runtime, images, test)


def test_attach(directory: Path, runtime: str, images: Path) -> None:
    """What the container writes from now on, by its streams; the end is the container's."""

    async def test(rig: Rig, r: Runner) -> None:
        client = await Client.connect(rig.port, exec_path("one", sub="attach", **ALL), V5)
        assert await client.message() == (2, b"\1")
        client.send(b"\0typed for nobody")
        await r.worker.call("kill", id="one", signal=15)
        found, status = await client.channels()
        assert found == {1: b"terminated\n"} and status == {"metadata": {}, "status": "Success"}

    rigged(directory, runtime, images, test)


def test_port_forward(directory: Path, runtime: str, images: Path) -> None:
    """Two connections of one client, a port where nobody listens, a reset, and the end."""

    async def test(rig: Rig, r: Runner) -> None:
        path = "/api/v1/namespaces/default/pods/one/portforward"
        client = await Client.connect(rig.port, path, FORWARD)
        assert client.status == 101 and f"sec-websocket-protocol: {FORWARD.lower()}" in client.head
        made = Spdy()
        ask = b"GET /uid HTTP/1.1\r\n\r\n"
        data = b"".join(
            made.pair(first, str(first), port)
            + (first + 2).to_bytes(4, "big")
            + len(ask).to_bytes(4, "big")
            + ask
            for first, port in ((1, 8080), (5, 8080), (9, 9))
        )
        client.send(data[:33])
        client.send(data[33:])
        found: dict[int, bytes] = {}
        ends = 0
        while ends < 6:
            opcode, payload = await client.message()
            assert opcode == 2
            for type, stream, body in split(payload):
                if not type:
                    found[stream] = found.get(stream, b"") + body
                    ends += payload[4] & 1
        assert found[3].endswith(b"\r\n\r\n1000") and found[7] == found[3]
        assert found[1] == found[5] == b"" and b"port 9" in found[9] and not found[11]
        client.send(
            made.pair(13, "13", 8080) + b"\x80\x03\0\x03\0\0\0\x08" + (15).to_bytes(4, "big") + b"\0\0\0\x05"
        )
        while split((await client.message())[1])[0][:2] != (0, 13):
            pass
        # A stream that goes back in its number ends the tunnel.
        client.send(made.syn(1, streamtype="error", port="80", requestid="x"))
        while (last := await client.message())[0] != 8:
            pass
        assert last[1].startswith((1002).to_bytes(2, "big"))
        client.close()
        await until(lambda: rig.audit, "the audit")
        assert rig.audit[0]["ports"] == [9, 8080] and rig.audit[0]["connections"] == 4

    rigged(directory, runtime, images, test)


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_what_is_refused(directory: Path, runtime: str, images: Path) -> None:
    async def test(rig: Rig, r: Runner) -> None:
        good = exec_path("one", "/payload", **ALL)
        for path, protocol, fields, code, words in (
            (good, V5, {"Origin": "http://evil.example"}, 403, "other sites"),
            (good, V5, {"Host": "evil.example"}, 403, "no name of this server"),
            (exec_path("two", "/payload", **ALL), V5, {}, 404, "not found"),
            (exec_path("one", "/payload"), V5, {}, 400, "at least one of stdin"),
            (exec_path("one", **ALL), V5, {}, 400, "at least one command"),
            (exec_path("one", "/payload", container="x", **ALL), V5, {}, 400, "container x is not valid"),
            (good, "base64.channel.k8s.io", {}, 400, "none of the WebSocket protocols"),
            (good, "", {"Upgrade": "SPDY/3.1"}, 400, "use kubectl 1.31 or later"),
        ):
            client = await Client.connect(rig.port, path, protocol, **fields)
            assert client.status == code and words in client.text, (path, client.text)
        rig.api.count = SESSIONS
        client = await Client.connect(rig.port, good, V5)
        assert client.status == 429
        rig.api.count = 0
        router = Router(rig.api.store, Options, remote=rig.api, token="secret")
        server = await serve(router.handle, address=("127.0.0.1", 0))
        assert (await Client.connect(server.port, good, V5)).status == 401
        await server.close()

    rigged(directory, runtime, images, test)
