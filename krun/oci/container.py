"""A container: create, start, exec, destroy, with typed options and without a command line. The verbs call it.

docs/lifecycle.md has the whole sequence. The parent opens everything that the host may lack (KVM, the monitor, paths of
namespaces, the console socket) before the child exists, so that a failure leaves little to undo.
"""

import os
import time
from errno import ENOENT, EPERM, ESRCH

from krun import log
from krun.errors import KrunError, SysError
from krun.kvm import boot
from krun.mountio import (
    AT_RECURSIVE,
    MOUNT_ATTR_IDMAP,
    OPEN_TREE_CLONE,
    mount_setattr,
    open_tree,
)
from krun.oci import cred, init, labels, namespaces, rootfs, sched, seccomp, sync, talk, wake
from krun.oci.caller import send_pidfd, write_pid_file
from krun.oci.cgroup import group as cgroups
from krun.oci.plan import Plan, build_exec
from krun.oci.spawn import Launched, id_map_namespace, reap, spawn
from krun.oci.state import (
    BOARD,
    RESULT_FIFO,
    START_FIFO,
    ContainerState,
    StateDir,
    hook_state,
    process_start_time,
)
from krun.oci.steps import Context
from krun.sysio import (
    AT_FDCWD,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    pidfd_open,
    read_file,
    sched_setaffinity,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Process, Spec


class CreateOptions:
    """The options of a container besides its configuration.

    Arguments: root, the directory of the containers' state; id; manager, of cgroups: "cgroupfs", "systemd" or
    "disabled"; rootless, whether to do without what an ordinary user may not; keep, descriptors that the payload
    inherits; console, socket that gets the terminal's master, or -1; pid_file, pidfd_socket, trace, paths or None;
    t0, CLOCK_MONOTONIC ns at the beginning of krun, 0 if unknown.
    """

    __slots__ = (
        "root", "id", "manager", "rootless", "keep", "console", "pid_file", "pidfd_socket", "trace", "t0",
    )  # fmt: skip

    def __init__(self, root: str, id: str) -> None:
        self.root = root
        self.id = id
        self.manager = "cgroupfs"
        self.rootless = False
        self.keep: list[int] = []
        self.console = -1
        self.pid_file: str | None = None
        self.pidfd_socket: str | None = None
        self.trace: str | None = None
        self.t0 = 0


class Container:
    """A container with its configuration; made by create."""

    __slots__ = ("spec", "statedir", "state", "cgroup", "launched", "result", "begin")

    def __init__(self, spec: "Spec", statedir: StateDir, state: ContainerState) -> None:
        self.spec = spec
        self.statedir = statedir
        self.state = state
        self.cgroup: cgroups.Cgroup | None = None
        self.launched: Launched | None = None
        self.result = -1
        self.begin = -1

    def start(self) -> "dict[str, int]":
        """Starts the program. Precondition: this process has made the container and is its parent (else: wake.start).

        Returns the stage times. Raises KrunError after it has taken the container down. The caller runs the poststart hooks.
        """
        assert self.launched is not None
        try:
            stages = wake.wake(self.begin, self.result, self.launched.pidfd)
            wake.finish(self.statedir)
        except KrunError:
            self.undo()
            raise
        for fd in (self.begin, self.result):
            os.close(fd)
        return stages

    def destroy(self, hooks: bool = True) -> None:
        """Takes the container down, running or not. Argument: hooks, whether poststop hooks are due. Raises KrunError."""
        # Imported here, because create and run --detach end without it.
        from krun.oci import teardown

        teardown.take_down(self.statedir, self.state, {"hooks": self.spec.hooks}, hooks)

    def undo(self) -> None:
        """Undoes a create that failed. A failure here is a warning, because the caller has an error already."""
        reap(self.launched)
        if self.cgroup is not None and self.cgroup.pending is not None:
            self.state.cgroup_paths = {}  # systemd has not made it: a unit of that name is another container's
        try:
            self.destroy(hooks=self.launched is not None)
        except KrunError as e:
            log.warning(f"undo create: {e}")


class ExecOptions(CreateOptions):
    """The options of a further process: those of CreateOptions, and cgroup, the paths of --cgroup below the container's."""

    __slots__ = ("cgroup",)

    def __init__(self, root: str, id: str) -> None:
        super().__init__(root, id)
        self.cgroup: list[str] = []


def create(spec: "Spec", plan: Plan, options: CreateOptions) -> Container:
    """Makes a container whose program waits for start.

    Arguments: spec, plan; options. Returns the Container, its monitor ready. Raises KrunError; nothing is left behind
    then (runtime.md, "Create").
    """
    process = spec.process
    assert process is not None  # plan.build refused it
    mount_label = labels.check_lsm(process, spec.mount_label)
    ctx = Context(spec, process, options.id)
    ctx.mount_label = mount_label
    ctx.t0 = options.t0
    ctx.keep = options.keep
    ctx.console = options.console
    ctx.kvm = boot.open_kvm()
    ctx.exe = boot.open_monitor()
    check_bundle(spec)
    child = init.Child(ctx, plan)
    child.join_fds = namespaces.open_paths(spec.namespaces)
    child.map_ids = bool(plan.clone_flags & CLONE_NEWUSER)
    # An unprivileged gid_map goes with setgroups denied (user_namespaces(7)).
    ctx.groups_denied = options.rootless and len(spec.gid_maps) == 1
    if not plan.clone_flags & CLONE_NEWUSER and "user" not in child.join_fds:
        cred.warn_unavailable(process, cred.own_capabilities())
    if options.trace:
        ctx.log = open_log(options.trace)
        ctx.trace = boot.FLAG_TRACE | boot.FLAG_COUNT
    statedir = StateDir(options.root, options.id)
    state = ContainerState(
        oci_version=spec.version,
        id=options.id,
        bundle=spec.bundle,
        created=log.rfc3339(time.time_ns(), True),
        rootfs=spec.rootfs,
        annotations=spec.annotations,
        owner=os.geteuid(),
        namespaces=spec.namespaces,
    )
    container = Container(spec, statedir, state)
    statedir.create()
    try:
        with statedir.lock():
            _make(container, child, options)
    except BaseException as e:
        container.undo()
        if isinstance(e, KrunError):
            raise sync.explain(e) from None
        raise
    return container


def _make(container: Container, child: init.Child, options: CreateOptions) -> None:
    """The part of create that leaves traces; the caller undoes them."""
    spec, statedir, state, ctx = container.spec, container.statedir, container.state, child.ctx
    statedir.write(state.config, spec.raw)
    make_fifos(container)
    if os.environ.get("NOTIFY_SOCKET"):
        from krun.oci import notify

        notify.make_directory(statedir.path)
    ctx.board = make_board(statedir)
    ctx.seccomp = seccomp.compile_filter(spec.seccomp, options.root)
    open_sources(spec, child.plan, ctx, options.rootless)
    container.cgroup = cgroups.create(
        spec.cgroups_path, spec.resources, state.id, options.manager, options.rootless, spec.annotations
    )
    talk.delegate(container.cgroup, spec)
    state.cgroup_paths = container.cgroup.paths
    state.manager = container.cgroup.manager
    statedir.save(state)
    if spec.intel_rdt is not None:
        from krun.oci import resctrl

        resctrl.create(spec.intel_rdt, state, lambda: statedir.save(state))
    if "mount" not in spec.namespaces:
        ctx.sources[-1] = attach_root(container)
    ctx.start, ctx.result = container.begin, container.result
    joined = container.cgroup.pending is None and "user" not in child.join_fds
    if joined:
        open_cgroup(ctx, state.cgroup_paths)
    ctx.hook_state = hook_state(state, "creating")
    launched = container.launched = spawn(child, init.ORDER, child.plan.clone_flags, spec.time_offsets)
    close_all(ctx, child)
    conversation = talk.CreateTalk(container, launched, ctx.parent_sync, joined and child.in_cgroup)
    try:
        conversation.run()
    finally:
        os.close(ctx.parent_sync)
    if options.pidfd_socket:
        send_pidfd(options.pidfd_socket, launched.pidfd, b"standard")
    if options.pid_file:
        write_pid_file(options.pid_file, launched.pid)
    _log_stages("ready", ctx.t0, launched.stages)


def make_fifos(container: Container) -> None:
    """Makes and opens start.fifo and result.fifo. O_RDWR: no open ever blocks and no writer meets EPIPE."""
    numbers = []
    for name in (START_FIFO, RESULT_FIFO):
        path = f"{container.statedir.path}/{name}"
        try:
            os.mkfifo(path, 0o600)
            numbers.append(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as e:
            raise SysError("make", path, e.errno or 0) from None
    container.begin, container.result = numbers


def make_board(statedir: StateDir) -> int:
    """Makes the container's board and returns its descriptor. Raises SysError."""
    path = f"{statedir.path}/{BOARD}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        boot.fill_board(fd)
        return fd
    except OSError as e:
        raise SysError("make", path, e.errno or 0) from None


def open_board(statedir: StateDir) -> int:
    """Returns a descriptor of the container's board; -1 without one (made by an older krun)."""
    try:
        return os.open(f"{statedir.path}/{BOARD}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1


def open_sources(spec: "Spec", plan: Plan, ctx: Context, rootless: bool) -> None:
    """Opens mount sources (and the root) that the child could not reach from its user namespace, and maps ids."""
    if "user" in spec.namespaces and not rootless:
        ctx.sources[-1] = open_tree(AT_FDCWD, spec.rootfs, OPEN_TREE_CLONE | AT_RECURSIVE)
    for step in plan.parent_sources:
        mapped = bool(step.mount.uid_maps or step.options.idmap)
        if rootless and not mapped:
            continue  # the user's own rights are the child's as well
        fd = step.open_source()
        if mapped:
            space = id_map_namespace(
                step.mount.uid_maps or spec.uid_maps, step.mount.gid_maps or spec.gid_maps
            )
            try:
                recursive = step.options.idmap == "ridmap"
                mount_setattr(fd, MOUNT_ATTR_IDMAP, userns_fd=space, recursive=recursive, name=step.source)
            finally:
                os.close(space)
        ctx.sources[step.index] = fd


def open_cgroup(ctx: Context, paths: "dict[str, str]") -> None:
    """Opens what the child joins a cgroup by: it is born in the v2 one (clone3(2), CLONE_INTO_CGROUP), and writes itself
    into the `tasks` files of v1, which needs no lock. Raises SysError."""
    path = ""
    try:
        for name, path in paths.items():
            if name in ("", "unified"):
                ctx.cgroup_fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            else:
                ctx.tasks.append(os.open(f"{path}/tasks", os.O_WRONLY | os.O_CLOEXEC))
    except OSError as e:
        raise SysError("open cgroup", path, e.errno or 0) from None


def close_all(ctx: Context, child: init.Child) -> None:
    """Closes in the parent what was opened for the child: its end of things must be the only one."""
    opened = (ctx.kvm, ctx.exe, ctx.console, ctx.log, ctx.board, ctx.cgroup_fd, *ctx.tasks)
    for fd in (*opened, *ctx.sources.values(), *child.join_fds.values()):
        if fd >= 0:
            os.close(fd)


def _log_stages(what: str, t0: int, stages: "dict[str, int]") -> None:
    if log.debugging():
        words = " ".join(f"{name}={(at - t0) / 1e6:.2f}" for name, at in stages.items())
        log.debug(f"{what}, ms since krun began: {words}")


def open_log(path: str) -> int:
    """Opens the file of --trace. Raises SysError."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise SysError("open trace file", path, e.errno or 0) from None


def check_bundle(spec: "Spec") -> None:
    """Raises KrunError in runc's words if the root is not there."""
    try:
        mode = os.stat(spec.rootfs).st_mode
    except OSError as e:
        if e.errno == EPERM:
            raise SysError("stat", spec.rootfs, EPERM) from None
        raise SysError("stat", spec.rootfs, e.errno or 0, "root.path of config.json must exist") from None
    if mode & 0o170000 != 0o040000:
        raise KrunError(f"rootfs {spec.rootfs} is not a directory")


def attach_root(container: Container) -> int:
    """Binds the root of a container that inherits our mount namespace; the number is on disk before it is done."""

    def remember(number: int) -> None:
        container.state.root_mount = number
        container.statedir.save(container.state)

    return rootfs.attach_root(container.spec.rootfs, remember)


def exec_process(config: "Spec", state: ContainerState, process: "Process", options: ExecOptions) -> Launched:
    """Runs a further process in a running container, in a VM of its own.

    Arguments: config, state, of the container; process; options. Returns the process, its program started. Raises
    KrunError; the process is gone then.
    """
    made = build_exec(process)
    labels.check_lsm(process, "")
    pidfd = pidfd_open(state.pid)
    root = open_root(state)
    # Both are of whoever has the number now; only with the same start time is that our init.
    if process_start_time(state.pid) != state.start_time:
        raise KrunError("cannot exec in a stopped container")
    join = cgroup_paths(state, options.cgroup)
    initial = sched.number_list(process.cpu_initial, "/process/execCPUAffinity/initial")
    final = sched.number_list(process.cpu_final, "/process/execCPUAffinity/final")
    ctx = Context(config, process, options.id)
    ctx.t0 = options.t0
    ctx.keep = options.keep
    ctx.console = options.console
    ctx.kvm = boot.open_kvm()
    ctx.exe = boot.open_monitor()
    ctx.board = open_board(StateDir(options.root, options.id))
    ctx.seccomp = seccomp.compile_filter(config.seccomp, options.root)
    if options.trace:
        ctx.log = open_log(options.trace)
        ctx.trace = boot.FLAG_TRACE | boot.FLAG_COUNT
    open_cgroup(ctx, join)
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
    launched = spawn(child, init.EXEC_ORDER, born)
    child.join_fds = {"init": pidfd, "root": root}
    close_all(ctx, child)
    late = "" if child.in_cgroup else join.get("", "") or join.get("unified", "")
    conversation = talk.ExecTalk(launched, ctx.parent_sync, final, state, late)
    try:
        conversation.run()
        if options.pidfd_socket:
            send_pidfd(options.pidfd_socket, launched.pidfd, b"setns")
        if options.pid_file:
            write_pid_file(options.pid_file, launched.pid)
    except BaseException as e:
        reap(launched)
        if isinstance(e, KrunError):
            raise sync.explain(e) from None
        raise
    finally:
        os.close(ctx.parent_sync)
    return launched


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
