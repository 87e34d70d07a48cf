"""cgroup v1: one hierarchy per controller. Kernel documentation: admin-guide/cgroup-v1."""

import errno
import os
import time

from krun import log
from krun.errors import KrunError, SysError
from krun.oci.cgroups import HYBRID, own_paths, put, read, unmake, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Paths = dict[str, str]

CONTROLLERS = frozenset(
    (
        "cpu",
        "cpuacct",
        "cpuset",
        "memory",
        "devices",
        "freezer",
        "blkio",
        "pids",
        "hugetlb",
        "net_cls",
        "net_prio",
    )
    + ("perf_event", "rdma", "misc", "name=systemd")
)


def mounts() -> "dict[str, tuple[str, str]]":
    """Return controller to (mount point, root of the mount inside the hierarchy), from /proc/self/mountinfo
    (proc(5)).
    """
    found: dict[str, tuple[str, str]] = {}
    for line in read("/proc/self/mountinfo").split("\n"):
        front, _, back = line.partition(" - ")
        if not back.startswith("cgroup "):
            continue
        fields = front.split(" ")
        for name in back.split(" ", 2)[2].split(","):
            if name in CONTROLLERS and name not in found:
                found[name] = (fields[4], fields[3])
    return found


def place(inner: str) -> "Paths":
    """Return controller to directory for a cleaned cgroupsPath; key "unified" for the v2 tree of a hybrid
    host.

    An absolute path stands under each mount point; a relative one under our own cgroup (what docker in docker
    needs).
    Errors: KrunError when no controller is mounted.
    """
    own = own_paths()
    paths: Paths = {}
    for name, (point, root) in mounts().items():
        paths[name] = _under(point, root, own.get(name, "/"), inner)
    if not paths:
        raise KrunError("find cgroups: neither v1 nor v2 controllers are mounted under /sys/fs/cgroup")
    if "" in own and os.path.exists(HYBRID + "/cgroup.procs"):
        paths["unified"] = _under(HYBRID, "/", own[""], inner)
    return paths


def _under(point: str, root: str, own: str, inner: str) -> str:
    if inner.startswith("/"):
        return point + inner
    # Inside a cgroup namespace or a bind mount, /proc/self/cgroup may name a path above what is mounted here.
    if root != "/" and own.startswith(root):
        own = own[len(root) :]
    return os.path.normpath(f"{point}/{own}/{inner}")


def make(paths: "Paths") -> "list[str]":
    """Make what is missing and return it, deepest first.

    Drops "unified" from `paths` when the v2 tree of a hybrid host is not ours to write: no limit stands
    there.
    Errors: SysError; what was made is removed again.
    """
    made: list[str] = []
    try:
        for name, path in list(paths.items()):
            if path not in made and not _make_one(name, path, made):
                del paths[name]
    except BaseException:
        unmake(made[::-1])
        raise
    made.reverse()
    return made


def _make_one(name: str, path: str, made: "list[str]") -> bool:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        return True
    except FileNotFoundError:
        return _make_one(name, os.path.dirname(path), made) and _make_one(name, path, made)
    except OSError as error:
        if name == "unified":
            log.debug(f"make cgroup {path}: {error.strerror}")
            return False
        raise SysError.of("make cgroup", error, path) from None
    made.append(path)
    if name == "cpuset":
        # A new cpuset is empty and takes no process before it has CPUs and memory nodes: they come from
        # above.
        parent = os.path.dirname(path)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not read(f"{path}/{file}"):
                write(path, file, read(f"{parent}/{file}"))
    return True


def _need(paths: "Paths", controller: str, what: str) -> str:
    path = paths.get(controller)
    if path is None:
        raise KrunError(f"set {what}: the {controller} cgroup controller is not mounted on this host")
    return path


def limit(paths: "Paths", resources: "dict[str, Any]", new: bool) -> None:
    """Write linux.resources, all but devices. Argument: new, the cgroup was just made.

    Errors: KrunError for a value that cannot be, SysError for a file that refuses.
    """
    if resources.get("unified"):
        raise KrunError("set linux.resources.unified: this host has no cgroup v2 (unified) controllers")
    if memory := resources.get("memory"):
        _memory(paths, memory)
    if cpu := resources.get("cpu"):
        _cpu(paths, cpu)
    pids = (resources.get("pids") or {}).get("limit")
    if pids is not None:
        write(_need(paths, "pids", "pids limit"), "pids.max", pids if pids >= 0 else "max")
    if block := resources.get("blockIO"):
        _blkio(paths, block)
    for page in resources.get("hugepageLimits") or ():
        path = _need(paths, "hugetlb", "huge page limit")
        # Reservations first (config-linux.md 1.1): a limit on faults alone kills by SIGBUS.
        rsvd = f"hugetlb.{page['pageSize']}.rsvd.limit_in_bytes"
        if os.path.exists(f"{path}/{rsvd}"):
            write(path, rsvd, page["limit"])
        write(path, f"hugetlb.{page['pageSize']}.limit_in_bytes", page["limit"])
    for device, rdma in (resources.get("rdma") or {}).items():
        write(_need(paths, "rdma", "rdma limit"), "rdma.max", rdma_line(device, rdma))
    if network := resources.get("network"):
        if network.get("classID"):
            write(_need(paths, "net_cls", "network class"), "net_cls.classid", network["classID"])
        for entry in network.get("priorities") or ():
            path = _need(paths, "net_prio", "network priority")
            write(path, "net_prio.ifpriomap", f"{entry['name']} {entry['priority']}")


def rdma_line(device: str, rdma: "dict[str, Any]") -> str:
    """Return one line of rdma.max for a device of linux.resources.rdma."""
    parts = [device]
    for key, word in (("hcaHandles", "hca_handle"), ("hcaObjects", "hca_object")):
        if rdma.get(key) is not None:
            parts.append(f"{word}={rdma[key]}")
    return " ".join(parts)


def _memory(paths: "Paths", memory: "dict[str, Any]") -> None:
    size, swap = memory.get("limit"), memory.get("swap")
    for old in ("kernel", "kernelTCP"):
        if memory.get(old):
            log.warning(f"linux.resources.memory.{old} is not settable on current kernels and is ignored")
    if not any(memory.get(key) is not None for key in memory if key not in ("kernel", "kernelTCP")):
        return
    path = _need(paths, "memory", "memory limit")
    if size == -1 and not swap and os.path.exists(path + "/memory.memsw.limit_in_bytes"):
        swap = -1  # no limit at all is meant; memsw must be lifted first
    if size and swap:
        # memsw >= limit must hold at every moment, so the one that gives room goes first.
        now = int(read(path + "/memory.limit_in_bytes"))
        if swap == -1 or now < swap:
            write(path, "memory.memsw.limit_in_bytes", swap)
            _memory_limit(path, size)
        else:
            _memory_limit(path, size)
            write(path, "memory.memsw.limit_in_bytes", swap)
    else:
        if size:
            _memory_limit(path, size)
        if swap:
            write(path, "memory.memsw.limit_in_bytes", swap)
    if memory.get("reservation"):
        write(path, "memory.soft_limit_in_bytes", memory["reservation"])
    if memory.get("disableOOMKiller"):
        write(path, "memory.oom_control", 1)
    swappiness = memory.get("swappiness")
    if swappiness is not None:
        if not 0 <= swappiness <= 100:
            raise KrunError(f"set memory swappiness {swappiness}: use 0 to 100")
        write(path, "memory.swappiness", swappiness)


def _memory_limit(path: str, size: int) -> None:
    try:
        put(path + "/memory.limit_in_bytes", size)
    except OSError as error:
        if error.errno == errno.EBUSY:
            usage = read(path + "/memory.usage_in_bytes")
            peak = read(path + "/memory.max_usage_in_bytes")
            raise KrunError(
                f"unable to set memory limit to {size} (current usage: {usage}, peak usage: {peak})"
            ) from None
        raise SysError(
            "write cgroup file", path + "/memory.limit_in_bytes", error.errno or 0, str(size)
        ) from None


def _cpu(paths: "Paths", cpu: "dict[str, Any]") -> None:
    for key in ("cpus", "mems"):
        if cpu.get(key):
            write(_need(paths, "cpuset", f"cpu {key}"), f"cpuset.{key}", cpu[key])
    if not any(cpu.get(key) is not None for key in cpu if key not in ("cpus", "mems")):
        return
    path = _need(paths, "cpu", "cpu limit")
    # Real-time time must be there before a real-time task joins.
    if cpu.get("realtimePeriod"):
        write(path, "cpu.rt_period_us", cpu["realtimePeriod"])
    if cpu.get("realtimeRuntime"):
        write(path, "cpu.rt_runtime_us", cpu["realtimeRuntime"])
    if cpu.get("shares"):
        write(path, "cpu.shares", cpu["shares"])
        # The kernel clamps silently; a limit that is not what was asked for is an error (as in runc).
        real = int(read(path + "/cpu.shares"))
        if real != cpu["shares"]:
            word = "maximum" if real < cpu["shares"] else "minimum"
            raise KrunError(f"the {word} allowed cpu-shares is {real}")
    period, quota, burst = cpu.get("period"), cpu.get("quota"), cpu.get("burst")
    # The kernel refuses a quota under the burst and a burst over the quota, and a period that makes
    # quota/period exceed the parent's: what is refused now may fit after the other values.
    late = []
    for name, value in (
        ("cpu.cfs_burst_us", burst),
        ("cpu.cfs_period_us", period),
        ("cpu.cfs_quota_us", quota),
    ):
        if value is None or (value == 0 and name != "cpu.cfs_burst_us"):
            continue
        try:
            put(f"{path}/{name}", value)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise SysError(
                    "write cgroup file", f"{path}/{name}", error.errno or 0, f"value {value}"
                ) from None
            late.append((name, value))
    for name, value in late:
        write(path, name, value)
    if cpu.get("idle") is not None:
        write(path, "cpu.idle", cpu["idle"])


def _blkio(paths: "Paths", block: "dict[str, Any]") -> None:
    path = _need(paths, "blkio", "block I/O limit")

    def weight_file(word: str) -> str:
        # The CFQ names went with CFQ (5.0); BFQ has its own, without leaf weights.
        bfq = f"blkio.bfq.{word}"
        return bfq if os.path.exists(f"{path}/{bfq}") else f"blkio.{word}"

    if block.get("weight"):
        write(path, weight_file("weight"), block["weight"])
    if block.get("leafWeight"):
        write(path, "blkio.leaf_weight", block["leafWeight"])
    for device in block.get("weightDevice") or ():
        number = f"{device['major']}:{device['minor']}"
        if device.get("weight"):
            write(path, weight_file("weight_device"), f"{number} {device['weight']}")
        if device.get("leafWeight"):
            write(path, "blkio.leaf_weight_device", f"{number} {device['leafWeight']}")
    for key, name in (
        ("throttleReadBpsDevice", "read_bps"),
        ("throttleWriteBpsDevice", "write_bps"),
        ("throttleReadIOPSDevice", "read_iops"),
        ("throttleWriteIOPSDevice", "write_iops"),
    ):
        for device in block.get(key) or ():
            line = f"{device['major']}:{device['minor']} {device['rate']}"
            write(path, f"blkio.throttle.{name}_device", line)


def devices(
    paths: "Paths", rules: "list[tuple[bool, str, int | None, int | None, str]]", rootless: bool
) -> None:
    """Write device rules in order (cgroup-v1/devices): "a" resets the list. Errors: SysError."""
    path = paths.get("devices")
    if path is None or rootless:
        return  # without the controller nothing can be denied; a rootless user may not write the files
    for allow, kind, major, minor, access in rules:
        file = "devices.allow" if allow else "devices.deny"
        if kind == "a" and major is None and minor is None:
            write(path, file, "a")
            continue
        for one in ("b", "c") if kind == "a" else (kind,):
            text = f"{one} {'*' if major is None else major}:{'*' if minor is None else minor} {access}"
            write(path, file, text)


def freeze(paths: "Paths", stop: bool) -> None:
    """Freeze or thaw and wait for it (cgroup-v1/freezer-subsystem). Errors: KrunError, SysError."""
    path = paths.get("freezer")
    if path is None:
        raise KrunError("freeze: the freezer cgroup controller is not mounted on this host")
    if not stop:
        write(path, "freezer.state", "THAWED")
        return
    deadline = time.monotonic() + 2.0
    rounds = 0
    while True:
        write(path, "freezer.state", "FROZEN")
        if read(path + "/freezer.state") == "FROZEN":
            return
        rounds += 1
        if time.monotonic() > deadline:
            write(path, "freezer.state", "THAWED")
            raise KrunError(f"unable to freeze {path}: some process cannot be stopped within 2 s")
        if rounds % 50 == 0:
            # A task in vfork waits for a frozen child and can never stand itself: a short thaw lets both go
            # on.
            write(path, "freezer.state", "THAWED")
        time.sleep(0.001 if rounds < 50 else 0.01)


def frozen(paths: "Paths") -> bool:
    """Return whether the freezer says FROZEN or FREEZING."""
    try:
        return read(paths["freezer"] + "/freezer.state").startswith("FR")
    except (OSError, KeyError):
        return False


def oom_kills(paths: "Paths") -> int:
    """Return oom_kill of memory.oom_control."""
    try:
        return key_values(paths["memory"] + "/memory.oom_control").get("oom_kill", 0)
    except (OSError, KeyError):
        return 0


def key_values(path: str) -> "dict[str, int]":
    """Return a flat keyed file ("name value" lines). Errors: OSError."""
    found = {}
    for line in read(path).split("\n"):
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def number(path: str) -> int:
    """Return a one-number file; "max" as 2^64-1, a missing file as 0."""
    try:
        text = read(path)
    except OSError:
        return 0
    if text == "max":
        return (1 << 64) - 1
    return int(text) if text.lstrip("-").isdigit() else 0


def cpu_list(text: str) -> "list[int]":
    """Return "0-2,4" as [0, 1, 2, 4] (cpuset(7), list format)."""
    found: list[int] = []
    for part in text.split(","):
        if part:
            low, _, high = part.partition("-")
            found.extend(range(int(low), int(high or low) + 1))
    return found


def stats(paths: "Paths") -> "dict[str, Any]":
    """Return what the controllers count, in the shape of runc's events (types/events.go)."""
    return {
        "cpu": _stats_cpu(paths),
        "cpuset": _stats_cpuset(paths),
        "memory": _stats_memory(paths),
        "pids": _stats_pids(paths),
        "blkio": _stats_blkio(paths),
        "hugetlb": hugetlb_stats(paths.get("hugetlb", ""), "limit_in_bytes", "usage_in_bytes"),
    }


def _stats_cpu(paths: "Paths") -> "dict[str, Any]":
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
    try:
        counted = key_values(paths["cpu"] + "/cpu.stat")
        for key, word in (
            ("nr_periods", "periods"),
            ("nr_throttled", "throttledPeriods"),
            ("throttled_time", "throttledTime"),
        ):
            if counted.get(key):
                throttling[word] = counted[key]
    except (OSError, KeyError):
        pass
    return {"usage": usage, "throttling": throttling}


def _stats_cpuset(paths: "Paths") -> "dict[str, Any]":
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


def _stats_memory(paths: "Paths") -> "dict[str, Any]":
    path = paths.get("memory")
    if not path:
        return {}
    try:
        raw = key_values(path + "/memory.stat")
    except OSError:
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


def _stats_pids(paths: "Paths") -> "dict[str, Any]":
    path = paths.get("pids")
    if not path:
        return {}
    found: dict[str, Any] = {}
    current = number(path + "/pids.current")
    if current:
        found["current"] = current
    try:
        text = read(path + "/pids.max")
        if text != "max":
            found["limit"] = int(text)
    except OSError:
        pass
    return found


def _stats_blkio(paths: "Paths") -> "dict[str, Any]":
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
    rows: list[dict[str, Any]] = []
    try:
        lines = read(path).split("\n")
    except OSError:
        return rows
    for line in lines:
        words = line.split()
        if len(words) == 3 and ":" in words[0]:
            major, minor = words[0].split(":")
            rows.append({"major": int(major), "minor": int(minor), "op": words[1], "value": int(words[2])})
    return rows


def hugetlb_stats(path: str, limit_word: str, usage_word: str) -> "dict[str, Any]":
    """Return {page size: {usage, max, failcnt}} of a hugetlb directory; {} when it has none."""
    found: dict[str, Any] = {}
    if not path:
        return found
    try:
        names = os.listdir(path)
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
