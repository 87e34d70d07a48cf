"""Runtimes under test: runc first (a test that fails with it is not yet a test), then krun, both by their command line."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.bundle import Bundle
from helpers.settings import CALLS, configured

ROOT = Path(__file__).resolve().parent.parent.parent
KRUN = ROOT / "build" / "bin" / "krun"
#: Runs a program under the monitor, without a container. By the environment's interpreter: the system's need not have cffi.
DIRECT = (sys.executable, "-m", "krun.kvm.direct")

#: How much slower than a real machine this one is (the emulated one says so): stretches what is waited for.
SLOW = float(os.environ.get("KRUN_TEST_SLOW", "1"))

PF_KTHREAD = 0x00200000
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_numbers = itertools.count()


def find(name: str) -> Path:
    """The runtime's executable; its absence is a failure with the remedy, never a skip."""
    if name == "krun":
        if not KRUN.exists():
            raise FileNotFoundError(f"{KRUN} is missing: run ./dev setup")
        return configured(KRUN, ROOT / "build" / "calls") if CALLS else KRUN
    # The system's first, so that nobody's own build stands for Debian's; then PATH, where gVisor's runsc usually is.
    path = shutil.which(name, path=SYSTEM_PATH) or shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{name} is missing: run ./dev test, which installs it")
    return Path(path).absolute()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    """Poll until `condition` gives something true; an AssertionError that says `what` did not come."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s: {what}")
        time.sleep(0.005)


@dataclasses.dataclass
class Result:
    """A command that has ended."""

    args: list[str]
    status: int
    out: str
    err: str

    def ok(self) -> Result:
        assert self.status == 0, self
        return self


class Runtime:
    """One runtime with a state directory of its own; remembers its containers and takes them away at the end."""

    def __init__(self, name: str, work: Path) -> None:
        self.name = name
        self.path = find(name)
        self.work = work
        self.root = work / "state"
        self.containers: list[Container] = []
        #: Global options of every call, such as --systemd-cgroup.
        self.options: list[str] = []
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        #: What every call without an input has as its standard input.
        self.stdin: Any = subprocess.DEVNULL

    def call(self, *args: str | os.PathLike[str], input: str | None = None, timeout: float = 60) -> Result:
        """Run the command line.  Output goes to files: a container may go on holding them after the command's end."""
        argv = [str(self.path), "--root", str(self.root), *self.options, *map(os.fspath, args)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin = self.stdin
            if input is not None:
                stdin = tempfile.TemporaryFile()
                stdin.write(input.encode())
                stdin.seek(0)
            process = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=err, env=self.environment)
            try:
                status = process.wait(timeout * SLOW)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                err.seek(0)
                raise AssertionError(f"{argv} did not end within {timeout} s: {err.read()!r}") from None
            finally:
                if input is not None:
                    stdin.close()
            out.seek(0)
            err.seek(0)
            return Result(
                argv, status, out.read().decode(errors="replace"), err.read().decode(errors="replace")
            )

    def new(self, bundle: Bundle) -> Container:
        """A name for a container of `bundle`; nothing is created yet."""
        container = Container(self, bundle, f"kt{os.getpid()}-{next(_numbers)}")
        self.containers.append(container)
        return container

    def run(self, bundle: Bundle, *options: str, input: str | None = None, timeout: float = 60) -> Result:
        """`run` in the foreground."""
        container = self.new(bundle)
        return self.call(
            "run", *options, "--bundle", bundle.write(), container.id, input=input, timeout=timeout
        )

    def create(self, bundle: Bundle, *options: str) -> Container:
        """A created container."""
        container = self.new(bundle)
        container.create(*options).ok()
        return container

    def start(self, bundle: Bundle, *options: str) -> Container:
        """A running container."""
        container = self.create(bundle, *options)
        container.call("start").ok()
        return container

    def clean(self) -> None:
        """Delete what is left; end by pid what the runtime did not end."""
        for container in self.containers:
            container.end_children()
            if (self.root / container.id).exists():
                container.call("delete", "--force")
            for pid in container.processes():
                os.kill(pid, signal.SIGKILL)
            container.reap()


class Container:
    """A container by its id."""

    def __init__(self, runtime: Runtime, bundle: Bundle, id: str) -> None:
        self.runtime, self.bundle, self.id = runtime, bundle, id
        self.pid = 0
        self.status: int | None = None
        self.children: list[int] = []

    @property
    def out_file(self) -> Path:
        return self.runtime.work / f"{self.id}.out"

    def out(self) -> str:
        """What the payload has written to stdout and stderr so far."""
        return self.out_file.read_text(errors="replace")

    def create(self, *options: str) -> Result:
        """`create` with stdio in files; the pid from --pid-file.  The result's `err` is the runtime's own words."""
        pid_file = self.runtime.work / f"{self.id}.pid"
        log = self.runtime.work / f"{self.id}.log"
        argv = [str(self.runtime.path), "--root", str(self.runtime.root), *self.runtime.options]
        argv += ["--log", str(log), "create"]
        argv += ["--bundle", str(self.bundle.write()), "--pid-file", str(pid_file), *options, self.id]
        with open(self.out_file, "wb") as out:
            done = subprocess.run(
                argv,
                stdin=self.runtime.stdin,
                stdout=out,
                stderr=out,
                env=self.runtime.environment,
                timeout=60 * SLOW,
            )
        if pid_file.exists():
            self.pid = int(pid_file.read_text())
        text = log.read_text() if log.exists() else ""
        return Result(argv, done.returncode, self.out(), text + self.out())

    def argv(self, verb: str) -> list[str]:
        """The command line of `create` or `run`, for a test that starts it itself."""
        runtime = self.runtime
        return [
            str(runtime.path),
            "--root",
            str(runtime.root),
            verb,
            "--bundle",
            str(self.bundle.write()),
            self.id,
        ]

    def call(self, verb: str, *arguments: str, options: tuple[str, ...] = ()) -> Result:
        return self.runtime.call(verb, *options, *_around(verb, self.id, arguments))

    def exec(self, *args: str, options: tuple[str, ...] = (), input: str | None = None) -> Result:
        return self.runtime.call("exec", *options, self.id, *args, input=input)

    def exec_detached(self, *args: str) -> int:
        """The host pid of a detached program; it becomes a child of this process."""
        pid_file = self.runtime.work / f"{self.id}.exec{len(self.children)}"
        self.exec(*args, options=("--detach", "--pid-file", str(pid_file))).ok()
        self.children.append(int(pid_file.read_text()))
        return self.children[-1]

    def state(self) -> dict[str, Any]:
        return json.loads(self.runtime.call("state", self.id).ok().out)

    def wait(self, seconds: float = 20) -> int:
        """The init's exit status, 128+n for signal n: it is a child of this process, which is a subreaper."""
        if self.status is None:

            def ended() -> bool:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.status = code if code >= 0 else 128 - code
                return bool(pid)

            wait_for(ended, f"container {self.id} (pid {self.pid}) did not end", seconds)
        assert self.status is not None
        return self.status

    def end_children(self) -> None:
        """A pid namespace's init ends only after all others have been waited for, and these are our children."""
        for pid in self.children:
            try:
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda pid=pid: os.waitpid(pid, os.WNOHANG)[0], f"process {pid} does not end")
            except (ProcessLookupError, ChildProcessError):
                pass

    def reap(self) -> None:
        if self.pid and self.status is None:
            try:
                os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pass

    def processes(self) -> list[int]:
        """The processes in a cgroup named after the container, or started with its id."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                cgroup = Path("/proc", entry, "cgroup").read_text()
                command = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace").split("\0")
                stat = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            # KVM's own worker (kvm-nx-lpage-recovery) is in the cgroup of whoever made the VM: a kernel thread.
            if (
                stat[0] not in "ZX"
                and not int(stat[6]) & PF_KTHREAD
                and (f"/{self.id}" in cgroup or self.id in command)
            ):
                found.append(int(entry))
        return found

    def left(self) -> list[str]:
        """What of the container is still on the host."""
        left = [f"process {pid}" for pid in self.processes()]
        left += [f"cgroup {p}" for p in cgroup_directories(self.id)]
        mine = (str(self.bundle.path), f"/{self.id}")
        with open("/proc/self/mountinfo") as f:
            left += [f"mount {line.split()[4]}" for line in f if any(m in line.split()[4] for m in mine)]
        if (self.runtime.root / self.id).exists():
            left.append(f"state directory {self.runtime.root / self.id}")
        return left


def _around(verb: str, id: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Flags before the id (--force, -a), operands after it (a signal)."""
    flags = tuple(a for a in arguments if a.startswith("-"))
    return (*flags, id, *(a for a in arguments if not a.startswith("-")))


def cgroup_directories(id: str) -> list[str]:
    """Every cgroup whose name contains `id`, in every hierarchy."""
    found = []
    for directory, below, _ in os.walk("/sys/fs/cgroup"):
        if id in os.path.basename(directory):
            found.append(directory)
        if directory.count("/") > 20:
            below.clear()  # another test nests groups, and os.walk calls itself
    return found


def cgroup_v2() -> bool:
    """Whether /sys/fs/cgroup itself is the unified hierarchy."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def cgroup_file(pid: int, controller: str, name: str) -> Path:
    """The path of a control file of `pid`'s cgroup."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if cgroup_v2() and controllers == "":
            return Path("/sys/fs/cgroup" + path, name)
        if not cgroup_v2() and controller in controllers.split(","):
            return Path("/sys/fs/cgroup", controllers, path.lstrip("/"), name)
    raise AssertionError(f"process {pid} is in no cgroup of controller {controller}")
