"""Names of services: messages, the zone, other names, and two services of which one calls the other by its name."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.runtime import find
from helpers.serveapi import SERVING, ksvc
from helpers.twonets import two_nets
from hypothesis import given, settings
from hypothesis import strategies as st

from krun.serve.names import message
from krun.serve.names.forward import Forward, room
from krun.serve.names.responder import Responder
from krun.serve.names.zone import DOMAIN, Zone, search

from .test_serve import Server, kill_worker, workers

FRONT = "10.192.0.1"
ZONE = Zone(lambda host: host == f"hello.default.svc.{DOMAIN}".encode(), FRONT)
EDNS = b"\0" + struct.pack("!HHIH", message.OPT, 4096, 0, 0)


def ask(
    name: str, kind: int = message.A, *, flags: int = 0x0100, edns: bool = False, group: int = 1
) -> bytes:
    wire = message.wire(name) if name else b"\0"
    head = struct.pack("!6H", 7, flags, 1, 0, 0, int(edns))
    return head + wire + struct.pack("!HH", kind, group) + (EDNS if edns else b"")


def code(data: bytes) -> int:
    return data[3] & 15


def answered(name: str, kind: int = message.A) -> tuple[int, int, int]:
    """Code, number of answers, of authority's records."""
    query = message.parse(ask(name, kind))
    assert query is not None
    data = ZONE.answer(query)
    assert data is not None and data[:2] == b"\0\7" and data[2] & 0x84 == 0x84
    return (code(data), *struct.unpack_from("!HH", data, 6))


AAAA, SRV = 28, 33


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (f"hello.default.svc.{DOMAIN}", message.A, (0, 1, 0)),
        ("HELLO.Default.SVC.Cluster.Local", message.A, (0, 1, 0)),
        (f"hello.default.svc.{DOMAIN}", message.ANY, (0, 1, 0)),
        (f"hello.default.svc.{DOMAIN}", AAAA, (0, 0, 1)),
        (f"hello.default.svc.{DOMAIN}", SRV, (0, 0, 1)),
        (f"default.svc.{DOMAIN}", message.A, (0, 0, 1)),
        (f"svc.{DOMAIN}", message.A, (0, 0, 1)),
        (DOMAIN, message.A, (0, 0, 1)),
        (DOMAIN, message.SOA, (0, 1, 0)),
        (f"absent.default.svc.{DOMAIN}", message.A, (3, 0, 1)),
        (f"x.hello.default.svc.{DOMAIN}", message.A, (3, 0, 1)),
        (f"example.com.default.svc.{DOMAIN}", message.A, (3, 0, 1)),
        (f"hello.default.{DOMAIN}", message.A, (3, 0, 1)),
    ],
)
def test_the_zone(name: str, kind: int, expected: tuple[int, int, int]) -> None:
    assert answered(name, kind) == expected


def test_a_label_with_a_dot_is_not_two() -> None:
    data = bytearray(ask(f"hello-default.svc.{DOMAIN}"))
    data[data.index(b"-")] = ord(".")
    query = message.parse(bytes(data))
    assert query is not None and len(query.name) == 4
    found = ZONE.answer(query)
    assert found is not None and struct.unpack_from("!H", found, 6) == (0,)


def test_names_outside_of_the_zone() -> None:
    for name in ("example.com", "", "local", f"x{DOMAIN}", "hello.default", "hello.default.svc"):
        query = message.parse(ask(name))
        assert query is not None and ZONE.answer(query) is None


def test_an_answer_is_as_the_resolver_library_reads_it() -> None:
    """The bytes of an answer, by the layout of RFC 1035."""
    query = message.parse(ask(f"hello.default.svc.{DOMAIN}", edns=True))
    assert query is not None
    data = ZONE.answer(query)
    assert data == (
        bytes.fromhex("0007 8580 0001 0001 0000 0001".replace(" ", ""))
        + b"\5hello\7default\3svc\7cluster\5local\0\0\1\0\1"
        + bytes.fromhex("c00c 0001 0001 00000005 0004 0ac00001".replace(" ", ""))
        + bytes.fromhex("00 0029 04d0 00000000 0000".replace(" ", ""))
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (ask("a.b")[:11], None),
        (ask("a.b", flags=0x8100), None),  # an answer
        (ask("a.b", flags=0x2800), message.NOTIMP),  # an update
        (ask("a.b")[:-1], message.FORMERR),
        (ask("a.b")[:12], message.FORMERR),
        (b"\0\7\1\0\0\2" + ask("a.b")[6:], message.FORMERR),
        (b"\0\7\1\0\0\1\0\1" + ask("a.b")[8:], message.FORMERR),
        (ask("a.b")[:12] + b"\xc0\x0c\0\1\0\1", message.FORMERR),  # a name that points to itself
        (ask("a.b")[:12] + b"\x40a\0\0\1\0\1", message.FORMERR),
        (ask(".".join(["a" * 63] * 4)), message.FORMERR),  # 257 bytes
        (ask("a.b", edns=True)[:-1], message.FORMERR),
        (ask("a.b", edns=True) + b"x", message.FORMERR),
        (ask("a.b", message.AXFR), message.REFUSED),
        (ask("a.b", group=3), message.REFUSED),
    ],
)
def test_messages_that_are_not_served(data: bytes, expected: int | None) -> None:
    if expected is None:
        assert message.parse(data) is None
        return
    with pytest.raises(message.Refused) as refused:
        message.parse(data)
    assert refused.value.code == expected
    assert refused.value.answer()[:2] == b"\0\7" and code(refused.value.answer()) == expected


def test_the_longest_name() -> None:
    query = message.parse(ask(".".join(["a" * 63] * 3 + ["a" * 61])))
    assert query is not None and len(query.question) == 255 + 4


_PARTS = st.lists(
    st.one_of(st.binary(max_size=70), st.sampled_from([b"\5hello", b"\7default", b"\3svc", b"\7cluster", b"\5local\0", b"\0\1\0\1", EDNS])),
    max_size=12,
).map(b"".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        _PARTS,
        _PARTS.map(lambda tail: b"\0\7\1\0\0\1\0\0\0\0\0\0" + tail),
        _PARTS.map(lambda tail: b"\0\7\1\0\0\1\0\0\0\0\0\1" + tail),
    )
)
def test_any_bytes(data: bytes) -> None:
    """A message is served, refused or not answered; what is answered is short, and what is passed on is of this server's making."""
    try:
        query = message.parse(data)
    except message.Refused as refused:
        assert len(refused.answer()) == 12
        return
    if query is None:
        return
    assert len(query.question) <= 259 and data[12 : 12 + len(query.question)] == query.question
    found = ZONE.answer(query)
    assert found is None or len(message.fit(query, found)) <= query.size <= message.LARGEST
    own = message.question(query, 99)
    again = message.parse(own)
    assert again is not None and again.question == query.question and len(own) <= 12 + 259 + 11


def test_only_an_answer_to_the_question_is_passed_on() -> None:
    query = message.parse(ask("Example.com"))
    assert query is not None
    good = b"\0\x63\x81\x80\0\1\0\0\0\0\0\0" + query.question
    assert message.passed(query, 99, good) == b"\0\7" + good[2:]
    assert message.passed(query, 99, good.replace(b"Example", b"eXAMPLE")) is not None
    for bad in (good[:20], b"\0\x64" + good[2:], good.replace(b"\x81", b"\1"), good.replace(b"Example", b"Exomple"),
                good[:4] + b"\0\2" + good[6:]):  # fmt: skip
        assert message.passed(query, 99, bad) is None


def test_what_does_not_fit_is_cut() -> None:
    query = message.parse(ask("example.com"))
    assert query is not None
    long = message.answer(query, 0, (message.record(16, 1, b"x" * 600),), own=False)
    cut = message.fit(query, long)
    assert message.truncated(cut) and not message.truncated(long) and cut[12:] == query.question


class Upstream(asyncio.DatagramProtocol):
    """A name server of the host: forged answers first, then one that is too long; the right one by a stream."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        self.server = await asyncio.start_server(self.stream, "127.0.0.1", 0)
        port = int(self.server.sockets[0].getsockname()[1])
        self.transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", port))
        return port

    def close(self) -> None:
        self.server.close()
        self.transport.close()

    def answer(self, data: bytes, content: bytes, flags: int = 0x8180) -> bytes:
        self.asked.append(data)
        return data[:2] + struct.pack("!5H", flags, 1, 1, 0, 0) + data[12:] + message.record(1, 60, content)

    def connection_made(self, transport: Any) -> None:
        pass

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if b"silent" in data:
            self.asked.append(data)
            return
        right = self.answer(data, b"\1\2\3\4", 0x8380 if b"long" in data else 0x8180)
        forged = bytes([right[0] ^ 1]) + right[1:-4] + b"\6\6\6\6"
        for one in (forged, right[:12] + b"\3x" + right[14:], right):
            self.transport.sendto(one, addr)

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        data = self.answer(await reader.readexactly(length), b"\4\3\2\1")
        writer.write(struct.pack("!H", len(data)) + data)
        writer.close()


async def by_stream(port: int, *questions: bytes) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    out = []
    try:
        for data in questions:
            writer.write(struct.pack("!H", len(data)) + data)
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            out.append(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        out.append(b"")
    finally:
        writer.close()
    return out


async def by_datagram(port: int, data: bytes) -> bytes:
    with socket.socket(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.connect(("127.0.0.1", port))
        sock.send(data)
        async with asyncio.timeout(10):
            return await asyncio.get_running_loop().sock_recv(sock, 4096)


@pytest.mark.parametrize("forwards", [True, False])
def test_the_responder(tmp_path: Path, forwards: bool) -> None:
    """Datagrams and streams; other names are asked of the host's servers, or refused; nothing that is wrong ends the server."""

    async def test() -> None:
        upstream = Upstream()
        conf = tmp_path / "resolv.conf"
        conf.write_text("# x\nnameserver 127.0.0.1\nsearch example\n")
        forward = Forward(str(conf), await upstream.start())
        lines: list[str] = []
        responder = Responder(ZONE, forward if forwards else None, lines.append)
        streams, datagrams = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        udp, tcp = datagrams.getsockname()[1], streams.getsockname()[1]
        await responder.listen(datagrams, streams)
        own = ask(f"hello.default.svc.{DOMAIN}")
        try:
            assert (await by_datagram(udp, own))[-4:] == socket.inet_aton(FRONT)
            assert [one[-4:] for one in await by_stream(tcp, own, own)] == [socket.inet_aton(FRONT)] * 2
            for bad in (b"x", ask("a.b")[:-1], b"\0" * 1300, os.urandom(40)):
                with socket.socket(type=socket.SOCK_DGRAM) as sock:
                    sock.sendto(bad, ("127.0.0.1", udp))
            assert await by_stream(tcp, b"x") == [b""]
            assert code((await by_stream(tcp, ask("a.b")[:-1]))[0]) == message.FORMERR
            if not forwards:
                assert code(await by_datagram(udp, ask("example.com"))) == message.REFUSED
                assert code((await by_stream(tcp, ask("example.com")))[0]) == message.REFUSED
                return
            query = ask("example.com", edns=True)
            found = await by_datagram(udp, query[:-2] + b"\0\4abcd")
            assert found[:2] == b"\0\7" and found[-4:] == b"\1\2\3\4" and not found[2] & 4
            # The client's options and number are not passed on.
            assert (
                upstream.asked[0][2:] == query[2:-8] + b"\x04\xd0" + bytes(6)
                and b"abcd" not in upstream.asked[0]
            )
            assert message.truncated(await by_datagram(udp, ask("long.example")))
            assert (await by_stream(tcp, ask("long.example")))[0][-4:] == b"\4\3\2\1"
            conf.write_text("nameserver 127.0.0.99\nnameserver 127.0.0.1\n")
            os.utime(conf, (1, 1))
            assert (await by_datagram(udp, ask("example.com")))[-4:] == b"\1\2\3\4"
            conf.unlink()
            assert code(await by_datagram(udp, ask("example.com"))) == message.SERVFAIL
        finally:
            responder.close()
            upstream.close()
            await asyncio.sleep(0)
        assert lines == []

    asyncio.run(test())


def test_what_one_client_may_ask_at_a_time(tmp_path: Path) -> None:
    """A client whose names are not answered by anyone does not keep others from asking."""

    async def test() -> None:
        upstream = Upstream()
        conf = tmp_path / "resolv.conf"
        conf.write_text("nameserver 127.0.0.1\n")
        forward = Forward(str(conf), await upstream.start())
        silent, other = message.parse(ask("silent")), message.parse(ask("example.com"))
        assert silent is not None and other is not None
        tasks = [asyncio.create_task(forward.ask(silent, "one", False)) for _ in range(70)]
        try:
            while len(upstream.asked) < 64:
                await asyncio.sleep(0.01)
            assert [task.result() for task in tasks if task.done()] == [None] * 6
            assert await forward.ask(other, "one", False) is None
            assert (await forward.ask(other, "two", False) or b"")[-4:] == b"\1\2\3\4"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert (await forward.ask(other, "one", False) or b"")[-4:] == b"\1\2\3\4"
        upstream.close()

    asyncio.run(test())


def test_a_few_clients_do_not_take_all_the_places() -> None:
    asking: Counter[str] = Counter()
    for client in map(str, range(60)):
        while room(asking, client, 512, 64):
            asking[client] += 1
    assert asking["0"] == 64 and asking["59"] == 2
    assert room(asking, "new", 512, 64) and not room(asking, "0", 512, 64)
    asking["0"] += 512 - asking.total()
    assert not room(asking, "new", 512, 64)


def test_servers_of_the_host(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text(
        "nameserver\nnameserver name.example\n nameserver ::1 x\nnameserver fe80::1%lo\nsearch a\nnameserver 127.0.0.53\nnameserver 1.1.1.1\n"
    )
    assert Forward(str(conf)).servers() == ["::1", "fe80::1%lo", "127.0.0.53"]
    assert Forward(str(tmp_path / "absent")).servers() == []


def test_search_domains() -> None:
    assert search("ns") == ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("images")
    for name, compiler in (("payload", "gcc"), ("caller", "musl-gcc")):
        root = directory / f"reg.example/{name}/rootfs"
        root.mkdir(parents=True)
        source = str(Path(__file__).with_name(f"{name}.c"))
        subprocess.run(
            [compiler, "-static", "-O1", "-Wall", "-Werror", "-o", str(root / name), source], check=True
        )
        (root.parent / "config.json").write_text(f'{{"Entrypoint":["/{name}"],"User":"1000"}}')
    return directory


@pytest.fixture(params=os.environ.get("KRUN_TEST_RUNTIMES", "runc,krun").split(","))
def server(request: pytest.FixtureRequest, tmp_path: Path, images: Path) -> Iterator[Server]:
    with two_nets():
        made = Server(tmp_path / "data", str(find(request.param)), images)
        made.flags = ["--network", "bridge", "--network-names", "refuse"]
        made.start()
        yield made
        made.end()
        made.until(lambda: not workers(tmp_path), "the worker has ended")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_a_service_calls_another_by_its_name(server: Server) -> None:
    """From zero, by each of the names; the cluster-local one too, which nobody outside reaches; also after kill -9 of the server, and of the worker."""
    path = "/api/v1/namespaces/knative-serving/configmaps/config-autoscaler"
    scaler = server.ask("GET", path)[1]
    scaler["data"] = {**scaler.get("data", {}), "allow-zero-initial-scale": "true"}
    assert server.ask("PUT", path, scaler)[0] == 200
    for name, image, labels in (("caller", "caller", {}), ("hello", "payload", {}),
                                ("inner", "payload", {"networking.knative.dev/visibility": "cluster-local"})):  # fmt: skip
        zero = {"metadata": {"annotations": {"autoscaling.knative.dev/initial-scale": "0"}}}
        obj = ksvc(name, f"reg.example/{image}", template=zero)
        obj["metadata"]["labels"] = labels
        assert server.ask("POST", f"{SERVING}/services", obj)[0] == 201, name
    for name in ("caller", "hello", "inner"):
        server.ready(name)
    assert server.pods() == []

    def call(host: str, path: str = "env") -> str:
        code, text = server.request(f"/{host}/{path}", "caller.default.localhost")
        assert code == 200
        return text

    url = server.ask("GET", f"{SERVING}/services/inner")[1]["status"]["address"]["url"]
    assert "K_SERVICE=inner\n" in call(url.removeprefix("http://"))
    for host in (
        "hello.default",
        "hello.default.svc",
        f"hello.default.svc.{DOMAIN}",
        f"hello.default.svc.{DOMAIN}.",
    ):
        assert "K_SERVICE=hello\n" in call(host), host
    # The short name leads to the front, which knows it as little as Knative's.
    assert "404" in call("hello")
    assert call("absent.default.svc.cluster.local.") == "resolve: Name does not resolve"
    assert call("example.com") == "resolve: Try again"  # refused
    conf = call("hello.default", "read/etc/resolv.conf").partition("\r\n\r\n")[2].split("\n")
    assert conf[0] == f"search {' '.join(search('default'))}" and conf[2:] == ["options ndots:5", ""]
    front = conf[1].removeprefix("nameserver ")
    assert server.request(host="inner.default.svc.cluster.local")[0] == 404
    assert server.request(host="hello.default.svc.cluster.local")[0] == 404
    for port in (80, 53):
        with socket.socket() as sock, pytest.raises(OSError):
            sock.settimeout(5)
            sock.connect((front, port))
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.start()
    assert "K_SERVICE=inner\n" in call("inner.default")
    before = {pod["metadata"]["name"] for pod in server.pods()}
    kill_worker(server)  # and with it the network: the next one has other sockets

    def again() -> bool:
        answer = server.request("/inner.default/env", "caller.default.localhost")[1]
        return "K_SERVICE=inner\n" in answer and not before & {
            pod["metadata"]["name"] for pod in server.pods()
        }

    server.until(again, "names after the worker's death")
