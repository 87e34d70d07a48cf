"""The worker's start, by client.py.

Order: 1 signals, 2 subreaper, 3 a mount namespace, 4 the lock of the data directory, 5 what an earlier worker left, 6 the
network of the instances, 7 the socket, 8 "ready" on standard output, or the error there. The lock stands before 5, because
only one worker may hold a directory: a worker that is about to end still holds it, and the next one waits.
"""

import fcntl
import json
import os
import signal
import socket
import sys
import time

from krun.errors import KrunError, SysError
from krun.mountio import MS_REC, MS_SLAVE, mount
from krun.serve import descriptors, private
from krun.serve.run.bridge import Bridge
from krun.serve.run.commands import COMMANDS
from krun.serve.run.errors import complain
from krun.serve.run.runtime import Runtime
from krun.serve.run.syslog import INTERRUPT
from krun.serve.run.trash import Trash
from krun.serve.run.worker import Worker
from krun.sysio import (
    CLONE_NEWNS,
    PR_SET_CHILD_SUBREAPER,
    pidfd_open,
    pidfd_send_signal,
    poll,
    prctl,
    unshare,
)

_LOCK_SECONDS = 20.0
_KILL_SECONDS = 10.0  # for all commands of a worker that died
_WORDS = 1 << 16  # bytes of a command's words, in whose beginning --root stands
#: The data directory, and what is made in it: each is closed to other users, also where an earlier krun made it.
_PRIVATE = ("", "instances", "logs", "images", "state", "trash")


def lock(directory: str) -> int:
    """Take the lock of a data directory; returns its descriptor, which lives as long as the worker. Raises KrunError, OSError."""
    fd = os.open(os.path.join(directory, "worker.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(fd)
                raise KrunError(
                    f"data directory {directory}: another worker of krun serve holds it"
                ) from None
            time.sleep(0.02)


def clean(directory: str, runtime: Runtime, trash: Trash) -> None:
    """Take down what a worker left that died: its commands, containers, directories. Its mounts have gone with it."""
    instances = os.path.join(directory, "instances")
    os.makedirs(instances, 0o700, exist_ok=True)
    _end_commands(runtime.root)
    with os.scandir(runtime.root) as entries:  # files are krun's own (kvm/host.py)
        names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    for id in os.listdir(instances):
        containers = os.path.join(instances, id, "containers")
        names |= {f"{id}-{name}" for name in (os.listdir(containers) if os.path.isdir(containers) else [])}
    for name in names:
        try:
            runtime.delete(name, directory)
        except KrunError as error:
            if os.path.lexists(os.path.join(runtime.root, name)):
                complain(f"krun serve worker: remove {name}: {error}\n")
    trash.start()
    for id in os.listdir(instances):
        try:
            trash.put(os.path.join(instances, id))
        except SysError as error:
            complain(f"krun serve worker: {error}\n")


def _end_commands(root: str) -> None:
    """Kill the runtime's commands of a worker that died: one of them would make its container after `clean`.

    A payload chooses the words of its processes, which are none of them: they have another pid namespace or another owner. A frozen
    one would not even end (cgroup v1).
    """
    wanted = b"--root\0" + os.fsencode(root) + b"\0"
    own = os.stat("/proc/self/ns/pid")
    killed: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            fd = pidfd_open(int(name))
        except SysError:
            continue
        killed.append(fd)
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found = wanted in file.read(_WORDS)
            if found and os.stat(f"/proc/{name}").st_uid == os.geteuid():
                if os.path.samestat(os.stat(f"/proc/{name}/ns/pid"), own):
                    pidfd_send_signal(fd, signal.SIGKILL)
                    continue
        except (OSError, SysError):
            pass
        os.close(killed.pop())
    end = time.monotonic() + _KILL_SECONDS
    for fd in killed:
        poll((fd,), max(0, int((end - time.monotonic()) * 1000)))
        os.close(fd)


def _network(worker: Worker) -> None:
    """Make the way out of the instances, or remove the one that a worker left whose server had another option. Raises KrunError."""
    config = worker.network_config
    if config is not None:
        worker.network = Bridge(worker.directory, config["pool"], config["allow"], config.get("flows"))
    elif os.path.exists(kept := os.path.join(worker.directory, "network.json")):
        try:
            Bridge.clean(worker.directory)
            os.unlink(kept)
        except (KrunError, OSError) as error:
            complain(f"krun serve worker: {error}\n")


def main() -> int:
    """Start the worker; argument 1 is its configuration."""
    config = json.loads(sys.argv[1])
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signo, signal.SIG_IGN)  # the server says when to stop; SIGTERM: Worker.terminate
    signal.signal(INTERRUPT, lambda number, frame: None)
    if limit := config.get("descriptors"):
        descriptors.restore(limit)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    unshare(CLONE_NEWNS, "mount namespace of the worker")
    mount(None, "/", None, MS_SLAVE | MS_REC)
    os.umask(0o022)
    for name in _PRIVATE:
        private.directory(os.path.join(config["directory"], name))
    held = lock(config["directory"])
    worker = Worker(config, COMMANDS)
    worker.lock = held
    clean(worker.directory, worker.runtime, worker.trash)
    _network(worker)
    path = os.path.join(worker.directory, "worker.sock")
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as listener:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(8)
        print("ready", flush=True)
        null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, 1)
        signal.signal(signal.SIGTERM, lambda number, frame: worker.post(worker.terminate))
        worker.serve(listener)
        if not worker.gone:
            os.unlink(path)
    return 0


def run() -> int:
    """Run main; an error is one line."""
    try:
        return main()
    except (KrunError, OSError) as error:
        print(f"krun serve worker: {error}", file=sys.stderr)
        print(f"error {error}", flush=True)  # the server that waits for "ready" has an operator who reads it
        return 1


if __name__ == "__main__":
    sys.exit(run())
