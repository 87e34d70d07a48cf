"""A further process in a running container: exec_process, in a VM of its own. `krun exec` calls it (docs/lifecycle.md)."""

import os
from errno import ENOENT, ESRCH

from krun.errors import KrunError, SysError
from krun.fileio import read_file
from krun.kvm import board, image
from krun.log import Log
from krun.oci import cred, init, labels, namespaces, procfs, sched, seccomp, sync, talk
from krun.oci.caller import send_pidfd, write_pid_file
from krun.oci.container import (
    CreateOptions,
    close_all,
    log_stages,
    open_cgroup,
    open_for_child,
    open_listener,
)
from krun.oci.plan import build_exec
from krun.oci.spawn import Launched, reap, spawn
from krun.oci.state import (
    BOARD,
    ContainerState,
    StateDir,
    hook_state,
    open_process,
    process_start_time,
)
from krun.oci.steps import Context
from krun.sysio import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    poll,
    sched_setaffinity,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Process, Spec


_STOPPED = "cannot exec in a stopped container"
_DYING_MS = 200


class ExecOptions(CreateOptions):
    """The options of a further process: those of CreateOptions, and cgroup, the paths of --cgroup below the container's."""

    __slots__ = ("cgroup",)

    def __init__(self, root: str, id: str, log: Log) -> None:
        super().__init__(root, id, log)
        self.cgroup: list[str] = []


def exec_process(config: "Spec", state: ContainerState, process: "Process", options: ExecOptions) -> Launched:
    """Runs a further process in a running container, in a VM of its own.

    Arguments: config, state, of the container; process; options. Returns the process, its program started. Raises
    KrunError; the process is gone then.
    """
    labels.check_lsm(process, "", options.log)
    ctx = Context(config, process, options.id)
    keyring = state.keyring or (f"_ses.{state.id}" if state.new_keyring else "")
    child = init.Child(ctx, build_exec(config, process, keyring))
    pidfd = open_process(state.pid)
    if pidfd < 0:
        raise KrunError(_STOPPED)
    root = -1
    try:
        root = open_root(state)
        flags = differing_namespaces(state.pid)
        # Of a namespace that is joined, the child asks when it is inside (init.become_root).
        ctx.groups_denied = not flags & CLONE_NEWUSER and _groups_denied()
        # All of it is of whoever had the number: only if that is still our init's has it been our init's all the time. Without
        # this, a process of the host with the number means "no namespace to join", and the program runs on the host's tree.
        if process_start_time(state.pid) != state.start_time:
            raise KrunError(_STOPPED)
        return _exec_process(child, state, options, pidfd, root, flags)
    except KrunError as e:
        raise _if_stopped(e, pidfd) from None
    finally:
        child.join_fds = {"init": pidfd, "root": root}
        close_all(ctx, child)


def _exec_process(
    child: init.Child, state: ContainerState, options: ExecOptions, pidfd: int, root: int, flags: int
) -> Launched:
    """The part of exec_process behind the checks: it reads nothing of the init by its number.

    Arguments: pidfd, root, of the container's init; the caller closes them; flags, of the namespaces to join.
    """
    ctx = child.ctx
    process = ctx.process
    join = cgroup_paths(state, options.cgroup)
    initial = sched.number_list(process.cpu_initial, "/process/execCPUAffinity/initial")
    final = sched.number_list(process.cpu_final, "/process/execCPUAffinity/final")
    open_for_child(ctx, options)
    if flags & CLONE_NEWUSER:
        ctx.readable = image.open_readable()
        procfs.open_of_host(ctx, bool(flags & CLONE_NEWPID))
    ctx.board = open_board(StateDir(options.root, options.id))
    ctx.seccomp = seccomp.compile_filter(ctx.spec.seccomp, options.root)
    open_listener(ctx)
    open_cgroup(ctx, join)
    own = cred.ALL if flags & CLONE_NEWUSER else cred.own_capabilities()
    cred.warn_unavailable(process, own, options.log)
    if flags & CLONE_NEWPID:
        child.join_fds["pid"] = pidfd
    # The pid namespace is entered by being born in it; the time namespace's clocks come with setns(2) itself.
    child.join_all = (pidfd, flags & ~CLONE_NEWPID)
    if state.root_mount:
        child.root_mount = (state.rootfs, state.root_mount)
    born = 0
    if flags & CLONE_NEWUSER and os.geteuid() != 0:
        # An ordinary user has no right to enter the pid namespace but from inside the user namespace.
        child.join_fds = {"user": pidfd, **child.join_fds}
        child.join_all = (pidfd, flags & ~(CLONE_NEWPID | CLONE_NEWUSER))
        # Nor to make a procfs where the mount namespace is the host's: a copy of it, until the container's is joined.
        born = CLONE_NEWNS
    if flags & CLONE_NEWPID:
        child.birth_root = root
    launched = _spawn_on(initial, child, born)
    child.join_fds = {}  # the caller's to close
    close_all(ctx, child, last=False)
    late = "" if child.in_cgroup else join.get("", "") or join.get("unified", "")
    conversation = talk.ExecTalk(launched, ctx.parent_sync, not initial, final, state, late, ctx.later)
    try:
        if ctx.listener is not None:  # before the program, which does not wait for us
            ctx.listener.send(hook_state(state, "running"), ctx.spec.version, launched.pid)
        conversation.run()
        log_stages(options.log, ctx.t0, launched.stages)
        if options.pidfd_socket:
            send_pidfd(options.pidfd_socket, launched.pidfd, b"setns")
        if options.pid_file:
            write_pid_file(options.pid_file, launched.pid)
    except BaseException as e:
        reap(launched)
        launched.close()
        if isinstance(e, KrunError):
            raise sync.explain(_if_left(e, ctx, flags)) from None
        raise
    finally:
        os.close(ctx.parent_sync)
    return launched


def _if_left(error: KrunError, ctx: Context, flags: int) -> KrunError:
    """Returns the error of an exec: with the remedy where the init has entered a user namespace of its own, which has not the ids.

    Exec follows the init there: its other namespaces may belong to that one, and nothing in them may run with the rights of the
    container's (init._check_owners). runc does not follow it.
    """
    left = flags & CLONE_NEWUSER and "user" not in ctx.spec.namespaces
    if (
        not left
        or not isinstance(error, sync.ChildError)
        or error.op not in ("setgroups", "setresgid", "setresuid")
    ):
        return error
    words = (
        "the container's init has entered a user namespace of its own, where exec follows it; give --user an id that its uid_map and "
        "gid_map have, or let a child of the init enter the namespace"
    )
    return sync.ChildError(error.step, error.op, error.path, error.errno, words)


def _if_stopped(error: KrunError, pidfd: int) -> KrunError:
    """Returns the error of an exec: in runc's words where the container's init has ended meanwhile.

    An init that is dying has no namespaces any more (ESRCH), and it waits for its relatives, our child among them, before
    poll(2) tells of its end: for such an error we wait a moment.
    """
    if error.message.startswith(_STOPPED):
        return error
    dying = not isinstance(error, SysError) or error.errno == ESRCH
    if poll((pidfd,), _DYING_MS if dying else 0)[0]:
        return KrunError(f"{_STOPPED}: {error}")
    return error


def _spawn_on(cpus: "list[int]", child: init.Child, flags: int) -> Launched:
    """Spawns exec's child with these processors, [] for our own (config.md, "execCPUAffinity"); ours stay as they are."""
    if not cpus:
        return spawn(child, init.EXEC_ORDER, flags)
    ours = os.sched_getaffinity(0)
    sched_setaffinity(0, cpus)
    try:
        return spawn(child, init.EXEC_ORDER, flags)
    finally:
        sched_setaffinity(0, ours)


def cgroup_paths(state: "ContainerState", wanted: "list[str]") -> "dict[str, str]":
    """Returns the directories to join: the container's, or below them where --cgroup says so.

    Arguments: wanted, "[CONTROLLER[,CONTROLLER]:]PATH" each (runc, exec.go). Raises KrunError.
    """
    paths = dict(state.cgroup_paths)
    for text in wanted:
        head, colon, tail = text.rpartition(":")
        if ".." in tail.split("/"):
            raise KrunError(f"invalid --cgroup {text}: leads out of the container's cgroup")
        for name in head.split(",") if colon else [""] if list(paths) == [""] else list(paths):
            if name not in paths:
                raise KrunError(f"unknown controller {name} in --cgroup {text}")
            path = f"{state.cgroup_paths[name]}/{tail.strip('/')}".rstrip("/")
            if not os.path.isdir(path):
                raise KrunError(f"--cgroup {text}: {path} does not exist")
            paths[name] = path
    return paths


def differing_namespaces(pid: int) -> int:
    """Returns the CLONE_NEW* flags of those namespaces of `pid` that are not ours: setns(2) refuses our own user
    namespace, and the others would be waste. Raises SysError."""
    flags = 0
    for kind, name in namespaces.FILES.items():
        try:
            theirs, ours = os.stat(f"/proc/{pid}/ns/{name}"), os.stat(f"/proc/self/ns/{name}")
        except OSError as e:
            if kind == "time":
                continue  # Linux before 5.6
            if e.errno in (ENOENT, ESRCH):
                raise KrunError(_STOPPED) from None  # it is just dying
            raise SysError("stat namespace of", str(pid), e.errno or 0) from None
        if theirs.st_ino != ours.st_ino:
            flags |= namespaces.FLAGS[kind]
    return flags


def open_root(state: "ContainerState") -> int:
    """Opens the root directory of the container's init, for our child to be born with: a process of the container that
    may trace it (CAP_SYS_PTRACE) then finds its own root there, and not the host's; and mountinfo, which everybody may read,
    shows nothing before the mount namespace is joined: it has the mounts below the process's root.

    Returns -1 for a container without a mount namespace, which has no root of its own. Raises SysError, KrunError.
    """
    if state.root_mount:
        return -1
    path = f"/proc/{state.pid}/root"
    try:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (ENOENT, ESRCH):
            raise KrunError(_STOPPED) from None
        raise SysError("open", path, e.errno or 0) from None


def _groups_denied() -> bool:
    """Tells whether setgroups(2) is denied in our own user namespace."""
    try:
        return read_file("/proc/self/setgroups").startswith(b"deny")
    except SysError:
        return False


def open_board(statedir: StateDir) -> int:
    """Returns a descriptor of the container's board; -1 without one.

    Raises KrunError for a board of another version of krun: its monitors would take our monitor's questions for signals of
    the payload's, and end.
    """
    path = f"{statedir.path}/{BOARD}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        if board.is_ours(fd):
            return fd
    except OSError as e:
        os.close(fd)
        raise SysError("read the container's board", path, e.errno or 0) from None
    os.close(fd)
    raise KrunError(
        f"cannot exec in container {statedir.id}: it was made by another version of krun; restart the container"
    )
