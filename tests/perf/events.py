"""Where a process tree spends its CPU time: the kernel's trace events of the tree, and their account by cause.

The events come from an instance of tracefs of its own, which follows the forks of one process. Only time on a CPU counts: a
thread that waits, or that another process displaces, costs nothing. So the account is usable on a machine with other work.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

EVENTS = (
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "kvm/kvm_userspace_exit",
    "kvm/kvm_cpuid",
    "kvmmmu/kvm_mmu_spte_requested",
    "exceptions/page_fault_user",
    "exceptions/page_fault_kernel",
    "sched/sched_switch",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
)
BUFFER_KIB = 40_000  # for each CPU: a start has a few thousand events of 100 bytes
CLONE_NEWNS = 0x00020000
MNT_DETACH = 2
LIBC = ctypes.CDLL(None, use_errno=True)

# Rows of the account, in the order of the table.
KRUN_CODE, KRUN_CALLS = "krun: code and page faults", "krun: calls"
CODE = "code and page faults"
#: KVM gives the host its registers back behind sys_exit's event, on the way to user mode.
RETURN = "after KVM_RUN, until the next call"
KVM_FIRST, KVM_RUN = "KVM_RUN, first of a vCPU", "KVM_RUN, others"
WORKER, ENDED, EXIT = "KVM's worker thread", "destruction after the end", "exit"
OTHER = "other calls"
CAUSES = (
    KRUN_CODE,
    KRUN_CALLS,
    "execve",
    "execve: checks",
    "VM",
    "slots",
    "vCPU",
    "vCPU: CPUID",
    "vCPU: state",
    KVM_FIRST,
    KVM_RUN,
    RETURN,
    "clone",
    "memory calls",
    "populate",
    "jail",
    OTHER,
    CODE,
    WORKER,
    EXIT,
    ENDED,
)
_IOCTL = 16
_IOCTLS = {
    0xAE01: "VM",
    0xAE41: "vCPU",
    0x4008AE90: "vCPU: CPUID",
    0xC008AE05: "vCPU: CPUID",
    0x4020AE46: "slots",
}
_CALLS = {
    **dict.fromkeys((9, 10, 11, 12, 25, 28, 329, 330, 331, 462), "memory calls"),
    **dict.fromkeys((56, 57, 58, 435), "clone"),
    **dict.fromkeys((59, 322), "execve"),
    **dict.fromkeys((60, 231), EXIT),
    317: "jail",
}
_MADVISE, _POPULATE = 28, (22, 23)
_EXECVEAT, _CHECK = 322, 0x10000  # AT_EXECVE_CHECK
_LINE = re.compile(r"^\s*.{1,16}-(\d+)\s+(?:\(\s*([\d-]+)\)\s+)?\[\d+\]\s+\S+\s+(\d+)\.(\d+): (\w+): (.*)$")
_SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) ")
#: KVM's worker threads (kvm-nx-lpage-recovery-PID) are made without an event of a fork, so the trace does not follow them.
_WORKER = "kvm-nx"


@contextlib.contextmanager
def tracefs() -> Iterator[Path]:
    """A tracefs in a mount namespace of this process's own. Errors: SystemExit, if the kernel has none."""
    place = tempfile.mkdtemp(prefix="krun-tracefs-")
    for done in (
        LIBC.unshare(CLONE_NEWNS) == 0,
        LIBC.mount(None, b"/", None, (1 << 18) | (1 << 14), None) == 0,  # MS_PRIVATE, MS_REC
        LIBC.mount(b"tracefs", os.fsencode(place), b"tracefs", 0, None) == 0,
    ):
        if not done:
            os.rmdir(place)
            raise SystemExit(
                f"profile: mount tracefs: {os.strerror(ctypes.get_errno())}; be root on the host"
            )
    try:
        yield Path(place)
    finally:
        LIBC.umount2(os.fsencode(place), MNT_DETACH)
        os.rmdir(place)


class Trace:
    """Two trace instances: the events of one process tree, and the switches of all KVM worker threads, with their processes."""

    def __init__(self, root: Path) -> None:
        self.tree, self.workers = (
            root / "instances" / f"krun-{os.getpid()}-{name}" for name in ("tree", "kvm")
        )
        self.undo = contextlib.ExitStack()

    def __enter__(self) -> Trace:
        for place in (self.tree, self.workers):
            place.mkdir()
            self.undo.callback(place.rmdir)
        return self

    def __exit__(self, *_: object) -> None:
        self.undo.close()

    def start(self, pid: int) -> None:
        """Follow process `pid` and its children. The filters come before the events, because no filter means all processes."""
        for place in (self.tree, self.workers):
            (place / "trace_clock").write_text("mono")
            (place / "buffer_size_kb").write_text(str(BUFFER_KIB))
        (self.tree / "set_event_pid").write_text(str(pid))
        (self.tree / "options" / "event-fork").write_text("1")
        (self.workers / "options" / "record-tgid").write_text("1")
        switch = self.workers / "events" / "sched" / "sched_switch"
        (switch / "filter").write_text(f'prev_comm ~ "{_WORKER}*" || next_comm ~ "{_WORKER}*"')
        (switch / "enable").write_text("1")
        for name in EVENTS:
            (self.tree / "events" / name / "enable").write_text("1")

    def account(self, first: str) -> Account:
        for place in (self.tree, self.workers):
            (place / "tracing_on").write_text("0")
            lost = sum(
                int(number)
                for file in place.glob("per_cpu/cpu*/stats")
                for number in re.findall(r"^(?:overrun|dropped events): (\d+)", file.read_text(), re.M)
            )
            if lost:
                raise SystemExit(f"profile: the trace has lost {lost} events: profile a shorter program")
        with open(self.tree / "trace") as tree, open(self.workers / "trace") as workers:
            return account(tree, workers, first)


def run(argv: Sequence[str], trace: Trace | None, stdout: int) -> tuple[int, float]:
    """Run a command, traced if there is a trace. Its status, and CPU microseconds of it and of what it waited for."""
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go)
            os.read(ready, 1)
            os.close(ready)
            os.dup2(stdout, 1)
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    os.close(ready)
    try:
        if trace:
            trace.start(pid)
    finally:
        os.close(go)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), (usage.ru_utime + usage.ru_stime) * 1e6


class Account:
    """Microseconds of CPU time and numbers of events by cause."""

    def __init__(self) -> None:
        self.us: collections.Counter[str] = collections.Counter()
        self.number: collections.Counter[str] = collections.Counter()
        self.exits: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()
        self.waits: collections.Counter[str] = collections.Counter()  # uninterruptible sleeps (D): RCU, locks


class _Thread:
    def __init__(self, kind: str, since: int) -> None:
        self.kind = kind  # "": not yet a program of krun's; "krun"; "monitor"
        self.cause = self.code()
        self.running = True
        self.since = since
        self.fresh = False  # a new vCPU has not run yet
        self.ended = 0  # when

    def code(self) -> str:
        return KRUN_CODE if self.kind == "krun" else CODE

    def call(self, text: str) -> str:
        """The cause of a system call: sys_enter's text."""
        words = re.findall(r"-?\w+", text)
        number, args = int(words[1]), [int(word, 16) for word in words[2:]]
        cause = _CALLS.get(number, OTHER)
        if number == _IOCTL and args[1] == 0xAE80:
            cause = KVM_FIRST if self.fresh else KVM_RUN
            self.fresh = False
        elif number == _IOCTL:
            cause = _IOCTLS.get(args[1], "vCPU: state" if args[1] >> 8 & 0xFF == 0xAE else OTHER)
            self.fresh |= cause == "vCPU"
        elif number == _MADVISE and args[2] in _POPULATE:
            cause = "populate"
        elif number == _EXECVEAT and args[4] & _CHECK:
            cause = "execve: checks"
        if self.kind == "krun" and cause not in ("execve", "clone", EXIT):
            cause = KRUN_CALLS
        return cause


class _Reader:
    """Reads the lines of one trace. Each event of a thread ends a piece of its time, which belongs to the cause at its begin."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.found = Account()
        self.threads: dict[int, _Thread] = {}
        self.born: dict[int, str] = {}  # kinds of threads that have not run yet

    def thread(self, pid: int, now: int) -> _Thread:
        thread = self.threads.get(pid)
        if thread is None:
            kind = self.born.pop(pid, "")
            thread = self.threads[pid] = _Thread(kind, now)
            if kind:
                thread.cause = "clone"  # the child's part
        if thread.running and thread.kind:
            self.found.us[thread.cause] += now - thread.since
        thread.running, thread.since = True, now
        return thread

    def switch(self, now: int, text: str) -> None:
        match = _SWITCH.match(text)
        if not match:
            return
        before, state, after = int(match[2]), match[3], int(match[5])
        if before in self.threads:
            thread = self.thread(before, now)
            thread.running = False
            if thread.kind and state.startswith("D"):
                self.found.waits[thread.cause] += 1
        if after in self.born or after in self.threads:
            self.threads.get(after, _Thread("", now)).running = False
            self.thread(after, now)

    def event(self, pid: int, now: int, event: str, text: str) -> None:
        thread = self.thread(pid, now)
        if event == "sched_process_exec":
            thread.kind = "monitor" if "filename=/dev/fd/" in text else self.first
            thread.cause = "execve"
        elif not thread.kind:
            return
        elif event == "sched_process_fork":
            self.born[int(text.rpartition("child_pid=")[2])] = thread.kind
        elif event == "sched_process_exit":
            thread.cause, thread.ended = EXIT, now
        elif event == "sys_enter":
            thread.cause = thread.call(text)
            self.found.number[thread.cause] += 1
        elif event == "sys_exit":
            thread.cause = RETURN if thread.cause in (KVM_FIRST, KVM_RUN) else thread.code()
        elif event == "kvm_userspace_exit":
            self.found.exits[text.split()[1].removeprefix("KVM_EXIT_")] += 1
        elif event == "kvm_cpuid":
            self.found.faults["KVM, CPUID"] += 1
        elif event == "kvm_mmu_spte_requested":
            self.found.faults["KVM, page"] += 1
        elif event.startswith("page_fault"):
            self.found.faults[f"{thread.kind}, {event.removeprefix('page_fault_')}"] += 1

    def workers(self, lines: Iterable[str]) -> None:
        """The last thread of a process is often KVM's worker: then it destroys the memory and the VM."""
        begun: dict[int, int] = {}
        for _, process, now, _, text in _events(lines):
            match = _SWITCH.match(text)
            if match and match[4].startswith(_WORKER):
                begun[int(match[5])] = now
            if match and match[1].startswith(_WORKER) and int(match[2]) in begun:
                begin = begun.pop(int(match[2]))
                maker = self.threads.get(process)
                if maker and maker.kind == "monitor":
                    cause = ENDED if maker.ended and maker.ended <= begin else WORKER
                    self.found.us[cause] += now - begin
                    self.found.waits[cause] += match[3].startswith("D")


def _events(lines: Iterable[str]) -> Iterator[tuple[int, int, int, str, str]]:
    """Thread, process (-1: not in the trace), microsecond, event, text."""
    for line in lines:
        match = _LINE.match(line)
        if match:
            process = int(match[2]) if (match[2] or "-").isdigit() else -1
            yield int(match[1]), process, int(match[3]) * 1_000_000 + int(match[4]), match[5], match[6]


def account(tree: Iterable[str], workers: Iterable[str], first: str) -> Account:
    """Read a trace. `first`: what the command is before it executes a monitor: "krun", or "" to leave that out.

    The monitor is executed by a descriptor, and its name in the event is therefore below /dev/fd.
    """
    reader = _Reader(first)
    for pid, _, now, event, text in _events(tree):
        if event == "sched_switch":
            reader.switch(now, text)
        else:
            reader.event(pid, now, event, text)
    reader.workers(workers)
    return reader.found
