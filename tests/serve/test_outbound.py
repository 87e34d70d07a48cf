"""The instances' way out: what they reach, what they do not, what is left; runc first, then krun. In namespaces of the test's own."""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.instances import ended, get, ready, run, runner, spec, until
from helpers.twonets import CLOUDS, HOST, METADATA, OUTSIDE, TwoNets, shell, two_nets

from krun.errors import KrunError
from krun.serve.run import firewall, pool
from krun.serve.run.instance import Instance
from krun.sysio import CLONE_NEWNET, setns


@pytest.fixture
def nets() -> Iterator[TwoNets]:
    with two_nets() as made:
        yield made


def network(*allow: str, pool: str | None = None, **more: Any) -> dict[str, Any]:
    return {"pool": pool, "allow": list(allow), **more}


async def connect(instance: Instance, address: str, port: int) -> str:
    return await get(instance, f"/connect/{address}/{port}")


def left() -> list[str]:
    """Bridges, ports and rules of krun serve in this namespace."""
    words = shell("ip", "-o", "link").split() + shell("nft", "list", "tables").split()
    return [word for word in words if word.startswith(("krun", "kv"))]


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_out_and_nowhere_else(directory: Path, runtime: str, images: Path, nets: TwoNets) -> None:
    """An instance reaches another machine, with the host's address; neither the host, nor its neighbour, nor the cloud's metadata."""

    async def test() -> None:
        async with runner(directory, runtime, images, network=network()) as r:
            one, two = [await r.start(spec(id)) for id in ("one", "two")]
            for instance in (one, two):
                await ready(instance)
            kept = pool.read(str(directory / "network.json"))
            own = ipaddress.IPv4Network(kept or "")
            assert [one.address, two.address] == [str(own[2]), str(own[3])]
            assert f"{one.address}\tone" in await get(one, "/read/etc/hosts")
            assert await connect(one, OUTSIDE, nets.outside.port) == f"{HOST} from {one.address}"
            for address in (HOST, str(own[1]), METADATA):
                port = nets.outside.port if address == METADATA else nets.host.port
                assert (await connect(one, address, port)).startswith("error"), address
            assert (await connect(one, two.address, 8080)).startswith("error")
            assert left()
            # A new instance does not get the address of the one that has just gone.
            await two.stop(0)
            three = await r.start(spec("three"))
            assert three.address == str(own[4])

    run(test)
    assert left() == []


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_the_operator_opens_what_is_closed(
    directory: Path, runtime: str, images: Path, nets: TwoNets
) -> None:
    """The same connections as above, all allowed: so it is the rules that refuse them there."""

    async def test() -> None:
        allow = network("host", "instances", f"{METADATA}/32")
        async with runner(directory, runtime, images, network=allow) as r:
            one, two = [await r.start(spec(id)) for id in ("one", "two")]
            for instance in (one, two):
                await ready(instance)
            assert await connect(one, HOST, nets.host.port) == f"{one.address} from {one.address}"
            assert await connect(one, METADATA, nets.outside.port) == f"{HOST} from {one.address}"
            assert await connect(one, two.address, 8080) == f" from {one.address}"

    run(test)


def frame(source: tuple[str, str], target: tuple[str, str], port: int, data: bytes) -> bytes:
    """A UDP datagram in an Ethernet frame. Arguments: hardware and IPv4 address of both ends."""
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0, 64, 17, 0,
        socket.inet_aton(source[1]), socket.inet_aton(target[1]),
    )  # fmt: skip
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    ethernet = bytes.fromhex(target[0].replace(":", "") + source[0].replace(":", "")) + b"\x08\x00"
    return ethernet + head + struct.pack("!HHHH", 4000, port, 8 + len(data), 0) + data


def arp(source: tuple[str, str], target: tuple[str, str]) -> bytes:
    """An ARP request: its receiver notes that `source` has its IPv4 address."""
    own, other = (bytes.fromhex(end[0].replace(":", "")) for end in (source, target))
    return (
        other + own + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + own + socket.inet_aton(source[1])
        + other + socket.inet_aton(target[1])
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_an_instance_has_no_other_address_than_its_own(directory: Path, images: Path, nets: TwoNets) -> None:
    """Frames that a program with CAP_NET_RAW may send: those under another instance's addresses reach nobody."""
    from helpers.runtime import find

    async def test() -> None:
        async with runner(directory, str(find("runc")), images, network=network()) as r:
            one, two = [await r.start(spec(id)) for id in ("one", "two")]
            await ready(two)
            assert await connect(two, OUTSIDE, nets.outside.port) == f"{HOST} from {two.address}"
            ends = [(firewall.mac(ipaddress.IPv4Address(i.address)), i.address) for i in (one, two)]
            gateway = pool.parse(pool.read(str(directory / "network.json")) or "")[1]
            gate = firewall.mac(gateway)
            with inside(one, socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
                raw.bind(("eth0", 0))
                out = (gate, OUTSIDE)
                free = str(gateway + 40)  # of nobody: the host has no entry that would hold for a while
                raw.send(arp((ends[0][0], free), (gate, str(gateway))))
                # Under its own addresses outside, under the neighbour's inside: the host would send answers there.
                lie = arp((ends[1][0], ends[0][1]), (gate, str(gateway)))
                raw.send(lie[:6] + bytes.fromhex(ends[0][0].replace(":", "")) + lie[12:])
                for name, source in (("address", (ends[0][0], ends[1][1])), ("hardware", (ends[1][0], ends[0][1])),
                                     ("both", ends[1]), ("honest", ends[0])):  # fmt: skip
                    raw.send(frame(source, out, nets.outside.port, name.encode()))
            assert nets.outside.lines.readline() == f"honest {HOST}\n"
            assert shell("ip", "neigh", "show", "to", free) == ""
            assert ends[1][0] not in shell("ip", "neigh", "show", "to", one.address)
            assert await connect(two, OUTSIDE, nets.outside.port) == f"{HOST} from {two.address}"

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_the_host_answers_for_the_front_only(directory: Path, images: Path, nets: TwoNets) -> None:
    """ARP requests for the host's other addresses told an instance which ones there are (arp_ignore is 0)."""
    from helpers.runtime import find

    async def test() -> None:
        async with runner(directory, str(find("runc")), images, network=network()) as r:
            one = await r.start(spec("one"))
            await ready(one)
            gateway = pool.parse(pool.read(str(directory / "network.json")) or "")[1]
            own, gate = (
                (firewall.mac(end), str(end)) for end in (ipaddress.IPv4Address(one.address), gateway)
            )
            with raw_inside(one) as raw:
                for target in (HOST, str(gateway)):
                    raw.send(arp(own, (gate[0], target)))
                says = b"\0\2" + bytes.fromhex(gate[0].replace(":", ""))  # a reply; of whom
                assert seen(raw, says + socket.inet_aton(gate[1]), none_of=(says + socket.inet_aton(HOST),))

    run(test)


LINK_LOCAL = "01:80:c2:00:00:"  # IEEE 802.1Q, table 8-1: a bridge keeps these groups to itself


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_frames_that_a_bridge_takes_for_itself(directory: Path, images: Path, nets: TwoNets) -> None:
    """Frames to a bridge's own groups (STP, 802.1X, LLDP ...): no packet in one gets to the host, and none moves a neighbour's address."""
    from helpers.runtime import find

    async def test() -> None:
        async with runner(directory, str(find("runc")), images, network=network()) as r:
            one, two = [await r.start(spec(id)) for id in ("one", "two")]
            for instance in (one, two):
                await ready(instance)
                assert (
                    await connect(instance, OUTSIDE, nets.outside.port) == f"{HOST} from {instance.address}"
                )
            (own, victim) = [(firewall.mac(ipaddress.IPv4Address(i.address)), i.address) for i in (one, two)]
            gateway = str(pool.parse(pool.read(str(directory / "network.json")) or "")[1])
            with (
                raw_inside(one) as raw,
                raw_inside(two) as other,
                socket.socket(type=socket.SOCK_DGRAM) as host,
            ):
                host.setblocking(False)
                host.bind((HOST, 0))
                port = host.getsockname()[1]
                for last in (0x00, 0x02, 0x03, 0x0E):
                    group = f"{LINK_LOCAL}{last:02x}"
                    raw.send(frame(own, (group, HOST), port, b"to the host"))
                    # The bridge learns from whom a frame came, and sends to this port what is for that address.
                    raw.send(frame((victim[0], own[1]), (group, HOST), port, b"as the neighbour"))
                    raw.send(bytes.fromhex((group + victim[0]).replace(":", "")) + b"\x88\xcc" + bytes(46))
                host.sendto(b"to the neighbour", (two.address, 4000))
                assert seen(other, b"to the neighbour")
                with pytest.raises(BlockingIOError):
                    host.recv(100)
                other.send(frame(victim, (own[0], own[1]), 4000, b"past the bridge"))
                for target in (own[0], "ff:ff:ff:ff:ff:ff"):
                    other.send(dhcp_offer(victim, target))
                    other.send(router_advertisement(victim[0], target))
                with socket.socket(type=socket.SOCK_DGRAM) as client:
                    client.bind(("", 68))
                    client.setblocking(False)
                    for target in (firewall.mac(ipaddress.IPv4Address(gateway)), "ff:ff:ff:ff:ff:ff"):
                        raw.send(dhcp_offer(own, target))
                        raw.send(router_advertisement(own[0], target))
                    # It comes after them, and by the same way.
                    assert await connect(one, OUTSIDE, nets.outside.port) == f"{HOST} from {one.address}"
                    with pytest.raises(BlockingIOError):
                        client.recv(100)
                assert "via fe80" not in shell("ip", "-6", "route")
                host.sendto(b"the last", (one.address, 4000))
                past = (b"to the neighbour", b"past the bridge", b"\x63\x82\x53\x63", b"\x86\xdd\x60")
                assert seen(raw, b"the last", none_of=past)
                facts = shell("ip", "-d", "link", "show", "type", "bridge")
                assert "group_fwd_mask 0 " in facts and "stp_state 0 " in facts
                port_facts = shell("ip", "-d", "link", "show", "type", "bridge_slave")
                for fact in ("learning off", "flood off", "isolated on"):
                    assert port_facts.count(f" {fact} ") >= 2, fact
                assert f"src {gateway} " in shell("ip", "route", "get", two.address)

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("allow", [(), (f"{METADATA}/32", "168.63.129.16/32")])
def test_metadata_of_clouds(directory: Path, images: Path, nets: TwoNets, allow: tuple[str, ...]) -> None:
    """The host has a route to each address, and a DNAT to one: an instance reaches those that the operator has opened."""
    from helpers.runtime import find

    async def test() -> None:
        shell("nft", "add table ip t; add chain ip t c { type nat hook prerouting priority -100; };"
              f" add rule ip t c ip daddr 198.51.100.9 dnat to {METADATA}")  # fmt: skip
        async with runner(directory, str(find("runc")), images, network=network(*allow)) as r:
            one = await r.start(spec("one"))
            with inside(one, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for address in (*CLOUDS, "198.51.100.9", OUTSIDE):
                    sock.sendto(address.encode(), (address, nets.outside.port))
            opened = [entry.partition("/")[0] for entry in allow]
            expected = [
                *(address for address in CLOUDS if address in opened),
                *(["198.51.100.9"] if allow else []),
                OUTSIDE,
            ]
            assert [nets.outside.lines.readline() for _ in expected] == [
                f"{word} {HOST}\n" for word in expected
            ]

    run(test)


#: Says of each address and port whether a connection is made.
CONNECT = """
import socket, sys
for word in sys.argv[1:]:
    address, _, port = word.partition(":")
    try:
        socket.create_connection((address, int(port)), 0.2).close()
        print(word)
    except OSError:
        pass
"""


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_nobody_outside_reaches_an_instance_or_its_front(
    directory: Path, images: Path, nets: TwoNets
) -> None:
    """Another machine that routes to the pool, and the host: neither meets the sockets that instances have to the server."""
    from helpers.runtime import find

    async def test() -> None:
        async with runner(directory, str(find("runc")), images, network=network()) as r:
            one = await r.start(spec("one"))
            await ready(one)
            address, sockets = await r.doors()
            places = [
                f"{address}:{port}" for port in (80, 53, *(sock.getsockname()[1] for sock in sockets[:2]))
            ]
            outside = ["nsenter", f"--net=/proc/{nets.outside.pid}/ns/net"]
            shell(*outside, "ip", "route", "add", "10.192.0.0/12", "via", HOST)
            everywhere = [*places, f"{one.address}:8080", f"{HOST}:{nets.host.port}"]
            assert shell(*outside, sys.executable, "-c", CONNECT, *everywhere) == f"{HOST}:{nets.host.port}\n"
            assert shell(sys.executable, "-c", CONNECT, *places) == ""
            # An instance does, by two ports; the other end has not accepted, but the kernel has.
            for port, answer in ((80, True), (53, True), (sockets[0].getsockname()[1], False)):
                with inside(one, socket.AF_INET, socket.SOCK_STREAM) as sock:
                    sock.settimeout(0.5)
                    assert (sock.connect_ex((address, port)) == 0) is answer
            for sock in sockets:
                sock.close()

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_connections_of_an_instance_are_bounded(directory: Path, images: Path, nets: TwoNets) -> None:
    """An instance that opens more connections than it may have takes no more of the host's table, and nothing from its neighbour."""
    from helpers.runtime import find

    async def test() -> None:
        async with runner(directory, str(find("runc")), images, network=network(f"{HOST}/32", flows=5)) as r:
            one, two = [await r.start(spec(id)) for id in ("one", "two")]
            Path("/proc/sys/net/netfilter/nf_conntrack_udp_timeout").write_text("1")
            before = entries()
            for instance, number in ((one, 30), (two, 1)):
                for place in range(number):
                    with inside(instance, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                        target = HOST if place % 2 else OUTSIDE  # what --network-allow opens counts, too
                        sock.sendto(instance.address.encode(), (target, nets.outside.port))
            assert entries() - before <= 6
            assert [nets.outside.lines.readline().split()[0] for _ in range(4)] == [one.address] * 3 + [
                two.address
            ]

            def again() -> bool:
                with inside(one, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.sendto(b"again", (OUTSIDE, nets.outside.port))
                return bool(select.select([nets.outside.lines], [], [], 0.1)[0])

            await until(again, "connections that are over give their place back")

    run(test)


def entries() -> int:
    """Entries of the connection tracking table of this thread's network namespace."""
    return int(Path("/proc/sys/net/netfilter/nf_conntrack_count").read_text())


def inside(instance: Instance, *words: int) -> socket.socket:
    """A socket in an instance's network namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(instance.netns, CLONE_NEWNET)
        try:
            return socket.socket(*words)
        finally:
            setns(own, CLONE_NEWNET)
    finally:
        os.close(own)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_a_program_sends_such_frames(directory: Path, runtime: str, images: Path, nets: TwoNets) -> None:
    """The same by a payload: root of a container has CAP_NET_RAW, another user has not."""

    async def test() -> None:
        async with runner(directory, runtime, images, network=network()) as r:
            with socket.socket(type=socket.SOCK_DGRAM) as host:
                host.setblocking(False)
                host.bind((HOST, 0))
                for uid, expected in ((0, None), (1000, f"-{errno.EPERM}")):
                    context = {"runAsUser": uid}
                    one = await r.start(spec(f"u{uid}", container={"securityContext": context}))
                    await ready(one)
                    own = (firewall.mac(ipaddress.IPv4Address(one.address)), one.address)
                    data = frame(own, (f"{LINK_LOCAL}0e", HOST), host.getsockname()[1], b"to the host")
                    assert await get(one, f"/frame/{data.hex()}") == (expected or str(len(data)))
                    assert await connect(one, OUTSIDE, nets.outside.port) == f"{HOST} from {one.address}"
                with pytest.raises(BlockingIOError):
                    host.recv(100)

    run(test)


@contextmanager
def raw_inside(instance: Instance) -> Iterator[socket.socket]:
    """A packet socket on an instance's interface, as a program with CAP_NET_RAW has one; it sees what arrives."""
    with inside(instance, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:  # ETH_P_ALL
        raw.bind(("eth0", 3))
        raw.settimeout(2)
        yield raw


def seen(raw: socket.socket, wanted: bytes, none_of: tuple[bytes, ...] = ()) -> bool:
    """Whether a frame with some bytes arrives within 2 s. Asserts that none of the others comes before it."""
    try:
        while True:
            data, address = raw.recvfrom(2048)
            if address[2] == socket.PACKET_OUTGOING:
                continue
            assert not any(word in data for word in none_of), data
            if wanted in data:
                return True
    except TimeoutError:
        return False


def dhcp_offer(source: tuple[str, str], target: str) -> bytes:
    """A DHCP offer (RFC 2131) under the sender's own address."""
    reply = bytes([2, 1, 6, 0]) + bytes(232) + b"\x63\x82\x53\x63\x35\x01\x02\xff"
    return frame(source, (target, "255.255.255.255"), 68, reply)


def router_advertisement(source: str, target: str) -> bytes:
    """An IPv6 router advertisement (RFC 4861), of which a receiver would make a default route."""
    head = b"\x60" + bytes(3) + struct.pack("!HBB", 16, 58, 255) + bytes.fromhex("fe80" + "00" * 13 + "01")
    return (
        bytes.fromhex((target + source).replace(":", "")) + b"\x86\xdd" + head + bytes.fromhex("ff02" + "00" * 13 + "01")
        + bytes([134, 0, 0, 0, 64, 0, 7, 8]) + bytes(8)
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_a_killed_worker_leaves_no_network(
    directory: Path, runtime: str, images: Path, nets: TwoNets
) -> None:
    """SIGKILL of the worker: the next one has the same addresses to give, and one that gives none leaves no trace."""

    async def test() -> None:
        for after in (network(), None):
            async with runner(directory, runtime, images, keep=True, network=network()) as r:
                instance = await r.start(spec("orphan"))
                await ready(instance)
                before = instance.address
                container = instance.pids["user-container"]
                pid = (await r.worker.call("hello"))[0]["pid"]
                os.kill(pid, signal.SIGKILL)
                await until(lambda pid=pid: ended(pid), "the worker's end")
            assert left()
            async with runner(directory, runtime, images, network=after) as r:
                await until(lambda pid=container: ended(pid), "the orphan's end")
                if after is None:
                    assert left() == [] and not (directory / "network.json").exists()
                else:
                    again = await r.start(spec("again"))
                    await ready(again)
                    assert again.address == before
                    assert await connect(again, OUTSIDE, nets.outside.port) == f"{HOST} from {before}"
            assert left() == []

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_another_network_is_another_worker(directory: Path, images: Path, nets: TwoNets) -> None:
    """A server that starts with another option does not keep the instances of the old one."""
    from helpers.runtime import find

    async def test() -> None:
        runtime = str(find("runc"))
        async with runner(directory, runtime, images, keep=True) as r:
            await r.start(spec("old"))
        async with runner(directory, runtime, images, network=network()) as r:
            assert r.found == []  # type: ignore[attr-defined]
            new = await r.start(spec("new"))
            await ready(new)
            assert await connect(new, OUTSIDE, nets.outside.port) == f"{HOST} from {new.address}"

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_pools(tmp_path: Path, directory: Path, images: Path, nets: TwoNets) -> None:
    """Two servers have two pools; one that is taken, or too small for one more instance, is an error and leaves nothing."""
    from helpers.runtime import find

    async def test() -> None:
        runtime = str(find("runc"))
        async with runner(directory, runtime, images, network=network()) as r:
            one = await r.start(spec("one"))
            async with runner(
                tmp_path / "second", runtime, images, network=network(pool="10.77.0.0/29")
            ) as other:
                made = [await other.start(spec(f"i{number}")) for number in range(5)]
                assert [instance.address for instance in made] == [f"10.77.0.{n}" for n in range(2, 7)]
                with pytest.raises(KrunError, match="all 5 addresses are in use"):
                    await other.start(spec("more"))
            taken = str(ipaddress.IPv4Network(f"{one.address}/24", strict=False))
            with pytest.raises(KrunError, match="the host has a network or route"):
                async with runner(tmp_path / "third", runtime, images, network=network(pool=taken)):
                    pass
            assert (
                len([word for word in left() if word.startswith("krun")]) == 4
            )  # link twice named, 2 tables

    run(test)


@pytest.mark.parametrize(
    ("wanted", "kept", "taken", "expected"),
    [
        (None, None, [], "10.192.0.0/22"),
        (None, None, ["0.0.0.0/0", "10.192.0.0/16"], "10.193.0.0/22"),
        (None, "10.200.4.0/22", [], "10.200.4.0/22"),
        (None, "10.200.4.0/22", ["10.200.5.0/24"], "10.192.0.0/22"),
        ("192.168.7.0/24", "10.200.4.0/22", [], "192.168.7.0/24"),
    ],
)
def test_choice_of_a_pool(wanted: str | None, kept: str | None, taken: list[str], expected: str) -> None:
    assert str(pool.choose(wanted, kept, [ipaddress.IPv4Network(text) for text in taken])) == expected


@pytest.mark.parametrize("text", ["", "x", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/8", "10.0.0.0/30", "8.8.8.0/24", "127.0.0.0/24",
                                  "169.254.0.0/24", "fd00::/64", "10.0.0.0/24; flush ruleset"])  # fmt: skip
def test_pools_that_are_refused(text: str) -> None:
    with pytest.raises(KrunError, match="^network pool"):
        pool.parse(text)


@pytest.mark.parametrize("text", ["", "hosts", "10.0.0.1/24", "::/0", "10.0.0.0/24 } accept"])
def test_openings_that_are_refused(text: str) -> None:
    with pytest.raises(KrunError, match="^--network-allow"):
        firewall.allowed(text)


def test_no_pool_is_left() -> None:
    with pytest.raises(KrunError, match="is taken on this host"):
        pool.choose(None, None, [ipaddress.IPv4Network("10.0.0.0/8")])


def test_a_kept_pool_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    assert pool.read(str(path)) is None
    pool.write(str(path), ipaddress.IPv4Network("10.1.0.0/24"))
    assert pool.read(str(path)) == "10.1.0.0/24"
    for text in ("", "[]", "{}", "1"):
        path.write_text(text)
        with pytest.raises(KrunError, match=r"network\.json.*remove it"):
            pool.read(str(path))


def test_addresses_are_given_out_in_turn() -> None:
    own = pool.Pool(ipaddress.IPv4Network("10.0.0.0/29"))
    taken = [own.take() for _ in range(4)]
    own.give(taken[0])
    assert [own.take(), own.take()] == [6, 2]


def test_no_nft(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(firewall, "_PATH", str(tmp_path))
    with pytest.raises(KrunError, match="there is no command nft; install the package nftables"):
        firewall.load("")


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_rules_that_the_kernel_refuses(nets: TwoNets) -> None:
    with pytest.raises(KrunError, match="the kernel needs nf_tables"):
        firewall.load("delete table inet krunabsent\n")
    assert left() == []
