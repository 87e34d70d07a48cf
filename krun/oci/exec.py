"""`krun exec`: a further program in a container, in a VM of its own, in the container's namespaces and cgroup."""

import os
import time

from krun.errors import KrunError, SysError
from krun.kvm import boot
from krun.oci import cred, init, launch, namespaces, plan, seccomp, spec, sync
from krun.oci.foreground import Foreground
from krun.oci.launch import Conversation, Launched
from krun.oci.state import PAUSED, STOPPED, StateDir, process_start_time, status
from krun.oci.steps import Context
from krun.sysio import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    ENOENT,
    ESRCH,
    PR_SET_CHILD_SUBREAPER,
    pidfd_open,
    prctl,
    read_file,
    sched_setaffinity,
    socketpair,
    unix_connect,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Options
    from krun.oci.spec import Process, Spec
    from krun.oci.state import ContainerState

EXEC_FAILED = 255  # what runc's exec ends with when there was no program (reference/oci.md 2.3)


def main(opts: "Options") -> int:
    """Runs a program in a running container.

    Returns 0 if detached, else the program's exit code or 128 + signal. Raises KrunError with exit code 255.
    """
    try:
        return _exec(opts)
    except KrunError as e:
        raise KrunError(f"exec failed: {e}", EXEC_FAILED) from None


def _exec(opts: "Options") -> int:
    t0 = time.monotonic_ns()
    keep = launch.seal_descriptors(opts.preserve_fds, False)
    statedir = StateDir(opts.root, opts.id)
    state = statedir.load()
    found = status(state, statedir)
    if found == STOPPED:
        raise KrunError("cannot exec in a stopped container")
    if found == PAUSED and not opts.ignore_paused:
        raise KrunError("cannot exec in a paused container (use --ignore-paused to override)")
    config = spec.parse(statedir.read(state.config), state.bundle)
    process = make_process(opts, config)
    detach = bool(opts.detach)
    launch.check_terminal(process, detach, opts.console_socket)
    front = None
    ours = console = -1
    if not detach:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        front = Foreground()
        if process.terminal:
            ours, console = socketpair()
    if opts.console_socket:
        console = unix_connect(opts.console_socket)
    launched = _launch(opts, config, state, process, keep, console, t0)
    if front is None:
        return 0
    return front.wait(launched.pid, launched.pidfd, ours)


def make_process(opts: "Options", config: "Spec") -> "Process":
    """Returns the process to run: --process, or the container's own with the command line's changes (runc, exec.go).

    Raises ConfigError, KrunError for a flag that is wrong.
    """
    if opts.process:
        return spec.parse_process(read_file(opts.process))
    process = config.process
    if process is None:
        raise KrunError("process property must not be empty")
    if not opts.args:
        raise KrunError("process args cannot be empty")
    process.args = list(opts.args)
    process.terminal = bool(opts.tty)
    process.console_size = process.console_size if opts.tty else None
    if opts.cwd:
        process.cwd = opts.cwd
    process.env += opts.env or []
    for entry in opts.env or []:
        if "=" not in entry[1:]:
            raise KrunError(f'invalid environment variable "{entry}", use NAME=VALUE')
    if opts.user:
        process.uid, gid = parse_user(opts.user)
        process.gid = process.gid if gid is None else gid
    process.groups = process.groups + [parse_id(text, "gid") for text in opts.additional_gids or []]
    if opts.cap:
        add_caps(process, opts.cap)
    if opts.no_new_privs:
        process.no_new_privs = True
    if opts.apparmor:
        process.apparmor = opts.apparmor
    if opts.process_label:
        process.selinux = opts.process_label
    spec.check_process(process, "exec")
    return process


def parse_id(text: str, what: str) -> int:
    """Returns a numeric id, strictly read: digits only, within the range of ids.

    Lenient parsing made root of "1:" and the like (crun CVE-2026-30892, containerd CVE-2024-40635). Raises KrunError.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > (1 << 32) - 2:
        raise KrunError(f'parse {what} "{text}": not a number from 0 to 4294967294')
    return int(text)


def parse_user(text: str) -> "tuple[int, int | None]":
    """Returns (uid, gid or None) of "UID[:GID]". Raises KrunError."""
    user, colon, group = text.partition(":")
    return parse_id(user, "uid"), parse_id(group, "gid") if colon else None


def add_caps(process: "Process", names: "list[str]") -> None:
    """Adds capabilities to bounding, effective and permitted; never to inheritable by itself (CVE-2022-29162), to ambient
    only what is inheritable already. An unknown name stays: a warning tells of it (cred.warn_unavailable)."""
    caps = process.caps = {kind: list(values) for kind, values in (process.caps or {}).items()}
    for name in names:
        full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
        for kind in ("bounding", "effective", "permitted"):
            if full not in caps.setdefault(kind, []):
                caps[kind].append(full)
        if full in (caps.get("inheritable") or ()) and full not in caps.setdefault("ambient", []):
            caps["ambient"].append(full)


class _ExecTalk(Conversation):
    """Requests of an exec's process."""

    __slots__ = ("final_cpus", "state", "late_cgroup")

    def __init__(
        self,
        launched: Launched,
        sock: int,
        final_cpus: "list[int]",
        state: "ContainerState",
        late_cgroup: str,
    ) -> None:
        super().__init__(launched, sock)
        self.final_cpus = final_cpus
        self.state = state
        self.late_cgroup = late_cgroup

    def on_cgroup(self) -> None:
        if self.late_cgroup:
            write_file(f"{self.late_cgroup}/cgroup.procs", str(self.launched.pid))
        if self.state.intel_rdt:
            from krun.oci import resctrl

            resctrl.join(self.state, self.launched.pid)
        if self.final_cpus:
            # After the cpuset's own mask, which a move into it sets (config.md, "execCPUAffinity").
            sched_setaffinity(self.launched.pid, self.final_cpus)


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
                raise KrunError("cannot exec in a stopped container") from None  # it is just dying
            raise SysError("stat namespace of", str(pid), e.errno or 0) from None
        if theirs.st_ino != ours.st_ino:
            flags |= namespaces.FLAGS[kind]
    return flags


def _launch(
    opts: "Options",
    config: "Spec",
    state: "ContainerState",
    process: "Process",
    keep: "list[int]",
    console: int,
    t0: int,
) -> Launched:
    made = plan.build_exec(process)
    cred.check_lsm(process, "")
    pidfd = pidfd_open(state.pid)
    root = open_root(state)
    # Both are of whoever has the number now; only with the same start time is that our init.
    if process_start_time(state.pid) != state.start_time:
        raise KrunError("cannot exec in a stopped container")
    join = cgroup_paths(state, opts.cgroup or [])
    initial = cred.number_list(process.cpu_initial, "/process/execCPUAffinity/initial")
    final = cred.number_list(process.cpu_final, "/process/execCPUAffinity/final")
    ctx = Context(config, process, opts.id)
    ctx.t0 = t0
    ctx.keep = keep
    ctx.console = console
    ctx.kvm = boot.open_kvm()
    ctx.exe = boot.open_monitor()
    ctx.board = launch.open_board(StateDir(opts.root, opts.id))
    ctx.seccomp = seccomp.compile_filter(config.seccomp, opts.root)
    if opts.trace:
        ctx.log = launch.open_log(opts.trace)
        ctx.trace = boot.FLAG_TRACE | boot.FLAG_COUNT
    launch.open_cgroup(ctx, join)
    child = init.Child(ctx, made)
    flags = differing_namespaces(state.pid)
    if not flags & CLONE_NEWUSER:
        cred.warn_unavailable(process, cred.own_capabilities())
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
    ctx.groups_denied = _groups_denied(state.pid)
    if initial:
        sched_setaffinity(0, initial)
    if flags & CLONE_NEWPID and not flags & CLONE_NEWUSER:
        child.birth_root = root
    launched = launch.spawn(child, init.EXEC_ORDER, born)
    child.join_fds = {"init": pidfd, "root": root}
    launch.close_all(ctx, child)
    late = "" if child.in_cgroup else join.get("", "") or join.get("unified", "")
    talk = _ExecTalk(launched, ctx.parent_sync, final, state, late)
    try:
        talk.run()
        if opts.pidfd_socket:
            launch.send_pidfd(opts.pidfd_socket, launched.pidfd, b"setns")
        if opts.pid_file:
            launch.write_pid_file(opts.pid_file, launched.pid)
    except BaseException as e:
        launch.reap(launched)
        if isinstance(e, KrunError):
            raise sync.explain(e) from None
        raise
    finally:
        os.close(ctx.parent_sync)
    return launched


def open_root(state: "ContainerState") -> int:
    """Opens the root directory of the container's init, for our child to be born with: a process of the container that
    may trace it (CAP_SYS_PTRACE) then finds its own root there, and not the host's.

    Returns -1 for a container without a mount namespace, which has no root of its own. Raises SysError, KrunError.
    """
    if state.root_mount:
        return -1
    path = f"/proc/{state.pid}/root"
    try:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (ENOENT, ESRCH):
            raise KrunError("cannot exec in a stopped container") from None
        raise SysError("open", path, e.errno or 0) from None


def _groups_denied(pid: int) -> bool:
    try:
        return read_file(f"/proc/{pid}/setgroups").startswith(b"deny")
    except SysError:
        return False
