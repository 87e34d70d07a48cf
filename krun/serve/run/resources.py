"""A container's `resources` as cgroup values (kubelet, cm/helpers_linux.go)."""

import math
from typing import Any

from krun.serve.units import quantity

_PERIOD = 100_000  # us, the kubelet's cpu.cfs_period
_SMALLEST_QUOTA = 1000  # us, the kernel's
_SHARES = (2, 262144)


def cgroup_values(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return `linux.resources` (cpu, memory) for a container's `resources` with limits and requests.

    Rules of the kubelet: shares come from the request, or from the limit where there is no request; the quota is the limit's
    part of a period of 100 ms. A request of memory has no cgroup value of its own. Errors: ValueError.
    """
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    found: dict[str, Any] = {}
    cpu: dict[str, Any] = {}
    share = requests.get("cpu", limits.get("cpu"))
    if share is not None:
        shares = math.ceil(quantity(share) * 1024)
        cpu["shares"] = min(max(shares, _SHARES[0]), _SHARES[1])
    if limits.get("cpu") is not None and quantity(limits["cpu"]) > 0:
        cpu["period"] = _PERIOD
        cpu["quota"] = max(int(quantity(limits["cpu"]) * _PERIOD), _SMALLEST_QUOTA)
    if cpu:
        found["cpu"] = cpu
    if limits.get("memory") is not None and quantity(limits["memory"]) > 0:
        found["memory"] = {"limit": math.ceil(quantity(limits["memory"]))}
    return found
