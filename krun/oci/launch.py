"""The parent's side of create, run and exec: prepare, clone, serve the child's requests, wait for "ready", undo.

docs/lifecycle.md has the whole sequence. Everything that can fail for want of the host (KVM, the monitor, paths of
namespaces, the console socket) is opened before the child exists, so that there is little to undo.
"""

import os
import time

from krun import log
from krun.errors import KrunError, SysError
from krun.kvm import boot
from krun.oci import cred, hooks, init, namespaces, rootfs, seccomp, sync
from krun.oci.cgroup import group as cgroups
from krun.oci.plan import Plan
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
    AT_RECURSIVE,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUSER,
    CLONE_PARENT,
    CLOSE_RANGE_CLOEXEC,
    EAGAIN,
    EPERM,
    MOUNT_ATTR_IDMAP,
    OPEN_TREE_CLONE,
    PR_SET_PDEATHSIG,
    SIGKILL,
    clone3,
    clone_inside,
    close_all_but,
    close_range,
    lib,
    mount_setattr,
    open_tree,
    pidfd_open,
    pidfd_send_signal,
    send_fd,
    set_undumpable,
    setns,
    socketpair,
    unix_connect,
    unshare,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.table import Options
    from krun.oci.spec import IdMap, Process, Spec

NEW_ID_MAP = {"uid": "/usr/bin/newuidmap", "gid": "/usr/bin/newgidmap"}


class Launched:
    """A process whose monitor is ready. pid, pidfd: of the monitor, a child of ours; stages: name to nanoseconds."""

    __slots__ = ("pid", "pidfd", "stages")

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.stages: dict[str, int] = {}


class Container:
    """A container under construction, and what undoes it."""

    __slots__ = ("spec", "statedir", "state", "cgroup", "launched", "result", "start", "console")

    def __init__(self, spec: "Spec", statedir: StateDir, state: ContainerState) -> None:
        self.spec = spec
        self.statedir = statedir
        self.state = state
        self.cgroup: cgroups.Cgroup | None = None
        self.launched: Launched | None = None
        self.result = -1
        self.start = -1
        self.console = -1


def seal_descriptors(preserve: "int | None", activation: bool = True) -> "list[int]":
    """Marks all inherited descriptors but stdio close-on-exec, and finds those that the payload is to have.

    Arguments: preserve, --preserve-fds; activation, whether LISTEN_FDS counts (not of exec, as with runc: its process is
    not the service). Returns the descriptors to hand on: those of LISTEN_FDS, then `preserve` more
    (sd_listen_fds(3); runc, "File descriptors"). Raises KrunError if one of them is not open. Callers do leak
    (containerd 1.6 a socket on 3), and a leaked one holds up whoever waits for its end (reference/oci.md 0.4).
    """
    close_range(3, flags=CLOSE_RANGE_CLOEXEC)
    count = (listen_fds() if activation else 0) + (preserve or 0)
    keep = list(range(3, 3 + count))
    for fd in keep:
        try:
            # The log is opened before us and may have taken a free number: it is ours, not the caller's.
            if fd == log.fileno():
                raise OSError
            os.fstat(fd)
        except OSError:
            raise KrunError(f"please check that preserved-fd {fd - 3} (of {count}) is present") from None
    return keep


def listen_fds() -> int:
    """Returns LISTEN_FDS if it was meant for us: LISTEN_PID says so (sd_listen_fds(3))."""
    count, pid = os.environ.get("LISTEN_FDS", ""), os.environ.get("LISTEN_PID", "")
    return int(count) if count.isdecimal() and pid == str(os.getpid()) else 0


def pass_listen_fds(process: "Process") -> None:
    """Tells the payload of socket activation: it is process 1 of its world."""
    count = listen_fds()
    if count:
        process.env += [f"LISTEN_FDS={count}", "LISTEN_PID=1"]


def check_terminal(process: "Process", detach: bool, console_socket: "str | None") -> None:
    """Raises KrunError in runc's words for a terminal without a socket, or a socket without a terminal."""
    if process.terminal and detach and not console_socket:
        raise KrunError("cannot allocate tty if runc will detach without setting console socket")
    if console_socket and not (process.terminal and detach):
        raise KrunError("cannot use console socket if runc will not detach or allocate tty")


def manager_of(opts: "Options") -> str:
    """Returns the cgroup manager that the command line asks for."""
    if opts.systemd_cgroup:
        return "systemd"
    return opts.cgroup_manager or "cgroupfs"


def is_rootless(opts: "Options") -> bool:
    """Tells whether we are an ordinary user's."""
    if opts.rootless in ("true", "1"):
        return True
    return opts.rootless not in ("false", "0") and os.geteuid() != 0


def write_pid_file(path: str, pid: int) -> None:
    """Writes a pid file as runc does: `.NAME` made exclusively, then renamed, so that a reader never sees half of it.

    A relative path is relative to the caller's working directory. Raises SysError.
    """
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            fd = os.open(fresh, flags, 0o666)
        except FileExistsError:
            os.unlink(fresh)  # of a krun that was killed half-way
            fd = os.open(fresh, flags, 0o666)
        os.write(fd, str(pid).encode())
        os.close(fd)
        os.rename(fresh, path)
    except OSError as e:
        raise SysError("write pid file", path, e.errno or 0) from None


def send_pidfd(path: str, pidfd: int, payload: bytes) -> None:
    """Sends a pidfd over --pidfd-socket (runc 1.2: payload "standard" for a container, "setns" for an exec)."""
    sock = unix_connect(path)
    try:
        send_fd(sock, payload, pidfd)
    finally:
        os.close(sock)


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
    container.start, container.result = numbers


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


# --- cloning ---------------------------------------------------------------------------------------------------------


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
    child: init.Child, order: "Any", flags: int, time_offsets: "dict[str, dict[str, int]] | None" = None
) -> Launched:
    """Clones the child, which runs `order`. Returns its pid and pidfd. Raises SysError.

    A pid namespace to join is entered by a short-lived process in between (clone_inside). A user namespace to join needs
    one, too: its rights are needed to make the other namespaces, so they can only be made from inside it.
    """
    ctx = child.ctx
    ctx.parent_sync, ctx.sync = socketpair()
    pid_fd = child.join_fds.get("pid", -1)
    own_time = -1
    if os.geteuid() == 0:
        # Before there is a child to inherit it. An ordinary user's helpers (newuidmap) need more: see init, step 1.
        set_undumpable()
    if "user" in child.join_fds:
        return _spawn_between(child, order, flags)
    try:
        if child.plan.new_time_ns:
            own_time = _own("time")
            unshare(CLONE_NEWTIME, "time namespace")
            _write_offsets(time_offsets or {})
        if pid_fd >= 0:
            name = f"pid namespace {child.plan.joins.get('pid', '')}"
            pid = _clone_inside(child, flags, pid_fd, name)
            pidfd = pidfd_open(pid) if pid else -1
        else:
            pid, pidfd = clone3(flags, cgroup_fd=ctx.cgroup_fd)
        if pid == 0:
            init.run(child, order)
    finally:
        _restore(own_time, CLONE_NEWTIME)
    os.close(ctx.sync)
    return Launched(pid, pidfd)


def _clone_inside(child: init.Child, flags: int, pid_fd: int, name: str) -> int:
    """clone_inside; a cgroup that has no room for it is joined later, which pids.max does not forbid (cgroups(7))."""
    try:
        return clone_inside(flags, pid_fd, child.birth_root, child.ctx.cgroup_fd, child.held(), name)
    except SysError as e:
        if e.errno != EAGAIN or child.ctx.cgroup_fd < 0:
            raise
    child.in_cgroup = False
    return clone_inside(flags, pid_fd, child.birth_root, -1, child.held(), name)


def _write_offsets(offsets: "dict[str, dict[str, int]]") -> None:
    """time_namespaces(7): offsets can be written until the first process is born in the namespace."""
    text = "".join(
        f"{clock} {offset.get('secs') or 0} {offset.get('nanosecs') or 0}\n"
        for clock, offset in offsets.items()
    )
    if text:
        write_file("/proc/self/timens_offsets", text)


def _spawn_between(child: init.Child, order: "Any", flags: int) -> Launched:
    """Joins user and pid namespace in a process of its own, which clones the child as ours (CLONE_PARENT) and ends."""
    ctx = child.ctx
    # Not over the sync socket: the child may have a request in it before the one in between has told its pid.
    pid_r, pid_w = os.pipe()
    middle, middle_fd = clone3(0)
    if middle == 0:
        try:
            user = child.join_fds.pop("user")
            pid_fd = child.join_fds.get("pid", -1)
            close_all_but([*child.held(), user, pid_fd, pid_w])
            lib.kr_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
            cred.set_oom_score_early("self", ctx.process.oom_score_adj)
            set_undumpable()
            setns(user, CLONE_NEWUSER, f"user namespace {child.plan.joins.get('user', '')}")
            init.become_root(ctx)
            if pid_fd >= 0:
                setns(pid_fd, CLONE_NEWPID, f"pid namespace {child.plan.joins.get('pid', '')}")
            if child.plan.new_time_ns:
                unshare(CLONE_NEWTIME, "time namespace")
            # No exit signal of its own with CLONE_PARENT: it is that of ours (clone(2)).
            pid, _ = clone3(flags | CLONE_PARENT, 0)
            if pid == 0:
                init.run(child, order)
            os.write(pid_w, str(pid).encode())
            os._exit(0)
        except BaseException as e:
            sync.send(ctx.sync, sync.ERROR, *sync.error_fields("3 join", e))
            os._exit(1)
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
            write_file(f"/proc/{pid}/setgroups", "deny")
        write_file(f"/proc/{pid}/{kind}_map", text)


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

    A namespace needs a process to be born with; it is killed once the namespace is open.
    """
    theirs, ours = socketpair()
    pid, pidfd = clone3(CLONE_NEWUSER)
    if pid == 0:
        lib.kr_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        os.close(ours)
        os.read(theirs, 1)
        os._exit(0)
    os.close(theirs)
    try:
        write_id_maps(pid, uid_maps, gid_maps)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as e:
        raise SysError("open user namespace of", str(pid), e.errno or 0) from None
    finally:
        os.close(ours)
        os.waitpid(pid, 0)
        os.close(pidfd)


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


# --- the conversation ------------------------------------------------------------------------------------------------


class Conversation:
    """Serves the requests of one child until its monitor is ready. Subclassed by what a request means."""

    __slots__ = ("launched", "sock")

    def __init__(self, launched: Launched, sock: int) -> None:
        self.launched = launched
        self.sock = sock

    def on_maps(self) -> None:
        """The child waits for its id maps."""
        raise KrunError("the child asked for id maps")

    def on_cgroup(self) -> None:
        """The child waits to be in its cgroup."""
        raise KrunError("the child asked for a cgroup")

    def on_hooks(self) -> None:
        """The child's environment is made; prestart and createRuntime hooks are due."""
        raise KrunError("the child asked for hooks")

    def run(self) -> None:
        """Serves until R. Raises the child's error (sync.ChildError), or KrunError if the child dies silently."""
        actions = {sync.MAPS: self.on_maps, sync.CGROUP: self.on_cgroup, sync.HOOKS: self.on_hooks}
        while True:
            kind, fields = sync.receive(self.sock)
            if kind in actions:
                actions[kind]()
                sync.send(self.sock, sync.GO)
            elif kind == sync.READY:
                self.launched.stages = sync.stages(fields)
                return
            elif kind == sync.ERROR:
                raise sync.error_of(fields)
            elif kind == sync.CLOSED:
                raise KrunError(died(self.launched.pid))
            else:
                raise KrunError(f"the container's process sent an unknown message {kind!r}")


def died(pid: int) -> str:
    """Collects a child that went without a word and tells how it went."""
    try:
        _, status = os.waitpid(pid, 0)
    except OSError:
        return "the container's process died before it was ready"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hint = (
            "; was it out of memory? look at memory.limit and the kernel's log" if number == SIGKILL else ""
        )
        return f"the container's process died of signal {number} before it was ready{hint}"
    return f"the container's process ended with code {os.WEXITSTATUS(status)} before it was ready"


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


class _CreateTalk(Conversation):
    """Requests of a container's first process."""

    __slots__ = ("container", "joined")

    def __init__(self, container: Container, launched: Launched, sock: int, joined: bool) -> None:
        super().__init__(launched, sock)
        self.container = container
        self.joined = joined

    def on_maps(self) -> None:
        spec = self.container.spec
        if spec.process:
            cred.set_oom_score_early(self.launched.pid, spec.process.oom_score_adj)
        write_id_maps(self.launched.pid, spec.uid_maps, spec.gid_maps)

    def on_cgroup(self) -> None:
        container, pid = self.container, self.launched.pid
        if container.cgroup is not None and not self.joined:
            container.cgroup.join(pid)
            delegate(container.cgroup, container.spec)
        if container.state.intel_rdt:
            from krun.oci import resctrl

            resctrl.join(container.state, pid)
        if container.spec.net_devices:
            # Layer and cost: pyroute2 takes 80 ms to import, and hardly any container moves a device.
            from krun.oci import network

            network.move_devices(container.spec.net_devices, pid)
        # From here on `delete --force` finds the process whatever becomes of us; until here it dies with us.
        state = container.state
        state.pid = pid
        state.start_time = process_start_time(pid)
        container.statedir.save(state)

    def on_hooks(self) -> None:
        container = self.container
        # A prestart hook has always read "created" (it ran in start until runtime-spec 1.1); createRuntime came later.
        for kind, status in (("prestart", "created"), ("createRuntime", "creating")):
            hooks.run(container.spec.hooks, kind, hook_state(container.state, status))


def create(
    spec: "Spec",
    plan: Plan,
    opts: "Options",
    keep: "list[int]",
    console: int,
    t0: int,
) -> Container:
    """Makes a container whose program waits for start.

    Arguments: spec, plan; opts, the command line's (root, id, pid_file, pidfd_socket, rootless, manager, trace); keep,
    descriptors for the payload; console, socket that gets the terminal, -1 if none; t0, when krun began.
    Returns the Container, its monitor ready. Raises KrunError; nothing is left behind then (runtime.md, "Create").
    """
    process = spec.process
    assert process is not None  # plan.build refused it
    rootless = is_rootless(opts)
    mount_label = cred.check_lsm(process, spec.mount_label)
    ctx = Context(spec, process, opts.id)
    ctx.mount_label = mount_label
    ctx.t0 = t0
    ctx.keep = keep
    ctx.console = console
    ctx.kvm = boot.open_kvm()
    ctx.exe = boot.open_monitor()
    check_bundle(spec)
    child = init.Child(ctx, plan)
    child.join_fds = namespaces.open_paths(spec.namespaces)
    child.map_ids = bool(plan.clone_flags & CLONE_NEWUSER)
    # An unprivileged gid_map goes with setgroups denied (user_namespaces(7)).
    ctx.groups_denied = rootless and len(spec.gid_maps) == 1
    if not plan.clone_flags & CLONE_NEWUSER and "user" not in child.join_fds:
        cred.warn_unavailable(process, cred.own_capabilities())
    if opts.trace:
        ctx.log = open_log(opts.trace)
        ctx.trace = boot.FLAG_TRACE | boot.FLAG_COUNT
    statedir = StateDir(opts.root, opts.id)
    state = ContainerState(
        oci_version=spec.version,
        id=opts.id,
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
            _make(container, child, opts, rootless)
    except BaseException as e:
        undo(container)
        if isinstance(e, KrunError):
            raise sync.explain(e) from None
        raise
    return container


def _make(container: Container, child: init.Child, opts: "Options", rootless: bool) -> None:
    """The part of create that leaves traces; the caller undoes them."""
    spec, statedir, state, ctx = container.spec, container.statedir, container.state, child.ctx
    statedir.write(state.config, spec.raw)
    make_fifos(container)
    if os.environ.get("NOTIFY_SOCKET"):
        from krun.oci import notify

        notify.make_directory(statedir.path)
    ctx.board = make_board(statedir)
    ctx.seccomp = seccomp.compile_filter(spec.seccomp, opts.root)
    open_sources(spec, child.plan, ctx, rootless)
    container.cgroup = cgroups.create(
        spec.cgroups_path, spec.resources, state.id, manager_of(opts), rootless, spec.annotations
    )
    delegate(container.cgroup, spec)
    state.cgroup_paths = container.cgroup.paths
    state.manager = container.cgroup.manager
    statedir.save(state)
    if spec.intel_rdt is not None:
        from krun.oci import resctrl

        resctrl.create(spec.intel_rdt, state, lambda: statedir.save(state))
    if "mount" not in spec.namespaces:
        ctx.sources[-1] = attach_root(container)
    ctx.start, ctx.result = container.start, container.result
    joined = container.cgroup.pending is None and "user" not in child.join_fds
    if joined:
        open_cgroup(ctx, state.cgroup_paths)
    ctx.hook_state = hook_state(state, "creating")
    launched = container.launched = spawn(child, init.ORDER, child.plan.clone_flags, spec.time_offsets)
    close_all(ctx, child)
    talk = _CreateTalk(container, launched, ctx.parent_sync, joined and child.in_cgroup)
    try:
        talk.run()
    finally:
        os.close(ctx.parent_sync)
    if opts.pidfd_socket:
        send_pidfd(opts.pidfd_socket, launched.pidfd, b"standard")
    if opts.pid_file:
        write_pid_file(opts.pid_file, launched.pid)
    _log_stages("ready", ctx.t0, launched.stages)


def delegate(cgroup: cgroups.Cgroup, spec: "Spec") -> None:
    """Gives a cgroup v2 to the payload's user where it sees it writable and as its own root (config-linux.md, "Cgroup
    ownership"); never one of v1. Raises SysError."""
    if "" not in cgroup.paths or spec.namespaces.get("cgroup") != "" or cgroup.pending is not None:
        return
    if not any(mount.type in ("cgroup", "cgroup2") and "ro" not in mount.options for mount in spec.mounts):
        return
    process = spec.process
    uid = host_id(spec.uid_maps, process.uid if process else 0)
    gid = host_id(spec.gid_maps, process.gid if process else 0)
    if uid >= 0 and gid >= 0 and uid != 0:
        cgroup.delegate(uid, gid)


def host_id(maps: "list[IdMap]", number: int) -> int:
    """Returns the host's id for one of the container's; itself without maps, -1 if it is not mapped."""
    for line in maps:
        if line.container <= number < line.container + line.size:
            return line.host + number - line.container
    return -1 if maps else number


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


def undo(container: Container) -> None:
    """Takes back a create that failed: process, cgroup, state directory; then poststop hooks (runtime.md, lifecycle).

    Goes on whatever fails on the way, and reports it: the first error is the one that the caller sees.
    """
    launched = container.launched
    reap(launched)
    made = [
        lambda: remove_resctrl(container.state),
        lambda: detach_root(container),
        container.statedir.destroy,
    ]
    if container.cgroup is not None:
        made.insert(0, container.cgroup.destroy)
    for take_back in made:
        try:
            take_back()
        except KrunError as e:
            log.warning(f"undo create: {e}")
    if launched is not None:
        run_poststop(container.spec.hooks, container.state)


def attach_root(container: Container) -> int:
    """Binds the root of a container that inherits our mount namespace; the number is on disk before it is done."""

    def remember(number: int) -> None:
        container.state.root_mount = number
        container.statedir.save(container.state)

    return rootfs.attach_root(container.spec.rootfs, remember)


def remove_resctrl(state: ContainerState) -> None:
    """Removes what linux.intelRdt has made. Raises SysError."""
    if state.intel_rdt_made:
        from krun.oci import resctrl

        resctrl.remove(state)


def detach_root(container: Container) -> None:
    """Takes back attach_root. Raises SysError."""
    rootfs.detach_root(container.spec.rootfs, container.state.root_mount)


def run_poststop(wanted: "dict[str, Any]", state: ContainerState) -> None:
    """Runs poststop hooks; what fails is only logged, the rest still runs (runtime.md, lifecycle 13)."""
    if wanted.get("poststop"):
        for error in hooks.run_all(wanted, "poststop", hook_state(state, "stopped", 0)):
            log.warning(str(error))


def remove(container: Container) -> None:
    """Removes a container that has stopped: what `delete` does, for `run` (which has everything at hand)."""
    if container.cgroup is not None:
        container.cgroup.kill()
        container.cgroup.destroy()
    remove_resctrl(container.state)
    detach_root(container)
    container.statedir.destroy()
    run_poststop(container.spec.hooks, container.state)
