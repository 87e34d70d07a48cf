"""Runs the cases on a runtime and returns the facts: plain data, which checks.py judges.

Order for a case: 1 directory, root and files, 2 config.json, 3 create, state, 4 start, state, 5 the program's end (its own, or
TERM then KILL), state, 6 delete, state, what is left, 7 the directory is removed. A failure ends the case, is a fact of it, and
steps 6 and 7 are done all the same. The caller owns nothing afterwards but the facts.
"""

import json
import os
import shutil
import signal
import socket
import tempfile
import time
from typing import Any

from krun.conformance.cases import CASES, CONTROLS, ENVIRONMENT, MARK, Case
from krun.errors import KrunError
from krun.serve.run import bundle, etcfiles, user
from krun.serve.run.image.config import Config
from krun.serve.run.rootdir import RootDir
from krun.serve.run.runtime import Runtime
from krun.sysio import PR_SET_CHILD_SUBREAPER, prctl

PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "krun-probe")
_SECONDS = 60  # for a program to end
_VERB, _NEXT = 30.0, 2.0  # seconds for a verb of the runtime, and for the ones after one that took no end
_MOST = 1 << 20  # bytes of a container's output
_GRACE = 0.5  # seconds that a program lives on after the TERM that it handles


def run(runtime: str) -> dict[str, Any]:
    """Run all cases. Argument: path of the runtime's command. Returns case -> facts, and "host". Raises KrunError, OSError."""
    if not os.path.exists(PROBE):
        raise KrunError(
            f"run the probe: {PROBE} is missing; build it: python -m krun.native.build_native probe"
        )
    # The init of a container is the child of the command that made it; it comes to this process when that one ends.
    prctl(PR_SET_CHILD_SUBREAPER, 1, name="PR_SET_CHILD_SUBREAPER")
    directory = tempfile.mkdtemp(prefix="krun-conformance-")
    try:
        os.chmod(directory, 0o711)
        driver = Runtime(runtime, os.path.join(directory, "state"), seconds=_VERB)
        facts: dict[str, Any] = {"host": _host()}
        for name, case in CASES.items():
            facts[name] = _Container(driver, directory, name, case).run()
        return facts
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _host() -> dict[str, Any]:
    kinds = ("pid", "ipc", "uts", "mnt", "net")
    return {"namespaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}}


class _Container:
    """A case on its way. Arguments: the runtime; directory of the whole run; name of the case; the case."""

    def __init__(self, runtime: Runtime, directory: str, name: str, case: Case) -> None:
        self.runtime = runtime
        self.case = case
        self.id = f"krun-conformance-{os.getpid()}-{name}"
        self.directory = os.path.join(directory, name)
        self.bundle = os.path.join(self.directory, "bundle")
        self.facts: dict[str, Any] = {"states": {}, "errors": {}}

    def run(self) -> dict[str, Any]:
        """Take the container through its life. Returns its facts. Raises OSError where the host lacks room."""
        os.makedirs(self.bundle, 0o755)
        stdout = self._open("stdout")
        stderr = self._open("stderr")
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            self._config(log)
            self._live(stdout, stderr)
        except KrunError as error:
            self._failed("run", error)
        finally:
            os.close(stdout)
            os.close(stderr)
            self._collect(log)
            self._delete()
            log.close()
            shutil.rmtree(self.directory, ignore_errors=True)
        return self.facts

    def _failed(self, what: str, error: KrunError) -> None:
        """Note a failure. A runtime that hangs does so again: what is still to be done does not wait as long."""
        self.facts["errors"][what] = str(error)
        if "no answer after" in str(error):
            self.runtime.seconds = _NEXT

    def _open(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(os.path.join(self.directory, name), flags, 0o666)

    def _config(self, log: socket.socket) -> None:
        """The root, the platform's files and config.json."""
        rootfs = os.path.join(self.directory, "rootfs")
        os.makedirs(rootfs, 0o755)
        shutil.copyfile(PROBE, os.path.join(rootfs, "probe"))
        os.chmod(os.path.join(rootfs, "probe"), 0o755)
        manifest = {"command": ["/probe"], "args": _escaped(self.case.words), **(self.case.manifest or {})}
        context = manifest.get("securityContext") or {}
        with RootDir(rootfs) as root:
            uid = user.of(root, self.case.user, context)["uid"]
        bundle.prepare_root(rootfs, uid, bool(context.get("readOnlyRootFilesystem")))
        files = etcfiles.write(self.directory, "conformance", "127.0.0.1", [], None)
        files["/dev/log"] = os.path.join(self.directory, "log.sock")
        log.bind(files["/dev/log"])
        os.chmod(files["/dev/log"], 0o666)
        files["/dev/termination-log"] = os.path.join(self.directory, "termination-log")
        os.close(self._open("termination-log"))
        os.chmod(files["/dev/termination-log"], 0o666)
        volume = os.path.join(self.directory, "volume")
        os.mkdir(volume, 0o755)
        with open(os.path.join(volume, "key"), "w") as file:
            file.write(MARK)
        image = Config([], [], [], "/", self.case.user, [], {}, "")
        mounts = [
            {
                "destination": "/config",
                "type": "bind",
                "source": volume,
                "options": ["rbind", "rprivate", "ro"],
            }
        ]
        place = bundle.Place(
            hostname="conformance",
            environment=ENVIRONMENT,
            rootfs=rootfs,
            netns="",
            cgroup=f"/{self.id}",
            files=files,
            mounts=mounts,
            pids=4096,
        )
        config = bundle.make(manifest, image, place)
        # Nothing in these files is newer, and older runtimes refuse the version of a newer specification.
        config["ociVersion"] = "1.0.2"
        # A new network namespace: no instance's, because there is no instance.
        config["linux"]["namespaces"][0] = {"type": "network"}
        if self.case.change:
            self.case.change(config, self.directory)
        self.facts["destinations"] = [mount["destination"] for mount in config["mounts"]]
        self.facts["capabilities"] = config["process"]["capabilities"]
        with open(os.path.join(self.bundle, "config.json"), "w") as file:
            json.dump(config, file)

    def _live(self, stdout: int, stderr: int) -> None:
        began = time.monotonic()
        pid = self.runtime.create(self.id, self.bundle, stdout, stderr)
        self.facts["silent_before_start"] = os.fstat(stdout).st_size == 0
        self.facts["group"] = group(pid)
        self._state("created")
        self.runtime.start(self.id, self.bundle)
        self._wait(lambda: os.fstat(stdout).st_size > 0)
        self.facts["seconds"] = round(time.monotonic() - began, 3)
        if self.case.waits:
            self._wait(lambda: '"waiting:0"' in self._text("stdout"))
            self._state("running")
            if self.case.pauses:
                self._pause(pid)
            else:
                self.runtime.kill(self.id, signal.SIGTERM, self.bundle)
            self._wait(lambda: '"signal:0"' in self._text("stdout"))
            time.sleep(_GRACE)
            self.facts["lives_after_term"] = self._lives(pid)
            self.runtime.kill(self.id, signal.SIGKILL, self.bundle)
        self.facts["ended"] = self._end(pid)
        self._state("stopped")

    def _pause(self, pid: int) -> None:
        """Pause, signal the init from the host, resume: the program must not see the signal before."""
        self.runtime.freeze(self.id, True, self.bundle)
        self._state("paused")
        # Only an own child gets a signal: the runtime could have named any process of the host.
        if self._lives(pid):
            os.kill(pid, signal.SIGTERM)
        time.sleep(_GRACE)
        self.facts["silent_while_paused"] = '"signal:0"' not in self._text("stdout")
        self.runtime.freeze(self.id, False, self.bundle)

    def _wait(self, condition: Any) -> None:
        """Poll, because the program's output is a file. A program that never comes so far is seen in the facts."""
        end = time.monotonic() + _SECONDS
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)

    def _end(self, pid: int) -> dict[str, int]:
        """Return how the init has ended: code and signal. Raises KrunError after _SECONDS."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            try:
                found, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                raise KrunError(
                    f"wait for process {pid} of {self.id}: it is no child of the runtime's caller"
                ) from None
            if found:
                code = os.waitstatus_to_exitcode(status)
                return {"code": max(code, 0), "signal": max(-code, 0)}
            time.sleep(0.005)
        raise KrunError(f"wait for the program of {self.id}: it has not ended after {_SECONDS} s")

    def _lives(self, pid: int) -> bool:
        """Whether the init runs; its status stays to be taken. Raises KrunError where it is no child of this process."""
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            raise KrunError(
                f"wait for process {pid} of {self.id}: it is no child of the runtime's caller"
            ) from None

    def _state(self, when: str) -> None:
        try:
            self.facts["states"][when] = self.runtime.state(self.id, self.bundle)
        except KrunError as error:
            self._failed(f"state {when}", error)

    def _text(self, name: str) -> str:
        with open(os.path.join(self.directory, name), encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)

    def _collect(self, log: socket.socket) -> None:
        """The probe's answers by instruction, and what came out by other ways."""
        answers = {}
        for line in self._text("stdout").splitlines():
            if not line.startswith("{"):
                continue
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(answer, dict) and isinstance(answer.get("do"), str):
                answers[answer.pop("do")] = answer
        self.facts["answers"] = answers
        self.facts["stderr"] = self._text("stderr")
        self.facts["termination"] = self._text("termination-log")
        try:
            self.facts["syslog"] = log.recv(4096).decode("utf-8", "replace")
        except BlockingIOError:
            self.facts["syslog"] = ""

    def _delete(self) -> None:
        """Delete without --force, which only a stopped container allows; by force where that fails."""
        try:
            self.runtime.delete(self.id, self.bundle, force=False)
        except KrunError as error:
            self._failed("delete", error)
            try:
                self.runtime.delete(self.id, self.bundle)
            except KrunError:
                pass  # the first error says it
        self._state("deleted")
        self.facts["left"] = self._left()
        hooks = os.path.join(self.directory, "hooks")
        self.facts["hooks"] = self._text("hooks").split() if os.path.exists(hooks) else []

    def _left(self) -> list[str]:
        """Return what is still there of the container: its state directory, its cgroups, mounts below its bundle."""
        state = os.path.join(self.runtime.root, self.id)
        left = [state] if os.path.isdir(state) else []
        with open("/proc/self/mountinfo") as file:
            for line in file:
                words = line.split()
                if words[words.index("-") + 1] in ("cgroup", "cgroup2"):
                    group = os.path.join(words[4], self.id)
                    left += [group] if os.path.isdir(group) else []
                if words[4].startswith(self.directory + "/"):
                    left.append(words[4])
        return left


def group(pid: int) -> dict[str, str]:
    """Return the control files of a process's group that the host reads: name -> text (proc_pid_cgroup(5), cgroups(7))."""
    found = {}
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            paths = [line.rstrip("\n").split(":", 2) for line in file]
        with open("/proc/self/mountinfo") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return {}
    for _, controllers, path in paths:
        kind = "cgroup" if controllers else "cgroup2"
        for words in mounts:
            at = words.index("-")
            if words[at + 1] == kind and set(filter(None, controllers.split(","))) <= set(
                words[at + 3].split(",")
            ):
                for name in CONTROLS:
                    try:
                        with open(f"{words[4]}{path}/{name}") as file:
                            found[name] = file.read().strip()
                    except OSError:
                        continue
    return found


def _escaped(words: list[str]) -> list[str]:
    """Words of a manifest, in which $(NAME) and $$ have a meaning."""
    return [word.replace("$", "$$") for word in words]
