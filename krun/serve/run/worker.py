"""The worker: a small process beside the server that holds the instances.

It does what blocks or needs a namespace of its own: images, mounts, the runtime's commands. It is the parent of the containers
(PR_SET_CHILD_SUBREAPER), reads their output into log files, and outlives the server: a server that starts again connects to
the same socket and finds all instances as they are. Where the worker itself dies, its successor takes down what it left.

The main thread waits: for the server's messages, exits of containers (pidfds), output of containers, and answers of the
threads. Commands run in threads, one at a time for each instance. `python -m krun.serve.run.worker CONFIG` starts it.
"""

import functools
import json
import os
import queue
import re
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from krun.errors import KrunError
from krun.mountio import MS_REC, MS_SLAVE, mount
from krun.serve.run import volumes, wire
from krun.serve.run.errors import StartError
from krun.serve.run.image.store import Store
from krun.serve.run.logfile import LogFile, tail
from krun.serve.run.runtime import Runtime
from krun.serve.run.sandbox import Container, Sandbox
from krun.sysio import CLONE_NEWNS, PR_SET_CHILD_SUBREAPER, pidfd_send_signal, prctl, unshare

_ID = re.compile(r"[a-z][a-z0-9-]{0,200}")
_THREADS = 16
_PIPE_READ = 64 << 10
_STRAY_SECONDS = 5.0  # how often adopted processes that nobody knows are reaped
_TAIL_LINES, _TAIL_BYTES = 80, 2048  # Kubernetes: FallbackToLogsOnError


class Worker:
    """The worker's state; only the main thread changes `sandboxes`, `selector` and `client`.

    Argument: config, from the server: "directory", "runtime", "flags", "images", "pull", "cgroup", "layerLimit".
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.directory = config["directory"]
        self.cgroup = config["cgroup"]
        self.runtime = Runtime(config["runtime"], os.path.join(self.directory, "state"), config.get("flags"))
        self.store = Store(
            os.path.join(self.directory, "images"),
            config["images"],
            limit=config["layerLimit"],
            pull=config["pull"],
        )
        self.sandboxes: dict[str, Sandbox] = {}
        self.client: socket.socket | None = None
        self.selector = selectors.DefaultSelector()
        self.threads = ThreadPoolExecutor(_THREADS, "worker")
        self.done: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.stopping = False
        self.strays: set[int] = set()

    # ------------------------------------------------------------------------------------------------ main thread

    def serve(self, listener: socket.socket) -> None:
        """Run until `stop` has been asked for and all instances have gone."""
        self.selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
        self.selector.register(self.wake, selectors.EVENT_READ, self._run_done)
        stray = time.monotonic() + _STRAY_SECONDS
        while not (self.stopping and not self.sandboxes):
            for key, _ in self.selector.select(_STRAY_SECONDS):
                key.data()
            if time.monotonic() >= stray:
                stray = time.monotonic() + _STRAY_SECONDS
                self._reap_strays()
        self.threads.shutdown()
        os.eventfd_write(self.wake, 1)
        self._run_done()  # the answer to `stop`

    def _accept(self, listener: socket.socket) -> None:
        """A new server takes the place of the old one."""
        client, _ = listener.accept()
        self._drop_client()
        self.client = client
        self.selector.register(client, selectors.EVENT_READ, self._receive)

    def _drop_client(self) -> None:
        if self.client is not None:
            self.selector.unregister(self.client)
            self.client.close()
            self.client = None

    def _receive(self) -> None:
        """Take a command of the server: {"seq", "do", ...}; it is answered with the same seq."""
        assert self.client is not None
        try:
            received = wire.receive(self.client)
        except OSError:
            received = None
        if received is None:
            self._drop_client()
            return
        message, fds = received
        for fd in fds:
            os.close(fd)  # no command brings any
        command = COMMANDS.get(message.get("do", ""))
        if command is None:
            self._answer(
                message["seq"], {"error": ["Unknown", f"the worker has no command {message.get('do')!r}"]}
            )
            return
        self.threads.submit(self._perform, command, message)

    def post(self, call: Callable[[], None]) -> None:
        """Have the main thread run a call; from any thread."""
        self.done.put(call)
        os.eventfd_write(self.wake, 1)

    def _run_done(self) -> None:
        os.eventfd_read(self.wake)
        while True:
            try:
                call = self.done.get_nowait()
            except queue.Empty:
                return
            call()

    def _answer(self, seq: int, message: dict[str, Any], fds: "tuple[int, ...] | list[int]" = ()) -> None:
        """Send to the server; a server that has gone asks again when it is back (`list`)."""
        if self.client is not None:
            try:
                wire.send(self.client, {"seq": seq, **message}, fds)
            except OSError:
                self._drop_client()

    def event(self, message: dict[str, Any]) -> None:
        """Tell the server what it did not ask for (seq 0)."""
        self._answer(0, message)

    def add(self, sandbox: Sandbox) -> None:
        """Take a new instance in, and read its /dev/log."""
        self.sandboxes[sandbox.id] = sandbox
        directory = os.path.join(self.directory, "logs", sandbox.id)
        os.makedirs(directory, 0o700, exist_ok=True)
        log = LogFile(os.path.join(directory, "syslog"))
        sock = sandbox.syslog
        self.selector.register(
            sock, selectors.EVENT_READ, lambda: log.write("syslog", sock.recv(_PIPE_READ) + b"\n")
        )

    def drop(self, sandbox: Sandbox) -> None:
        """Let go of an instance that has been removed."""
        if self.sandboxes.pop(sandbox.id, None) is not None:
            self.selector.unregister(sandbox.syslog)
            sandbox.syslog.close()

    def watch(self, sandbox: Sandbox, container: Container) -> None:
        """Wait for a container's exit; on the main thread."""
        process = container.process
        if process is not None:
            self.selector.register(
                process.pidfd, selectors.EVENT_READ, lambda: self._exited(sandbox, container)
            )

    def unwatch(self, container: Container) -> None:
        """Stop waiting; a no-op where nothing is waited for. On the main thread, before the pidfd is closed."""
        if container.process is not None and container.process.pidfd in self.selector.get_map():
            self.selector.unregister(container.process.pidfd)

    def _exited(self, sandbox: Sandbox, container: Container) -> None:
        process = container.process
        assert process is not None
        self.selector.unregister(process.pidfd)
        code, signo = 0, 0
        try:
            info = os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED)
            if info is not None:
                code, signo = (info.si_status, 0) if info.si_code == os.CLD_EXITED else (0, info.si_status)
        except ChildProcessError:
            pass  # somebody else's child: a runtime that keeps a parent of its own
        ended = sandbox.ended(container, code, signo)
        if not ended["message"] and ended["code"]:
            ended["message"] = tail(self.log_path(sandbox.id, container), _TAIL_LINES, _TAIL_BYTES)
        self.event({"event": "exit", "id": sandbox.id, "container": container.name, "exit": ended})

    def log_path(self, id: str, container: Container) -> str:
        """The log of a container's present start; `N.log` counts the starts from 0."""
        return os.path.join(self.directory, "logs", id, container.name, f"{max(0, container.starts - 1)}.log")

    def read_output(self, fd: int, stream: str, log: LogFile, open_streams: set[int]) -> None:
        """Read a container's output; the log is closed with the last of its streams."""
        try:
            data = os.read(fd, _PIPE_READ)
        except BlockingIOError:
            return
        log.write(stream, data)
        if not data:
            self.selector.unregister(fd)
            os.close(fd)
            open_streams.discard(fd)
            if not open_streams:
                log.close()

    def _reap_strays(self) -> None:
        """Reap adopted processes that are no container's init: orphans of `exec` in the host's pid namespace, helpers of runtimes."""
        known = {c.process.pid for s in self.sandboxes.values() for c in s.containers.values() if c.process}
        ended = set(_ended_children()) - known - self.runtime.running
        # A thread takes the status of its own command within milliseconds: the second look finds strays only.
        for pid in ended & self.strays:
            try:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                pass
        self.strays = ended

    # ---------------------------------------------------------------------------------------------- other threads

    def _perform(
        self,
        command: "Callable[[Worker, dict[str, Any]], tuple[dict[str, Any], list[int]]]",
        message: dict[str, Any],
    ) -> None:
        fds: list[int] = []
        try:
            answer, fds = command(self, message)
        except StartError as error:
            answer = {"error": [error.reason, error.message]}
        except KrunError as error:
            answer = {"error": ["CreateContainerError", error.message]}
        except Exception as error:  # one command that fails is no reason to lose the instances
            answer = {"error": ["Internal", f"{type(error).__name__}: {error}"]}
        seq = message["seq"]
        self.post(lambda: self._answer(seq, answer, fds))

    def on_main(self, call: Callable[[], None]) -> None:
        """Run a call on the main thread and wait for it."""
        ready = threading.Event()

        def run() -> None:
            try:
                call()
            finally:
                ready.set()

        self.post(run)
        ready.wait()

    def sandbox(self, id: str) -> Sandbox:
        """Return an instance. Raises KrunError."""
        try:
            return self.sandboxes[id]
        except KeyError:
            raise KrunError(f"instance {id} does not exist") from None


Answer = tuple[dict[str, Any], list[int]]


def hello(worker: Worker, message: dict[str, Any]) -> Answer:
    """The protocol's version, the worker's pid, and every instance with its network namespace, for a server that starts."""
    del message
    found = []
    for sandbox in list(worker.sandboxes.values()):
        containers = {
            c.name: {"pid": c.process.pid if c.process else 0, "exit": c.exit, "starts": c.starts}
            for c in sandbox.containers.values()
        }
        found.append({"id": sandbox.id, "spec": sandbox.spec, "containers": containers})
    return {"version": wire.VERSION, "pid": os.getpid(), "instances": found}, []


def netns(worker: Worker, message: dict[str, Any]) -> Answer:
    """The descriptor of an instance's network namespace."""
    return {}, [worker.sandbox(message["id"]).netns]


def image(worker: Worker, message: dict[str, Any]) -> Answer:
    """Resolve an image, unpacking it where that is needed."""
    found = worker.store.resolve(message["image"])
    return {"digest": found.digest, "config": found.config.to_json(), "layers": found.layers}, []


def link(worker: Worker, message: dict[str, Any]) -> Answer:
    """Give a reference to a path of this machine."""
    worker.store.link(message["image"], message["path"])
    return {}, []


def sandbox(worker: Worker, message: dict[str, Any]) -> Answer:
    """Make an instance without containers; answers with its network namespace."""
    id = message["id"]
    if not _ID.fullmatch(id):
        raise KrunError(f"instance {id!r}: malformed id")
    if id in worker.sandboxes:
        raise KrunError(f"instance {id} exists")
    made = Sandbox(
        id, os.path.join(worker.directory, "instances", id), worker.runtime, worker.cgroup, message["spec"]
    )
    worker.on_main(lambda: worker.add(made))
    return {}, [made.netns]


def start(worker: Worker, message: dict[str, Any]) -> Answer:
    """Create and start a container of an instance; its output goes to a log of its own."""
    own = worker.sandbox(message["id"])
    spec = message["container"]
    image = worker.store.resolve(spec["image"])
    with own.lock:
        old = own.containers.get(spec["name"])
        if old is not None:
            worker.on_main(lambda: worker.unwatch(old))
        directory = os.path.join(worker.directory, "logs", own.id, spec["name"])
        os.makedirs(directory, 0o700, exist_ok=True)
        log = LogFile(os.path.join(directory, f"{old.starts if old else 0}.log"))
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        worker.on_main(lambda: _read_streams(worker, log, [pipe[0] for pipe in pipes]))
        try:
            container = own.start(spec, image, pipes[0][1], pipes[1][1])
        finally:
            for _, writing in pipes:
                os.close(writing)
        worker.on_main(lambda: worker.watch(own, container))
        pid = container.process.pid if container.process else 0
    return {"pid": pid, "digest": image.digest, "starts": container.starts}, []


def _ended_children() -> "list[int]":
    """The pids of the children of this process that wait to be reaped (proc_pid_stat(5): parent and state)."""
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    words = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] == b"Z" and int(words[1]) == own:
                found.append(int(name))
    return found


def _read_streams(worker: Worker, log: LogFile, fds: list[int]) -> None:
    streams = set(fds)
    for fd, name in zip(fds, ("stdout", "stderr"), strict=True):
        os.set_blocking(fd, False)
        worker.selector.register(
            fd, selectors.EVENT_READ, lambda fd=fd, name=name: worker.read_output(fd, name, log, streams)
        )


def kill(worker: Worker, message: dict[str, Any]) -> Answer:
    """Signal the init of each container of an instance, or of one."""
    own = worker.sandbox(message["id"])
    for container in list(own.containers.values()):
        process = container.process
        if process is not None and message.get("container") in (None, container.name):
            try:
                pidfd_send_signal(process.pidfd, message["signal"])
            except KrunError:
                pass  # it has just ended
    return {}, []


def exec_(worker: Worker, message: dict[str, Any]) -> Answer:
    """Run a program in a container."""
    own = worker.sandbox(message["id"])
    container = own.containers.get(message["container"])
    if container is None or container.process is None:
        raise KrunError(f"container {message['container']} of {own.id} does not run")
    directory = os.path.join(container.directory, "bundle")
    status, output = worker.runtime.exec(container.id, message["argv"], directory, message["timeout"])
    return {"status": status, "output": output}, []


def remove(worker: Worker, message: dict[str, Any]) -> Answer:
    """Take an instance down, its containers running or not."""
    own = worker.sandbox(message["id"])
    with own.lock:
        containers = list(own.containers.values())
        for container in containers:
            worker.on_main(functools.partial(worker.unwatch, container))
        own.remove()
    worker.on_main(lambda: worker.drop(own))
    return {}, []


def publish(worker: Worker, message: dict[str, Any]) -> Answer:
    """Give a volume of an instance new files."""
    own = worker.sandbox(message["id"])
    with own.lock:
        volumes.publish(own.directories[message["volume"]], message["files"])
    return {}, []


def forget(worker: Worker, message: dict[str, Any]) -> Answer:
    """Remove the logs of an instance that has gone."""
    if message["id"] not in worker.sandboxes:
        shutil.rmtree(
            os.path.join(worker.directory, "logs", os.path.basename(message["id"])), ignore_errors=True
        )
    return {}, []


def stop(worker: Worker, message: dict[str, Any]) -> Answer:
    """End when the last instance has gone."""
    worker.on_main(lambda: setattr(worker, "stopping", True))
    return {}, []


COMMANDS = {
    "hello": hello,
    "netns": netns,
    "image": image,
    "link": link,
    "sandbox": sandbox,
    "start": start,
    "kill": kill,
    "exec": exec_,
    "remove": remove,
    "publish": publish,
    "forget": forget,
    "stop": stop,
}


def clean(directory: str, runtime: Runtime) -> None:
    """Take down what a worker left that died: containers by the runtime, directories. Its mounts have gone with it."""
    instances = os.path.join(directory, "instances")
    os.makedirs(instances, 0o711, exist_ok=True)
    for id in os.listdir(instances):
        containers = os.path.join(instances, id, "containers")
        for name in os.listdir(containers) if os.path.isdir(containers) else []:
            try:
                runtime.delete(f"{id}-{name}", directory)
            except KrunError as error:
                print(f"krun serve worker: remove {id}-{name}: {error}", file=sys.stderr)
        shutil.rmtree(os.path.join(instances, id), ignore_errors=True)


def main() -> int:
    """Start the worker; argument 1 is its configuration. It listens before it says "ready" on standard output."""
    config = json.loads(sys.argv[1])
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signo, signal.SIG_IGN)  # the server says when to stop
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    unshare(CLONE_NEWNS, "mount namespace of the worker")
    mount(None, "/", None, MS_SLAVE | MS_REC)
    os.umask(0o022)
    os.makedirs(config["directory"], 0o711, exist_ok=True)
    worker = Worker(config)
    clean(worker.directory, worker.runtime)
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
        worker.serve(listener)
        os.unlink(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
