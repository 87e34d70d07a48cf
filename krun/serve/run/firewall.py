"""The rules of an outbound network, as one ruleset of nft(8) that is loaded in one transaction.

Instances are hostile. The rules say, in the order in which a packet meets them:
1 a frame that leaves an instance has the instance's own hardware and IPv4 address, else it is dropped (no spoofing, no poisoned
  ARP, no IPv6); the set of pairs is made for the whole pool at once, so that a start changes no rule; it asks by ARP for the front's
  address only, because the host answers for each address that it has (arp_ignore); a frame to one of a bridge's own groups (STP,
  802.1X, LLDP) is dropped: it passes by the chain `leaving`, and reaches the host as a packet of the port, of which the rules below
  know nothing (Linux: br_handle_frame);
2 no frame goes from one port of the bridge to another;
3 the front's address has two ports: 80, the services, and 53, their names, which lead to the server's sockets (doors.py); questions of
  one instance beyond a rate are dropped here, before they cost the server anything; the sockets are for instances only: to the
  kernel a connection of the host's own to that address comes from the bridge, too (Linux: rt_iif of ip_route_output_key_hash_rcu);
4 no packet goes to an address of the host, before an engine's DNAT would make a container's of it, nor to METADATA, wherever the
  host's routes lead;
5 an instance has a bounded number of entries in the host's connection tracking table, which is one for all;
6 nothing is forwarded to an instance except answers; nothing to METADATA, after a DNAT of the host's;
7 the rest leaves with the host's address.
Each of 1 (ARP), 2, 4 and 6 gives way to what the operator has allowed.
"""

import ipaddress
import subprocess

from krun.errors import KrunError

HOST, INSTANCES = "host", "instances"  # the words of --network-allow beside networks
_SECONDS = 30.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Where clouds keep a machine's credentials and data. Those of IPv6 (fd00:ec2::254, fd20:ce::254) need no row: IPv6 is dropped.
METADATA = (
    "169.254.0.0/16",  # link-local as a whole: AWS, Google, Azure, Oracle, OpenStack (.169.254), ECS and EKS (.170.2, .170.23)
    "100.100.100.200",  # Alibaba
    "168.63.129.16",  # Azure: host agent and name server
    "192.0.0.192",  # Oracle Cloud Classic
)
FLOWS = 4096  # connections of an instance in the host's table
_TABLE = "/proc/sys/net/netfilter/nf_conntrack_max"
_RATE = 500  # questions of an instance to the name server in a second, by datagrams
_PART = 8  # one instance takes this part of the host's table at most
_GROUPS = "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00"  # a bridge's own: IEEE 802.1Q, table 8-1


def allowed(entry: str) -> str:
    """Return a value of --network-allow as `ruleset` takes it. Raises KrunError."""
    if entry in (HOST, INSTANCES):
        return entry
    try:
        return str(ipaddress.IPv4Network(entry))
    except ValueError as error:
        raise KrunError(
            f"--network-allow {entry}: {HOST}, {INSTANCES} or an IPv4 network is wanted: {error}"
        ) from None


def mac(address: ipaddress.IPv4Address) -> str:
    """Return the hardware address of an instance's interface: locally administered, made from its IPv4 address."""
    return "02:4b:" + ":".join(f"{byte:02x}" for byte in address.packed)


def flows_of_host() -> int:
    """Return the bound of an instance's connections where the operator names none: FLOWS, on a small host less."""
    try:
        with open(_TABLE) as file:
            return min(FLOWS, max(1, int(file.read()) // _PART))
    except (OSError, ValueError):
        return FLOWS  # the table comes with the rules, and has the kernel's default size


def ruleset(
    bridge: str,
    ports: str,
    pool: ipaddress.IPv4Network,
    allow: "list[str]",
    flows: int,
    doors: "tuple[int, int, int]",
) -> str:
    """Return the rules of a network, as nft reads them: they replace those of the same bridge.

    Arguments: bridge, its name and the tables'; ports, the prefix of the names of its ports; pool; allow, HOST, INSTANCES and
    networks as text; flows, the connections that an instance may have at a time; doors, see Doors.ports.
    """
    frames = _of_frames(bridge, ports, pool, allow)
    return f"{remove(bridge)}{frames}{_of_packets(bridge, ports, pool, allow, flows, doors)}"


def _of_frames(bridge: str, ports: str, pool: ipaddress.IPv4Network, allow: "list[str]") -> str:
    """The rules 1 and 2."""
    members = ", ".join(
        f'"{ports}{number:x}" . {mac(pool[number])} . {pool[number]}'
        for number in range(2, pool.num_addresses - 1)
    )
    known = pool if INSTANCES in allow else pool[1]
    between = "" if INSTANCES in allow else f'iifname "{ports}*" drop'
    return f"""
table bridge {bridge} {{
  set members {{ type ifname . ether_addr . ipv4_addr; elements = {{ {members} }} }}
  chain leaving {{
    type filter hook prerouting priority -300; policy accept;
    iifname != "{ports}*" return
    {_GROUPS} drop
    arp operation request arp daddr ip != {known} drop
    iifname . ether saddr . ip saddr @members accept
    iifname . ether saddr . arp saddr ip @members iifname . arp saddr ether . arp saddr ip @members accept
    drop
  }}
  chain arriving {{
    type filter hook input priority -300; policy accept;
    iifname "{ports}*" {_GROUPS} drop
  }}
  chain between {{
    type filter hook forward priority 0; policy accept;
    {between}
  }}
}}
"""


def _of_packets(
    bridge: str,
    ports: str,
    pool: ipaddress.IPv4Network,
    allow: "list[str]",
    flows: int,
    doors: "tuple[int, int, int]",
) -> str:
    """The rules from 3 on."""
    networks = ", ".join(entry for entry in allow if entry not in (HOST, INSTANCES))
    open_ = f"ip daddr {{ {networks} }} accept" if networks else ""
    closed = (
        f"ip daddr {{ {', '.join(METADATA)} }} {f'ip daddr != {{ {networks} }} ' if networks else ''}drop"
    )
    http, streams, datagrams = doors
    front = f"ip daddr {pool[1]}"
    local = "" if HOST in allow else "fib daddr type { local, broadcast, multicast, anycast } drop"
    arriving = "" if HOST in allow else f'iifname "{bridge}" drop'
    across = "accept" if INSTANCES in allow else "drop"
    return f"""
table inet {bridge} {{
  set questions {{ type ipv4_addr; size {pool.num_addresses}; flags dynamic; }}
  set flows {{ type ipv4_addr; size {pool.num_addresses}; flags dynamic; }}
  chain leaving {{
    type filter hook prerouting priority -150; policy accept;
    iifname "{ports}*" drop
    iifname != "{bridge}" return
    {front} tcp dport {{ 80, 53 }} accept
    {front} udp dport 53 add @questions {{ ip saddr limit rate over {_RATE}/second burst {_RATE} packets }} drop
    {front} udp dport 53 accept
    {open_}
    {local}
    {closed}
  }}
  chain bounded {{
    type filter hook prerouting priority -149; policy accept;
    iifname "{bridge}" ct state new add @flows {{ ip saddr ct count over {flows} }} drop
  }}
  chain doors {{
    type nat hook prerouting priority -101; policy accept;
    iifname "{bridge}" {front} tcp dport 80 redirect to :{http}
    iifname "{bridge}" {front} tcp dport 53 redirect to :{streams}
    iifname "{bridge}" {front} udp dport 53 redirect to :{datagrams}
  }}
  chain arriving {{
    type filter hook input priority -10; policy accept;
    iifname != "{bridge}" {front} tcp dport {{ {http}, {streams} }} drop
    iifname != "{bridge}" {front} udp dport {datagrams} drop
    iifname != "{bridge}" return
    {front} tcp dport {{ {http}, {streams} }} accept
    {front} udp dport {datagrams} accept
    {open_}
    {arriving}
  }}
  chain across {{
    type filter hook forward priority -10; policy accept;
    iifname "{bridge}" {closed}
    iifname "{bridge}" oifname "{bridge}" {across}
    oifname "{bridge}" ct state established,related accept
    oifname "{bridge}" drop
  }}
  chain outward {{
    type nat hook postrouting priority 100; policy accept;
    ip saddr {pool} oifname != "{bridge}" masquerade
  }}
}}
"""


def remove(bridge: str) -> str:
    """Return what removes the rules of a bridge, whether they are there or not."""
    # `add` of a table that is there does nothing, and `delete` of one that is not there fails.
    return "".join(
        f"add table {kind} {bridge}\ndelete table {kind} {bridge}\n" for kind in ("bridge", "inet")
    )


def load(text: str) -> None:
    """Load rules: all or none. Raises KrunError with nft's first line."""
    try:
        done = subprocess.run(
            ["nft", "-f", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise KrunError(
            "load the rules of the instances' network: there is no command nft; install the package nftables, or use --network none"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KrunError(f"load the rules of the instances' network: nft: {error}") from None
    if done.returncode:
        line = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise KrunError(
            f"load the rules of the instances' network: nft: {line}; the kernel needs nf_tables (bridge, inet), nft_fib,"
            " nft_masq, nft_redir, nft_ct, nft_limit and nft_connlimit, or use --network none"
        )
