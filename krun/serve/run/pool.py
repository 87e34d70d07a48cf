"""The IPv4 addresses of the instances: which network is theirs, and which address is free.

The network is chosen once for a data directory and kept in DIRECTORY/network.json, so that an administrator's firewall and logs
know it; the first address is the bridge's. Addresses of instances are the worker's only, and end with it.
"""

import ipaddress
import json
import os
import threading
from collections.abc import Iterable

from krun.errors import KrunError

# 10.192.0.0/12 lies outside of the defaults of docker (172.17-31), podman (10.88), flannel (10.244), k3s (10.42) and kind.
_CANDIDATES = ipaddress.IPv4Network("10.192.0.0/12")
_PREFIX = 22  # of a network that is chosen here: 1021 instances
_SMALLEST, _LARGEST = 29, 20


def parse(text: str) -> ipaddress.IPv4Network:
    """Return the network that an operator names. Raises KrunError."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise KrunError(f"network pool {text}: {error}") from None
    if not _LARGEST <= network.prefixlen <= _SMALLEST:
        raise KrunError(f"network pool {text}: a network of /{_LARGEST} to /{_SMALLEST} is wanted")
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise KrunError(
            f"network pool {text}: a private network is wanted (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16)"
        )
    return network


def choose(
    wanted: "str | None", kept: "str | None", taken: Iterable[ipaddress.IPv4Network]
) -> ipaddress.IPv4Network:
    """Choose the network of a data directory.

    Arguments: wanted, by the operator; kept, the one of an earlier start; taken, the host's networks and routes. Raises KrunError
    where the operator's is taken, or none is free.
    """
    taken = [network for network in taken if network.prefixlen]  # the default route takes nothing
    if wanted:
        own = parse(wanted)
        for other in taken:
            if own.overlaps(other):
                raise KrunError(
                    f"network pool {own}: the host has a network or route {other}; give another one by --network-pool"
                )
        return own
    candidates = [parse(kept)] if kept else []
    for own in [*candidates, *_CANDIDATES.subnets(new_prefix=_PREFIX)]:
        if not any(own.overlaps(other) for other in taken):
            return own
    raise KrunError(
        f"network pool: each network of {_CANDIDATES} is taken on this host; give one by --network-pool"
    )


def read(path: str) -> "str | None":
    """Return the network of an earlier start, None where there is none. Raises KrunError for a file that is none of ours."""
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)["pool"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise KrunError(f"read {path}: {error}; remove it, and another network is chosen") from None
    return str(parse(str(kept)))


def _kept(path: str) -> "str | None":
    try:
        return read(path)
    except KrunError:
        return None


def write(path: str, network: ipaddress.IPv4Network) -> None:
    """Keep the network for later starts. Raises OSError, never where it is kept already: a full disk ends no worker."""
    if _kept(path) == str(network):
        return
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"pool": str(network)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


class Pool:
    """The addresses of a network. An address that is given back is given out last, so that a late answer to a connection of its
    former instance meets nobody.
    """

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self.network = network
        self._free = dict.fromkeys(range(2, network.num_addresses - 1))
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return the number of a free address in the network. Raises KrunError."""
        with self._lock:
            for number in self._free:
                del self._free[number]
                return number
        raise KrunError(
            f"network pool {self.network}: all {self.network.num_addresses - 3} addresses are in use;"
            " a larger one can be given by --network-pool"
        )

    def give(self, number: int) -> None:
        """Give an address back."""
        with self._lock:
            self._free[number] = None
