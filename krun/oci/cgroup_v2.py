"""cgroup v2: one hierarchy. Kernel documentation: admin-guide/cgroup-v2."""

import errno
import os
import time

from krun import log
from krun.errors import KrunError, SysError
from krun.oci.cgroups import MOUNT, is_kernel_thread, own_paths, put, read, unmake, write
from krun.oci.state import process_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Paths = dict[str, str]


def place(inner: str) -> "Paths":
    """Return {"": directory} for a cleaned cgroupsPath.

    A relative path stands beside our own cgroup, not in it: ours holds processes, and v2 does not let a group
    with processes give controllers to its children ("no internal process constraint").
    """
    if inner.startswith("/"):
        return {"": MOUNT + inner}
    own = own_paths().get("", "/")
    return {"": os.path.normpath(f"{MOUNT}/{os.path.dirname(own)}/{inner}")}


def make(paths: "Paths") -> "list[str]":
    """Make what is missing from the mount point down, handing on every controller there is; return it,
    deepest first.

    Errors: SysError; what was made is removed again.
    """
    path = paths[""]
    made: list[str] = []
    here = MOUNT
    try:
        for name in path[len(MOUNT) :].strip("/").split("/"):
            if not name:
                continue
            _hand_on(here)
            here = f"{here}/{name}"
            try:
                os.mkdir(here, 0o755)
            except FileExistsError:
                continue
            except OSError as error:
                raise SysError.of("make cgroup", error, here) from None
            made.append(here)
            # A child of a threaded group is "domain invalid" until it is threaded as well.
            try:
                if read(here + "/cgroup.type") == "domain invalid":
                    put(here + "/cgroup.type", "threaded")
            except OSError:
                pass
    except BaseException:
        unmake(made[::-1])
        raise
    made.reverse()
    return made


def _hand_on(path: str) -> None:
    """Give a group's children all its controllers; what does not work shows when a limit needs it."""
    try:
        wanted = set(read(path + "/cgroup.controllers").split())
        wanted -= set(read(path + "/cgroup.subtree_control").split())
    except OSError:
        return
    if not wanted:
        return
    try:
        put(path + "/cgroup.subtree_control", " ".join("+" + name for name in sorted(wanted)))
    except OSError:
        for name in sorted(wanted):
            try:
                put(path + "/cgroup.subtree_control", "+" + name)
            except OSError as error:
                log.debug(f"hand on controller {name} in {path}: {error.strerror}")


def weight(shares: int) -> int:
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


def swap_max(limit: int | None, swap: int | None) -> "str | None":
    """Return memory.swap.max for the spec's memory.limit and memory.swap, which is memory PLUS swap; None =
    leave it.

    Errors: KrunError for swap without limit and for swap below limit.
    """
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


def _max(value: int) -> str:
    return "max" if value < 0 else str(value)


def limit(paths: "Paths", resources: "dict[str, Any]", new: bool) -> None:
    """Write linux.resources, all but devices. Argument: new, the cgroup was just made.

    Errors: KrunError for a value that cannot be, SysError for a file that refuses.
    """
    path = paths[""]
    if memory := resources.get("memory"):
        _memory(path, memory)
    if cpu := resources.get("cpu"):
        _cpu(path, cpu)
    pids = (resources.get("pids") or {}).get("limit")
    if pids is not None:
        write(path, "pids.max", _max(pids))
    if block := resources.get("blockIO"):
        _io(path, block)
    for page in resources.get("hugepageLimits") or ():
        rsvd = f"hugetlb.{page['pageSize']}.rsvd.max"
        if os.path.exists(f"{path}/{rsvd}"):
            write(path, rsvd, page["limit"])
        write(path, f"hugetlb.{page['pageSize']}.max", page["limit"])
    for device, rdma in (resources.get("rdma") or {}).items():
        from krun.oci.cgroup_v1 import rdma_line

        write(path, "rdma.max", rdma_line(device, rdma))
    if resources.get("network"):
        log.warning("linux.resources.network is for cgroup v1 only and is ignored on this host")
    for name, value in (resources.get("unified") or {}).items():
        _unified(path, name, value)


def _memory(path: str, memory: "dict[str, Any]") -> None:
    size = memory.get("limit")
    swap = swap_max(size, memory.get("swap"))
    if memory.get("checkBeforeUpdate") and size and size > 0:
        # v2 would enforce a limit under the present use by killing; v1 refused it.
        usage = int(read(path + "/memory.current"))
        if size < usage:
            raise KrunError(f"rejecting memory limit {size}, since current usage {usage} is greater")
    if swap is not None:
        try:
            put(path + "/memory.swap.max", swap)
        except OSError as error:
            # No swap accounting: no swap at all is then what "max" and "0" amount to.
            if error.errno != errno.ENOENT or swap not in ("max", "0"):
                raise SysError(
                    "write cgroup file", path + "/memory.swap.max", error.errno or 0, swap
                ) from None
    if size:
        write(path, "memory.max", _max(size))
    if memory.get("reservation"):
        write(path, "memory.low", _max(memory["reservation"]))


def _cpu(path: str, cpu: "dict[str, Any]") -> None:
    if cpu.get("realtimeRuntime") or cpu.get("realtimePeriod"):
        raise KrunError("set realtime cpu time: cgroup v2 has no such limit")
    if cpu.get("idle") is not None:
        write(path, "cpu.idle", cpu["idle"])
    if cpu.get("shares") and not cpu.get("idle"):
        write(path, "cpu.weight", weight(cpu["shares"]))
    quota, period, burst = cpu.get("quota"), cpu.get("period"), cpu.get("burst")
    late = None
    if burst is not None:
        try:
            put(path + "/cpu.max.burst", burst)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise SysError(
                    "write cgroup file", path + "/cpu.max.burst", error.errno or 0, str(burst)
                ) from None
            late = burst  # more than the quota so far: again after it
    if quota or period:
        word = "max" if quota is not None and quota <= 0 else str(quota) if quota else ""
        if not word:
            word = read(path + "/cpu.max").split()[0]  # period alone: keep the quota
        write(path, "cpu.max", f"{word} {period}" if period else word)
    if late is not None:
        write(path, "cpu.max.burst", late)
    for key in ("cpus", "mems"):
        if cpu.get(key):
            write(path, f"cpuset.{key}", cpu[key])


def _io(path: str, block: "dict[str, Any]") -> None:
    bfq = os.path.exists(path + "/io.bfq.weight")
    if block.get("weight"):
        if bfq:
            write(path, "io.bfq.weight", block["weight"])
        else:
            # io.weight goes from 1 to 10000, blkio's from 10 to 1000.
            write(path, "io.weight", f"default {1 + (block['weight'] - 10) * 9999 // 990}")
    for device in block.get("weightDevice") or ():
        if device.get("weight"):
            number = f"{device['major']}:{device['minor']}"
            if bfq:
                write(path, "io.bfq.weight", f"{number} {device['weight']}")
            else:
                write(path, "io.weight", f"{number} {1 + (device['weight'] - 10) * 9999 // 990}")
    for key, word in (
        ("throttleReadBpsDevice", "rbps"),
        ("throttleWriteBpsDevice", "wbps"),
        ("throttleReadIOPSDevice", "riops"),
        ("throttleWriteIOPSDevice", "wiops"),
    ):
        for device in block.get(key) or ():
            rate = device["rate"] or "max"
            write(path, "io.max", f"{device['major']}:{device['minor']} {word}={rate}")


def _unified(path: str, name: str, value: str) -> None:
    if "/" in name or name in (".", ".."):
        raise KrunError(f"unified resource {name!r} must be a file name (no slashes)")
    try:
        # Several lines (io.max) are several writes: the kernel reads one setting per write(2).
        for line in str(value).split("\n"):
            put(f"{path}/{name}", line)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM):
            controller = name.partition(".")[0]
            try:
                available = controller == "cgroup" or controller in read(path + "/cgroup.controllers").split()
            except OSError:
                available = True
            if not available:
                raise KrunError(
                    f"unified resource {name!r} can't be set: controller {controller!r} not available"
                ) from None
        raise SysError("write cgroup file", f"{path}/{name}", error.errno or 0, f"value {value!r}") from None


def devices(
    paths: "Paths", rules: "list[tuple[bool, str, int | None, int | None, str]]", rootless: bool
) -> None:
    """Attach the device program. Errors: SysError, unless rootless: loading it needs CAP_BPF on the host."""
    from krun.oci import devices_bpf

    try:
        devices_bpf.attach(paths[""], rules)
    except SysError as error:
        if rootless and error.errno in (errno.EPERM, errno.EACCES):
            log.debug(f"no device rules for a rootless container: {error.message}")
            return
        raise


def _all_stand(path: str) -> bool:
    """Tell whether every user task of the group stands in the freezer.

    cgroup.events never says so while the group holds a kernel thread, which cannot freeze: before Linux 6.14 KVM's
    kvm-nx-lpage-recovery is one, in the cgroup of whoever made the VM.
    """
    kernel_threads = 0
    for directory, _, files in os.walk(path):
        if "cgroup.threads" not in files:
            continue
        for tid in read(directory + "/cgroup.threads").split():
            fields = process_fields(int(tid))
            if not fields:  # gone meanwhile
                continue
            if is_kernel_thread(fields):
                kernel_threads += 1
                continue
            try:
                # The second where the first is inlined, at times.
                if read(f"/proc/{tid}/wchan") not in ("do_freezer_trap", "get_signal"):
                    return False
            except OSError:
                continue
    return kernel_threads > 0


def freeze(paths: "Paths", stop: bool) -> None:
    """Freeze or thaw and wait until cgroup.events says so; a group that goes meanwhile (its last process was killed, and
    systemd took the scope away) needs no thaw. Errors: KrunError, SysError."""
    path = paths[""]
    try:
        _freeze(path, stop)
    except (SysError, OSError) as error:
        if stop or error.errno not in (errno.ENOENT, errno.ENODEV):
            raise


def _freeze(path: str, stop: bool) -> None:
    write(path, "cgroup.freeze", 1 if stop else 0)
    wanted = "frozen 1" if stop else "frozen 0"
    deadline = time.monotonic() + 5.0
    pause = 0.0005
    while wanted not in read(path + "/cgroup.events"):
        if stop and pause > 0.01 and _all_stand(path):
            return
        if time.monotonic() > deadline:
            if stop:
                write(path, "cgroup.freeze", 0)
            raise KrunError(f"{'freeze' if stop else 'thaw'} {path}: not done within 5 s")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def frozen(paths: "Paths") -> bool:
    """Return whether the group is frozen or told to be."""
    try:
        return read(paths[""] + "/cgroup.freeze") == "1"
    except OSError:
        return False


def oom_kills(paths: "Paths") -> int:
    """Return oom_kill of memory.events."""
    return _key_values(paths[""] + "/memory.events").get("oom_kill", 0)


def _key_values(path: str) -> "dict[str, int]":
    from krun.oci.cgroup_v1 import key_values

    try:
        return key_values(path)
    except OSError:
        return {}


def stats(paths: "Paths") -> "dict[str, Any]":
    """Return what the controllers count, in the shape of runc's events (types/events.go)."""
    from krun.oci.cgroup_v1 import hugetlb_stats, number

    path = paths[""]
    counted = _key_values(path + "/cpu.stat")
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
    raw = _key_values(path + "/memory.stat")
    usage = {"limit": number(path + "/memory.max"), "usage": number(path + "/memory.current")}
    if os.path.exists(path + "/memory.peak"):
        usage["max"] = number(path + "/memory.peak")
    usage["failcnt"] = _key_values(path + "/memory.events").get("max", 0)
    # v1's "swap" is memory plus swap, and callers reckon with that.
    swap_limit = number(path + "/memory.swap.max")
    if swap_limit and swap_limit != (1 << 64) - 1 and usage["limit"] != (1 << 64) - 1:
        swap_limit += usage["limit"]
    swap = {
        "limit": swap_limit,
        "usage": usage["usage"] + number(path + "/memory.swap.current"),
        "failcnt": _key_values(path + "/memory.swap.events").get("fail", 0),
    }
    memory: dict[str, Any] = {
        "cache": raw.get("file", 0),
        "usage": usage,
        "swap": swap,
        "kernel": {"limit": 0, "failcnt": 0},
        "kernelTCP": {"limit": 0, "failcnt": 0},
        "raw": raw,
    }
    for group, file in ((cpu, "cpu"), (memory, "memory")):
        pressure = _pressure(f"{path}/{file}.pressure")
        if pressure:
            group["psi"] = pressure
    pids: dict[str, Any] = {}
    if current := number(path + "/pids.current"):
        pids["current"] = current
    maximum = number(path + "/pids.max")
    if maximum and maximum != (1 << 64) - 1:
        pids["limit"] = maximum
    blkio: dict[str, Any] = {}
    rows = _io_rows(path + "/io.stat", (("rbytes", "Read"), ("wbytes", "Write"), ("dbytes", "Discard")))
    if rows:
        blkio["ioServiceBytesRecursive"] = rows
        blkio["ioServicedRecursive"] = _io_rows(
            path + "/io.stat", (("rios", "Read"), ("wios", "Write"), ("dios", "Discard"))
        )
    pressure = _pressure(f"{path}/io.pressure")
    if pressure:
        blkio["psi"] = pressure
    return {
        "cpu": cpu,
        "cpuset": {},
        "memory": memory,
        "pids": pids,
        "blkio": blkio,
        "hugetlb": hugetlb_stats(path, "max", "current"),
    }


def _pressure(path: str) -> "dict[str, Any]":
    """Return {some, full: {avg10, avg60, avg300, total}} (accounting/psi)."""
    found: dict[str, Any] = {}
    try:
        lines = read(path).split("\n")
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) == 5:
            pairs = dict(word.partition("=")[::2] for word in words[1:])
            found[words[0]] = {
                key: int(value) if key == "total" else float(value) for key, value in pairs.items()
            }
    return found


def _io_rows(path: str, keys: "tuple[tuple[str, str], ...]") -> "list[dict[str, Any]]":
    rows: list[dict[str, Any]] = []
    try:
        lines = read(path).split("\n")
    except OSError:
        return rows
    for line in lines:
        words = line.split()
        if len(words) < 2 or ":" not in words[0]:
            continue
        major, minor = words[0].split(":")
        pairs = dict(word.partition("=")[::2] for word in words[1:])
        for key, op in keys:
            if key in pairs:
                rows.append({"major": int(major), "minor": int(minor), "op": op, "value": int(pairs[key])})
    return rows
