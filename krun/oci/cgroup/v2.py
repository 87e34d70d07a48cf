"""cgroup v2: one hierarchy. Kernel documentation: admin-guide/cgroup-v2."""

import errno
import os
import time

from krun.errors import KrunError, SysError
from krun.oci.cgroup import limits
from krun.oci.cgroup.convert import cpu_weight, io_weight, max_below_zero, swap_max
from krun.oci.cgroup.files import (
    MOUNT,
    key_values,
    make_all,
    make_directory,
    own_paths,
    put,
    read,
    refused,
    write,
)
from krun.oci.cgroup.tree import groups, is_kernel_thread
from krun.oci.state import process_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from krun.log import Log
    from krun.oci.cgroup.devices import Rule
    from krun.oci.cgroup.files import Paths


def place(inner: str) -> "Paths":
    """Return {"": directory} for a cleaned cgroupsPath.

    A relative path stands beside our own cgroup, not in it: ours holds processes, and v2 does not let a group
    with processes give controllers to its children ("no internal process constraint").
    """
    if inner.startswith("/"):
        return {"": MOUNT + inner}
    own = own_paths().get("", "/")
    return {"": os.path.normpath(f"{MOUNT}/{os.path.dirname(own)}/{inner}")}


def make(paths: "Paths", log: "Log") -> "list[str]":
    """Make what is missing from the mount point down, handing on every controller there is; return it,
    deepest first.

    Errors: SysError; what was made is removed again.
    """
    path = paths[""]

    def make_way(made: "list[str]") -> None:
        here = MOUNT
        for name in path[len(MOUNT) :].strip("/").split("/"):
            if not name:
                continue
            _hand_on(here, log)
            here = f"{here}/{name}"
            try:
                make_directory(here, made)
            except FileExistsError:
                continue
            # A child of a threaded group is "domain invalid" until it is threaded as well.
            try:
                if read(here + "/cgroup.type") == "domain invalid":
                    put(here + "/cgroup.type", "threaded")
            except OSError:
                pass

    return make_all(make_way)


def _hand_on(path: str, log: "Log") -> None:
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


def limit(paths: "Paths", resources: "dict[str, Any]", log: "Log") -> None:
    """Write linux.resources, all but devices. Errors: KrunError for a value that cannot be, SysError for a file that refuses."""
    limits.apply(2, resources, lambda _tree, _what: paths[""], WRITERS, log)


def _memory(path: str, memory: "dict[str, Any]") -> None:
    size = memory.get("limit")
    swap = swap_max(memory.get("swap"), memory)
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
                raise refused(path + "/memory.swap.max", swap, error) from None
    if size:
        write(path, "memory.max", max_below_zero(size))


def _shares(path: str, cpu: "dict[str, Any]") -> None:
    if not cpu.get("idle"):  # an idle group's weight is the kernel's
        write(path, "cpu.weight", cpu_weight(cpu["shares"]))


def _bandwidth(path: str, cpu: "dict[str, Any]") -> None:
    quota, period = cpu.get("quota"), cpu.get("period")
    line = None
    if quota or period:
        word = "max" if quota is not None and quota <= 0 else str(quota) if quota else ""
        if not word:
            word = read(path + "/cpu.max").split()[0]  # period alone: keep the quota
        line = f"{word} {period}" if period else word
    # A burst over the quota so far is refused, and fits after it.
    limits.retry(path, (("cpu.max.burst", cpu.get("burst")), ("cpu.max", line)))


def _weight(path: str, block: "dict[str, Any]") -> None:
    bfq = os.path.exists(path + "/io.bfq.weight")
    if block.get("weight"):
        if bfq:
            write(path, "io.bfq.weight", block["weight"])
        else:
            write(path, "io.weight", f"default {io_weight(block['weight'])}")
    for device in block.get("weightDevice") or ():
        if device.get("weight"):
            number = f"{device['major']}:{device['minor']}"
            if bfq:
                write(path, "io.bfq.weight", f"{number} {device['weight']}")
            else:
                write(path, "io.weight", f"{number} {io_weight(device['weight'])}")


def _huge_pages(path: str, pages: "Any") -> None:
    limits.huge_pages(path, pages, "max")


def _unified(path: str, unified: "dict[str, str]") -> None:
    for name, value in unified.items():
        _unified_one(path, name, value)


def _unified_one(path: str, name: str, value: str) -> None:
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
        raise refused(f"{path}/{name}", value, error) from None


#: Of the table's column `writer`.
WRITERS: "dict[str, Callable[[str, Any], None]]" = {
    "memory": _memory,
    "shares": _shares,
    "bandwidth": _bandwidth,
    "weight": _weight,
    "hugetlb": _huge_pages,
    "rdma": limits.rdma,
    "unified": _unified,
}


def devices(paths: "Paths", rules: "list[Rule]", rootless: bool, log: "Log") -> None:
    """Attach the device program. Errors: SysError, unless rootless: loading it needs CAP_BPF on the host."""
    from krun.oci.cgroup import bpf

    try:
        bpf.attach(paths[""], rules)
    except SysError as error:
        if rootless and error.errno in (errno.EPERM, errno.EACCES):
            log.debug(f"no device rules for a rootless container: {error.message}")
            return
        raise


def _all_stand(path: str) -> bool:
    """Tell whether every user task of the group is frozen.

    cgroup.events never says so while the group holds a kernel thread, which cannot freeze: before Linux 6.14 KVM's
    kvm-nx-lpage-recovery is one, in the cgroup of whoever made the VM.
    """
    kernel_threads = 0
    for cursor in groups(path):
        try:
            threads = read("cgroup.threads", cursor.fd).split()
        except OSError:  # removed meanwhile
            continue
        for tid in threads:
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


def release(paths: "Paths") -> None:
    """Do nothing: a frozen process of cgroup v2 dies of SIGKILL (cgroup-v2, "cgroup.freeze")."""


def frozen(paths: "Paths") -> bool:
    """Return whether the group is frozen or told to be."""
    try:
        return read(paths[""] + "/cgroup.freeze") == "1"
    except OSError:
        return False


def oom_kills(paths: "Paths") -> int:
    """Return oom_kill of memory.events."""
    return key_values(paths[""] + "/memory.events").get("oom_kill", 0)
