"""What the kernel's schedulers and the memory policy know of the payload: sched_setattr(2), ioprio_set(2), set_mempolicy(2),
personality(2), oom_score_adj.
"""

import os

from krun.errors import ConfigError, SysError
from krun.oci.procfs import write_proc
from krun.oci.steps import Context, Step
from krun.sysio import (
    RESOLVE_BENEATH,
    check,
    ffi,
    lib,
    openat2,
    write_host_proc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Scheduler

_POLICIES = {
    "SCHED_OTHER": 0, "SCHED_FIFO": 1, "SCHED_RR": 2, "SCHED_BATCH": 3, "SCHED_ISO": 4, "SCHED_IDLE": 5,
    "SCHED_DEADLINE": 6,
}  # fmt: skip


_SCHED_FLAGS = {
    "SCHED_FLAG_RESET_ON_FORK": 0x01, "SCHED_FLAG_RECLAIM": 0x02, "SCHED_FLAG_DL_OVERRUN": 0x04,
    "SCHED_FLAG_KEEP_POLICY": 0x08, "SCHED_FLAG_KEEP_PARAMS": 0x10, "SCHED_FLAG_UTIL_CLAMP_MIN": 0x20,
    "SCHED_FLAG_UTIL_CLAMP_MAX": 0x40,
}  # fmt: skip


class SetScheduler(Step):
    """process.scheduler (sched_setattr(2))."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler

    def describe(self) -> str:
        s = self.scheduler
        return f"scheduler {s.policy} nice {s.nice} priority {s.priority} flags {' '.join(s.flags) or 'none'}"

    def execute(self, ctx: Context) -> None:
        s = self.scheduler
        flags = 0
        for flag in s.flags:
            flags |= _SCHED_FLAGS[flag]
        policy = _POLICIES[s.policy]
        result = lib.kr_sched_setattr(0, policy, flags, s.nice, s.priority, s.runtime, s.deadline, s.period)
        check(result, "set scheduler", s.policy)


_IO_CLASSES = {"IOPRIO_CLASS_RT": 1, "IOPRIO_CLASS_BE": 2, "IOPRIO_CLASS_IDLE": 3}


class SetIoPriority(Step):
    """process.ioPriority, of the whole process group (ioprio_set(2))."""

    __slots__ = ("kind", "priority")

    def __init__(self, kind: str, priority: int) -> None:
        self.kind = kind
        self.priority = priority

    def describe(self) -> str:
        return f"io priority {self.kind} {self.priority}"

    def execute(self, ctx: Context) -> None:
        if self.kind:
            value = _IO_CLASSES[self.kind] << 13 | self.priority
            check(lib.kr_ioprio_set(2, 0, value), "set io priority", self.kind)


class SetPersonality(Step):
    """linux.personality."""

    __slots__ = ("domain",)

    def __init__(self, domain: str) -> None:
        self.domain = domain

    def describe(self) -> str:
        return f"personality {self.domain}"

    def execute(self, ctx: Context) -> None:
        check(lib.kr_personality(8 if self.domain == "LINUX32" else 0), "set personality", self.domain)


_MPOL_MODES = {
    "MPOL_DEFAULT": 0, "MPOL_PREFERRED": 1, "MPOL_BIND": 2, "MPOL_INTERLEAVE": 3, "MPOL_LOCAL": 4,
    "MPOL_PREFERRED_MANY": 5, "MPOL_WEIGHTED_INTERLEAVE": 6,
}  # fmt: skip


_MPOL_FLAGS = {
    "MPOL_F_NUMA_BALANCING": 1 << 13,
    "MPOL_F_RELATIVE_NODES": 1 << 14,
    "MPOL_F_STATIC_NODES": 1 << 15,
}


def number_list(text: str, pointer: str) -> "list[int]":
    """Returns the numbers of a list like "0-3,7" (cpuset(7), "List format"). Raises ConfigError."""
    numbers: list[int] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True) or not part.isascii():
            raise ConfigError(pointer, f'"{text}" is not a list like 0-3,7')
        low, high = int(first), int(last) if dash else int(first)
        if low > high or high > 65535:
            raise ConfigError(pointer, f'"{text}" is not a list like 0-3,7')
        numbers.extend(range(low, high + 1))
    return numbers


class SetMemoryPolicy(Step):
    """linux.memoryPolicy (set_mempolicy(2))."""

    __slots__ = ("mode", "nodes", "flags")

    def __init__(self, mode: str, nodes: "list[int]", flags: "list[str]") -> None:
        self.mode = mode
        self.nodes = nodes
        self.flags = flags

    def describe(self) -> str:
        return f"memory policy {self.mode} nodes {self.nodes} flags {' '.join(self.flags) or 'none'}"

    def execute(self, ctx: Context) -> None:
        mode = _MPOL_MODES[self.mode]
        for flag in self.flags:
            mode |= _MPOL_FLAGS[flag]
        words = max(self.nodes, default=0) // 64 + 1
        bits = ffi.new("unsigned long[]", words)
        for node in self.nodes:
            bits[node // 64] |= 1 << node % 64
        # maxnode counts one bit more than it uses (set_mempolicy(2), "BUGS" of the man page's history).
        result = lib.kr_set_mempolicy(
            mode, bits if self.nodes else ffi.NULL, words * 64 + 1 if self.nodes else 0
        )
        check(result, "set memory policy", self.mode)


class SetOomScore(Step):
    """process.oomScoreAdj."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def describe(self) -> str:
        return f"oom_score_adj {self.value}"

    def execute(self, ctx: Context) -> None:
        # Once in a user namespace our files in /proc are the host root's, and a value cannot be lowered: done already then.
        fd = openat2(ctx.proc, "self/oom_score_adj", os.O_RDONLY, RESOLVE_BENEATH, name="self/oom_score_adj")
        try:
            found = os.read(fd, 16)
        finally:
            os.close(fd)
        if int(found) != self.value:
            write_proc(ctx, "self/oom_score_adj", str(self.value), "set oom_score_adj")


def set_oom_score_early(pid: "int | str", value: "int | None") -> None:
    """Sets the oom_score_adj of a process that is about to lose the right to it, because it gets other ids.

    Arguments: pid, or "self"; value, None for none. Raises SysError.
    """
    if value is None:
        return
    try:
        write_host_proc(f"{pid}/oom_score_adj", str(value))
    except SysError as e:
        raise SysError("set oom_score_adj", str(value), e.errno, e.text) from None
