"""The zone of the services: which names there are below cluster.local, and what is said of them.

A name of a Route or of one of its tags has one address, that of the instances' front. The names are those that Kubernetes gives to
Services (Kubernetes DNS-Based Service Discovery, section 2.3). Names outside of the zone are not this file's.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable

from krun.serve.names.message import ANY, NOERROR, NXDOMAIN, SOA, A, Query, answer, record, wire

DOMAIN = "cluster.local"
#: Seconds that a resolver may keep an answer, also one that says that there is no such name: CoreDNS' for Kubernetes.
_SECONDS = 5
_SVC = b"svc"


def search(namespace: str) -> list[str]:
    """Return the search domains of a namespace's instances, as the kubelet sets them for dnsPolicy ClusterFirst."""
    return [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]


class Zone:
    """Arguments: known, whether a host (lower case) is a service's; address of the front."""

    def __init__(self, known: Callable[[bytes], bool], address: str) -> None:
        self._known = known
        self._address = ipaddress.IPv4Address(address).packed
        self._apex = tuple(DOMAIN.encode().split(b"."))
        # The owner is written out: the question's name may lie anywhere below.
        times = struct.pack("!5I", 1, 7200, 1800, 86400, _SECONDS)
        self._soa_content = wire(f"ns.dns.{DOMAIN}") + wire(f"hostmaster.{DOMAIN}") + times
        self._soa = record(SOA, _SECONDS, self._soa_content, wire(DOMAIN))

    def answer(self, query: Query) -> bytes | None:
        """Return the answer, or None for a name outside of the zone."""
        depth = len(self._apex)
        if query.name[-depth:] != self._apex:
            return None
        left = query.name[:-depth]
        if not left and query.kind in (SOA, ANY):
            return answer(query, NOERROR, (self._soa,))
        if not self._exists(left):
            return answer(query, NXDOMAIN, (), (self._soa,))
        if len(left) < 3 or query.kind not in (A, ANY):
            return answer(query, NOERROR, (), (self._soa,))
        return answer(query, NOERROR, (record(A, _SECONDS, self._address),))

    def _exists(self, left: tuple[bytes, ...]) -> bool:
        """Whether a name, without the domain, is a service's or stands above services'. Each namespace counts as one that has services."""
        if not left:
            return True
        if left[-1] != _SVC or len(left) > 3:
            return False
        if len(left) < 3:
            return True
        # A label may have a dot in it, with which it would read as two.
        return not any(b"." in label for label in left) and self._known(b".".join((*left, *self._apex)))
