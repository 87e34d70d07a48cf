"""linux.netDevices: moves network interfaces of the host into the container (config-linux.md 1.3, "Network
Devices").

Its import takes 80-104 ms, so it happens only if a configuration has the field.
"""

import os

from krun.errors import ConfigError, KrunError, SysError, strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IFNAMSIZ = 16  # linux/if.h, with the final NUL
_IFA_F_PERMANENT = 0x80
_SCOPE_GLOBAL = 0  # RT_SCOPE_UNIVERSE


def check_name(name: str, pointer: str) -> None:
    """Refuse an interface name that the kernel refuses (dev_valid_name). Errors: ConfigError."""
    if (
        not name
        or len(name.encode("utf-8", "surrogateescape")) >= _IFNAMSIZ
        or name in (".", "..")
        or any(char in "/:" or char.isspace() for char in name)
    ):
        raise ConfigError(pointer, f"{name!r} is no name of a network interface")


def move_devices(devices: "dict[str, Any]", pid: int) -> None:
    """Move each interface into the network namespace of a process, with its permanent global addresses, and
    set it up.

    Arguments: devices, linux.netDevices: name on the host to {name?: name in the container}; pid, a process
    in there. An interface is not moved back after an error, and not on delete (the specification forbids it).
    Errors: ConfigError for a bad name, KrunError for an interface that is not there, is in use by name, or
    refuses.
    """
    if not devices:
        return
    for name, device in devices.items():
        check_name(name, f"/linux/netDevices/{name}")
        if (device or {}).get("name"):
            check_name(device["name"], f"/linux/netDevices/{name}/name")
    try:
        from pyroute2 import IPRoute, NetNS
        from pyroute2.netlink.exceptions import NetlinkError
    except ImportError as error:
        raise KrunError(f"move network devices: {error}; install the Python package pyroute2") from None
    path = f"/proc/{pid}/ns/net"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SysError.of("open network namespace", error, path) from None
    try:
        with IPRoute() as host, NetNS(path, flags=0) as inside:
            for name, device in devices.items():
                try:
                    _move(host, inside, fd, name, (device or {}).get("name") or name)
                except NetlinkError as error:
                    raise KrunError(f"move network device {name}: {strerror(error.code)}") from None
    finally:
        os.close(fd)


def _move(host: "Any", inside: "Any", fd: int, name: str, new_name: str) -> None:
    found = host.link_lookup(ifname=name)
    if not found:
        raise KrunError(f"move network device {name}: no such interface on the host")
    index = found[0]
    addresses = [
        message
        for message in host.get_addr(index=index)
        if message["scope"] == _SCOPE_GLOBAL and (_flags(message) & _IFA_F_PERMANENT)
    ]
    if "%d" not in new_name and inside.link_lookup(ifname=new_name):
        raise KrunError(f"move network device {name}: the container has an interface {new_name} already")
    # Down first: some drivers refuse a new name while up, and the addresses go with the move.
    host.link("set", index=index, state="down")
    # One request moves and renames, so a clash cannot leave it in there under the old name.
    host.link("set", index=index, net_ns_fd=fd, ifname=new_name)
    there = inside.link_lookup(ifname=new_name)
    if not there and "%d" in new_name:
        there = [
            link["index"]
            for link in inside.get_links()
            if link.get_attr("IFLA_IFNAME", "").startswith(new_name.split("%d")[0])
        ][-1:]
    if not there:
        raise KrunError(f"move network device {name}: it did not arrive as {new_name}")
    for message in addresses:
        inside.addr(
            "add",
            index=there[0],
            address=message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS"),
            prefixlen=message["prefixlen"],
            family=message["family"],
        )
    inside.link("set", index=there[0], state="up")


def _flags(message: "Any") -> int:
    return int(message.get_attr("IFA_FLAGS") or message["flags"])
