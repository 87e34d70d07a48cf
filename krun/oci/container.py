"""A container: create, start, destroy, with typed options and without a command line. The verbs call it.

docs/lifecycle.md has the whole sequence. The parent opens everything that the host may lack (KVM, the monitor, paths of
namespaces, the console socket) before the child exists, so that a failure leaves little to undo.
"""

import os
import time
from errno import EPERM

from krun.errors import KrunError, NotFoundError, SysError
from krun.kvm import board, boot, host, image
from krun.log import Log, rfc3339
from krun.mountio import (
    AT_RECURSIVE,
    MOUNT_ATTR_IDMAP,
    OPEN_TREE_CLONE,
    mount_setattr,
    open_tree,
)
from krun.oci import cred, init, labels, namespaces, procfs, rootfs, seccomp, sync, talk, wake
from krun.oci.caller import send_pidfd, write_pid_file
from krun.oci.cgroup import group as cgroups
from krun.oci.fields import CALLS_LOCAL, CALLS_SOCKETS
from krun.oci.plan import Plan
from krun.oci.spawn import Launched, between, id_map_namespace, reap, spawn
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
from krun.settings import Settings
from krun.sysio import (
    AT_FDCWD,
    CLONE_NEWUSER,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Spec


class CreateOptions:
    """The options of a container besides its configuration.

    Arguments: root, the directory of the containers' state; id; log, of this container; notify, whether the program gets a
    NOTIFY_SOCKET (oci/notify.py); manager, of cgroups: "cgroupfs", "systemd" or
    "disabled"; rootless, whether to do without what an ordinary user may not; keep, descriptors that the payload
    inherits; stdio, as Context has it; console, socket that gets the terminal's master, or -1; pid_file, pidfd_socket, trace,
    paths or None;
    t0, CLOCK_MONOTONIC ns at the beginning of krun, 0 if unknown; keyring, name of the session keyring, "": the caller's;
    settings, the administrator's configuration; foreground, whether krun itself copies the terminal.
    """

    __slots__ = (
        "root", "id", "log", "notify", "manager", "rootless", "keep", "console", "pid_file", "pidfd_socket", "trace", "trace_log", "t0",
        "keyring", "settings", "stdio", "foreground",
    )  # fmt: skip

    def __init__(self, root: str, id: str, log: Log) -> None:
        self.root = root
        self.id = id
        self.log = log
        self.notify = False
        self.manager = "cgroupfs"
        self.rootless = False
        self.keep: list[int] = []
        self.stdio: list[int] = []
        self.console = -1
        self.pid_file: str | None = None
        self.pidfd_socket: str | None = None
        self.trace: str | None = None
        self.trace_log: str | None = None
        self.t0 = 0
        self.keyring = ""
        self.foreground = False
        self.settings = Settings()


class Container:
    """A container with its configuration; made by create."""

    __slots__ = ("spec", "statedir", "state", "log", "cgroup", "launched", "result", "begin")

    def __init__(self, spec: "Spec", statedir: StateDir, state: ContainerState, log: Log) -> None:
        self.spec = spec
        self.log = log
        self.statedir = statedir
        self.state = state
        self.cgroup: cgroups.Cgroup | None = None
        self.launched: Launched | None = None
        self.result = -1
        self.begin = -1

    def start(self) -> "dict[str, int]":
        """Starts the program, then runs the poststart hooks. Precondition: this process has made the container and is its parent
        (else: wake.start).

        Returns the stage times. Raises KrunError; the container is gone then. NotFoundError: a `delete` was first.
        """
        assert self.launched is not None
        try:
            with self.statedir.lock():
                if not self._is_there():
                    raise NotFoundError(f"container does not exist: {self.state.id}")
                try:
                    stages = wake.wake(self.begin, self.result, self.launched.pidfd)
                    wake.finish(self.statedir)
                except KrunError:
                    self.undo()
                    raise
                wake.run_poststart(self.statedir, self.state, {"hooks": self.spec.hooks}, self.log)
        finally:
            for fd in (self.begin, self.result):
                if fd >= 0:
                    os.close(fd)
            self.begin = self.result = -1
        return stages

    def close(self) -> None:
        """Closes what this process still has open of the container, which lives on."""
        for fd in (self.begin, self.result):
            if fd >= 0:
                os.close(fd)
        self.begin = self.result = -1
        if self.launched is not None:
            self.launched.close()

    def destroy(self) -> None:
        """Takes the container down, running or not, unless a `delete` has done so. Raises KrunError."""
        try:
            with self.statedir.lock():
                if self._is_there():
                    self._take_down()
        except NotFoundError:
            pass

    def _is_there(self) -> bool:
        """Tells whether the state directory is still this container's: after a `delete`, another may have its id."""
        try:
            found = self.statedir.load()
        except NotFoundError:
            return False
        return (found.created, found.pid) == (self.state.created, self.state.pid)

    def _take_down(self, hooks: bool = True) -> None:
        # Imported here, because create and run --detach end without it.
        from krun.oci import teardown

        teardown.take_down(self.statedir, self.state, {"hooks": self.spec.hooks}, self.log, hooks)

    def undo(self) -> None:
        """Undoes a create or start that failed. Precondition: the lock is held. A failure here is a warning: the caller has an error."""
        reap(self.launched)
        self.close()
        if self.cgroup is not None and self.cgroup.pending is not None:
            self.state.cgroup_paths = {}  # systemd has not made it: a unit of that name is another container's
        try:
            self._take_down(hooks=self.launched is not None)
        except KrunError as e:
            self.log.warning(f"undo create or start: {e}")


def create(spec: "Spec", plan: Plan, options: CreateOptions) -> Container:
    """Makes a container whose program waits for start.

    Arguments: spec, plan; options. Returns the Container, its monitor ready. Raises KrunError; nothing is left behind
    then (runtime.md, "Create").
    """
    process = spec.process
    assert process is not None  # plan.build refused it
    for line in plan.warnings:
        options.log.warning(line)
    mount_label = labels.check_lsm(process, spec.mount_label, options.log)
    ctx = Context(spec, process, options.id)
    ctx.mount_label = mount_label
    child = init.Child(ctx, plan)
    try:
        return _create(child, options)
    finally:
        close_all(ctx, child)


def open_for_child(ctx: Context, options: CreateOptions) -> None:
    """Opens what the host may lack, for a first and for a further process; close_all closes it. Raises KrunError."""
    ctx.t0 = options.t0
    ctx.keep = options.keep
    ctx.stdio = options.stdio
    give_streams(ctx)
    ctx.console, ctx.foreground = options.console, options.foreground
    ctx.kvm = boot.open_kvm(ctx.later)
    ctx.exe = image.open_monitor()
    local = "off" if CALLS_LOCAL in ctx.spec.annotations else options.settings.calls_local
    open_root = StateDir(options.root, options.id).open_root
    known = host.know(options.root, open_root, ctx.kvm, options.log, local == "auto")
    ctx.cpuid = known.cpuid
    sockets = "off" if CALLS_SOCKETS in ctx.spec.annotations else options.settings.calls_sockets
    ctx.flags = host.local_flags(local, sockets, known)
    if options.trace:
        ctx.log = open_log(options.trace)
        ctx.flags |= boot.FLAG_TRACE | boot.FLAG_COUNT
    elif options.trace_log:
        ctx.log = open_trace_log(options.trace_log, options.id)
        ctx.flags |= boot.FLAG_TRACE | boot.FLAG_BOUND


def give_streams(ctx: Context) -> None:
    """Gives the pipes in place of stdio to the container's root, as runc does: in a user namespace that does not have their owner nobody
    could open /dev/stdout. Those of an ordinary user are the container's root's already, and are not given to others.
    """
    spec = ctx.spec
    uid, gid = talk.host_id(spec.uid_maps, 0), talk.host_id(spec.gid_maps, 0)
    if not spec.uid_maps or uid < 0 or gid < 0:
        return
    for fd in {fd for fd in ctx.stdio if fd >= 0}:
        try:
            os.fchown(fd, uid, gid)
        except OSError:
            pass


def _create(child: init.Child, options: CreateOptions) -> Container:
    ctx, plan = child.ctx, child.plan
    spec, process = ctx.spec, ctx.process
    check_bundle(spec)
    open_for_child(ctx, options)
    child.join_fds = namespaces.open_paths(spec.namespaces)
    child.map_ids = bool(plan.clone_flags & CLONE_NEWUSER)
    # An unprivileged gid_map goes with setgroups denied (user_namespaces(7)).
    ctx.groups_denied = options.rootless and len(spec.gid_maps) == 1
    if child.map_ids or "user" in child.join_fds:
        ctx.readable = image.open_readable()
        procfs.open_of_host(ctx, "pid" in spec.namespaces)
    ours = not plan.clone_flags & CLONE_NEWUSER and "user" not in child.join_fds
    cred.warn_unavailable(process, cred.own_capabilities() if ours else cred.ALL, options.log)
    statedir = StateDir(options.root, options.id)
    state = ContainerState(
        oci_version=spec.version,
        id=options.id,
        bundle=spec.bundle,
        created=rfc3339(time.time_ns(), True),
        rootfs=spec.rootfs,
        annotations=spec.annotations,
        owner=os.geteuid(),
        namespaces=spec.namespaces,
    )
    state.keyring, state.new_keyring = options.keyring, bool(options.keyring)
    container = Container(spec, statedir, state, options.log)
    statedir.create()
    try:
        with statedir.lock():
            # Between the two, a `delete --force` may have removed the directory, and another create have made its own.
            statedir.check_empty()
            try:
                _make(container, child, options)
            except BaseException as e:
                # Under the lock: the id is nobody else's before all is gone. To undo takes descriptors, and there may have been too few.
                close_all(ctx, child)
                container.undo()
                if isinstance(e, KrunError):
                    raise sync.explain(e) from None
                raise
    except SysError:
        try:
            os.rmdir(statedir.path)  # empty, if there was no descriptor to lock or to list it
        except OSError:
            pass
        raise
    return container


def _make(container: Container, child: init.Child, options: CreateOptions) -> None:
    """The part of create that leaves traces; the caller undoes them."""
    spec, statedir, state, ctx = container.spec, container.statedir, container.state, child.ctx
    statedir.write(state.config, spec.raw)
    make_fifos(container)
    if options.notify:
        from krun.oci import notify

        notify.make_directory(statedir.path)
    ctx.board = make_board(statedir)
    ctx.seccomp = seccomp.compile_filter(spec.seccomp, options.root)
    open_listener(ctx)
    open_sources(spec, child.plan, ctx, options.rootless)
    container.cgroup = cgroups.create(
        spec.cgroups_path,
        spec.resources,
        state.id,
        options.log,
        options.manager,
        options.rootless,
        spec.annotations,
    )
    talk.delegate(container.cgroup, spec)
    # A unit of systemd may be anybody's until it has been started (CreateTalk._unit_started).
    state.cgroup_paths = container.cgroup.paths if container.cgroup.pending is None else {}
    state.manager = container.cgroup.manager
    statedir.save(state)
    if spec.intel_rdt is not None:
        from krun.oci import resctrl

        resctrl.create(spec.intel_rdt, state, lambda: statedir.save(state))
    if "mount" not in spec.namespaces:
        ctx.sources[-1] = attach_root(container)
    ctx.start, ctx.result = container.begin, container.result
    joined = container.cgroup.pending is None and not between(child, child.plan.clone_flags)
    if joined:
        open_cgroup(ctx, state.cgroup_paths)
    ctx.hook_state = hook_state(state, "creating")
    launched = container.launched = spawn(child, init.ORDER, child.plan.clone_flags, spec.time_offsets)
    close_all(ctx, child, last=False)
    # From here on `delete --force` finds the process, whatever becomes of us, or of it: in a pid namespace that it shares, another
    # container's processes may stop it.
    state.pid, state.start_time = launched.pid, process_start_time(launched.pid)
    statedir.save(state)
    joined = joined and child.in_cgroup
    conversation = talk.CreateTalk(container, launched, ctx.parent_sync, joined, ctx.later)
    try:
        conversation.run()
    finally:
        os.close(ctx.parent_sync)
    if ctx.listener is not None:
        ctx.listener.send(hook_state(state, "creating"), spec.version, launched.pid)
    if options.pidfd_socket:
        send_pidfd(options.pidfd_socket, launched.pidfd, b"standard")
    if options.pid_file:
        write_pid_file(options.pid_file, launched.pid)
    log_stages(options.log, ctx.t0, launched.stages)


def make_fifos(container: Container) -> None:
    """Makes and opens start.fifo and result.fifo. O_RDWR: no open ever blocks and no writer meets EPIPE."""
    for name, attribute in ((START_FIFO, "begin"), (RESULT_FIFO, "result")):
        path = f"{container.statedir.path}/{name}"
        try:
            os.mkfifo(path, 0o600)
            setattr(container, attribute, os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as e:
            raise SysError("make", path, e.errno or 0) from None


def make_board(statedir: StateDir) -> int:
    """Makes the container's board and returns its descriptor. Raises SysError."""
    path = f"{statedir.path}/{BOARD}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        board.fill(fd)
        return fd
    except OSError as e:
        raise SysError("make", path, e.errno or 0) from None


def open_listener(ctx: Context) -> None:
    """Makes what the agent of a profile with SCMP_ACT_NOTIFY gets. Raises KrunError, SysError."""
    profile = ctx.spec.seccomp
    if not profile or not seccomp.notifies(profile):
        return
    # Layer and cost: hardly any container has an agent.
    from krun.oci import listener

    listener.make(ctx, profile)


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


def close_all(ctx: Context, child: init.Child, last: bool = True) -> None:
    """Closes in the parent what was opened for the child: its end of things must be the only one. A second call does nothing.

    Argument: last, whether also ctx.later, which the conversation with the child closes, and what the agent gets.
    """
    while last and ctx.later:
        os.close(ctx.later.pop())
    if last and ctx.listener is not None:
        ctx.listener.close()
    opened = (
        ctx.kvm,
        ctx.exe,
        ctx.proc,
        ctx.readable,
        ctx.console,
        ctx.log,
        ctx.board,
        ctx.relay,
        ctx.cgroup_fd,
        *ctx.tasks,
        *ctx.stdio,
    )
    for fd in {*opened, *ctx.sources.values(), *child.join_fds.values()}:
        if fd >= 0:
            os.close(fd)
    ctx.kvm = ctx.exe = ctx.proc = ctx.readable = ctx.console = ctx.log = ctx.board = ctx.cgroup_fd = -1
    ctx.relay = -1
    ctx.tasks, ctx.stdio, ctx.sources, child.join_fds = [], [], {}, {}


def log_stages(log: Log, t0: int, stages: "dict[str, int]") -> None:
    """Writes the times of the way to a monitor that is ready, with --debug."""
    if log.debugging():
        words = " ".join(f"{name}={(at - t0) / 1e6:.2f}" for name, at in stages.items())
        log.debug(f"ready, ms since krun began: {words}")


def open_log(path: str) -> int:
    """Opens the file of --trace. Raises SysError."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise SysError("open trace file", path, e.errno or 0) from None


def open_trace_log(directory: str, container_id: str) -> int:
    """Opens the container's file in the directory of --trace-log. Raises KrunError for a directory that others can change; SysError."""
    from krun.ownpath import open_directory  # cost: most containers have no such file

    path = f"{directory}/{container_id}.trace"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        parent = open_directory(directory)
        try:
            return os.open(f"{container_id}.trace", flags, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
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
