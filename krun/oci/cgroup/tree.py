"""Joins, lists, signals and removes a cgroup's processes and the groups below it."""

import errno
import os
import time
from _signal import pidfd_send_signal

from krun.errors import SysError
from krun.oci.cgroup.files import put, read
from krun.oci.state import process_fields

SIGKILL = 9  # not from signal, whose enums cost 3 ms
_AT_ONCE = 200  # descriptors: far below the usual RLIMIT_NOFILE of 1024
PF_KTHREAD = 0x00200000  # include/linux/sched.h; field 9 of /proc/PID/stat


def enter(path: str, pid: int) -> None:
    """Put a process into a directory's group. Errors: SysError."""
    deadline = 0.0
    while True:
        try:
            put(path + "/cgroup.procs", pid)
            return
        except OSError as error:
            # EINVAL: the task is between clone and its first run (kernel, cgroup_attach_task); runc retries as well.
            now = time.monotonic()
            deadline = deadline or now + 0.1
            if error.errno != errno.EINVAL or now > deadline:
                raise SysError("join cgroup", path, error.errno or 0, f"pid {pid}") from None
            time.sleep(0.002)


def processes(path: str) -> "list[int]":
    """Return the pids of a directory's group and of those below it; [] when it is gone. Errors: SysError.

    Zombies do not count: cgroup v1 lists them until they are reaped, and no signal removes them.
    """
    pids: list[int] = []
    _collect(path, pids)
    return [pid for pid in pids if pid > 0 and not _not_counted(pid)]


def _collect(path: str, pids: "list[int]") -> None:
    try:
        pids.extend(map(int, read(path + "/cgroup.procs").split()))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        # EOPNOTSUPP: a threaded sub-group; its processes stand in the domain above it.
        if error.errno not in (errno.ENODEV, errno.EOPNOTSUPP):
            raise SysError.of("read cgroup processes", error, path) from None
    for name in _children(path):
        _collect(f"{path}/{name}", pids)


def _children(path: str) -> "list[str]":
    try:
        # st_nlink is 2 + sub-directories: one stat instead of a directory of 40 files for the usual leaf.
        if os.stat(path).st_nlink <= 2:
            return []
        return [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def is_kernel_thread(fields: "list[bytes]") -> bool:
    """Tell whether state.process_fields() are those of a kernel thread (KVM's worker before Linux 6.14)."""
    return bool(int(fields[6]) & PF_KTHREAD)


def _not_counted(pid: int) -> bool:
    """Tell whether a member does not count: gone, a zombie, or a kernel thread."""
    fields = process_fields(pid)
    return not fields or fields[0] in (b"Z", b"X") or is_kernel_thread(fields)


def remove(path: str, deadline: float) -> None:
    """Remove a directory and those below it; gone already is no error.

    Argument: deadline, time.monotonic() until when a busy one is tried again (a killed process leaves its cgroup a moment
    after it is waitable). Errors: SysError with the directory that stays busy.
    """
    pause = 0.001
    while True:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise SysError.of("remove cgroup", error, path) from None
            for name in _children(path):
                remove(f"{path}/{name}", deadline)
            if time.monotonic() > deadline:
                try:
                    left = len(read(path + "/cgroup.procs").split())
                except OSError:
                    left = 0
                raise SysError("remove cgroup", path, error.errno, f"{left} process(es) inside") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def signal_all(path: str, pids: "list[int]", signal: int = SIGKILL) -> None:
    """Send a signal to those processes that are in a directory's group or below it; one that is gone is no error.

    Arguments: path, the directory; pids, what processes() has said. A payload whose processes come and go decides which
    number is free, and the host gives it away again: so the group is asked once more after the pidfds are open. Errors:
    SysError.
    """
    for first in range(0, len(pids), _AT_ONCE):
        opened: dict[int, int] = {}
        try:
            for pid in pids[first : first + _AT_ONCE]:
                try:
                    opened[pid] = os.pidfd_open(pid)
                except ProcessLookupError:
                    pass
            for pid in opened.keys() & processes(path):
                try:
                    pidfd_send_signal(opened[pid], signal)
                except ProcessLookupError:
                    pass
        except OSError as error:
            raise SysError.of("kill processes of cgroup", error, path) from None
        finally:
            for fd in opened.values():
                os.close(fd)
