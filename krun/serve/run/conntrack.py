"""The host's table of connections (nf_conntrack), as far as instances have filled it.

An entry outlives its instance: for seconds or minutes, an established connection's for days. Whoever has the address afterwards would
have the entry, too: what it sends from the same port goes where a door of an earlier worker was, and is dropped; the entries
count as its own connections (firewall.py: rule 5). So they are removed with the instance; those of a worker that died, before the
next network is made.
"""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator

from krun.errors import KrunError

# linux/netfilter/nfnetlink.h, nfnetlink_conntrack.h
_NETLINK_NETFILTER = 12
_GET, _DELETE = 0x101, 0x102  # NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_*
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_TUPLE, _ID, _ZONE, _FILTER = 1, 12, 18, 25
_IP, _SOURCE = 1, 1
_NESTED, _KIND = 0x8000, 0x3FFF  # NLA_F_NESTED, NLA_TYPE_MASK
_FILTER_ORIGINAL, _BY_SOURCE = 1, struct.pack("=I", 1)
_HEAD = struct.Struct("=IHHII")
_FAMILY = struct.pack("=BBH", socket.AF_INET, 0, 0)
_SECONDS = 5
_BUFFER = 1 << 16
#: The kernel has no such table, or does not show it (CONFIG_NF_CT_NETLINK).
_NO_TABLE = (errno.EOPNOTSUPP, errno.EINVAL, errno.EPROTONOSUPPORT)


def forget(network: ipaddress.IPv4Network) -> int:
    """Remove the entries of connections that came from a network, or from one address (/32). Returns their number. Raises KrunError.

    Nothing may come from there any more, else an entry may come back.
    """
    try:
        with socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER
        ) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SECONDS, 0))
            sock.bind((0, 0))
            found = list(_entries(sock, network))
            for entry in found:
                sock.send(
                    _message(_DELETE, _REQUEST, entry)
                )  # one that has just ended by itself is an error that nobody reads
    except OSError as error:
        if error.errno in _NO_TABLE:
            return 0
        raise KrunError(f"forget the connections of {network}: {os.strerror(error.errno or 0)}") from None
    return len(found)


def _entries(sock: socket.socket, network: ipaddress.IPv4Network) -> Iterator[bytes]:
    """What names each entry, as attributes. The kernel chooses those of one address; one before 5.8 sends all."""
    wanted = b""
    if network.prefixlen == 32:
        source = _attribute(_SOURCE, network.network_address.packed)
        wanted = _attribute(_TUPLE | _NESTED, _attribute(_IP | _NESTED, source))
        wanted += _attribute(_FILTER | _NESTED, _attribute(_FILTER_ORIGINAL, _BY_SOURCE))
    sock.send(_message(_GET, _REQUEST | _DUMP, wanted))
    while True:
        data = sock.recv(_BUFFER)
        while data:
            length, kind, *_ = _HEAD.unpack_from(data)
            body, data = data[_HEAD.size : length], data[_aligned(length) :]
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", body)[0], "")
            parts = _attributes(body[len(_FAMILY) :])
            source = _attributes(_attributes(parts.get(_TUPLE, b"")).get(_IP, b"")).get(_SOURCE, b"")
            if len(source) == 4 and ipaddress.IPv4Address(source) in network:
                rest = (_attribute(key, parts[key]) for key in (_ID, _ZONE) if key in parts)
                yield _attribute(_TUPLE | _NESTED, parts[_TUPLE]) + b"".join(rest)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _attributes(data: bytes) -> "dict[int, bytes]":
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & _KIND] = data[4:length]
        data = data[_aligned(max(length, 4)) :]
    return found


def _attribute(kind: int, content: bytes) -> bytes:
    length = 4 + len(content)
    return struct.pack("=HH", length, kind) + content + bytes(_aligned(length) - length)


def _message(kind: int, flags: int, content: bytes) -> bytes:
    body = _FAMILY + content
    return _HEAD.pack(_HEAD.size + len(body), kind, flags, 0, 0) + body
