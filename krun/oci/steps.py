"""The parts of a plan: steps that can be printed and executed; the child's context; safe paths below the root.

krun resolves a destination once, below the container's root, by openat2(2) with RESOLVE_IN_ROOT and
RESOLVE_NO_MAGICLINKS. From then on it uses the descriptor and follows no name again (CVE-2019-18837,
CVE-2021-30465, CVE-2024-45310: a destination that changed between check and mount).
"""

import os
from errno import EEXIST, ELOOP, ENOENT, EOPNOTSUPP
from posixpath import normpath
from stat import S_ISDIR, S_ISLNK

from krun.errors import SysError
from krun.fileio import read_file, split_lines
from krun.sysio import (
    RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    try_openat2,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.listener import Listener
    from krun.oci.spec import Process, Spec

IN_ROOT = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
PATH = os.O_PATH | os.O_CLOEXEC

# The members of Context that hold a descriptor: what the monitor gets (boot.h), and what only the steps before it use.
FOR_MONITOR = ("kvm", "exe", "proc", "sync", "start", "result", "log", "board", "relay")
FOR_STEPS = ("root", "null", "console", "readable")


class Context:
    """The state that the child passes from step to step; descriptors are -1 until their step has opened them.

    spec, process, id: of the container. root: root of the container's tree. proc: detached procfs of the
    container's pid namespace. null: the host's /dev/null, verified. sync: socket to the parent. console: socket that
    gets the pty's master. kvm, exe, start, result, log, board: for the boot block. sources: descriptors of mount sources that
    the parent has opened, by index of the mount. keep: descriptors that the payload inherits from the caller.
    stdio: what the payload gets as standard input, output and error, -1: what krun has; [] for all three.
    readable: file that the child copies the monitor from when it enters another user namespace.
    hook_state: State for hooks, without pid. env, argv, target: found by the last steps. stack_limit: soft
    RLIMIT_STACK to restore, or None; file_limit: RLIMIT_FSIZE, soft and hard, to set last, or None.
    mount_label: SELinux label for new file systems, "" where SELinux is off. tasks: `tasks` files of cgroup v1 to join;
    cgroup_fd: cgroup v2 to be born in. saved_uid: the saved user id until the exec, -1: that of the others.
    attached: destination and descriptor of mounts below which later steps look, in the order of attaching (oci/places.py).
    read_only: destination and descriptor of mounts that become read-only when nothing is put into them any more.
    later: what the parent closes while the child works.
    t0: CLOCK_MONOTONIC ns at the beginning of krun. flags: boot.FLAG_*, but FIRST. foreground: krun copies the terminal's output.
    cpuid: KVM's answer, b"" if the monitor is to ask. relay: for the boot block, and listener,
    what the agent gets, if there is one (oci/listener.py).
    """

    __slots__ = (
        "spec", "process", "id", "root", "proc", "null", "sync", "console", "kvm", "exe", "start", "result", "log", "board",
        "sources", "keep", "hook_state", "env", "argv", "target", "stack_limit", "file_limit", "t0", "seccomp", "flags",
        "cpuid", "parent_sync", "groups_denied", "cgroup_fd", "tasks", "mount_label", "saved_uid", "attached", "readable",
        "stdio", "foreground", "read_only", "later", "relay", "listener",
    )  # fmt: skip

    def __init__(self, spec: "Spec", process: "Process", id: str) -> None:
        self.spec = spec
        self.process = process
        self.id = id
        self.root = self.proc = self.null = self.sync = self.console = -1
        self.kvm = self.exe = self.start = self.result = self.log = self.board = self.parent_sync = -1
        self.cgroup_fd = self.readable = self.relay = -1
        self.tasks: list[int] = []
        self.sources: dict[int, int] = {}
        self.later: list[int] = []
        self.listener: Listener | None = None
        self.attached: list[tuple[str, int]] = []
        self.read_only: list[tuple[str, int]] = []
        self.keep: list[int] = []
        self.stdio: list[int] = []
        self.hook_state: dict[str, object] = {}
        self.env: list[bytes] = []
        self.argv: list[bytes] = []
        self.target = ""
        self.mount_label = ""
        self.stack_limit: int | None = None
        self.file_limit: tuple[int, int] | None = None
        self.t0 = 0
        self.seccomp = self.cpuid = b""
        self.flags = 0
        self.groups_denied = self.foreground = False
        self.saved_uid = -1

    def for_monitor(self) -> "list[int]":
        """Returns the descriptors that the monitor and its payload get: nothing else outlives step "descriptors"."""
        return [*(getattr(self, name) for name in FOR_MONITOR), *self.keep]

    def held(self) -> "list[int]":
        """Returns every descriptor that the child may have: all others are closed as soon as it is born."""
        steps = [getattr(self, name) for name in FOR_STEPS]
        return [*self.for_monitor(), *steps, *self.tasks, *self.sources.values(), *self.stdio]


def labelled(options: "list[tuple[str, str | None]]", label: str) -> "list[tuple[str, str | None]]":
    """Returns a file system's options with SELinux's context= (mount(8)), unless they have one of their own."""
    if not label or any(key.endswith("context") for key, _ in options):
        return options
    return [*options, ("context", label)]


def label_file(fd: int, label: str, name: str) -> None:
    """Labels one file of ours for SELinux, where its file system has labels. Raises SysError."""
    if not label:
        return
    # fsetxattr(2) takes no O_PATH descriptor, as that of a mount is; the root of a mount is a directory.
    real = -1
    try:
        real = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=fd) if is_dir(fd) else os.dup(fd)
        os.setxattr(real, "security.selinux", os.fsencode(label) + b"\0")
    except OSError as e:
        if e.errno != EOPNOTSUPP:
            raise SysError("label", name, e.errno or 0) from None
    finally:
        if real >= 0:
            os.close(real)


class Step:
    """One thing to do. Subclasses have __slots__, a one-line describe() without any system call, and execute()."""

    __slots__ = ()

    def describe(self) -> str:
        """Returns one line for --dry-run and for messages."""
        raise NotImplementedError

    def execute(self, ctx: Context) -> None:
        """Does it. Raises SysError or KrunError."""
        raise NotImplementedError


def clean(path: str) -> str:
    """Returns a container path as absolute, without `.`, `..` and doubled slashes."""
    return normpath("/" + path.lstrip("/"))


def find_in_root(root: int, path: str, flags: int = PATH) -> int:
    """Opens an existing path below `root`; symlinks stay inside. Returns the negative errno if it fails."""
    return try_openat2(root, clean(path), flags, IN_ROOT)


def make_dir(root: int, path: str, mode: int = 0o755) -> int:
    """Opens a directory below `root`, made with its parents where it is missing. Returns an O_PATH descriptor.

    Raises SysError. A symlink of the image that leads to nothing is followed below the root, as by runc; one that
    appears while we make directories is an error.
    """
    path = clean(path)
    fd = try_openat2(root, path, PATH | os.O_DIRECTORY, IN_ROOT)
    if fd != -ENOENT:
        if fd < 0:
            raise SysError("open directory", path, -fd)
        return fd
    path = without_links(root, path)
    parts = path.strip("/").split("/")
    done = len(parts) - 1
    while True:
        current = try_openat2(root, "/" + "/".join(parts[:done]), PATH | os.O_DIRECTORY, IN_ROOT)
        if current >= 0:
            break
        if current != -ENOENT or done == 0:
            raise SysError("open directory", "/" + "/".join(parts[:done]), -current)
        done -= 1
    for index in range(done, len(parts)):
        name = parts[index]
        try:
            _mkdir(current, name, mode)
            below = os.open(name, PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
        except OSError as e:
            raise SysError("make directory", "/" + "/".join(parts[: index + 1]), e.errno or 0) from None
        finally:
            os.close(current)
        current = below
    return current


def without_links(root: int, path: str) -> str:
    """Returns where `path` leads below `root`, symlinks resolved by hand, for parts that do not exist yet.

    The answer may be outdated at once; who uses it follows no symlink any more (O_NOFOLLOW), so a race can only fail.
    Raises SysError (ELOOP after 40 links, as the kernel).
    """
    real: list[str] = []
    todo = path.strip("/").split("/")
    links = 0
    while todo:
        name = todo.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            del real[-1:]
            continue
        fd = try_openat2(root, "/".join([*real, name]), PATH | os.O_NOFOLLOW, IN_ROOT | RESOLVE_NO_SYMLINKS)
        target = ""
        if fd >= 0:
            if S_ISLNK(os.fstat(fd).st_mode):
                target = os.readlink("", dir_fd=fd)
            os.close(fd)
        if not target:
            real.append(name)
            continue
        links += 1
        if links > 40:
            raise SysError("open directory", path, ELOOP)
        if target.startswith("/"):
            real.clear()
        todo[:0] = target.split("/")
    return "/" + "/".join(real)


def _mkdir(dirfd: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=dirfd)
    except OSError as e:
        if e.errno != EEXIST:
            raise


def make_file(root: int, path: str) -> int:
    """Opens a file below `root`, made empty with its parents where it is missing. Returns an O_PATH descriptor."""
    path = clean(path)
    fd = try_openat2(root, path, PATH, IN_ROOT)
    if fd != -ENOENT:
        if fd < 0:
            raise SysError("open", path, -fd)
        return fd
    folder, _, name = without_links(root, path).rpartition("/")
    parent = make_dir(root, folder or "/")
    try:
        made = os.open(
            name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC, 0o755, dir_fd=parent
        )
        os.close(made)
        return os.open(name, PATH | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as e:
        raise SysError("make file", path, e.errno or 0) from None
    finally:
        os.close(parent)


class MountRow:
    """A line of mountinfo (proc(5)): number of the mount and of the one that it lies on, mount point, whether the mount itself can
    be written, type of the file system."""

    __slots__ = ("id", "parent", "point", "writable", "kind")

    def __init__(self, id: int, parent: int, point: str, writable: bool, kind: str) -> None:
        self.id = id
        self.parent = parent
        self.point = point
        self.writable = writable
        self.kind = kind


def mounts_seen(ctx: Context) -> "list[MountRow]":
    """Returns each mount below our root, in the order of mountinfo. Raises SysError."""
    found = []
    for line in split_lines(read_file("self/mountinfo", dirfd=ctx.proc).decode("utf-8", "surrogateescape")):
        left, _, right = line.partition(" - ")
        number, parent, _, _, point, options = left.split(" ", 6)[:6]
        if "\\" in point:
            point = (
                point.replace("\\040", " ")
                .replace("\\011", "\t")
                .replace("\\012", "\n")
                .replace("\\134", "\\")
            )
        writable = "rw" in options.split(",")
        found.append(MountRow(int(number), int(parent), point, writable, right.split(" ", 1)[0]))
    return found


def is_dir(fd: int) -> bool:
    """Tells whether a descriptor (O_PATH too) is a directory's."""
    return S_ISDIR(os.fstat(fd).st_mode)
