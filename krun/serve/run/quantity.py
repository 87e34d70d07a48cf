"""Kubernetes' quantities as cgroup values (apimachinery, pkg/api/resource; kubelet, cm/helpers_linux.go)."""

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

_FACTORS = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9, "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18, "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i))?")
_PERIOD = 100_000  # us, the kubelet's cpu.cfs_period
_SMALLEST_QUOTA = 1000  # us, the kernel's
_SHARES = (2, 262144)


def value(text: Any) -> Decimal:
    """Return the number that a quantity stands for. Raises ValueError."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"malformed quantity {text!r}")
    try:
        return Decimal(match[1] + (match[2] or "")) * _FACTORS[match[3] or ""]
    except InvalidOperation:
        raise ValueError(f"malformed quantity {text!r}") from None


def resources(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return `linux.resources` (cpu, memory) for a container's `resources` with limits and requests.

    Rules of the kubelet: shares come from the request, or from the limit where there is no request; the quota is the limit's
    part of a period of 100 ms. A request of memory has no cgroup value of its own.
    """
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    found: dict[str, Any] = {}
    cpu: dict[str, Any] = {}
    share = requests.get("cpu", limits.get("cpu"))
    if share is not None:
        shares = int((value(share) * 1024).to_integral_value(ROUND_CEILING))
        cpu["shares"] = min(max(shares, _SHARES[0]), _SHARES[1])
    if limits.get("cpu") is not None and value(limits["cpu"]) > 0:
        cpu["period"] = _PERIOD
        cpu["quota"] = max(int(value(limits["cpu"]) * _PERIOD), _SMALLEST_QUOTA)
    if cpu:
        found["cpu"] = cpu
    if limits.get("memory") is not None and value(limits["memory"]) > 0:
        found["memory"] = {"limit": int(value(limits["memory"]).to_integral_value(ROUND_CEILING))}
    return found
