"""Hosts: from a request's authority to a revision's queue."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from krun.serve.proxy.queue import RevisionQueue


@dataclass(frozen=True, slots=True)
class Target:
    """A share of the traffic.  `tag` is that of the traffic target, "" for none."""

    queue: RevisionQueue
    weight: int = 100
    tag: str = ""


@dataclass(frozen=True, slots=True)
class HostRoute:
    """What a host leads to."""

    targets: tuple[Target, ...]
    #: Tag -> target, for the header Knative-Serving-Tag (feature tag-header-based-routing); empty while the feature is off.
    tags: dict[str, Target] = field(default_factory=dict)
    #: Answer 301 to https on a listener without TLS.
    redirect_https: bool = False
    #: "external", or "cluster-local": served on local listeners only.
    visibility: str = "external"
    namespace: str = ""
    service: str = ""
    route: str = ""
    #: The tag of a tag host, for logs.
    tag: str = ""
    _sums: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sums", tuple(accumulate(max(0, t.weight) for t in self.targets)))

    def choose(self) -> Target | None:
        """A target by chance, with the weights; None if no target has traffic."""
        targets = self.targets
        if len(targets) == 1:
            return targets[0]
        if not self._sums or not self._sums[-1]:
            return None
        return targets[bisect_right(self._sums, random.random() * self._sums[-1])]


class HostTable:
    """All hosts.  Replaced as a whole: a request sees the old table or the new one."""

    def __init__(self) -> None:
        self._hosts: dict[bytes, HostRoute] = {}

    def replace(self, hosts: dict[str, HostRoute]) -> None:
        """Sets the table; hosts are lower case, without a port."""
        self._hosts = {host.encode("ascii"): route for host, route in hosts.items()}

    def lookup(self, authority: bytes) -> HostRoute | None:
        """The route of an authority (host and port, any case), or None."""
        route = self._hosts.get(authority)
        if route is None:
            host = authority.lower()
            if host[-1:] != b"]":
                name, colon, port = host.rpartition(b":")
                if colon and (port.isdigit() or not port):
                    host = name
            # A fully qualified name may end with a dot.
            route = self._hosts.get(host) or self._hosts.get(host.removesuffix(b"."))
        return route

    def __len__(self) -> int:
        return len(self._hosts)
