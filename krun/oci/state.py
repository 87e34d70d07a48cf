"""The state directory of a container, `<root>/<id>/`: made safely, written atomically, locked; and the
status that follows from it.

Files in it: state.json (this module), config.json (private copy of the configuration), start.fifo,
result.fifo, board (which processes are monitors, native/process/board.h). docs/architecture.md, "create / start handshake",
says who writes what.
"""

import errno
import fcntl
import os
import time

from krun.errors import KrunError, NotFoundError, SysError
from krun.fileio import check_owner, read_start, replace_file
from krun.jsonio import dumps, loads
from krun.treeio import make_directories, remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

STATE_FILE = "state.json"
CONFIG_FILE = "config.json"
START_FIFO = "start.fifo"
RESULT_FIFO = "result.fifo"
BOARD = "board"
_PARTS = 1 << 10  # of 64 KiB, that a file may have: another user's might have no end

CREATING = "creating"
CREATED = "created"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"

_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-")


def check_id(container_id: str) -> None:
    """Refuse an id that runc refuses: only `[A-Za-z0-9_+.-]+`, at most 1024 bytes, neither "." nor ".."."""
    if (
        not container_id
        or len(container_id) > 1024
        or container_id in (".", "..")
        or not _ID_CHARACTERS.issuperset(container_id)
    ):
        raise KrunError(
            f"invalid container ID format: {container_id!r}, use letters, digits and any of _ + . -"
        )


class ContainerState:
    """The contents of state.json.

    oci_version, id, bundle (absolute): from create. pid: the monitor's as seen by the caller of create, 0
    before it exists; start_time: field 22 of /proc/PID/stat, in clock ticks since boot, so that a reused pid
    is told apart. created: RFC 3339. rootfs: absolute. annotations: string to string. owner: uid that created
    it. cgroup_paths: controller to absolute directory ("" for cgroup v2). manager: "cgroupfs", "systemd:UNIT",
    "systemd:UNIT:INVOCATION" or "disabled". config: name of the private copy of config.json inside the state directory. namespaces:
    type to /proc path or "". intel_rdt: the container's resctrl directory, or ""; intel_rdt_made: those that
    this container made, innermost first. root_mount: number of
    the mount of its root, if it has no mount namespace (rootfs.attach_root), else 0. new_keyring: whether it has a
    session keyring of its own, not the caller's (--no-new-keyring); keyring: its name, "" if an older krun made it.
    """

    __slots__ = (
        "oci_version",
        "id",
        "bundle",
        "pid",
        "start_time",
        "created",
        "rootfs",
        "annotations",
        "owner",
        "cgroup_paths",
        "manager",
        "config",
        "namespaces",
        "intel_rdt",
        "intel_rdt_made",
        "root_mount",
        "new_keyring",
        "keyring",
    )

    def __init__(
        self,
        oci_version: str = "",
        id: str = "",
        bundle: str = "",
        pid: int = 0,
        start_time: int = 0,
        created: str = "",
        rootfs: str = "",
        annotations: "dict[str, str] | None" = None,
        owner: int = 0,
        cgroup_paths: "dict[str, str] | None" = None,
        manager: str = "cgroupfs",
        config: str = CONFIG_FILE,
        namespaces: "dict[str, str] | None" = None,
        intel_rdt: str = "",
        root_mount: int = 0,
    ) -> None:
        self.oci_version = oci_version
        self.id = id
        self.bundle = bundle
        self.pid = pid
        self.start_time = start_time
        self.created = created
        self.rootfs = rootfs
        self.annotations: dict[str, str] = annotations or {}
        self.owner = owner
        self.cgroup_paths: dict[str, str] = cgroup_paths or {}
        self.manager = manager
        self.config = config
        self.namespaces: dict[str, str] = namespaces or {}
        self.intel_rdt = intel_rdt
        self.intel_rdt_made: list[str] = []
        self.root_mount = root_mount
        self.new_keyring = True
        self.keyring = ""


class Lock:
    """An exclusive flock(2) on the state directory itself: it leaves no file, and the kernel drops it with
    its holder.
    """

    def __init__(self, path: str, container_id: str, wait: float) -> None:
        self._path = path
        self._id = container_id
        self._wait = wait
        self._fd = -1

    def __enter__(self) -> "Lock":
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotFoundError(f"container does not exist: {self._id}") from None
        except OSError as error:
            raise SysError.of("open state directory", error, self._path) from None
        try:
            self._acquire()
            # The previous holder of the lock may have deleted the container.
            info = os.fstat(self._fd)
            if info.st_nlink == 0:
                raise NotFoundError(f"container does not exist: {self._id}")
            check_owner(info, self._path)
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def _acquire(self) -> None:
        deadline = 0.0
        pause = 0.0005
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise SysError.of("lock state directory", error, self._path) from None
            now = time.monotonic()
            deadline = deadline or now + self._wait
            if now >= deadline:
                raise KrunError(
                    f"lock container {self._id}: another krun has held it for {self._wait:g} s, try again"
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def __exit__(
        self, kind: "type[BaseException] | None", value: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        os.close(self._fd)


class StateDir:
    """One container's state directory. Nothing is touched before one of the methods is called."""

    __slots__ = ("root", "id", "path")

    def __init__(self, root: str, id: str) -> None:
        """Take the absolute --root and an id. Errors: KrunError "invalid container ID format"."""
        check_id(id)
        self.root = root
        self.id = id
        self.path = f"{root}/{id}"

    def exists(self) -> bool:
        """Return whether the directory is there (whatever its content)."""
        try:
            return os.lstat(self.path).st_mode & 0o170000 == 0o040000
        except FileNotFoundError:
            return False
        except OSError as error:
            raise SysError.of("stat state directory", error, self.path) from None

    def create(self) -> None:
        """Make the directory, 0700, in a root that only we and root can change.

        A world-writable or foreign root would let somebody else put a directory of theirs, or a link, in our
        place (Firecracker's jailer CVE-2026-1386, containerd CVE-2021-41103), so the parent is verified and
        held open.
        Errors: KrunError "container with given ID already exists"; SysError.
        """
        try:
            parent = self.open_root()
        except OSError as error:
            raise SysError.of("make state root", error, self.root) from None
        try:
            try:
                os.mkdir(self.id, 0o700, dir_fd=parent)
            except FileExistsError:
                raise KrunError(f"container with given ID already exists: {self.id}") from None
            except OSError as error:
                raise SysError.of("make state directory", error, self.path) from None
        finally:
            os.close(parent)

    def check_empty(self) -> None:
        """Refuse a directory that another create fills. Precondition: the lock is held. Errors: KrunError "container with given ID
        already exists"; SysError."""
        try:
            if os.listdir(self.path):
                raise KrunError(f"container with given ID already exists: {self.id}")
        except OSError as error:
            raise SysError.of("read state directory", error, self.path) from None

    def open_root(self) -> int:
        """Open the root, made if need be. Errors: KrunError for one that others can change, OSError."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.root, flags)
        except FileNotFoundError:
            make_directories(os.path.dirname(self.root))
            try:
                os.mkdir(self.root, 0o700)
            except FileExistsError:
                pass
            fd = os.open(self.root, flags)
        info = os.fstat(fd)
        if info.st_uid not in (0, os.geteuid()) or (info.st_mode & 0o002 and not info.st_mode & 0o1000):
            os.close(fd)
            raise KrunError(
                f"use state root {self.root}: owned by uid {info.st_uid}, mode {info.st_mode & 0o7777:04o}: "
                "others could replace its content; choose another --root"
            )
        return fd

    def save(self, state: ContainerState) -> None:
        """Write state.json: a temporary file, then rename, so that a reader sees the old or the new one,
        never half.

        Errors: SysError (a full disk leaves the old file as it was).
        """
        text = dumps({name: getattr(state, name) for name in ContainerState.__slots__})
        self.write(STATE_FILE, text.encode())

    def write(self, name: str, data: bytes) -> None:
        """Put a private file (0600) of that name into the directory, atomically. Errors: SysError."""
        path = f"{self.path}/{name}"
        try:
            replace_file(path, data)
        except OSError as error:
            raise SysError.of("write", error, path) from None

    def read(self, name: str, anybody: bool = False) -> bytes:
        """Return a file's content. Argument: anybody, whether it may be another user's. Errors: NotFoundError, check_owner's, SysError."""
        path = f"{self.path}/{name}"
        try:
            # Not blocking: another user's may be a FIFO.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not anybody:
                    check_owner(os.fstat(fd), path)
                parts = []
                while part := os.read(fd, 1 << 16):
                    parts.append(part)
                    if len(parts) > _PARTS:
                        raise OSError(errno.EFBIG, "")
                return b"".join(parts)
            finally:
                os.close(fd)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"container does not exist: {self.id}") from None
        except OSError as error:
            raise SysError.of("read", error, path) from None

    def load(self, anybody: bool = False) -> ContainerState:
        """Read state.json. Unknown members are ignored: another version of krun may have written them. Argument: anybody, whether it is
        only shown. Errors: NotFoundError "container does not exist", ConfigError for a damaged file."""
        members = loads(self.read(STATE_FILE, anybody), f"{self.path}/{STATE_FILE}")
        if type(members) is not dict:
            raise KrunError(f"read {self.path}/{STATE_FILE}: not a JSON object")
        state = ContainerState()
        for name in ContainerState.__slots__:
            if name in members:
                if type(members[name]) is not type(getattr(state, name)):
                    raise KrunError(f"read {self.path}/{STATE_FILE}: member {name} has the wrong type")
                setattr(state, name, members[name])
        state.id = self.id  # not what another user calls it
        return state

    def load_config(self, state: ContainerState) -> "dict[str, Any]":
        """Return the private copy of config.json, parsed; {} when create had not come so far. Errors:
        ConfigError.
        """
        try:
            config = loads(self.read(state.config or CONFIG_FILE), f"{self.path}/{CONFIG_FILE}")
        except NotFoundError:
            return {}
        return config if type(config) is dict else {}

    def lock(self, wait: float = 30.0) -> Lock:
        """Return a context manager that holds the container's lock; `wait`: seconds to try.

        Errors on entry: NotFoundError, KrunError after `wait`.
        """
        return Lock(self.path, self.id, wait)

    def destroy(self) -> None:
        """Remove the directory with all in it; what is gone already is no error. state.json goes last: as
        long as the directory is listed, a second `delete` knows the pid and the cgroups. Errors: SysError."""
        try:
            names = os.listdir(self.path)
            names.sort(key=STATE_FILE.__eq__)
            for name in names:
                path = f"{self.path}/{name}"
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass
                except (IsADirectoryError, PermissionError):
                    remove_tree(path)
            os.rmdir(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise SysError.of("remove state directory", error, self.path) from None


def ids(root: str) -> "list[str]":
    """Return the ids of all containers under a root, sorted; [] when there is no root. Errors: SysError."""
    found = []
    try:
        for name in os.listdir(root):
            if (
                name not in (".", "..")
                and _ID_CHARACTERS.issuperset(name)
                and os.path.isdir(f"{root}/{name}")
            ):
                found.append(name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SysError.of("read state root", error, root) from None
    return sorted(found)


def process_fields(pid: int) -> "list[bytes]":
    """Return the fields of /proc/PID/stat from the third on (state letter first; proc(5)), [] when there is no such process.

    The command name may hold blanks and parentheses, so fields are counted from the last ")".
    """
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return []
    fields = data[data.rfind(b")") + 2 :].split()
    return fields if len(fields) >= 20 else []


def process_start_time(pid: int) -> int:
    """Return field 22 of /proc/PID/stat, clock ticks since boot; 0 when there is no such process."""
    fields = process_fields(pid)
    return int(fields[19]) if fields else 0


def has_ended(fields: "list[bytes]") -> bool:
    """Tell whether process_fields() are those of a process that has ended: gone, or a zombie without other threads.

    The state letter is that of the first thread alone, which may call exit(2) before the others do (field 20: threads).
    """
    return not fields or (fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1)


def alive(state: ContainerState) -> bool:
    """Return whether the recorded init process runs: it has the recorded start time and has not ended.

    A container whose init is a zombie is stopped, even if nobody has waited for it yet. crun 1.8
    takes the zombie for a running process: its `kill` succeeds.
    """
    if state.pid <= 0:
        return False
    fields = process_fields(state.pid)
    return not has_ended(fields) and int(fields[19]) == state.start_time


def open_process(pid: int) -> int:
    """Return a pidfd of a process that is no child of ours, -1 when there is none of that number. Errors: SysError.

    The number of one that has ended may be a thread's by now, any container's: EINVAL, on later kernels ENOENT.
    """
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            return -1
        raise SysError.of("pidfd_open", error, f"pid {pid}") from None


def frozen(cgroup_paths: "dict[str, str]") -> bool:
    """Return whether the container's cgroup is frozen (v1 freezer.state, v2 cgroup.freeze: cgroup.events does not tell
    where the group holds a kernel thread); False when it is gone.
    """
    path = cgroup_paths.get("")
    if path:
        return read_start(f"{path}/cgroup.freeze").startswith("1")
    path = cgroup_paths.get("freezer")
    return bool(path) and read_start(f"{path}/freezer.state").startswith("FR")


def status(state: ContainerState, statedir: StateDir) -> str:
    """Return creating, created, running, paused or stopped.

    Until create has recorded a pid: creating while somebody holds the lock, stopped when that somebody died.
    """
    if state.pid <= 0:
        return CREATING if _locked(statedir.path) else STOPPED
    if not alive(state):
        return STOPPED
    # runc asks the freezer first: a created container can be paused too.
    if frozen(state.cgroup_paths):
        return PAUSED
    try:
        os.lstat(f"{statedir.path}/{START_FIFO}")
        return CREATED
    except OSError:
        return RUNNING


def _locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def oci_state(state: ContainerState, status: str, owner: str = "") -> "dict[str, Any]":
    """Return what `state` and `list` print, in runc's order: pid 0 when stopped, annotations only if there
    are any.
    """
    shown: dict[str, Any] = {
        "ociVersion": state.oci_version,
        "id": state.id,
        "pid": 0 if status == STOPPED else state.pid,
        "status": status,
        "bundle": state.bundle,
        "rootfs": state.rootfs,
        "created": state.created,
    }
    if state.annotations:
        shown["annotations"] = state.annotations
    shown["owner"] = owner
    return shown


def hook_state(state: ContainerState, status: str, pid: int | None = None) -> "dict[str, Any]":
    """Return the State of runtime.md for a hook's standard input; `pid`: as seen where the hook runs, None =
    ours.
    """
    shown: dict[str, Any] = {"ociVersion": state.oci_version, "id": state.id, "status": status}
    number = state.pid if pid is None else pid
    if number > 0:
        shown["pid"] = number
    shown["bundle"] = state.bundle
    shown["annotations"] = state.annotations
    return shown
