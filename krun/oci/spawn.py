"""Clones the child into its namespaces and its cgroup, and writes the id maps of a user namespace."""

import os
from _signal import SIGKILL, SIGSEGV
from errno import EAGAIN, EBUSY

from krun.errors import KrunError, SysError
from krun.oci import init, namespaces, sched, sync
from krun.sysio import (
    CLONE_NEWNET,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUSER,
    CLONE_PARENT,
    clone3,
    clone_inside,
    close_all_but,
    die_with_parent,
    pidfd_open,
    pidfd_send_signal,
    recv_fd,
    send_fd,
    set_undumpable,
    setns,
    socketpair,
    unshare,
    write_host_proc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from krun.oci.init import Order
    from krun.oci.spec import IdMap

NEW_ID_MAP = {"uid": "/usr/bin/newuidmap", "gid": "/usr/bin/newgidmap"}


class Launched:
    """A process whose monitor is ready. pid, pidfd: of the monitor, a child of ours; stages: name to nanoseconds."""

    __slots__ = ("pid", "pidfd", "stages")

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.stages: dict[str, int] = {}

    def close(self) -> None:
        """Closes the pidfd."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def _restore(fd: int, flag: int) -> None:
    """Goes back to our own namespace after a clone; hooks that we run must be born in it."""
    if fd >= 0:
        setns(fd, flag, "our own namespace")
        os.close(fd)


def _own(name: str) -> int:
    try:
        return os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as e:
        raise SysError("open", f"/proc/self/ns/{name}", e.errno or 0) from None


def spawn(
    child: init.Child, order: "Order", flags: int, time_offsets: "dict[str, dict[str, int]] | None" = None
) -> Launched:
    """Clones the child, which runs `order`. Returns its pid and pidfd. Raises SysError.

    A pid namespace to join is entered by a short-lived process in between (clone_inside), and so are others (between).
    """
    ctx = child.ctx
    ctx.parent_sync, ctx.sync = socketpair()
    pid_fd = child.join_fds.get("pid", -1)
    own_time = -1
    if os.geteuid() == 0:
        # Before there is a child to inherit it. An ordinary user's helpers (newuidmap) need more: see init, step 1.
        set_undumpable()
    if between(child, flags):
        return _spawn_between(child, order, flags, time_offsets or {})
    try:
        if child.plan.new_time_ns:
            own_time = _own("time")
            unshare(CLONE_NEWTIME, "time namespace")
            _write_offsets(time_offsets or {})
        if pid_fd >= 0:
            name = f"pid namespace {child.plan.joins.get('pid', '')}".rstrip()
            pid = _clone_inside(child, flags, pid_fd, name)
            pidfd = pidfd_open(pid) if pid else -1
        else:
            pid, pidfd = _clone_beside(child, flags)
        if pid == 0:
            init.run(child, order)
    finally:
        _restore(own_time, CLONE_NEWTIME)
    os.close(ctx.sync)
    return Launched(pid, pidfd)


def between(child: init.Child, flags: int) -> bool:
    """Whether another process enters namespaces before the child is born: a user namespace to join, whose rights are needed to make the
    others; or those to join with a new user namespace, in which the child would have no right to enter them (setns(2)).
    """
    joins = child.join_fds.keys()
    return "user" in joins or (bool(flags & CLONE_NEWUSER) and not joins <= {"pid", "mount"})


#: Nobody can be born in the cgroup, but the child can be put into it, or into one below, later: pids.max has no room, which does not
#: forbid that (cgroups(7)); or the container's processes have made groups below and given them controllers (talk.ExecTalk).
_NOT_BORN = (EAGAIN, EBUSY)


def _clone_beside(child: init.Child, flags: int) -> "tuple[int, int]":
    try:
        return clone3(flags, cgroup_fd=child.ctx.cgroup_fd)
    except SysError as e:
        if e.errno != EBUSY or child.ctx.cgroup_fd < 0:
            raise
    child.in_cgroup = False
    return clone3(flags)


def _clone_inside(child: init.Child, flags: int, pid_fd: int, name: str) -> int:
    """Calls clone_inside, again without the cgroup where nobody can be born in it."""
    others = _others(child)
    if child.join_all is not None:
        child.joined = others[1]
    try:
        return clone_inside(flags, pid_fd, others, child.birth_root, child.ctx.cgroup_fd, child.held(), name)
    except SysError as e:
        if e.errno not in _NOT_BORN or child.ctx.cgroup_fd < 0:
            raise
    child.in_cgroup = False
    return clone_inside(flags, pid_fd, others, child.birth_root, -1, child.held(), name)


def _others(child: init.Child) -> "tuple[int, int]":
    """What a child that joins a pid namespace is born in besides: a descriptor, and which of its namespaces (CLONE_NEW*).

    With exec those of the container's init: a process of the container with CAP_SYS_PTRACE and CAP_SYS_ADMIN enters those of the child by
    its pidfd (setns(2)). Not the user namespace, which takes a process with memory of its own, nor a time namespace, for the same reason.
    Where config.json gives the container a user namespace (not: where its init has made one, and left others behind), no process
    of it has such a right; there step "join" enters all at once, because the child needs its rights for its procfs before.
    """
    if child.join_all is not None and "user" not in child.ctx.spec.namespaces:
        return child.join_all[0], child.join_all[1] & ~(CLONE_NEWTIME | CLONE_NEWUSER)
    network = _network(child)
    return network, CLONE_NEWNET if network >= 0 else 0


def _network(child: init.Child) -> int:
    """What a child that joins a pid namespace joins a network namespace by, or -1. It is born there, because processes of the
    pid namespace may read its /proc/PID/net; step 3 joins it once more."""
    if child.join_all is not None and child.join_all[1] & CLONE_NEWNET:
        return child.join_all[0]
    return child.join_fds.get("network", -1)


def _write_offsets(offsets: "dict[str, dict[str, int]]") -> None:
    """time_namespaces(7): offsets can be written until the first process is born in the namespace."""
    text = "".join(
        f"{clock} {offset.get('secs') or 0} {offset.get('nanosecs') or 0}\n"
        for clock, offset in offsets.items()
    )
    if text:
        write_host_proc("self/timens_offsets", text)


def _join_outside(child: init.Child) -> None:
    """Joins all namespaces but the pid and mount namespace, which a child with a user namespace of its own could not. Raises SysError."""
    for kind in [kind for kind in child.join_fds if kind not in ("pid", "mount")]:
        fd = child.join_fds.pop(kind)
        setns(fd, namespaces.FLAGS[kind], f"{kind} namespace {child.plan.joins.get(kind, '')}")
        os.close(fd)


def _spawn_between(
    child: init.Child, order: "Order", flags: int, time_offsets: "dict[str, dict[str, int]]"
) -> Launched:
    """Joins user, pid and other namespaces in a process of its own, which clones the child as ours (CLONE_PARENT) and ends."""
    ctx = child.ctx
    # Not over the sync socket: the child may have a request in it before the one in between has told its pid.
    pid_r, pid_w = os.pipe()
    middle, middle_fd = clone3(0)
    if middle == 0:
        try:
            user = child.join_fds.pop("user", -1)
            pid_fd = child.join_fds.get("pid", -1)
            close_all_but([*child.held(), user, pid_fd, pid_w, child.birth_root])
            die_with_parent()
            sched.set_oom_score_early("self", ctx.process.oom_score_adj)
            set_undumpable()
            if user >= 0:
                init.leave_groups()
                setns(user, CLONE_NEWUSER, f"user namespace {child.plan.joins.get('user', '')}")
                init.become_root(ctx)
            else:
                _join_outside(child)
            if pid_fd >= 0:
                setns(pid_fd, CLONE_NEWPID, f"pid namespace {child.plan.joins.get('pid', '')}".rstrip())
                if _network(child) >= 0:
                    setns(_network(child), CLONE_NEWNET, "network namespace")
            if child.plan.new_time_ns:
                unshare(CLONE_NEWTIME, "time namespace")
                _write_offsets(time_offsets)
            if child.birth_root >= 0:
                # As kr_clone_inside does: the host's /proc and paths are not needed any more.
                os.fchdir(child.birth_root)
                os.chroot(".")
            # No exit signal of its own with CLONE_PARENT: it is that of ours (clone(2)).
            pid, _ = clone3(flags | CLONE_PARENT, 0)
            if pid == 0:
                init.run(child, order)
            os.write(pid_w, str(pid).encode())
            os._exit(0)
        except BaseException as e:
            sync.send(ctx.sync, sync.ERROR, *sync.error_fields("3 join", e))
            os._exit(1)
    # Its cgroup v2 is the parent's to write: whoever is root in between need not be the one whom the group is delegated to.
    child.in_cgroup = False
    os.close(ctx.sync)
    os.close(pid_w)
    told = os.read(pid_r, 32)
    os.close(pid_r)
    os.waitpid(middle, 0)
    os.close(middle_fd)
    if not told:
        kind, fields = sync.receive(ctx.parent_sync)
        if kind == sync.ERROR:
            raise sync.error_of(fields)
        raise KrunError("join user namespace: the helper process died")
    return Launched(int(told), pidfd_open(int(told)))


NO_MEMORY = "; was it out of memory? look at memory.limit and the kernel's log"
#: The monitor cannot speak before it has its boot block, nor the kernel for an image that has no room for its stack.
_NO_ROOM = "; raise RLIMIT_AS, RLIMIT_DATA or RLIMIT_STACK in process.rlimits: the monitor has no room"


def died(pid: int) -> str:
    """Collects a child that went without a word and tells how it went."""
    try:
        _, status = os.waitpid(pid, 0)
    except OSError:
        return "the container's process died before it was ready"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hint = NO_MEMORY if number == SIGKILL else _NO_ROOM if number == SIGSEGV else ""
        return f"the container's process died of signal {number} before it was ready{hint}"
    code = os.WEXITSTATUS(status)
    # Pid 1 of a pid namespace does not hear its own SIGSEGV; the monitor exits with the code in its place.
    hint = _NO_ROOM if code == 128 + SIGSEGV else ""
    return f"the container's process ended with code {code} before it was ready{hint}"


def reap(launched: "Launched | None") -> None:
    """Kills and collects a child that is not to be."""
    if launched is None:
        return
    try:
        pidfd_send_signal(launched.pidfd, SIGKILL)
    except SysError:
        pass
    try:
        os.waitpid(launched.pid, 0)
    except OSError:
        pass


def write_id_maps(pid: int, uid_maps: "list[IdMap]", gid_maps: "list[IdMap]") -> None:
    """Writes the id maps of a child in a new user namespace (user_namespaces(7)). Raises SysError, KrunError."""
    root = os.geteuid() == 0
    for kind, maps in (("uid", uid_maps), ("gid", gid_maps)):
        text = namespaces.map_text(maps)
        own = os.geteuid() if kind == "uid" else os.getegid()
        single = len(maps) == 1 and maps[0].size == 1 and maps[0].host == own
        if not root and not single:
            _run_new_id_map(kind, pid, maps)
            continue
        if kind == "gid" and not root:
            write_host_proc(f"{pid}/setgroups", "deny")
        write_host_proc(f"{pid}/{kind}_map", text)


def _run_new_id_map(kind: str, pid: int, maps: "list[IdMap]") -> None:
    """newuidmap(1), newgidmap(1): the only way for an ordinary user to map ranges of /etc/subuid and /etc/subgid."""
    program = NEW_ID_MAP[kind]
    words = [program, str(pid)]
    for line in maps:
        words += [str(line.container), str(line.host), str(line.size)]
    try:
        helper = os.posix_spawn(program, words, {})
    except OSError as e:
        raise SysError("run", program, e.errno or 0, "install the package uidmap") from None
    _, status = os.waitpid(helper, 0)
    if status:
        raise KrunError(f"map {kind}s with {program}: it failed; does /etc/sub{kind} give you these ranges?")


def id_map_namespace(uid_maps: "list[IdMap]", gid_maps: "list[IdMap]") -> int:
    """Makes a user namespace with these maps, for an id-mapped mount (mount_setattr(2)). Returns its descriptor.

    A namespace needs a process to be born with; it ends once the maps are written. Raises SysError, KrunError.
    """
    theirs, ours = socketpair()
    if os.geteuid() == 0:
        # As in spawn. Whoever is root owns the new namespace, and has all capabilities in it (user_namespaces(7)): a root of a container
        # in our pid namespace as well.
        set_undumpable()
    pid, pidfd = clone3(CLONE_NEWUSER)
    if pid == 0:
        _hold_namespace(theirs)
    os.close(theirs)
    space = -1
    try:
        _, space = recv_fd(ours)
        if space < 0:
            raise KrunError("make a user namespace for an id-mapped mount: its process died")
        write_id_maps(pid, uid_maps, gid_maps)
        return space
    except BaseException:
        if space >= 0:
            os.close(space)
        raise
    finally:
        os.close(ours)
        os.waitpid(pid, 0)
        os.close(pidfd)


def _hold_namespace(sock: int) -> "NoReturn":
    """Tells the parent our user namespace, and keeps it until the parent has written its maps."""
    try:
        close_all_but((sock,))
        die_with_parent()
        send_fd(sock, b"N", _own("user"))
        os.read(sock, 1)
    finally:
        os._exit(0)
