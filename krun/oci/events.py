"""krun events: statistics and out-of-memory notices, a JSON object per line (shape: runc types/events.go)."""

import os
import select
import sys
import time

from krun.errors import KrunError, UsageError
from krun.jsonio import dumps
from krun.kvm import board
from krun.oci import resctrl
from krun.oci import state as st
from krun.oci.cgroup.group import Cgroup
from krun.oci.kill import open_init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options

_LOOK_AGAIN_S = 5.0
_LOOK_S = 0.02
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def main(opts: "Options") -> int:
    """Print statistics of container opts.id once (--stats), or every --interval together with OOM events
    until it ends.

    Errors: NotFoundError, KrunError when it does not run, UsageError for a bad interval.
    """
    interval = duration(opts.interval or "5s")
    if interval <= 0:
        raise UsageError("duration interval must be greater than 0")
    statedir = st.StateDir(opts.root, opts.id)
    state = statedir.load()
    if st.status(state, statedir) == st.STOPPED:
        raise KrunError(f"container with id {opts.id} is not running")
    cgroup = Cgroup.load(state.cgroup_paths, opts.logger, state.manager)
    if opts.stats:
        _put({"type": "stats", "id": state.id, "data": data(statedir, state, cgroup)})
        return 0
    _watch(statedir, state, cgroup, interval)
    return 0


def duration(text: str) -> float:
    """Return Go's duration ("1h2m", "1.5s", "300ms") in seconds. Errors: UsageError."""
    total = 0.0
    rest = text
    while rest:
        end = 0
        while end < len(rest) and (rest[end].isdigit() or rest[end] == "."):
            end += 1
        unit = next(
            (name for name in ("ns", "us", "µs", "ms", "s", "m", "h") if rest[end:].startswith(name)), ""
        )
        try:
            total += float(rest[:end]) * _UNITS[unit]
        except (ValueError, KeyError):
            raise UsageError(f'invalid duration "{text}", use for example 5s or 1m') from None
        rest = rest[end + len(unit) :]
    return total


def data(statedir: st.StateDir, state: st.ContainerState, cgroup: Cgroup) -> "dict[str, Any]":
    """Return the statistics of a container."""
    return {
        **cgroup.stats(),
        "intel_rdt": resctrl.stats(state),
        "network_interfaces": _interfaces(state),
        "krun": {"calls": calls(board.counters(f"{statedir.path}/{st.BOARD}"))},
    }


def calls(counters: "list[int]") -> "dict[str, Any] | None":
    """Return how the container's system calls were served, None without counters.

    Arguments: counters, of the board, by index. A container that was made by another version of krun has none.
    """
    if len(counters) < board.COUNTS:
        return None
    return {
        "exits": counters[board.EXITS],
        "sites": counters[board.SITES],
        "patched": counters[board.PATCHED],
        "completed": {name: counters[board.COMPLETED + way] for name, way in board.WAYS.items()},
        "declined": {name: counters[board.DECLINED + way] for name, way in board.WAYS.items()},
        "refused": counters[board.REFUSED],
        "unknown": counters[board.UNKNOWN],
        "refusedCalls": board.refused(counters),
    }


def _interfaces(state: st.ContainerState) -> "list[dict[str, Any]] | None":
    """Return the counters of the container's own network namespace (/proc/PID/net/dev, proc(5)), None if
    shared.
    """
    try:
        if os.readlink(f"/proc/{state.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return None
        # The payload names its interfaces: bytes other than NUL, "/", ":" and white space (dev_valid_name() in the kernel).
        with open(f"/proc/{state.pid}/net/dev", encoding="utf-8", errors="replace", newline="\n") as file:
            lines = file.read().split("\n")[2:]
    except OSError:
        return None
    found = []
    for line in lines:
        name, _, counters = line.partition(":")
        numbers = [int(word) for word in counters.split()]
        if name.strip() == "lo" or len(numbers) < 12:
            continue
        keys = (
            "RxBytes",
            "RxPackets",
            "RxErrors",
            "RxDropped",
            "TxBytes",
            "TxPackets",
            "TxErrors",
            "TxDropped",
        )
        values = numbers[0:4] + numbers[8:12]
        found.append({"Name": name.strip(), **dict(zip(keys, values, strict=True))})
    return found or None  # null, as runc


def _put(event: "dict[str, Any]") -> None:
    sys.stdout.write(dumps(event) + "\n")
    sys.stdout.flush()


def _watch(statedir: st.StateDir, state: st.ContainerState, cgroup: Cgroup, interval: float) -> None:
    pidfd = open_init(state)
    if pidfd < 0:
        return
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    oom, keep = _oom_descriptor(cgroup)
    if oom >= 0:
        # v2's memory.events wakes pollers by POLLPRI (kernfs); v1's eventfd by POLLIN.
        poll.register(oom, select.POLLIN if keep >= 0 else select.POLLPRI)
    kills = cgroup.oom_kills()
    try:
        due = time.monotonic()
        look_again = 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                _put({"type": "stats", "id": state.id, "data": data(statedir, state, cgroup)})
                due = max(due + interval, now)
            wait = max(0.0, due - time.monotonic())
            if now < look_again:
                wait = min(wait, _LOOK_S)
            ready = [fd for fd, _ in poll.poll(wait * 1000)]
            if oom in ready:
                _drain(oom, keep >= 0)
                look_again = time.monotonic() + _LOOK_AGAIN_S
            # The notice alone is no kill (usage may only touch the limit), and v1 gives it before it counts
            # the kill (mm/memcontrol-v1.c, mem_cgroup_oom_notify): the counter decides, for a while after it.
            count = cgroup.oom_kills()
            if count > kills:
                kills = count
                look_again = 0.0
                _put({"type": "oom", "id": state.id})
            if pidfd in ready:
                return
    finally:
        for fd in (pidfd, oom, keep):
            if fd >= 0:
                os.close(fd)


def _oom_descriptor(cgroup: Cgroup) -> "tuple[int, int]":
    """Return (descriptor to poll, descriptor to keep open or -1); (-1, -1) without a memory controller."""
    try:
        if "" in cgroup.paths:
            return os.open(cgroup.paths[""] + "/memory.events", os.O_RDONLY | os.O_CLOEXEC), -1
        path = cgroup.paths["memory"]
        control = os.open(path + "/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with open(path + "/cgroup.event_control", "w") as file:
            file.write(f"{event} {control}")
        return event, control
    except (OSError, KeyError):
        return -1, -1


def _drain(fd: int, eventfd: bool) -> None:
    try:
        if eventfd:
            os.eventfd_read(fd)
        else:
            os.lseek(fd, 0, os.SEEK_SET)
            os.read(fd, 4096)
    except OSError:
        pass
