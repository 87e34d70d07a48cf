"""Converts values of linux.resources to the text of files and to unit properties. Pure: no system call, no state.

A conversion takes (value, section): the value itself and the object of linux.resources that holds it. It returns the text
to write, or None if nothing is to be written. Errors: KrunError for an impossible value.
"""

from krun.errors import KrunError
from krun.oci.cgroup.files import UNLIMITED, cpu_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Conversion = Callable[[Any, Any], str | int | bytes | None]


def plain(value: "Any", _section: "Any") -> "Any":
    """The value as it is."""
    return value


def one(value: "Any", _section: "Any") -> int:
    """A true value as 1."""
    return int(bool(value))


def max_below_zero(value: int, _section: "Any" = None) -> str:
    """A number, "max" for a negative one."""
    return "max" if value < 0 else str(value)


def tasks_max(value: int, _section: "Any" = None) -> str:
    """A limit of processes for pids.max. 0 is 1: systemd refuses TasksMax=0, and neither has room for a second process."""
    return max_below_zero(value or 1)


def tasks(value: int, _section: "Any" = None) -> int:
    """The limit of tasks_max for TasksMax."""
    return infinity(value or 1)


def percent(value: int, _section: "Any") -> int:
    """v1's swappiness."""
    if not 0 <= value <= 100:
        raise KrunError(f"set memory swappiness {value}: use 0 to 100")
    return value


def cpu_weight(shares: int, _section: "Any" = None) -> int:
    """Return cpu.weight (1 to 10000) for v1 shares (2 to 262144).

    The curve meets (2, 1), (1024, 100) and (262144, 10000), the minimum, default and maximum of both sides;
    the straight line of older runtimes made the default 1024 a weight of 39. It is the one that runc and crun
    use.
    """
    from math import ceil, log2

    shares = min(max(shares, 2), 262144)
    if shares == 2:
        return 1
    if shares == 262144:
        return 10000
    bits = log2(shares)
    exponent = (bits * bits + 125 * bits) / 612.0 - 7.0 / 34.0
    return min(max(ceil(10**exponent), 1), 10000)


def io_weight(weight: int, _section: "Any" = None) -> int:
    """Return io.weight (1 to 10000) for v1's blkio.weight (10 to 1000)."""
    return 1 + (weight - 10) * 9999 // 990


def swap_max(swap: "int | None", memory: "dict[str, Any]") -> "str | None":
    """Return memory.swap.max for memory.swap, which is memory PLUS swap; None = leave it.

    Argument: memory, the section, for its limit. Errors: KrunError for swap without limit and for swap below limit.
    """
    limit = memory.get("limit")
    if limit == -1 and not swap:
        return "max"
    if not swap:
        return None
    if swap == -1:
        return "max"
    if not limit or limit < 0:
        raise KrunError("unable to set swap limit without memory limit")
    if swap < limit:
        raise KrunError("memory+swap limit must be >= memory limit")
    return str(swap - limit)


def device_rate(device: "dict[str, Any]", _section: "Any" = None) -> str:
    """Return "major:minor rate" of an element of a throttle list (v1)."""
    return f"{device['major']}:{device['minor']} {device['rate']}"


def io_max(word: str) -> "Conversion":
    """Return the conversion of an element of a throttle list into a line of io.max (v2); 0 is no limit."""
    return lambda device, _section: f"{device['major']}:{device['minor']} {word}={device['rate'] or 'max'}"


def interface_priority(entry: "dict[str, Any]", _section: "Any") -> str:
    """Return a line of net_prio.ifpriomap."""
    return f"{entry['name']} {entry['priority']}"


def rdma_line(device: str, limits: "dict[str, Any]") -> str:
    """Return one line of rdma.max for a device of linux.resources.rdma."""
    parts = [device]
    for key, word in (("hcaHandles", "hca_handle"), ("hcaObjects", "hca_object")):
        if limits.get(key) is not None:
            parts.append(f"{word}={limits[key]}")
    return " ".join(parts)


# --- unit properties (org.freedesktop.systemd1(5)): UNLIMITED is "infinity"


def infinity(value: int, _section: "Any" = None) -> int:
    """A number, infinity for a negative one."""
    return UNLIMITED if value < 0 else value


def swap_property(swap: "int | None", memory: "dict[str, Any]") -> "int | None":
    """Return MemorySwapMax."""
    text = swap_max(swap, memory)
    return None if text is None else UNLIMITED if text == "max" else int(text)


def quota_per_second(quota: int, cpu: "dict[str, Any]") -> int:
    """Return CPUQuotaPerSecUSec of cpu.quota, whose period is the section's."""
    return UNLIMITED if quota < 0 else per_second(quota, cpu.get("period") or 100_000)


def per_second(quota: int, period: int) -> int:
    """Return a quota in microseconds a second; systemd rounds to 10 ms: up, or a small quota would become none."""
    return -(-(quota * 1_000_000 // period) // 10_000) * 10_000


def bitmap(text: str, _section: "Any" = None) -> bytes:
    """Return a list of CPUs or memory nodes as AllowedCPUs and AllowedMemoryNodes take it. Errors: ValueError."""
    bits = 0
    for number in cpu_list(text):
        bits |= 1 << number
    return bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "little")
