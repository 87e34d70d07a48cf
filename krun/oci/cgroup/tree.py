"""Joins, lists, signals and removes a cgroup's processes and the groups below it."""

import errno
import os
import time
from _signal import pidfd_send_signal

from krun.errors import SysError
from krun.oci.cgroup.files import put, read
from krun.oci.state import has_ended, open_process, process_fields
from krun.treeio import Cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SIGKILL = 9  # not from signal, whose enums cost 3 ms
_LOOKS = 20  # at a directory whose groups are renamed meanwhile
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


def groups(path: str, lost: "list[str] | None" = None) -> "Iterator[Cursor]":
    """Yield a position at a directory's group, then at each one below it; nothing when it is gone. A payload may have nested its
    groups to any depth, and on cgroup v1 it may rename them meanwhile, each within its directory.

    Argument: lost, gets each directory some of whose groups had other names at every one of _LOOKS looks. Errors: SysError.
    """
    cursor = _open(path)
    if cursor is None:
        return
    try:
        yield cursor
        todo = [_Level(cursor)]
        while todo:
            level = todo[-1]
            if level.names:
                if not cursor.down(level.names.pop()):
                    level.missed = True
                elif level.is_new(cursor):
                    yield cursor
                    todo.append(_Level(cursor))
                else:
                    cursor.up()
            elif level.missed and level.looks < _LOOKS:
                level.look(cursor)
            else:
                if level.missed and lost is not None:
                    lost.append(cursor.path())
                del todo[-1]
                if todo:
                    cursor.up()
    except OSError as error:
        raise SysError.of("read cgroups", error, cursor.path()) from None
    finally:
        cursor.close()


class _Level:
    """The groups directly below one on the way of `groups`. names: those of the last look that are to be visited; missed: whether
    that look has not shown all, or a name of it led nowhere; looks: how many there were."""

    __slots__ = ("names", "missed", "looks", "_seen")

    def __init__(self, cursor: Cursor) -> None:
        self.looks = 0
        self._seen: set[int] = set()
        self.look(cursor)

    def look(self, cursor: Cursor) -> None:
        """List the names anew. A group that is renamed while they are read may be left out: the link count tells."""
        self.looks += 1
        self.names = _below(cursor)
        self.missed = len(self.names) < os.fstat(cursor.fd).st_nlink - 2

    def is_new(self, cursor: Cursor) -> bool:
        """Tell whether the cursor's group has not been visited yet, under any name."""
        number = os.fstat(cursor.fd).st_ino
        new = number not in self._seen
        self._seen.add(number)
        return new


def _open(path: str) -> "Cursor | None":
    try:
        return Cursor(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SysError.of("open cgroup", error, path) from None


def _below(cursor: Cursor) -> "list[str]":
    # st_nlink is 2 + sub-directories: one fstat instead of a directory of 40 files for the usual leaf.
    return cursor.directories() if os.fstat(cursor.fd).st_nlink > 2 else []


def processes(path: str) -> "list[int]":
    """Return the pids of a directory's group and of those below it; [] when it is gone. Errors: SysError.

    Zombies do not count: cgroup v1 lists them until they are reaped, and no signal removes them.
    """
    return [pid for cursor in groups(path) for pid in _members(cursor)]


def _members(cursor: Cursor) -> "list[int]":
    return [pid for pid in _listed(cursor) if pid > 0 and not _not_counted(pid)]


def _listed(cursor: Cursor) -> "list[int]":
    try:
        return list(map(int, read("cgroup.procs", cursor.fd).split()))
    except OSError as error:
        # EOPNOTSUPP: a threaded sub-group; its processes stand in the domain above it.
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
            return []
        raise SysError.of("read cgroup processes", error, cursor.path()) from None


def is_kernel_thread(fields: "list[bytes]") -> bool:
    """Tell whether state.process_fields() are those of a kernel thread (KVM's worker before Linux 6.14)."""
    return bool(int(fields[6]) & PF_KTHREAD)


def _not_counted(pid: int) -> bool:
    """Tell whether a member does not count: ended, or a kernel thread."""
    fields = process_fields(pid)
    return has_ended(fields) or is_kernel_thread(fields)


class Patience:
    """Seconds that may be slept in all. Work does not count: the payload decides how many groups there are."""

    __slots__ = ("_left", "_pause")

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._pause = 0.001

    def wait(self) -> bool:
        """Sleep for a moment. Return False when there is nothing left."""
        if self._left <= 0:
            return False
        time.sleep(self._pause)
        self._left -= self._pause
        self._pause = min(self._pause * 2, 0.05)
        return True


def remove(path: str, patience: Patience) -> None:
    """Remove a directory and those below it; gone already is no error.

    Argument: patience, for those that are busy (a killed process leaves its cgroup a moment after it is waitable). Errors:
    SysError with the directory that stays busy.
    """
    if _rmdir(path):
        return
    _remove_below(path, patience)
    while not _rmdir(path):
        if not patience.wait():
            raise _busy(path, path)
        _remove_below(path, patience)


def _remove_below(path: str, patience: Patience) -> None:
    cursor = _open(path)
    if cursor is None:
        return
    try:
        todo = [_below(cursor)]
        while todo:
            if todo[-1]:
                name = todo[-1].pop()
                if not _rmdir(name, cursor) and cursor.down(name):
                    todo.append(_below(cursor))
                continue
            del todo[-1]
            if todo:
                name = cursor.up()
                while not _rmdir(name, cursor):
                    if not patience.wait():
                        raise _busy(cursor.path(name), name, cursor.fd)
    except OSError as error:
        raise SysError.of("remove cgroup", error, cursor.path()) from None
    finally:
        cursor.close()


def _rmdir(name: str, cursor: "Cursor | None" = None) -> bool:
    """Remove one directory. Return False when it is busy. Errors: SysError."""
    try:
        os.rmdir(name, dir_fd=cursor.fd if cursor else None)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise SysError.of("remove cgroup", error, cursor.path(name) if cursor else name) from None
    return True


def _busy(path: str, name: str, dir_fd: "int | None" = None) -> SysError:
    try:
        left = len(read(name + "/cgroup.procs", dir_fd).split())
    except OSError:
        left = 0
    return SysError("remove cgroup", path, errno.EBUSY, f"{left} process(es) inside")


def signal_all(path: str, signal: int = SIGKILL, told: "set[int] | None" = None) -> int:
    """Send a signal to all processes of a directory's group and of those below it; one that is gone is no error.

    Argument: told, gets their pids. Returns how many processes there were; a directory whose groups could not all be found counts as
    one. Errors: SysError.
    """
    found = 0
    lost: list[str] = []
    for cursor in groups(path, lost):
        pids = _members(cursor)
        found += len(pids)
        if told is not None:
            told.update(pids)
        for first in range(0, len(pids), _AT_ONCE):
            _signal_some(cursor, pids[first : first + _AT_ONCE], signal)
    return found + len(lost)


def _signal_some(cursor: Cursor, pids: "list[int]", signal: int) -> None:
    """Send a signal to those processes that are in the cursor's group.

    A payload whose processes come and go decides which number is free, and the host gives it away again: so the group is asked
    once more after the pidfds are open.
    """
    opened: dict[int, int] = {}
    try:
        for pid in pids:
            fd = open_process(pid)
            if fd >= 0:
                opened[pid] = fd
        for pid in opened.keys() & _listed(cursor):
            try:
                pidfd_send_signal(opened[pid], signal)
            except ProcessLookupError:
                pass
    except OSError as error:
        raise SysError.of("kill processes of cgroup", error, cursor.path()) from None
    finally:
        for fd in opened.values():
            os.close(fd)
