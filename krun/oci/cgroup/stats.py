"""Reads the controllers' statistics in the format of runc's events (types/events.go); cgroup v1 and v2."""

import os

from krun.oci.cgroup.controllers import CONTROLLERS
from krun.oci.cgroup.files import UNLIMITED, cpu_list, key_values, lines, number, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from krun.oci.cgroup.files import Paths


def collect(paths: "Paths") -> "dict[str, Any]":
    """Return what every controller of the table counts: its word in events to the counters."""
    found: dict[str, Any] = {}
    for row in CONTROLLERS:
        if row.counters:
            found[row.events] = _counters(paths.get("") or paths.get(row.tree, ""), row.counters)
        elif row.events:
            found[row.events] = READERS[row.events]["" in paths](paths)
    return found


def _counters(path: str, counters: "tuple[tuple[str, str], ...]") -> "dict[str, int]":
    """Return files of one number each; what is nothing or unlimited is left out, as in runc."""
    values = ((word, number(f"{path}/{file}")) for word, file in counters) if path else ()
    return {word: value for word, value in values if value not in (0, UNLIMITED)}


def _cpu_v1(paths: "Paths") -> "dict[str, Any]":
    usage: dict[str, Any] = {}
    path = paths.get("cpuacct")
    if path:
        usage["total"] = number(path + "/cpuacct.usage")
        try:
            usage["percpu"] = [int(word) for word in read(path + "/cpuacct.usage_percpu").split()]
            rows = [line.split() for line in read(path + "/cpuacct.usage_all").split("\n")[1:]]
            usage["percpu_kernel"] = [int(row[2]) for row in rows]
            usage["percpu_user"] = [int(row[1]) for row in rows]
            # cpuacct.stat counts in USER_HZ, 100 per second on every Linux ABI.
            ticks = key_values(path + "/cpuacct.stat")
            usage["kernel"] = ticks.get("system", 0) * 10_000_000
            usage["user"] = ticks.get("user", 0) * 10_000_000
        except (OSError, IndexError):
            pass
    throttling: dict[str, Any] = {}
    counted = key_values(paths["cpu"] + "/cpu.stat") if "cpu" in paths else {}
    for key, word in (
        ("nr_periods", "periods"),
        ("nr_throttled", "throttledPeriods"),
        ("throttled_time", "throttledTime"),
    ):
        if counted.get(key):
            throttling[word] = counted[key]
    return {"usage": usage, "throttling": throttling}


def _cpuset_v1(paths: "Paths") -> "dict[str, Any]":
    path = paths.get("cpuset")
    if not path:
        return {}
    found: dict[str, Any] = {}
    try:
        found["cpus"] = cpu_list(read(path + "/cpuset.cpus"))
        found["mems"] = cpu_list(read(path + "/cpuset.mems"))
    except OSError:
        return {}
    for name in (
        "cpu_exclusive mem_hardwall mem_exclusive memory_migrate memory_spread_page memory_spread_slab "
        "memory_pressure sched_load_balance sched_relax_domain_level"
    ).split():
        found[name] = number(f"{path}/cpuset.{name}")
    return found


def _memory_v1(paths: "Paths") -> "dict[str, Any]":
    path = paths.get("memory")
    if not path:
        return {}
    raw = key_values(path + "/memory.stat")
    if not raw:
        return {}
    found: dict[str, Any] = {"cache": raw.get("cache", 0)}
    for name, word in (("usage", ""), ("swap", "memsw."), ("kernel", "kmem."), ("kernelTCP", "kmem.tcp.")):
        if not os.path.exists(f"{path}/memory.{word}limit_in_bytes"):
            found[name] = {"limit": 0, "failcnt": 0}
            continue
        entry = {"limit": number(f"{path}/memory.{word}limit_in_bytes")}
        for key, file in (("usage", "usage_in_bytes"), ("max", "max_usage_in_bytes")):
            value = number(f"{path}/memory.{word}{file}")
            if value:
                entry[key] = value
        entry["failcnt"] = number(f"{path}/memory.{word}failcnt")
        found[name] = entry
    found["raw"] = raw
    return found


def _blkio_v1(paths: "Paths") -> "dict[str, Any]":
    path = paths.get("blkio")
    found: dict[str, Any] = {}
    if not path:
        return found
    for key, files in (
        (
            "ioServiceBytesRecursive",
            ("bfq.io_service_bytes_recursive", "throttle.io_service_bytes_recursive"),
        ),
        ("ioServicedRecursive", ("bfq.io_serviced_recursive", "throttle.io_serviced_recursive")),
    ):
        for file in files:
            rows = blkio_rows(f"{path}/blkio.{file}")
            if rows:
                found[key] = rows
                break
    return found


def blkio_rows(path: str) -> "list[dict[str, Any]]":
    """Return "8:0 Read 4096" lines as {major, minor, op, value}."""
    return [_row(device, words[0], words[1]) for device, words in _device_lines(path) if len(words) == 2]


def _device_lines(path: str) -> "Iterator[tuple[str, list[str]]]":
    """Yield (MAJOR:MINOR, further words) of each line that begins with a device."""
    for line in lines(path):
        device, *words = line.split() or [""]
        if ":" in device:
            yield device, words


def _row(device: str, op: str, value: str) -> "dict[str, Any]":
    major, _, minor = device.partition(":")
    return {"major": int(major), "minor": int(minor), "op": op, "value": int(value)}


def hugetlb_stats(path: str, limit_word: str, usage_word: str) -> "dict[str, Any]":
    """Return {page size: {usage, max, failcnt}} of a hugetlb directory; {} when it has none."""
    found: dict[str, Any] = {}
    if not path:
        return found
    try:
        # A payload that may write its cgroup makes directories of these names.
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return found
    for name in names:
        words = name.split(".")
        if len(words) == 3 and words[0] == "hugetlb" and words[2] == limit_word:
            stem = f"{path}/hugetlb.{words[1]}."
            found[words[1]] = {
                "usage": number(stem + usage_word),
                "max": number(stem + "max_usage_in_bytes"),
                "failcnt": number(stem + "failcnt"),
            }
    return found


def _cpu_v2(paths: "Paths") -> "dict[str, Any]":
    path = paths[""]
    counted = key_values(path + "/cpu.stat")
    throttling = {
        word: value
        for key, word, factor in (
            ("nr_periods", "periods", 1),
            ("nr_throttled", "throttledPeriods", 1),
            ("throttled_usec", "throttledTime", 1000),
        )
        if (value := counted.get(key, 0) * factor)
    }
    cpu: dict[str, Any] = {
        "usage": {
            "total": counted.get("usage_usec", 0) * 1000,
            "kernel": counted.get("system_usec", 0) * 1000,
            "user": counted.get("user_usec", 0) * 1000,
        },
        "throttling": throttling,
    }
    return _with_pressure(cpu, f"{path}/cpu.pressure")


def _nothing(_paths: "Paths") -> "dict[str, Any]":
    return {}


def _memory_v2(paths: "Paths") -> "dict[str, Any]":
    path = paths[""]
    raw = key_values(path + "/memory.stat")
    usage = {"limit": number(path + "/memory.max"), "usage": number(path + "/memory.current")}
    if os.path.exists(path + "/memory.peak"):
        usage["max"] = number(path + "/memory.peak")
    usage["failcnt"] = key_values(path + "/memory.events").get("max", 0)
    # v1's "swap" is memory plus swap, and callers reckon with that.
    swap_limit = number(path + "/memory.swap.max")
    if swap_limit and swap_limit != UNLIMITED and usage["limit"] != UNLIMITED:
        swap_limit += usage["limit"]
    swap = {
        "limit": swap_limit,
        "usage": usage["usage"] + number(path + "/memory.swap.current"),
        "failcnt": key_values(path + "/memory.swap.events").get("fail", 0),
    }
    memory: dict[str, Any] = {
        "cache": raw.get("file", 0),
        "usage": usage,
        "swap": swap,
        "kernel": {"limit": 0, "failcnt": 0},
        "kernelTCP": {"limit": 0, "failcnt": 0},
        "raw": raw,
    }
    return _with_pressure(memory, f"{path}/memory.pressure")


def _blkio_v2(paths: "Paths") -> "dict[str, Any]":
    path = paths[""]
    blkio: dict[str, Any] = {}
    rows = _io_rows(path + "/io.stat", (("rbytes", "Read"), ("wbytes", "Write"), ("dbytes", "Discard")))
    if rows:
        blkio["ioServiceBytesRecursive"] = rows
        blkio["ioServicedRecursive"] = _io_rows(
            path + "/io.stat", (("rios", "Read"), ("wios", "Write"), ("dios", "Discard"))
        )
    return _with_pressure(blkio, f"{path}/io.pressure")


def _hugetlb_v1(paths: "Paths") -> "dict[str, Any]":
    return hugetlb_stats(paths.get("hugetlb", ""), "limit_in_bytes", "usage_in_bytes")


def _hugetlb_v2(paths: "Paths") -> "dict[str, Any]":
    return hugetlb_stats(paths[""], "max", "current")


def _with_pressure(group: "dict[str, Any]", path: str) -> "dict[str, Any]":
    pressure = _pressure(path)
    if pressure:
        group["psi"] = pressure
    return group


def _pressure(path: str) -> "dict[str, Any]":
    """Return {some, full: {avg10, avg60, avg300, total}} (accounting/psi)."""
    found: dict[str, Any] = {}
    for line in lines(path):
        words = line.split()
        if len(words) == 5:
            pairs = dict(word.partition("=")[::2] for word in words[1:])
            found[words[0]] = {
                key: int(value) if key == "total" else float(value) for key, value in pairs.items()
            }
    return found


def _io_rows(path: str, keys: "tuple[tuple[str, str], ...]") -> "list[dict[str, Any]]":
    rows: list[dict[str, Any]] = []
    for device, words in _device_lines(path):
        pairs = dict(word.partition("=")[::2] for word in words)
        rows += [_row(device, op, pairs[key]) for key, op in keys if key in pairs]
    return rows


#: Word in events to what reads it in v1 and in v2.
READERS: "dict[str, tuple[Callable[[Paths], dict[str, Any]], Callable[[Paths], dict[str, Any]]]]" = {
    "memory": (_memory_v1, _memory_v2),
    "cpu": (_cpu_v1, _cpu_v2),
    "cpuset": (_cpuset_v1, _nothing),
    "blkio": (_blkio_v1, _blkio_v2),
    "hugetlb": (_hugetlb_v1, _hugetlb_v2),
}
