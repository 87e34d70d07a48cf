"""An instance on the host: its network namespace, directories, overlays, and its containers through the runtime.

Runs in the worker's threads, one call an instance at a time. The mounts are in the worker's own mount namespace: they end
with it. Order of a container's creation: 1 directories, 2 overlay, 3 directories of the contract, 4 files and volumes,
5 config.json, 6 create, 7 start. Each step is undone by `delete` in the reverse order, whatever has been reached.
"""

import errno
import fcntl
import json
import os
import re
import socket
import struct
import threading
import time
from typing import Any

from krun.errors import KrunError, SysError
from krun.mountio import MNT_DETACH, mount, umount2
from krun.serve.run import bundle, etcfiles, user, volumes
from krun.serve.run.bridge import Attachment, Bridge
from krun.serve.run.errors import StartError
from krun.serve.run.image.config import Image
from krun.serve.run.logfile import LogFile
from krun.serve.run.process import Process
from krun.serve.run.rootdir import RootDir
from krun.serve.run.runtime import Runtime
from krun.serve.run.syslog import Syslog
from krun.serve.run.trash import Trash
from krun.serve.units import quantity
from krun.sysio import CLONE_NEWNET, unshare

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MESSAGE = 4096  # Kubernetes' limit of a termination message
_MS_NOSUID, _MS_NODEV = 2, 4
_PIDS = 4096  # threads of a container, unless the server says another number: a fork bomb stays its own
_KILL_SECONDS = 10.0  # for a process to end after SIGKILL


class Container:
    """One container of an instance. Fields: name; id for the runtime; directory; process, or None before and after it runs."""

    def __init__(self, name: str, id: str, directory: str) -> None:
        self.name = name
        self.id = id
        self.directory = directory
        self.termination = os.path.join(directory, "termination-log")
        self.process: Process | None = None
        self.mounted = False
        self.bound: list[str] = []
        self.created = False
        self.frozen = False
        self.exit: dict[str, Any] | None = None
        self.starts = 0


class Sandbox:
    """An instance. Arguments: id; directory; runtime; cgroup, the parent of its containers' cgroupsPath; spec, what the server
    wants back after its own restart; network, its way out, or None; trash, where its directories go. `address` is
    its own in there, else the loopback's.
    """

    def __init__(
        self,
        id: str,
        directory: str,
        runtime: Runtime,
        cgroup: str,
        spec: dict[str, Any],
        network: Bridge | None = None,
        *,
        trash: Trash,
    ) -> None:
        self.id = id
        self.directory = directory
        self.runtime = runtime
        self.cgroup = cgroup
        # Without the files of the volumes, which are written below: `hello` tells the specs of all instances in one message.
        self.spec = {key: value for key, value in spec.items() if key != "volumes"}
        self.lock = threading.Lock()
        self.removed = False  # by `remove`, or its removal has begun and failed
        self.ending = False  # the server stops the instance: no container starts any more
        self.paused = False
        #: What comes by /dev/log while no container of the instance has a log.
        self.syslog_file: LogFile | None = None
        self._first: tuple[str, LogFile] | None = None
        self.starts: dict[str, int] = {}  # of each container; counts on where a start has failed
        self.containers: dict[str, Container] = {}
        self.layers: dict[
            str, list[str]
        ] = {}  # of each container's image, for as long as the instance is there
        self.directories: dict[str, str] = {}
        self.writable: set[str] = set()
        self.memory_volumes: list[str] = []
        os.makedirs(directory, 0o700)
        self.netns = -1
        self.network = network
        self.trash = trash
        self.attachment: Attachment | None = None
        self.address = "127.0.0.1"
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self.netns = new_network()
            if network is not None:
                self.attachment = network.attach(self.netns)
                self.address = self.attachment.address
            # By a descriptor: an address holds 107 bytes, and the name of a data directory or a revision may be longer.
            own = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                log.bind(f"/proc/self/fd/{own}/log.sock")
            finally:
                os.close(own)
            os.chmod(os.path.join(directory, "log.sock"), 0o666)
            self.files = etcfiles.write(
                directory,
                spec["hostname"],
                self.address,
                spec.get("search") or [],
                None if network is None else [network.doors.address],
            )
            for planned in spec.get("volumes") or []:
                self._volume(planned)
        except BaseException:
            self.remove()
            log.close()
            raise
        self.syslog = Syslog(log)

    def _volume(self, planned: dict[str, Any]) -> None:
        """Make the directory of a volume; of an emptyDir in memory, a tmpfs of its limit."""
        path = os.path.join(self.directory, "volumes", label(planned["name"]))
        os.makedirs(path, 0o755)
        self.directories[planned["name"]] = path
        if "empty" not in planned:
            volumes.publish(path, planned["files"])
            return
        self.writable.add(planned["name"])
        if planned["empty"]["memory"]:
            limit = planned["empty"]["limit"]
            data = "mode=0777" + (f",size={int(quantity(limit))}" if limit else "")
            mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, data)
            self.memory_volumes.append(path)
        os.chmod(path, 0o777)

    def logs_into(self, name: str, log: LogFile) -> None:
        """Messages of /dev/log go into `log` if it is the first container's: its developer reads this log. On the main thread."""
        if self._first is None or self._first[0] == name:
            self._first = (name, log)

    def syslog_log(self) -> LogFile:
        """Return where a message of /dev/log goes. On the main thread; KrunError never."""
        if self._first and not self._first[1].file.closed:
            return self._first[1]
        assert self.syslog_file is not None
        return self.syslog_file

    def start(self, spec: dict[str, Any], image: Image, stdout: int, stderr: int) -> Container:
        """Create and start a container; again after it has ended. Raises StartError; nothing is left of it then."""
        name = label(spec["name"])
        old = self.containers.get(name)
        if old:
            self.delete(old)
            del self.containers[name]
        container = Container(name, f"{self.id}-{name}", os.path.join(self.directory, "containers", name))
        container.starts = self.starts[name] = self.starts.get(name, 0) + 1
        self.containers[name] = container
        try:
            self._create(container, spec, image, stdout, stderr)
        except BaseException as error:
            self.delete(
                container
            )  # where this fails, too, the container stays in the table, for the next try
            del self.containers[name]
            if isinstance(error, StartError):
                raise
            if isinstance(error, (KrunError, OSError)):
                raise StartError("CreateContainerError", str(error)) from None
            raise
        return container

    def _create(self, c: Container, spec: dict[str, Any], image: Image, stdout: int, stderr: int) -> None:
        for name in ("upper", "work", "rootfs", "bundle"):
            os.makedirs(os.path.join(c.directory, name), 0o755)
        rootfs = os.path.join(c.directory, "rootfs")
        _overlay(c.directory, image.layers)
        c.mounted = True
        with RootDir(rootfs) as root:
            own = user.of(root, image.config.user, spec.get("securityContext") or {})
        context = spec.get("securityContext") or {}
        bundle.prepare_root(rootfs, own["uid"], bool(context.get("readOnlyRootFilesystem")))
        files = dict(self.files)
        open(c.termination, "wb").close()
        os.chmod(c.termination, 0o666)
        files[spec.get("terminationMessagePath") or "/dev/termination-log"] = c.termination
        files["/dev/log"] = os.path.join(self.directory, "log.sock")
        mounts = volumes.mounts(spec, self.directories, self.writable, c.directory, c.bound)
        place = bundle.Place(
            hostname=self.spec["hostname"],
            environment=spec.get("platformEnv") or {},
            rootfs=rootfs,
            netns=f"/proc/{os.getpid()}/fd/{self.netns}",
            cgroup=f"{self.cgroup}/{c.id}",
            files=files,
            mounts=mounts,
            pids=int(self.spec.get("pids") or _PIDS),
        )
        directory = os.path.join(c.directory, "bundle")
        with open(os.path.join(directory, "config.json"), "w") as file:
            json.dump(bundle.make(spec, image.config, place), file)
        try:
            pid = self.runtime.create(c.id, directory, stdout, stderr)
            c.created = True
            c.process = Process(pid, _memory_path(pid))
        finally:
            self.runtime.created(directory)
        if self.ending:
            raise StartError("RunContainerError", f"instance {self.id} is stopped")
        try:
            self.runtime.start(c.id, directory)
        except KrunError as error:
            raise StartError("RunContainerError", str(error)) from None

    def alive(self) -> None:
        """Raise KrunError where the instance is being removed; the caller holds the lock."""
        if self.removed or self.ending:
            raise KrunError(f"instance {self.id} does not exist")

    def freeze(self, frozen: bool) -> None:
        """Pause or resume all containers that run and are not so yet. Raises KrunError; a call the other way undoes what was done."""
        self.paused = True
        for c in self.containers.values():
            if c.process is not None and c.frozen != frozen:
                self.runtime.freeze(c.id, frozen, self.directory)
                c.frozen = frozen
        self.paused = frozen

    def states(self) -> dict[str, Any]:
        """Return how each container is: pid (0 where it has ended), exit, number of starts."""
        found = {}
        for c in list(self.containers.values()):
            process = c.process
            found[c.name] = {"pid": process.pid if process else 0, "exit": c.exit, "starts": c.starts}
        return found

    def ended(self, c: Container) -> dict[str, Any]:
        """Reap a container's init, which has ended; returns what the server is told."""
        process = c.process
        assert process is not None
        code, signo = process.status()
        oom = _oom_kills(process.memory) > 0 and (signo == 9 or code == 137)
        process.close()
        c.exit = {
            "code": code or (128 + signo if signo else 0),
            "signal": signo,
            "oom": oom,
            "message": _message(c.termination),
            "time": time.time(),
        }
        c.process = None
        return c.exit

    def delete(self, c: Container) -> None:
        """Take a container down in the reverse order of its creation; all steps are tried. Its log files stay."""
        directory = os.path.join(c.directory, "bundle")
        if c.process is not None:
            if self.paused:
                try:
                    self.runtime.freeze(c.id, False, directory)  # cgroup v1: a frozen process does not end
                except KrunError:
                    pass  # it was not frozen
            if not c.process.end(_KILL_SECONDS):
                raise KrunError(f"container {c.id}: its init does not end {_KILL_SECONDS:g} s after SIGKILL")
        if os.path.isdir(directory):
            try:
                self.runtime.delete(c.id, directory)
            except KrunError:
                if c.created:
                    raise
        c.created = False
        if c.process is not None:
            c.process.close()
            c.process = None
        while c.bound:
            _unmount(c.bound[-1])
            c.bound.pop()
        if c.mounted:
            _unmount(os.path.join(c.directory, "rootfs"))
            c.mounted = False
        self.trash.put(c.directory)

    def remove(self) -> None:
        """Take the whole instance down; again where it has failed before. Raises KrunError for a container that does not go."""
        errors: list[Exception] = []
        for container in list(self.containers.values()):
            try:
                self.delete(container)
                del self.containers[container.name]
            except (KrunError, OSError) as error:
                errors.append(error)
        if errors:
            raise KrunError(f"remove instance {self.id}: {errors[0]}")
        while self.memory_volumes:
            _unmount(self.memory_volumes[-1])
            self.memory_volumes.pop()
        if self.network is not None and self.attachment is not None:
            self.network.detach(self.attachment.number)
            self.attachment = None
        if self.netns >= 0:
            os.close(self.netns)
            self.netns = -1
        self.trash.put(self.directory)


def label(name: str) -> str:
    """Return the name of a container or a volume, which a directory gets. Raises KrunError for one that leads elsewhere.

    The manifest's author has chosen it. The API refuses what is no label (RFC 1123), too; this is what holds.
    """
    if not _LABEL.fullmatch(name):
        raise KrunError(f"{name[:80]!r}: malformed name of a container or volume")
    return name


def _unmount(path: str) -> None:
    """Take a mount away. One whose directory somebody has removed went with it (umount2(2): ENOENT, EINVAL). Raises SysError."""
    try:
        umount2(path, MNT_DETACH)
    except SysError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise


def _overlay(directory: str, layers: list[str]) -> None:
    """Mount the overlay of a container: each layer named by a descriptor, so that the options fit into mount(2)'s page.

    A layer that has become a symbolic link is refused (OSError, ENOTDIR): its owner has replaced the directory.
    """
    fds: list[int] = []
    try:
        for path in layers:
            fds.append(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        lower = ":".join(f"/proc/self/fd/{fd}" for fd in fds)
        fds += [
            os.open(os.path.join(directory, name), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            for name in ("upper", "work")
        ]
        data = f"lowerdir={lower},upperdir=/proc/self/fd/{fds[-2]},workdir=/proc/self/fd/{fds[-1]}"
        mount("overlay", os.path.join(directory, "rootfs"), "overlay", 0, data)
    finally:
        for fd in fds:
            os.close(fd)


def new_network() -> int:
    """Make a network namespace whose loopback is up, in a thread of its own; returns its descriptor. Raises SysError, OSError."""
    result: list[Any] = []

    def make() -> None:
        try:
            unshare(CLONE_NEWNET, "network namespace of an instance")
            fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                request = struct.pack("16sh14x", b"lo", 0)
                flags = struct.unpack("16sh14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
                fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
            result.append(fd)
        except BaseException as error:
            result.append(error)

    # The thread ends with its namespace: no other thread is ever inside it.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return int(result[0])


def _message(path: str) -> str:
    """Return what a container has left in its termination log.

    O_NONBLOCK: another container of the instance may have the file, too, and hold a lease on it (fcntl(2)): the open would wait
    for 45 s, on the main thread.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_MESSAGE).decode("utf-8", "replace")
    except OSError:
        return ""


def _memory_path(pid: int) -> str:
    """Return the directory of a process's memory cgroup, or "" (cgroups(7))."""
    try:
        with open(f"/proc/{pid}/cgroup", errors="surrogateescape", newline="\n") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return f"/sys/fs/cgroup/memory{path}"
    for number, _, path in lines:
        if number == "0":
            return f"/sys/fs/cgroup{path}"
    return ""


def _oom_kills(path: str) -> int:
    """Return the count of OOM kills of a cgroup (memory.events of v2, memory.oom_control of v1)."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(os.path.join(path, name)) as file:
                for line in file:
                    word, _, number = line.partition(" ")
                    if word == "oom_kill":
                        return int(number)
        except (OSError, ValueError):
            continue
    return 0
