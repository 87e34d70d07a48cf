"""The worker: a small process beside the server that holds the instances.

It does what blocks or needs a namespace of its own: images, mounts, the runtime's commands. It is the parent of the containers
(PR_SET_CHILD_SUBREAPER), reads their output into log files, and outlives the server: a server that starts again connects to
the same socket and finds all instances as they are. Where the worker itself dies, its successor takes down what it left.
Without a server the worker ends at SIGTERM, after it has ended its instances, and _ALONE seconds after the last instance.
It ends in any case when its data directory has been removed.

The main thread waits: for the server's messages, exits of containers (pidfds), output of containers, and answers of the
threads. Commands (commands.py) run in threads; Sandbox.lock lets one at a time change an instance. Only the main thread
touches the selector, the sockets, and the table of instances. No command waits for the main thread after the loop has ended,
because the loop ends after the last command. A socket that a payload sends to has a thread of its own (syslog.py).
"""

import os
import queue
import selectors
import shutil
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from krun.errors import KrunError, SysError
from krun.serve.run import wire
from krun.serve.run.bridge import Bridge
from krun.serve.run.errors import StartError, complain
from krun.serve.run.image.store import Store
from krun.serve.run.lanes import Lanes
from krun.serve.run.logfile import LogFile, tail
from krun.serve.run.programs import Programs
from krun.serve.run.runtime import Runtime
from krun.serve.run.sandbox import Container, Sandbox
from krun.serve.run.syslog import Syslog
from krun.serve.run.trash import Trash

Answer = tuple[dict[str, Any], list[int]]
Command = Callable[["Worker", dict[str, Any]], Answer]

_PIPE_READ = 64 << 10
_TICK = 5.0  # s: how often adopted processes that nobody knows are reaped, and failed removals tried again
_TAIL_LINES, _TAIL_BYTES = 80, 2048  # Kubernetes: FallbackToLogsOnError
_SOON = 0.5  # s: the same while the worker ends
_ALONE = 60.0  # s without a server and without an instance, after which the worker ends
_GRACE = 8.0  # s between SIGTERM and SIGKILL of the instances of a worker that ends by itself
_TRASH_SECONDS = 5.0  # for what was removed last; the next worker removes what is left
_LONGEST_OUTBOX = 10_000  # messages for a server that does not read: it asks anew when it is back
KEPT_LOGS = 64  # instances that have gone and whose logs stay: each start is at most 20 MB
_LOGS_KEPT = 2  # starts of a container whose logs stay: the present one, and the one before (`previous`)


class Worker:
    """The worker's state.

    Arguments: config, from the server: "directory", "runtime", "flags", "images", "pull", "cgroup", "layerLimit", and where
    wanted "podman" (its command), "network" ("pool", "allow", "flows"; see Bridge) and "descriptors" (RLIMIT_NOFILE, soft and hard);
    commands, by their names.
    """

    def __init__(self, config: dict[str, Any], commands: dict[str, Command]) -> None:
        self.directory = config["directory"]
        self.cgroup = config["cgroup"]
        self.commands = commands
        self.runtime = Runtime(config["runtime"], os.path.join(self.directory, "state"), config.get("flags"))
        self.store = Store(
            os.path.join(self.directory, "images"),
            config["images"],
            limit=config["layerLimit"],
            pull=config["pull"],
            podman=config.get("podman"),
        )
        self.trash = Trash(os.path.join(self.directory, "trash"))
        self.network_config = config.get("network")
        self.network: Bridge | None = None  # made after the lock of the directory has been taken
        self.sandboxes: dict[str, Sandbox] = {}
        self.client: socket.socket | None = None
        self.outbox: deque[tuple[dict[str, Any], list[int]]] = deque()
        self.selector = selectors.DefaultSelector()
        self.programs = Programs(self.selector, self.runtime, self.event)
        self.lanes = Lanes()
        self.done: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.busy = 0  # commands that have been taken and not been answered
        self.stopping = False
        self.strays: set[int] = set()
        self.closing: list[
            Syslog
        ] = []  # of instances that have gone: a thread may still wait for a payload's socket
        self.lock = -1  # of the data directory
        self.alone = time.monotonic()  # since when there is neither a server nor an instance
        self.gone = False  # the data directory has been removed
        self.asked = 0.0  # when a SIGTERM is looked at (monotonic), 0: there is none
        self.killed = 0.0  # when instances are removed that have not ended by themselves (monotonic)

    # ------------------------------------------------------------------------------------------------ main thread

    def serve(self, listener: socket.socket) -> None:
        """Run until `stop` has been asked for, all instances have gone and all commands have been answered."""
        self.selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
        self.selector.register(self.wake, selectors.EVENT_READ, self._run_done)
        tick = time.monotonic() + _TICK
        while not (self.stopping and not self.sandboxes and not self.busy):
            for key, mask in self.selector.select(_SOON if self.asked or self.stopping else _TICK):
                self._call(key, mask)
            if time.monotonic() >= tick or self.asked or self.stopping:
                tick = time.monotonic() + _TICK
                self._reap_strays()
                self.closing = [log for log in self.closing if not log.ends()]
                if self._left_alone():
                    break
                self._remove_again()
                self._interrupt()
        self.lanes.shutdown()
        self.trash.wait(_TRASH_SECONDS)
        self.store.close()
        if self.network is not None:
            self.network.remove()
        self._drop_client()

    def _call(self, key: selectors.SelectorKey, mask: int) -> None:
        """Run the callback of a descriptor. An earlier callback of this round may have taken it away."""
        if self.selector.get_map().get(key.fd) != key:
            return
        try:
            self._flush() if mask & selectors.EVENT_WRITE else key.data()
        except Exception:  # one bad descriptor is no reason to lose the instances
            complain(traceback.format_exc())
            if key.fd != self.wake and key.fd in self.selector.get_map():
                self.selector.unregister(key.fd)

    def _accept(self, listener: socket.socket) -> None:
        """A new server takes the place of the old one."""
        client, _ = listener.accept()
        client.setblocking(False)
        self._drop_client()
        self.client = client
        self.selector.register(client, selectors.EVENT_READ, self._receive)

    def _drop_client(self) -> None:
        if self.client is not None:
            self.selector.unregister(self.client)
            self.client.close()
            self.client = None
            self.programs.kill_all()
            self.alone = time.monotonic()
            if self.stopping and not self.gone:
                self.killed = time.monotonic() + _GRACE
                self._remove_again()
        while self.outbox:
            _close(self.outbox.popleft()[1])

    def _receive(self) -> None:
        """Take a command of the server: {"seq", "do", ...}; it is answered with the same seq."""
        assert self.client is not None
        try:
            received = wire.receive(self.client)
        except (BlockingIOError, ConnectionResetError):
            return  # a reset is told once, before what the server had sent (unix(7)); the end follows
        except OSError:
            received = None
        if received is None:
            self._drop_client()
            return
        message, fds = received
        _close(fds)  # no command brings any
        command = self.commands.get(message.get("do", ""))
        if command is None:
            error = ["Unknown", f"the worker has no command {message.get('do')!r}"]
            self._send({"seq": message["seq"], "error": error}, [])
            return
        if refused := self.lanes.take(message):
            self._send({"seq": message["seq"], "error": ["Busy", refused]}, [])
            return
        message["asked"] = time.monotonic()
        self._submit(message, self.client)

    def _submit(self, message: dict[str, Any], client: socket.socket | None) -> None:
        """Have a command run in a thread of its lane."""
        self.busy += 1
        self.lanes.submit(message, lambda: self._perform(self.commands[message["do"]], message, client))

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
            try:
                call()
            except Exception:
                complain(traceback.format_exc())

    def _answered(self, client: socket.socket | None, message: dict[str, Any], fds: list[int]) -> None:
        """Send an answer to the server that asked; another one that has come since would take it for its own."""
        self.busy -= 1
        if client is not None and client is self.client:
            self._send(message, fds)
        else:
            _close(fds)

    def event(self, message: dict[str, Any]) -> None:
        """Tell the server what it did not ask for (seq 0). A server that has gone asks when it is back (`hello`)."""
        self._send({"seq": 0, **message}, [])

    def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        """Queue a message; its descriptors are closed when it has been sent."""
        if self.client is None:
            _close(fds)
            return
        self.outbox.append((message, fds))
        self._flush()

    def _flush(self) -> None:
        """Send what waits, in its order. A server that does not read does not hold up the worker."""
        client = self.client
        if client is None:
            return
        try:
            while self.outbox:
                wire.send(client, *self.outbox[0])
                _close(self.outbox.popleft()[1])
        except BlockingIOError:
            if len(self.outbox) > _LONGEST_OUTBOX:
                self._drop_client()
                return
        except OSError:
            # The server has gone. What it sent before is still to be read: the end comes after it.
            while self.outbox:
                _close(self.outbox.popleft()[1])
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outbox else 0)
        if self.selector.get_key(client).events != events:
            self.selector.modify(client, events, self._receive)

    def add(self, sandbox: Sandbox) -> None:
        """Take a new instance in, and read its /dev/log. Messages go to the log that clients read (Sandbox.logs_into)."""
        self.sandboxes[sandbox.id] = sandbox
        directory = os.path.join(self.directory, "logs", sandbox.id)
        os.makedirs(directory, 0o700, exist_ok=True)
        sandbox.syslog_file = LogFile(os.path.join(directory, "syslog"))
        sandbox.syslog.listen(
            self.selector, self.on_main, lambda data: sandbox.syslog_log().write("syslog", data)
        )

    def drop(self, sandbox: Sandbox) -> None:
        """Let go of an instance that has been removed."""
        if self.sandboxes.pop(sandbox.id, None) is not None:
            sandbox.syslog.close()
            self.closing.append(sandbox.syslog)
            if sandbox.syslog_file is not None:
                sandbox.syslog_file.close()

    def watch(self, sandbox: Sandbox, container: Container) -> None:
        """Wait for a container's exit."""
        process = container.process
        if process is not None:
            self.selector.register(
                process.pidfd, selectors.EVENT_READ, lambda: self._exited(sandbox, container)
            )

    def unwatch(self, container: Container) -> None:
        """Stop waiting; a no-op where nothing is waited for. The pidfd is closed after it only."""
        if container.process is not None and container.process.pidfd in self.selector.get_map():
            self.selector.unregister(container.process.pidfd)

    def _exited(self, sandbox: Sandbox, container: Container) -> None:
        process = container.process
        assert process is not None
        self.selector.unregister(process.pidfd)
        ended = sandbox.ended(container)
        if not ended["message"] and ended["code"]:
            ended["message"] = tail(self.log_path(sandbox.id, container), _TAIL_LINES, _TAIL_BYTES)
        told = {"id": sandbox.id, "container": container.name, "starts": container.starts, "exit": ended}
        self.event({"event": "exit", **told})

    def log_path(self, id: str, container: Container) -> str:
        """The log of a container's present start; `N.log` counts the starts from 0."""
        return os.path.join(self.directory, "logs", id, container.name, f"{max(0, container.starts - 1)}.log")

    def read_streams(self, log: LogFile, fds: list[int]) -> None:
        """Read a container's output from two pipes, which belong to the worker from now on."""
        streams = set(fds)
        for fd, name in zip(fds, ("stdout", "stderr"), strict=True):
            os.set_blocking(fd, False)
            self.selector.register(
                fd, selectors.EVENT_READ, lambda fd=fd, name=name: self._read_output(fd, name, log, streams)
            )

    def _read_output(self, fd: int, stream: str, log: LogFile, open_streams: set[int]) -> None:
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
        if self.runtime.spawning:
            return  # a child that has no name yet
        containers = [c for s in list(self.sandboxes.values()) for c in list(s.containers.values())]
        known = {c.process.pid for c in containers if c.process} | self.runtime.pids()
        ended = set(_ended_children()) - known
        # A thread takes the status of its own command within milliseconds: the second look finds strays only.
        for pid in ended & self.strays:
            try:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                pass
        self.strays = ended

    def _left_alone(self) -> bool:
        """Look whether the worker is to end by itself; returns whether it ends at once, whatever is left."""
        now = time.monotonic()
        if self.client is not None or self.sandboxes or self.busy:
            self.alone = now
        elif now - self.alone > _ALONE:
            self.stopping = True
        if 0 < self.asked < now:
            self.asked = 0.0
            self._end_instances()
        if not self.gone and not self._holds():
            self.gone = self.stopping = True
            self.killed = now + _ALONE
        return self.gone and now > self.killed

    def _holds(self) -> bool:
        """Whether the data directory is still the one whose lock this worker has."""
        if self.lock < 0:
            return True
        try:
            status = os.stat(os.path.join(self.directory, "worker.lock"))
        except FileNotFoundError:
            return False
        except OSError:
            return True  # nothing is known of it
        own = os.fstat(self.lock)
        return (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino)

    def terminate(self) -> None:
        """SIGTERM: looked at soon, when the worker has read what a server that has gone had still sent. On the main thread."""
        self.asked = time.monotonic() + _SOON

    def _end_instances(self) -> None:
        """Without a server: SIGTERM for the instances, and the end. With one only the server ends the worker."""
        if self.client is not None or self.stopping:
            return
        self.stopping = True
        self.killed = time.monotonic() + _GRACE
        for sandbox in self.sandboxes.values():
            message = {"seq": -1, "do": "kill", "id": sandbox.id, "signal": signal.SIGTERM, "ending": True}
            self._submit(message, None)

    def _remove_again(self) -> None:
        """Take down the instances that are no longer a server's: those whose removal has failed, and all of a worker that
        ends without a server, as soon as their containers have ended or their grace is over.
        """
        late = self.gone or time.monotonic() >= self.killed
        for sandbox in self.sandboxes.values():
            ended = late or not any(c.process for c in list(sandbox.containers.values()))
            own = self.stopping and (self.gone or self.client is None) and ended
            if (sandbox.removed or own) and not sandbox.lock.locked():
                self._submit({"seq": -1, "do": "remove", "id": sandbox.id}, None)

    def _interrupt(self) -> None:
        """Kill, once, the commands for which the end of a worker without a server waits: a runtime or podman that hangs."""
        if self.stopping and self.client is None and self.busy and time.monotonic() >= self.killed > 0:
            self.killed = 0.0
            self.runtime.interrupt()
            self.store.interrupt()

    # ---------------------------------------------------------------------------------------------- other threads

    def _perform(self, command: Command, message: dict[str, Any], client: socket.socket | None) -> None:
        fds: list[int] = []
        try:
            answer, fds = command(self, message)
        except StartError as error:
            answer = {"error": [error.reason, error.message]}
        except KrunError as error:
            answer = {"error": ["CreateContainerError", error.message]}
        except OSError as error:
            answer = {"error": ["CreateContainerError", SysError.of(message["do"], error).message]}
        except Exception as error:  # one command that fails is no reason to lose the instances
            complain(traceback.format_exc())
            answer = {"error": ["Internal", f"{type(error).__name__}: {error}"]}
        if "error" in answer and client is None:
            complain(f"krun serve worker: {message['id']}: {answer['error'][1]}\n")

        def answered() -> None:
            self.lanes.give(message)
            self._answered(client, {"seq": message["seq"], **answer}, fds)

        self.post(answered)

    def on_main(self, call: Callable[[], None]) -> None:
        """Run a call on the main thread and wait for it; raises what the call raises. Only from a command's thread."""
        ready = threading.Event()
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:
                raised.append(error)
            finally:
                ready.set()

        self.post(run)
        ready.wait()
        if raised:
            raise raised[0]

    def sandbox(self, id: str) -> Sandbox:
        """Return an instance. Raises KrunError."""
        try:
            return self.sandboxes[id]
        except KeyError:
            raise KrunError(f"instance {id} does not exist") from None

    def open_log(self, id: str, name: str, number: int) -> LogFile:
        """Open the log of a container's start `number`, and remove those of early ones: a crash loop fills no disk."""
        directory = os.path.join(self.directory, "logs", id, name)
        os.makedirs(directory, 0o700, exist_ok=True)
        log = LogFile(os.path.join(directory, f"{number}.log"))
        # After the new one is there: at each moment a reader finds the present start and the one before.
        for old in os.listdir(directory):
            word = old.partition(".")[0]
            if word.isdecimal() and int(word) <= number - _LOGS_KEPT:
                os.unlink(os.path.join(directory, old))
        return log

    def trim_logs(self, last: str) -> None:
        """Remove the logs of all but the last KEPT_LOGS instances that have gone, of which `last` is the newest.

        Any thread; a log that goes twice is no error.
        """
        try:
            os.utime(os.path.join(self.directory, "logs", last))
        except FileNotFoundError:
            pass  # no container of it has started
        found = []
        with os.scandir(os.path.join(self.directory, "logs")) as entries:
            for entry in entries:
                if entry.name not in self.sandboxes:
                    try:
                        found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
                    except FileNotFoundError:
                        continue
        for _, id in sorted(found)[:-KEPT_LOGS]:
            self.forget(id)

    def forget(self, id: str) -> None:
        """Remove the logs of an instance that has gone."""
        if id not in self.sandboxes:
            shutil.rmtree(os.path.join(self.directory, "logs", id), ignore_errors=True)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


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
