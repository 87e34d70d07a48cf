"""Python wrappers of the host calls in `krun.native._krun`; every failure is a SysError(op, path, errno).

A thin wrapper has the system call's name. Calls that `os` has are used from `os`; the caller makes a SysError of an
OSError. This file imports only what the interpreter has in itself, because it is on every hot path.
"""

import os
import select
import time
from _signal import SIGCHLD, SIGKILL
from errno import EAGAIN, EINTR, EINVAL, ENAMETOOLONG

from krun.errors import SysError
from krun.native import _krun

ffi = _krun.ffi
lib = _krun.lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000

# openat2(2)
RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

# clone(2), namespaces(7)
CLONE_NEWTIME = 0x00000080
CLONE_PARENT = 0x00008000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# openat2 is tried again so often at least, and so long (s).
_OPEN_TRIES, _OPEN_SECONDS = 32, 2.0

CLOSE_RANGE_CLOEXEC = 4
# Largest soft RLIMIT_STACK of a monitor that starts: KR_EXEC_STACK of native/machine/layout.h.
STACK_SOFT = 32 << 20
MAX_FD = 0xFFFFFFFF
# User ids for setresuid_apart. A process with the saved id may signal the caller (kill(2)): so nobody's; in a user namespace its
# root, which could do so before; the last ones are for that root.
APART = (0xFFFFFFFD, 0, 65533, 65534, 1000, 1)

# memfd_create(2)
MFD_CLOEXEC = 1
MFD_ALLOW_SEALING = 2
MFD_NOEXEC_SEAL = 8
MFD_EXEC = 16
F_SEAL_ALL = 0x0F  # SEAL | SHRINK | GROW | WRITE

# prctl(2)
PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4

# File system magic numbers (statfs(2))
PROC_SUPER_MAGIC = 0x9FA0
DEVPTS_SUPER_MAGIC = 0x1CD1
BINFMTFS_MAGIC = 0x42494E4D


def check(result: int, op: str, path: str = "", text: str = "") -> int:
    """Returns `result` of a native call, or raises SysError if it is a negative errno."""
    if result < 0:
        raise SysError(op, path, -result, text)
    return result


def enc(path: "str | bytes") -> bytes:
    """Returns a path or word as the bytes that the kernel gets (surrogateescape, as os.fsencode)."""
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")


# --- paths
# ----------------------------------------------------------------------------------------------------------


def openat2(dirfd: int, path: str, flags: int, resolve: int, mode: int = 0, name: str = "") -> int:
    """openat2(2), close-on-exec. Returns a descriptor; raises SysError naming `name` or the path."""
    return check(try_openat2(dirfd, path, flags, resolve, mode), "open", name or path)


def try_openat2(dirfd: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """openat2(2) whose failure is the negative errno returned.

    The kernel answers EAGAIN when it meets ".." and something was renamed or mounted on the host since the walk began (openat2(2),
    RESOLVE_BENEATH), and when another process has a lease on the file. Another try helps mostly. But links of an image make a walk
    take 0.1 s, and a payload renames and takes leases without end, so the patience has an end.
    """
    arguments = dirfd, enc(path), flags | os.O_CLOEXEC, mode, resolve
    end = 0.0
    tries = 0
    while True:
        result = int(lib.kr_openat2(*arguments))
        if result != -EAGAIN and result != -EINTR:
            return result
        tries += 1
        now = time.monotonic()
        end = end or now + _OPEN_SECONDS
        if tries >= _OPEN_TRIES:
            if now > end:
                return result
            time.sleep(0.001)


def mknodat(dirfd: int, name: str, mode: int, major: int, minor: int) -> None:
    """mknodat(2)."""
    check(lib.kr_mknodat(dirfd, enc(name), mode, major, minor), "mknod", name)


def fs_magic(fd: int, name: str = "") -> int:
    """Returns the f_type of the file system that `fd` lies on (fstatfs(2))."""
    magic = ffi.new("uint64_t *")
    check(lib.kr_fstype(fd, magic), "fstatfs", name)
    return int(magic[0])


def mount_id(fd: int, name: str = "") -> int:
    """Returns the number of the mount that `fd` lies on, as mountinfo has it (statx(2), STATX_MNT_ID)."""
    number = ffi.new("uint64_t *")
    check(lib.kr_mount_id(fd, number), "statx", name)
    return int(number[0])


def memfd(name: str, content: bytes) -> int:
    """Returns a close-on-exec memfd with this content; it is sealed, and cannot be executed (since Linux 6.3)."""
    fd = lib.kr_memfd_create(enc(name), MFD_CLOEXEC | MFD_NOEXEC_SEAL)
    if fd == -EINVAL:
        fd = lib.kr_memfd_create(enc(name), MFD_CLOEXEC | MFD_ALLOW_SEALING)
    check(fd, "memfd_create", name)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    check(lib.kr_seal(fd, F_SEAL_ALL), "seal", name)
    return int(fd)


def sealed_copy(source_fd: int, name: str) -> int:
    """A sealed, executable memory file with the content of `source_fd`. Raises SysError; EACCES: vm.memfd_noexec is 2 in our pid
    namespace."""
    fd = lib.kr_memfd_create(enc(name), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC)
    if fd == -EINVAL:  # Linux before 6.3, where each memory file is executable
        fd = lib.kr_memfd_create(enc(name), MFD_CLOEXEC | MFD_ALLOW_SEALING)
    check(fd, "memfd_create", name)
    os.lseek(source_fd, 0, os.SEEK_SET)
    check(lib.kr_copy_file(source_fd, fd), "copy", name)
    os.fchmod(fd, 0o111)
    check(lib.kr_seal(fd, F_SEAL_ALL), "seal", name)
    return fd


def open_proc(path: str, flags: int) -> int:
    """Opens a file of the host's /proc, a path below it. It must be a procfs, and nothing may be mounted over the file: what is
    written there (id maps, labels) would be lost, or written elsewhere (CVE-2019-16884, CVE-2025-52881). Returns a descriptor.
    """
    try:
        top = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise SysError("open", "/proc", e.errno or 0) from None
    try:
        if fs_magic(top, "/proc") != PROC_SUPER_MAGIC:
            raise SysError("open", f"/proc/{path}", 0, "/proc is not a procfs; mount one there")
        # self and thread-self are ordinary links; magic ones are refused (RESOLVE_BENEATH).
        return openat2(top, path, flags, RESOLVE_BENEATH | RESOLVE_NO_XDEV, name=f"/proc/{path}")
    finally:
        os.close(top)


def write_host_proc(path: str, text: str) -> None:
    """Writes `text` with one write(2) into a file of the host's /proc, as open_proc opens it. Raises SysError."""
    fd = open_proc(path, os.O_WRONLY)
    try:
        os.write(fd, os.fsencode(text))
    except OSError as e:
        raise SysError("write", f"/proc/{path}", e.errno or 0) from None
    finally:
        os.close(fd)


# --- processes and namespaces
# ---------------------------------------------------------------------------------------


def clone3(flags: int, exit_signal: int = SIGCHLD, cgroup_fd: int = -1) -> "tuple[int, int]":
    """clone3(2) of the (single-threaded) caller. Returns (0, -1) in the child, (pid, pidfd) in the parent."""
    pidfd = ffi.new("int *", -1)
    pid = check(lib.kr_clone3(flags, exit_signal, cgroup_fd, pidfd), "clone3", "", f"flags {flags:#x}")
    return pid, (pidfd[0] if pid else -1)


def clone_inside(
    flags: int,
    pid_ns: int,
    others: "tuple[int, int]",
    root_fd: int,
    cgroup_fd: int,
    keep: "Iterable[int]",
    name: str,
) -> int:
    """clone3(2) of the (single-threaded) caller into a container: its namespaces, cgroup, root, descriptors from birth.

    Arguments: flags, CLONE_NEW*; pid_ns, a pidfd or namespace; others, the same and what of it to join (CLONE_NEW*); root_fd, the
    child's root and working directory, -1 for ours; cgroup_fd, of cgroup v2 or -1; keep, what of our descriptors from 3 on the child
    has; name of the pid namespace, for errors.

    Returns 0 in the child, its pid in the parent. Raises SysError; EAGAIN also where the cgroup's pids.max has no room for two more
    processes (the other one ends at once).
    """
    numbers = sorted({fd for fd in keep if fd >= 3})
    where = ffi.new("int *")
    pid = lib.kr_clone_inside(
        flags, SIGCHLD, cgroup_fd, root_fd, pid_ns, *others, numbers, len(numbers), where
    )
    if pid < 0:
        op = ("clone3", "chroot", "setns", "close_range", "clone3", "setns")[where[0]]
        raise SysError(op, {2: name, 5: "namespaces of the container"}.get(where[0], ""), -pid)
    return int(pid)


def set_undumpable() -> None:
    """prctl(PR_SET_DUMPABLE, 0): no process without CAP_SYS_PTRACE over our user namespace sees our root, working
    directory, descriptors and memory in /proc (proc(5)). A change of ids sets what fs.suid_dumpable says: say it again.
    """
    check(lib.kr_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl", "PR_SET_DUMPABLE")


def die_with_parent() -> None:
    """prctl(PR_SET_PDEATHSIG, SIGKILL): the kernel kills us when our parent ends. A change of ids clears it (PR_SET_PDEATHSIG(2const),
    commit_creds() in kernel/cred.c): say it again.
    """
    check(lib.kr_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl", "PR_SET_PDEATHSIG")


def unshare(flags: int, name: str = "") -> None:
    """unshare(2)."""
    check(lib.kr_unshare(flags), "unshare", name)


def setns(fd: int, nstype: int, name: str = "") -> None:
    """setns(2) by a namespace's descriptor or a pidfd."""
    check(lib.kr_setns(fd, nstype), "setns", name)


def pidfd_open(pid: int) -> int:
    """pidfd_open(2), close-on-exec by its nature."""
    try:
        return os.pidfd_open(pid)
    except OSError as e:
        raise SysError("pidfd_open", str(pid), e.errno or 0) from None


def pidfd_send_signal(pidfd: int, signo: int) -> None:
    """pidfd_send_signal(2)."""
    check(lib.kr_pidfd_send_signal(pidfd, signo), "send signal", str(signo))


def prctl(op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0, name: str = "") -> int:
    """prctl(2). Returns its result."""
    return check(lib.kr_prctl(op, a, b, c, d), "prctl", name or str(op))


def exit_code(status: int) -> int:
    """Returns the exit code for a wait status: the code, or 128 + signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def execveat(fd: int, argv: "Sequence[bytes]", envp: "Sequence[bytes]") -> int:
    """execveat(fd, "", AT_EMPTY_PATH). Returns the errno if it comes back."""
    keep = [ffi.new("char[]", word) for word in argv]
    keep_env = [ffi.new("char[]", word) for word in envp]
    args = ffi.new("char *[]", keep + [ffi.NULL])
    env = ffi.new("char *[]", keep_env + [ffi.NULL])
    return -int(lib.kr_execveat(fd, b"", args, env, AT_EMPTY_PATH))


# --- descriptors
# ----------------------------------------------------------------------------------------------------


def close_range(first: int, last: int = MAX_FD, flags: int = 0) -> None:
    """close_range(2)."""
    check(lib.kr_close_range(first, last, flags), "close_range", str(first))


def close_all_but(keep: "Iterable[int]") -> None:
    """Closes every descriptor from 3 on that is not in `keep` (close_range(2)); negative numbers mean nothing."""
    low = 3
    for fd in sorted({fd for fd in keep if fd >= 3}):
        if fd > low:
            close_range(low, fd - 1)
        low = fd + 1
    close_range(low)


def keep_over_exec(fd: int) -> None:
    """Clears close-on-exec of one descriptor."""
    check(lib.kr_set_cloexec(fd, 0), "fcntl", f"descriptor {fd}")


def socketpair() -> "tuple[int, int]":
    """A SOCK_SEQPACKET pair, close-on-exec."""
    pair = ffi.new("int[2]")
    check(lib.kr_socketpair(pair), "socketpair")
    return pair[0], pair[1]


def unix_connect(path: str) -> int:
    """A stream socket connected to a path socket, whatever the length of the path.

    sockaddr_un holds 107 bytes (unix(7)); a longer path is reached through /proc/self/fd of its directory.
    """
    result = lib.kr_unix_connect(enc(path))
    if result == -ENAMETOOLONG:
        try:
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
        except OSError as e:
            raise SysError("open", path, e.errno or 0) from None
        result = lib.kr_unix_connect(enc(f"/proc/self/fd/{folder}/{os.path.basename(path)}"))
        os.close(folder)
    return check(result, "connect to", path)


def send_fd(sock: int, payload: bytes, fd: int) -> None:
    """Sends one descriptor with a payload (SCM_RIGHTS)."""
    check(lib.kr_send_fd(sock, payload, len(payload), fd), "send descriptor")


def recv_fd(sock: int, limit: int = 4096) -> "tuple[bytes, int]":
    """Receives (payload, descriptor or -1)."""
    buffer = ffi.new("char[]", limit)
    fd = ffi.new("int *", -1)
    count = check(lib.kr_recv_fd(sock, buffer, limit, fd), "receive descriptor")
    return ffi.buffer(buffer, count)[:], fd[0]


def poll(fds: "Sequence[int]", timeout_ms: int = -1) -> "list[bool]":
    """poll(2) for input or hang-up; negative descriptors are never ready. Returns one flag each; all False on timeout."""
    wanted = select.poll()
    for fd in fds:
        if fd >= 0:
            wanted.register(fd, select.POLLIN)
    ready = {fd for fd, _ in wanted.poll(timeout_ms)}
    return [fd in ready for fd in fds]


def poll_for(wanted: "Sequence[tuple[int, int]]", timeout_ms: int = -1) -> "list[bool]":
    """As poll, for (descriptor, events) each; an error or hang-up counts as ready. One descriptor may stand there twice."""
    events: dict[int, int] = {}
    for fd, mask in wanted:
        if fd >= 0:
            events[fd] = events.get(fd, 0) | mask
    waiting = select.poll()
    for fd, mask in events.items():
        waiting.register(fd, mask)
    found = dict(waiting.poll(timeout_ms))
    failed = select.POLLERR | select.POLLHUP | select.POLLNVAL
    return [bool(found.get(fd, 0) & (mask | failed)) for fd, mask in wanted]


def signalfd_all() -> int:
    """Blocks all signals of this thread and returns a descriptor that reads them."""
    return check(lib.kr_signalfd_all(), "signalfd")


def signalfd_read(fd: int) -> "tuple[int, int]":
    """Returns (number of the next pending signal or 0, pid of its sender)."""
    pid = ffi.new("uint32_t *")
    status = ffi.new("int32_t *")
    return check(lib.kr_signalfd_read(fd, pid, status), "read signalfd"), pid[0]


# --- credentials
# ----------------------------------------------------------------------------------------------------


def capset(effective: int, permitted: int, inheritable: int) -> None:
    """capset(2) of the calling thread; sets as bit masks."""
    check(lib.kr_capset(effective, permitted, inheritable), "capset")


def capget() -> "tuple[int, int, int]":
    """Returns (effective, permitted, inheritable) of the calling thread."""
    sets = ffi.new("uint64_t[3]")
    check(lib.kr_capget(sets), "capget")
    return sets[0], sets[1], sets[2]


def setresuid(uid: int) -> None:
    """setresuid(2), all three ids, by the raw call: one thread."""
    check(lib.kr_setresuid(uid, uid, uid), "setresuid", str(uid))


def setresuid_apart(uid: int) -> int:
    """setresuid(2), real and effective id `uid`, saved id another one, if the user namespace has one for us.

    No process of the user can trace us then (ptrace(2), "Ptrace access mode checking"), and execve(2) makes all three ids equal
    again. Returns the saved id; -1: it is `uid`, too. Raises SysError.
    """
    for other in APART:
        if other != uid and lib.kr_setresuid(uid, uid, other) == 0:
            return other
    setresuid(uid)
    return -1


def setfsuid(uid: int) -> None:
    """setfsuid(2). It tells no error: an id that is not ours to take changes nothing."""
    lib.kr_setfsuid(uid)


def setresgid(gid: int) -> None:
    """setresgid(2), all three ids."""
    check(lib.kr_setresgid(gid, gid, gid), "setresgid", str(gid))


def setgroups(groups: "Sequence[int]") -> None:
    """setgroups(2)."""
    check(lib.kr_setgroups(len(groups), ffi.new("unsigned int[]", list(groups))), "setgroups")


def setrlimit(resource: int, soft: int, hard: int, name: str) -> None:
    """prlimit(2) of the caller; the largest 64-bit number is "unlimited"."""
    check(lib.kr_prlimit(0, resource, ffi.new("uint64_t[2]", [soft, hard]), ffi.NULL), "set rlimit", name)


def getrlimit(resource: int) -> "tuple[int, int]":
    """Returns (soft, hard)."""
    old = ffi.new("uint64_t[2]")
    check(lib.kr_prlimit(0, resource, ffi.NULL, old), "get rlimit", str(resource))
    return old[0], old[1]


def cpu_mask(cpus: "Iterable[int]") -> bytes:
    """Returns the mask of sched_setaffinity(2) for these processors, a multiple of 8 bytes long."""
    number = 0
    for cpu in cpus:
        number |= 1 << cpu
    return number.to_bytes((number.bit_length() + 63) // 64 * 8 or 8, "little")


def sched_setaffinity(pid: int, cpus: "Iterable[int]") -> None:
    """sched_setaffinity(2)."""
    mask = cpu_mask(cpus)
    check(lib.kr_sched_setaffinity(pid, len(mask), mask), "sched_setaffinity", str(pid))


def retry(call: "Callable[[], int]") -> int:
    """Runs a call of `os` again for as long as a signal interrupts it."""
    while True:
        try:
            return call()
        except InterruptedError:
            continue
