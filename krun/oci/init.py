"""The child's side: from clone3 to the monitor, THE numbered list (ORDER). docs/lifecycle.md gives the reasons.

This code runs in a clone of the parent for which Python's fork handlers have not run. Rules: no import inside a function
that runs here, because the interpreter's files are gone after step "pivot"; every failure goes to the parent as one E
message; the process leaves this code only by the monitor's exec or by os._exit.
"""

import os
from errno import EACCES, EINVAL, EPERM

from krun.errors import KrunError, SysError
from krun.jsonio import dumps
from krun.kvm import boot, image, probe
from krun.kvm.probe import open_image_file
from krun.oci import hooks, sched, sync
from krun.oci.cwd import enter_cwd
from krun.oci.namespaces import FILES, FLAGS
from krun.oci.rootfs import enter_root
from krun.sysio import (
    CLONE_NEWCGROUP,
    PR_SET_PDEATHSIG,
    RESOLVE_BENEATH,
    STACK_SOFT,
    capget,
    capset,
    check,
    close_all_but,
    die_with_parent,
    getrlimit,
    keep_over_exec,
    lib,
    open_proc,
    openat2,
    prctl,
    set_undumpable,
    setfsuid,
    setgroups,
    setns,
    setrlimit,
    unshare,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from krun.oci.plan import Plan
    from krun.oci.steps import Context

    Stage = Callable[["Child"], None]
    Order = tuple["Row", ...]

_RLIMIT_FSIZE = 1
_RLIMIT_STACK = 3
_PASSWD_LIMIT = 1 << 20
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: the two that read a file without permission (capabilities(7)).
_CAPS_TO_READ = 1 << 1 | 1 << 2


class Child:
    """State of one run through ORDER. join_fds: namespaces to join; map_ids: wait for id maps and become root;
    birth_root: the root to be born with (exec), or -1; in_cgroup: whether it was born in the cgroup v2 of ctx; joined: what of join_all
    it was born in."""

    __slots__ = (
        "ctx", "plan", "join_fds", "join_all", "map_ids", "new_cgroup_ns", "root_mount", "birth_root", "in_cgroup", "joined",
    )  # fmt: skip

    def __init__(self, ctx: "Context", plan: "Plan") -> None:
        self.ctx = ctx
        self.plan = plan
        self.join_fds: dict[str, int] = {}
        self.join_all: tuple[int, int] | None = None  # exec: (pidfd, flags)
        self.root_mount: tuple[str, int] | None = (
            None  # exec: root without a mount namespace, number of its mount
        )
        self.map_ids = False
        self.new_cgroup_ns = plan.new_cgroup_ns
        self.birth_root = -1
        self.in_cgroup = True
        self.joined = 0

    def held(self) -> "list[int]":
        """Returns the descriptors that the child starts with, stdio aside."""
        joins = [fd for kind, fd in self.join_fds.items() if kind != "pid"]
        return [*self.ctx.held(), *joins, self.join_all[0] if self.join_all else -1]


def _ask(child: Child, kind: str) -> None:
    """Sends a request to the parent and waits for its "go on". A parent that is gone ends us."""
    sync.send(child.ctx.sync, kind)
    answer, _ = sync.receive(child.ctx.sync)
    if answer != sync.GO:
        os._exit(1)


def _steps(name: str) -> "Stage":
    """Returns the stage that executes the plan's steps of that name."""

    def stage(child: Child) -> None:
        for step in child.plan.stages[name]:
            step.execute(child.ctx)

    return stage


def _parent(child: Child) -> None:
    ctx = child.ctx
    # First of all: whatever of the host's was open in the parent must not be found by a process of the container.
    close_all_but(child.held())
    # Until the exec we die with krun; the caller's own PDEATHSIG did not survive the clone (prctl(2)).
    die_with_parent()
    lib.kr_sigactions_default()
    lib.kr_sigmask_clear()
    if child.map_ids:
        # An ordinary user's newuidmap(1) wants /proc/PID to be that user's, which needs a dumpable process.
        _ask(child, sync.MAPS)
        set_undumpable()
        become_root(ctx)
    else:
        set_undumpable()


def become_root(ctx: "Context") -> None:
    """Takes id 0 of the user namespace we are in now; without it, files we make would have no owner."""
    result = lib.kr_setresgid(0, 0, 0)
    if result == 0:
        result = lib.kr_setresuid(0, 0, 0)
    if result < 0 and result != -EINVAL:  # 0 is not mapped: we stay who we are
        raise SysError("become root of the user namespace", "", -result)
    set_undumpable()
    die_with_parent()
    if not ctx.groups_denied:
        # A user namespace that is joined may be an ordinary user's (user_namespaces(7), "/proc/PID/setgroups"). With exec the tree
        # is the container's by now, and a FIFO in its /proc would hold us for ever: the procfs is our own.
        name = "thread-self/setgroups"
        fd = (
            open_proc(name, os.O_RDONLY)
            if ctx.proc < 0
            else openat2(ctx.proc, name, os.O_RDONLY, RESOLVE_BENEATH)
        )
        ctx.groups_denied = os.read(fd, 16).startswith(b"deny")
        os.close(fd)
    if not ctx.groups_denied:
        setgroups(())
    if ctx.readable >= 0:
        ctx.exe = image.own(ctx.exe, ctx.readable)
        ctx.readable = -1


def leave_groups() -> None:
    """Drops the caller's supplementary groups before a user namespace is entered: in one that denies setgroups(2), which a payload
    can make for itself, they would stay, and be the payload's. An ordinary user may not drop them. Raises SysError."""
    try:
        setgroups(())
    except SysError as e:
        if e.errno != EPERM:
            raise


def _session(child: Child) -> None:
    try:
        os.setsid()
    except OSError as e:
        raise SysError("setsid", "", e.errno or 0) from None
    for step in child.plan.stages["session"]:
        step.execute(child.ctx)


def _join(child: Child) -> None:
    for kind, fd in child.join_fds.items():
        # A pid namespace is entered by being born in it: the parent saw to that.
        if kind != "pid" and kind != "mount":
            setns(fd, FLAGS[kind], f"{kind} namespace {child.plan.joins[kind]}")
            os.close(fd)
    # Last, because it takes away the paths (the descriptors above are open already).
    if "mount" in child.join_fds:
        setns(child.join_fds["mount"], FLAGS["mount"], f"mount namespace {child.plan.joins['mount']}")
        os.close(child.join_fds["mount"])


def _join_container(child: Child) -> None:
    """exec: all namespaces of the container's init in one call, by its pidfd: no path, no other process's."""
    if child.join_all is not None:
        pidfd, flags = child.join_all
        if flags & FLAGS["user"]:
            leave_groups()
            if child.ctx.process.oom_score_adj is not None:
                # In there it could not be lowered any more.
                sched.SetOomScore(child.ctx.process.oom_score_adj).execute(child.ctx)
        if flags & ~child.joined:
            setns(pidfd, flags & ~child.joined, "namespaces of the container")
        if flags:
            _check_owners(child, flags)
        os.close(pidfd)
        if flags & FLAGS["user"]:
            become_root(child.ctx)
    if child.root_mount:
        enter_root(*child.root_mount)
    # setns(2) into a mount namespace makes its root our root and working directory.
    child.ctx.root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _check_owners(child: Child, flags: int) -> None:
    """Refuses namespaces of a user namespace below ours: the container's init has entered it since `flags` was found out. Else we would
    execute as root what an ordinary user of the container has mounted over the program. Where config.json names a namespace, its
    owner is the caller's choice. Raises SysError, KrunError.
    """
    for kind, flag in FLAGS.items():
        if flags & flag and kind != "user" and not child.ctx.spec.namespaces.get(kind):
            name = f"self/ns/{FILES[kind]}"
            if check(lib.kr_ns_below(child.ctx.proc, name.encode()), "look at", name):
                raise KrunError(
                    f"the {kind} namespace of the container's init has come to be another user namespace's; try again"
                )


def _cgroup(child: Child) -> None:
    # "0" means the writer, alone, and spares the kernel its lock on all forks: 10 ms less than the parent's writing
    # our pid into ten cgroup.procs files (cgroup_procs_write_start(); the lock waits for an RCU grace period).
    for fd in child.ctx.tasks:
        try:
            os.write(fd, b"0")
        except OSError as e:
            raise SysError("join cgroup", "tasks", e.errno or 0) from None
        os.close(fd)
    _ask(child, sync.CGROUP)
    if child.new_cgroup_ns:
        unshare(CLONE_NEWCGROUP, "cgroup namespace")


def _hooks(child: Child) -> None:
    ctx = child.ctx
    wanted = ctx.spec.hooks
    if wanted.get("prestart") or wanted.get("createRuntime"):
        _ask(child, sync.HOOKS)
    if wanted.get("createContainer"):
        # As with runc: hooks that add libraries find the container's files by relative names.
        os.fchdir(ctx.root)
        # In the container's namespaces, with the host's tree still visible; the pid is the one seen in here.
        hooks.run(wanted, "createContainer", {**ctx.hook_state, "status": "creating", "pid": os.getpid()})


def _pivot(child: Child) -> None:
    for step in child.plan.stages["pivot"]:
        step.execute(child.ctx)


def _early_cwd(child: Child) -> None:
    # As root first, because the user may lack the right to pass a directory on the way (runc does the same); what
    # root may not enter either (root-squashed NFS) is tried again as the user.
    try:
        enter_cwd(child.ctx.process.cwd)
    except KrunError:
        pass


def _cwd(child: Child) -> None:
    cwd = child.ctx.process.cwd
    try:
        enter_cwd(cwd)
    except SysError as e:
        if e.errno not in (EACCES, EPERM):
            raise
        here = os.getcwd()
        if here != os.path.normpath(cwd):
            raise


def _environment(child: Child) -> None:
    ctx = child.ctx
    found: dict[bytes, bytes] = {}
    for entry in ctx.process.env:
        raw = os.fsencode(entry)
        key = raw.partition(b"=")[0]
        # The last of two with one name counts, and stands where the first stood (runc, crun).
        found[key] = raw
    if found.get(b"HOME", b"HOME=") == b"HOME=":  # an empty one counts as none (runc)
        found[b"HOME"] = b"HOME=" + _home(ctx.process.uid)
    ctx.env = list(found.values())
    ctx.argv = [os.fsencode(word) for word in ctx.process.args]


def _home(uid: int) -> bytes:
    """The home directory that the container's /etc/passwd names for a uid, "/" if none (runc's rule)."""
    fd = open_image_file("/etc/passwd")
    if fd < 0:
        return b"/"
    try:
        data = os.read(fd, _PASSWD_LIMIT)
    except OSError:
        return b"/"
    finally:
        os.close(fd)
    wanted = str(uid).encode()
    for line in data.split(b"\n"):
        fields = line.split(b":")
        if len(fields) >= 6 and fields[2] == wanted and b"\0" not in fields[5]:
            return fields[5] or b"/"
    return b"/"


def _program(child: Child) -> None:
    ctx = child.ctx
    path = next((word[5:] for word in ctx.env if word[:5] == b"PATH="), None)
    ctx.target = probe.find_program(ctx.process.args[0], None if path is None else os.fsdecode(path))


def _limits(child: Child) -> None:
    ctx = child.ctx
    for step in child.plan.stages["limits"]:
        step.execute(ctx)
    if ctx.stack_limit is None:
        soft, hard = getrlimit(_RLIMIT_STACK)
        if soft > STACK_SOFT:
            ctx.stack_limit = soft
            setrlimit(_RLIMIT_STACK, min(STACK_SOFT, hard), hard, "RLIMIT_STACK")


def _stdio(child: Child) -> None:
    for number, fd in enumerate(child.ctx.stdio):
        if fd >= 0:
            os.dup2(fd, number)
    child.ctx.stdio = []
    for step in child.plan.stages["stdio"]:
        step.execute(child.ctx)


def _descriptors(child: Child) -> None:
    ctx = child.ctx
    close_all_but(ctx.for_monitor())
    ctx.root = ctx.null = ctx.console = -1
    ctx.attached = []
    for fd in ctx.keep:
        keep_over_exec(fd)


def _monitor(child: Child) -> None:
    ctx = child.ctx
    block = boot.Block()
    block.add(boot.EXE_PATH, os.fsencode(ctx.target))
    starts = ctx.spec.hooks.get("startContainer") if ctx.start >= 0 else None
    if starts:
        state = {**ctx.hook_state, "status": "created", "pid": os.getpid()}
        block.add(boot.STATE_JSON, dumps(state).encode())
        ours = [os.fsdecode(word) for word in ctx.env]
        for hook in starts:
            env = hook.get("env")
            # A program of the container: without "env" it has the environment of the container's process, as with runc.
            block.hook(
                hook["path"], hook.get("args") or (), ours if env is None else env, hook.get("timeout")
            )
    if ctx.seccomp:
        block.add(boot.SECCOMP, ctx.seccomp)
    if ctx.cpuid:
        block.add(boot.CPUID, ctx.cpuid)
    block.fd(boot.FD_KVM, ctx.kvm)
    block.fd(boot.FD_EXE, ctx.exe)
    block.fd(boot.FD_PROC, ctx.proc)
    block.fd(boot.FD_SYNC, ctx.sync)
    block.fd(boot.FD_START, ctx.start)
    block.fd(boot.FD_RESULT, ctx.result)
    block.fd(boot.FD_LOG, ctx.log)
    block.fd(boot.FD_BOARD, ctx.board)
    block.fd(boot.FD_RELAY, ctx.relay)
    block.number(boot.FLAGS, boot.FLAG_FIRST | ctx.flags)
    if ctx.stack_limit is not None:
        block.number(boot.RLIMIT_STACK, ctx.stack_limit)
    if ctx.t0:
        block.number(boot.T0, ctx.t0)
    passed = boot.pass_block(block.done())
    if ctx.file_limit is not None:
        setrlimit(_RLIMIT_FSIZE, *ctx.file_limit, "RLIMIT_FSIZE")
    # The reported pid must outlive `create`.
    prctl(PR_SET_PDEATHSIG, 0)
    _conceal(ctx)
    boot.start_monitor(ctx.exe, passed, ctx.argv, ctx.env)


def _conceal(ctx: "Context") -> None:
    """Sees to it that the image of the coming exec is not dumpable from its first instant, by two rules of the kernel.

    An exec that changes the file system id makes the new image undumpable (commit_creds() in kernel/cred.c); until the kernel does
    that, the saved id keeps processes of the user away (step 19). The exec makes both ids the effective one again. So does an exec
    of a program that its caller cannot read (would_dump() in fs/exec.c): the monitor's file (kvm/image.py) can be read with a
    capability only, and the sets after the exec do not depend on the effective set.
    """
    if ctx.saved_uid >= 0:
        setfsuid(ctx.saved_uid)
        set_undumpable()  # fs.suid_dumpable has a say when ids change
    effective, permitted, inheritable = capget()
    capset(effective & ~_CAPS_TO_READ, permitted, inheritable)


class Row:
    """A step of ORDER: number and name as in docs/lifecycle.md; what, for readers; run, what it does."""

    __slots__ = ("number", "name", "what", "run")

    def __init__(self, number: int, name: str, what: str, run: "Stage") -> None:
        self.number = number
        self.name = name
        self.what = what
        self.run = run


# THE order. docs/lifecycle.md has the same numbers and names, with the reasons;
# tests/unit/test_lifecycle.py compares them.
ORDER: "Order" = (
    Row(1, "parent", "close what is not ours, die with krun, wait for id maps, not dumpable", _parent),
    Row(2, "session", "new session and session keyring", _session),
    Row(3, "join", "join namespaces by path", _join),
    Row(4, "proc", "detached procfs", _steps("proc")),
    Row(5, "names", "loopback, hostname, domainname", _steps("names")),
    Row(6, "propagation", "propagation of the host's tree", _steps("propagation")),
    Row(7, "root", "bind the root", _steps("root")),
    Row(8, "cgroup", "wait for the cgroup, then the cgroup namespace", _cgroup),
    Row(9, "mounts", "mounts", _steps("mounts")),
    Row(10, "devices", "devices, links, mask source, cwd", _steps("devices")),
    Row(11, "console", "terminal", _steps("console")),
    Row(12, "hooks", "prestart, createRuntime, createContainer hooks", _hooks),
    Row(13, "pivot", "pivot_root", _pivot),
    Row(14, "paths", "sysctl, read-only and masked paths", _steps("paths")),
    Row(15, "process", "scheduling, policy, oom score, labels, umask; procfs read-only", _steps("process")),
    Row(16, "stdio", "the null device is the container's own; a pipe goes to the user", _stdio),
    Row(17, "descriptors", "close all descriptors but the monitor's and the payload's", _descriptors),
    Row(18, "chdir", "working directory, as root", _early_cwd),
    Row(19, "ids", "groups, ids, capabilities, no_new_privs", _steps("ids")),
    Row(20, "cwd", "working directory, checked", _cwd),
    Row(21, "env", "environment and HOME", _environment),
    Row(22, "program", "find the program", _program),
    Row(23, "limits", "rlimits", _limits),
    Row(24, "monitor", "become the monitor", _monitor),
)

# The steps of a further process (exec): the same, without those that make the container.
_NOT_OF_EXEC = ("names", "propagation", "root", "mounts", "devices", "hooks", "pivot", "paths")
EXEC_ORDER: "Order" = tuple(
    Row(row.number, row.name, row.what, _join_container) if row.name == "join" else row
    for row in sorted(
        (row for row in ORDER if row.name not in _NOT_OF_EXEC),
        # The container's mount namespace comes after the procfs (a masked /proc would forbid a new one in a user
        # namespace) and after the cgroup (whose namespace is then the container's).
        key=lambda row: 8.5 if row.name == "join" else float(row.number),
    )
)


def run(child: Child, order: "Order") -> "NoReturn":
    """Runs the list in the child and never returns: the process becomes the monitor, or reports and exits with 1."""
    step = ""
    try:
        for row in order:
            step = f"{row.number} {row.name}"
            row.run(child)
        raise KrunError("the monitor's exec returned")
    except BaseException as e:
        try:
            sync.send(child.ctx.sync, sync.ERROR, *sync.error_fields(step, e))
        finally:
            os._exit(1)
