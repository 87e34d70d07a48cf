"""The instances' way out: a bridge for each data directory, a veth pair for each instance, rules (firewall.py), forwarding, and the
sockets by which they reach the server (doors.py).

Inbound requests do not come this way (network.py), so nothing outside has to know an address. The names of bridge and ports come
from the data directory: the next worker finds and removes what a worker left that was killed. A pair ends with its instance's
network namespace, too.
"""

import errno
import fcntl
import hashlib
import ipaddress
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from krun.errors import KrunError, strerror
from krun.serve.run import conntrack, firewall, pool
from krun.serve.run.doors import Doors
from krun.sysio import CLONE_NEWNET, setns

_LOCK = "/run/krun-serve-network.lock"  # two servers that start at once choose two pools
_NUD_NOARP, _NTF_MASTER = 0x40, 4  # `bridge fdb add ... master static`
_GONE = (errno.ENODEV, errno.ENOENT)
_FORWARD = "/proc/sys/net/ipv4/ip_forward"


class Attachment(NamedTuple):
    """An instance's place in the network: its number in the pool, its address."""

    number: int
    address: str


class Bridge:
    """The network of a worker. Arguments: directory of the data; wanted, the pool that the operator names, or None; allow and flows,
    see firewall.ruleset. Raises KrunError, OSError; nothing is left then.
    """

    def __init__(
        self, directory: str, wanted: "str | None", allow: "list[str]", flows: "int | None" = None
    ) -> None:
        self.name, self.ports = _names(directory)
        kept = os.path.join(directory, "network.json")
        lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _remove(self.name, self.ports)
            network = pool.choose(wanted, pool.read(kept), _taken())
            pool.write(kept, network)
            conntrack.forget(network)
            self._make(network, allow, flows or firewall.flows_of_host())
        finally:
            os.close(lock)
        self.pool = pool.Pool(network)
        self._isolated = int(firewall.INSTANCES not in allow)

    def _make(self, network: ipaddress.IPv4Network, allow: "list[str]", flows: int) -> None:
        """Make bridge and rules. The rules come first: the bridge never forwards without them. The sockets come before the rules,
        which have their ports.
        """
        self.doors = Doors(str(network[1]))
        try:
            firewall.load(firewall.ruleset(self.name, self.ports, network, allow, flows, self.doors.ports))
            with _routes(f"make bridge {self.name}") as netlink:
                # An address of its own: else the bridge takes the least one of its ports, and changes it with them.
                netlink.link(
                    "add",
                    ifname=self.name,
                    kind="bridge",
                    address=firewall.mac(network[1]),
                    br_mcast_snooping=0,
                    br_stp_state=0,
                    br_group_fwd_mask=0,
                )
                index = netlink.link_lookup(ifname=self.name)[0]
                _no_ipv6(self.name)
                netlink.addr("add", index=index, address=str(network[1]), prefixlen=network.prefixlen)
                self.doors.open(self.name)
                netlink.link("set", index=index, state="up")
            _forward()
        except BaseException:
            try:
                self.remove()
            except KrunError:
                pass  # the next worker tries again; the first error is the cause
            raise

    def attach(self, netns: int) -> Attachment:
        """Give an instance's network namespace an interface eth0 with an address and a default route. Raises KrunError, OSError."""
        network = self.pool.network
        number = self.pool.take()
        try:
            address = network[number]
            port = f"{self.ports}{number:x}"
            with _routes(f"make interface {port}") as netlink:
                bridge = netlink.link_lookup(ifname=self.name)
                if not bridge:
                    raise KrunError(f"make interface {port}: the bridge {self.name} has been removed")
                _unplug(netlink, port)
                peer = {"ifname": "eth0", "net_ns_fd": netns, "address": firewall.mac(address)}
                netlink.link("add", ifname=port, kind="veth", peer=peer)
                index = netlink.link_lookup(ifname=port)[0]
                _no_ipv6(port)
                netlink.link("set", index=index, master=bridge[0])
                self._bind(netlink, index, firewall.mac(address))
                netlink.link("set", index=index, state="up")
            _inside(netns, lambda: _configure(network, address))
        except BaseException:
            try:
                self.detach(number)
            except KrunError:
                pass  # the number stays taken; the first error is the cause
            raise
        return Attachment(number, str(address))

    def _bind(self, netlink: Any, index: int, hardware: str) -> None:
        """Tie a port to the address of its instance, before the port is up: the bridge learns no other from frames, which an instance
        could send under a neighbour's address, and sends it nothing that is for an unknown one.
        """
        netlink.brport("set", index=index, learning=0, unicast_flood=0, isolated=self._isolated)
        netlink.fdb("add", ifindex=index, lladdr=hardware, state=_NUD_NOARP, flags=_NTF_MASTER)

    def detach(self, number: int) -> None:
        """Remove an instance's interface, then what the host knows of its connections, and give its address back. Raises KrunError."""
        with _routes("remove an interface") as netlink:
            _unplug(netlink, f"{self.ports}{number:x}")
        conntrack.forget(ipaddress.IPv4Network(self.pool.network[number]))
        self.pool.give(number)

    def remove(self) -> None:
        """Remove bridge, ports, rules and sockets. Raises KrunError."""
        self.doors.close()
        _remove(self.name, self.ports)

    @staticmethod
    def clean(directory: str) -> None:
        """Remove the network that an earlier worker of a data directory left. Raises KrunError."""
        _remove(*_names(directory))


def _names(directory: str) -> "tuple[str, str]":
    """The name of a data directory's bridge, and the prefix of the names of its ports: at most 15 bytes with the number."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:6]
    return f"krun{digest}", f"kv{digest}-"


def _remove(bridge: str, ports: str) -> None:
    with _routes(f"remove bridge {bridge}") as netlink:
        for link in netlink.get_links():
            name = link.get_attr("IFLA_IFNAME") or ""
            if name.startswith(ports) or name == bridge:
                _unplug(netlink, name)
    firewall.load(firewall.remove(bridge))


def _unplug(netlink: Any, port: str) -> None:
    """Remove an interface if it is there. The kernel removes a namespace's interfaces some time after its last process."""
    from pyroute2.netlink.exceptions import NetlinkError

    for index in netlink.link_lookup(ifname=port):
        try:
            netlink.link("del", index=index)
        except NetlinkError as error:
            if error.code not in _GONE:
                raise


class _routes:
    """A route netlink socket of the calling thread's network namespace; errors become KrunError. Argument: what is attempted."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> Any:
        try:
            from pyroute2 import IPRoute
        except ImportError as error:
            raise KrunError(f"{self._doing}: {error}; install the Python package pyroute2") from None
        self._netlink = IPRoute()
        return self._netlink

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from pyroute2.netlink.exceptions import NetlinkError

        self._netlink.close()
        if isinstance(error, NetlinkError):
            remedy = (
                "; the kernel needs the modules bridge and veth, or use --network none"
                if error.code == errno.EOPNOTSUPP
                else ""
            )
            raise KrunError(f"{self._doing}: {strerror(error.code)}{remedy}") from None


def _taken() -> "list[ipaddress.IPv4Network]":
    """The networks that the host reaches by a route of its own, all tables."""
    found = []
    with _routes("list the host's routes") as netlink:
        for route in netlink.get_routes(family=2):
            destination = route.get_attr("RTA_DST")
            if destination and route["type"] in (1, 2):  # RTN_UNICAST, RTN_LOCAL
                found.append(ipaddress.IPv4Network(f"{destination}/{route['dst_len']}", strict=False))
    return found


def _configure(network: ipaddress.IPv4Network, address: ipaddress.IPv4Address) -> None:
    """Set eth0 up; the calling thread is in the instance's network namespace."""
    _no_ipv6("eth0")
    with _routes("set up eth0") as netlink:
        index = netlink.link_lookup(ifname="eth0")[0]
        netlink.addr("add", index=index, address=str(address), prefixlen=network.prefixlen)
        netlink.link("set", index=index, state="up")
        netlink.route("add", dst="default", gateway=str(network[1]), oif=index)


def _inside(netns: int, call: Callable[[], None]) -> None:
    """Run a call in a network namespace: in a thread that ends with it. Raises what the call raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            setns(netns, CLONE_NEWNET, "network namespace of an instance")
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _no_ipv6(interface: str) -> None:
    """Keep IPv6 off an interface of this thread's namespace; the bridge drops it anyway."""
    try:
        with open(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6", "w") as file:
            file.write("1")
    except OSError:
        pass  # a kernel without IPv6, or a read-only /proc/sys


def _forward() -> None:
    """Have the kernel forward IPv4. Raises KrunError."""
    try:
        with open(_FORWARD) as file:
            if file.read().strip() == "1":
                return
        with open(_FORWARD, "w") as file:
            file.write("1")
    except OSError as error:
        raise KrunError(
            f"turn on forwarding: write {_FORWARD}: {error.strerror}; set net.ipv4.ip_forward=1 by sysctl"
        ) from None
