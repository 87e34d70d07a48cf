"""cgroup v1: one hierarchy per controller. Kernel documentation: admin-guide/cgroup-v1."""

import errno
import os
import time

from krun.errors import KrunError, SysError
from krun.oci.cgroup import limits
from krun.oci.cgroup.controllers import CONTROLLERS
from krun.oci.cgroup.files import (
    HYBRID,
    key_values,
    make_all,
    make_directory,
    own_paths,
    put,
    read,
    refused,
    write,
)
from krun.oci.cgroup.tree import groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from krun.log import Log
    from krun.oci.cgroup.devices import Rule
    from krun.oci.cgroup.files import Paths

#: Hierarchies that a container is put into: those of the table, and those that limit nothing by a number.
HIERARCHIES = frozenset(row.tree for row in CONTROLLERS if row.tree) | frozenset(
    ("cpuacct", "devices", "freezer", "perf_event", "misc", "name=systemd")
)


def mounts() -> "dict[str, tuple[str, str]]":
    """Return controller to (mount point, root of the mount inside the hierarchy), from /proc/self/mountinfo (proc(5))."""
    found: dict[str, tuple[str, str]] = {}
    for line in read("/proc/self/mountinfo").split("\n"):
        front, _, back = line.partition(" - ")
        if not back.startswith("cgroup "):
            continue
        fields = front.split(" ")
        for name in back.split(" ", 2)[2].split(","):
            if name in HIERARCHIES and name not in found:
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


def make(paths: "Paths", log: "Log") -> "list[str]":
    """Make what is missing and return it, deepest first.

    Drops "unified" from `paths` when the v2 tree of a hybrid host is not ours to write: no limit stands
    there.
    Errors: SysError; what was made is removed again.
    """

    def make_trees(made: "list[str]") -> None:
        for name, path in list(paths.items()):
            if path not in made and not _make_one(name, path, made, log):
                del paths[name]

    return make_all(make_trees)


def _make_one(name: str, path: str, made: "list[str]", log: "Log") -> bool:
    try:
        make_directory(path, made)
    except FileExistsError:
        if name == "cpuset":
            _fill_cpuset(path)
        return True
    except SysError as error:
        if error.errno == errno.ENOENT:
            return _make_one(name, os.path.dirname(path), made, log) and _make_one(name, path, made, log)
        if name == "unified":
            log.debug(error.message)
            return False
        raise
    if name == "cpuset":
        _fill_cpuset(path)
    return True


def _fill_cpuset(path: str) -> None:
    """Gives a cpuset CPUs and memory nodes from above: an empty one takes no process. One above that somebody has made and left empty is
    filled first, as runc does. Errors: SysError."""
    parent = os.path.dirname(path)
    for file in ("cpuset.cpus", "cpuset.mems"):
        if read(f"{path}/{file}"):
            continue
        if not read(f"{parent}/{file}"):
            _fill_cpuset(parent)  # the hierarchy's root is never empty
        write(path, file, read(f"{parent}/{file}"))


def _need(paths: "Paths", controller: str, what: str) -> str:
    path = paths.get(controller)
    if path is None:
        raise KrunError(f"set {what}: the {controller} cgroup controller is not mounted on this host")
    return path


def limit(paths: "Paths", resources: "dict[str, Any]", log: "Log") -> None:
    """Write linux.resources, all but devices. Errors: KrunError for a value that cannot be, SysError for a file that refuses."""
    limits.apply(1, resources, lambda tree, what: _need(paths, tree, what), WRITERS, log)


def _memory(path: str, memory: "dict[str, Any]") -> None:
    size, swap = memory.get("limit"), memory.get("swap")
    if size == -1 and not swap and os.path.exists(path + "/memory.memsw.limit_in_bytes"):
        swap = -1  # no limit at all is meant; memsw must be lifted first
    # memsw >= limit must hold at every moment, so the one that gives room goes first.
    if size and swap and (swap == -1 or int(read(path + "/memory.limit_in_bytes")) < swap):
        write(path, "memory.memsw.limit_in_bytes", swap)
        swap = None
    if size:
        _memory_limit(path, size)
    if swap:
        write(path, "memory.memsw.limit_in_bytes", swap)


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
        raise refused(path + "/memory.limit_in_bytes", size, error) from None


def _shares(path: str, cpu: "dict[str, Any]") -> None:
    if cpu.get("idle"):
        return  # an idle group's weight is the kernel's
    write(path, "cpu.shares", cpu["shares"])
    # The kernel clamps silently; a limit that is not what was asked for is an error (as in runc).
    real = int(read(path + "/cpu.shares"))
    if real != cpu["shares"]:
        word = "maximum" if real < cpu["shares"] else "minimum"
        raise KrunError(f"the {word} allowed cpu-shares is {real}")


def _bandwidth(path: str, cpu: "dict[str, Any]") -> None:
    # The kernel refuses a quota under the burst and a burst over the quota, and a period that makes quota/period exceed
    # the parent's: what is refused now may fit after the other values.
    limits.retry(
        path,
        (
            ("cpu.cfs_burst_us", cpu.get("burst")),
            ("cpu.cfs_period_us", cpu.get("period") or None),
            ("cpu.cfs_quota_us", cpu.get("quota") or None),
        ),
    )


def _weight(path: str, block: "dict[str, Any]") -> None:
    def name(word: str) -> str:
        # The CFQ names went with CFQ (5.0); BFQ has its own, without leaf weights.
        bfq = f"blkio.bfq.{word}"
        return bfq if os.path.exists(f"{path}/{bfq}") else f"blkio.{word}"

    if block.get("weight"):
        write(path, name("weight"), block["weight"])
    for device in block.get("weightDevice") or ():
        number = f"{device['major']}:{device['minor']}"
        if device.get("weight"):
            write(path, name("weight_device"), f"{number} {device['weight']}")
        if device.get("leafWeight"):
            write(path, "blkio.leaf_weight_device", f"{number} {device['leafWeight']}")


def _huge_pages(path: str, pages: "Any") -> None:
    limits.huge_pages(path, pages, "limit_in_bytes")


#: Of the table's column `writer`.
WRITERS: "dict[str, Callable[[str, Any], None]]" = {
    "memory": _memory,
    "shares": _shares,
    "bandwidth": _bandwidth,
    "weight": _weight,
    "hugetlb": _huge_pages,
    "rdma": limits.rdma,
}


def devices(paths: "Paths", rules: "list[Rule]", rootless: bool, log: "Log") -> None:
    """Write device rules in order (cgroup-v1/devices): "a" resets the list. Errors: SysError."""
    path = paths.get("devices")
    if path is None or rootless:
        return  # without the controller nothing can be denied; a rootless user may not write the files
    opened: dict[str, int] = {}  # each file once: a start has some fifteen rules, each write is one of them
    try:
        for file, text in _device_lines(rules):
            name = f"{path}/{file}"
            try:
                if file not in opened:
                    opened[file] = os.open(name, os.O_WRONLY | os.O_CLOEXEC)
                os.write(opened[file], text.encode())
            except OSError as error:
                raise refused(name, text, error) from None
    finally:
        for fd in opened.values():
            os.close(fd)


def _device_lines(rules: "list[Rule]") -> "list[tuple[str, str]]":
    """Return what is to be written, in order: (file, line). A reset right behind the same reset is left out."""
    lines: list[tuple[str, str]] = []
    for allow, kind, major, minor, access in rules:
        file = "devices.allow" if allow else "devices.deny"
        if kind == "a" and major is None and minor is None:
            if lines[-1:] != [(file, "a")]:
                lines.append((file, "a"))
            continue
        for one in ("b", "c") if kind == "a" else (kind,):
            numbers = f"{'*' if major is None else major}:{'*' if minor is None else minor}"
            lines.append((file, f"{one} {numbers} {access}"))
    return lines


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


def release(paths: "Paths") -> None:
    """Thaw every group, those that the payload has frozen below its own included: a frozen process does not die of SIGKILL
    (cgroup-v1/freezer-subsystem: a child that is frozen by itself stays so when its parent is thawed). Errors: SysError."""
    path = paths.get("freezer")
    if path is None:
        return
    for cursor in groups(path):
        try:
            if read("freezer.self_freezing", cursor.fd) == "1":
                put("freezer.state", "THAWED", cursor.fd)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise SysError.of("thaw cgroup", error, cursor.path()) from None


def frozen(paths: "Paths") -> bool:
    """Return whether the freezer says FROZEN or FREEZING."""
    try:
        return read(paths["freezer"] + "/freezer.state").startswith("FR")
    except (OSError, KeyError):
        return False


def oom_kills(paths: "Paths") -> int:
    """Return oom_kill of memory.oom_control."""
    return key_values(paths["memory"] + "/memory.oom_control").get("oom_kill", 0) if "memory" in paths else 0
