"""The OCI runtime as a command: create, start, exec, kill, delete (runc's command line, which every runtime has)."""

import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from krun.errors import KrunError, SysError
from krun.serve.run.process import Process

_SECONDS = 120.0  # for a runtime that hangs
_KILL_SECONDS = 10.0  # for a program to end after SIGKILL
_OUTPUT = 4096


class Runtime:
    """A runtime. Arguments: path of its command; root, directory of its containers' states; flags before the verb; seconds that a
    verb may take.

    The reaper of strays must not take the status of what is known here: `spawning` holds the threads that start a command,
    `pids` names the commands and the inits of containers in creation.
    """

    def __init__(
        self, path: str, root: str, flags: "list[str] | None" = None, seconds: float = _SECONDS
    ) -> None:
        self.path = path
        self.root = root
        self.flags = flags or []
        self.seconds = seconds
        self.spawning: set[int] = set()
        self._running: set[int] = set()
        self._pid_files: set[str] = set()
        self._programs: set[int] = set()
        os.makedirs(root, mode=0o700, exist_ok=True)

    def pids(self) -> "set[int]":
        """Return the pids of commands that run, and of children that no caller knows yet: inits, programs of `launch`."""
        return (
            set(self._running)
            | set(self._programs)
            | {pid for path in list(self._pid_files) if (pid := _pid_of(path))}
        )

    def create(self, id: str, bundle: str, stdout: int, stderr: int) -> int:
        """Create a container with the streams given. Returns the pid of its init, a child of this process whose status nobody
        takes before `created`. Raises KrunError with the runtime's message.
        """
        pid_file = os.path.join(bundle, "pid")
        self._pid_files.add(pid_file)
        self._run(["create", "--bundle", bundle, "--pid-file", pid_file, id], bundle, stdout, stderr)
        pid = _pid_of(pid_file)
        if not pid:
            raise KrunError(f"{self.path} create: no pid in {pid_file}")
        return pid

    def created(self, bundle: str) -> None:
        """Note that the caller itself knows the init of a bundle, or that there is none."""
        self._pid_files.discard(os.path.join(bundle, "pid"))

    def start(self, id: str, bundle: str) -> None:
        """Start the program. Raises KrunError."""
        self._run(["start", id], bundle)

    def kill(self, id: str, signo: int, bundle: str) -> None:
        """Signal the init. Raises KrunError, also where it has ended."""
        self._run(["kill", id, str(signo)], bundle)

    def freeze(self, id: str, frozen: bool, bundle: str) -> None:
        """Pause or resume the container. Raises KrunError."""
        self._run(["pause" if frozen else "resume", id], bundle)

    def state(self, id: str, bundle: str) -> "dict[str, Any]":
        """Return the state (runtime-spec, runtime.md). Raises KrunError, also for an answer that is no object of JSON."""
        with tempfile.TemporaryFile() as answer:
            self._run(["state", id], bundle, answer.fileno())
            answer.seek(0)
            try:
                found = json.loads(answer.read())
            except ValueError:
                found = None
        if not isinstance(found, dict):
            raise KrunError(f"read the state of {id}: {self.path} printed no object of JSON")
        return found

    def delete(self, id: str, bundle: str, force: bool = True) -> None:
        """Delete the container, running or not; without `force` only a stopped one. Raises KrunError."""
        self._run(["delete", *(["--force"] if force else []), id], bundle)

    def exec(self, id: str, argv: list[str], directory: str, timeout: float) -> "tuple[int, str]":
        """Run a program in the container. Returns its status and the end of its output; status -1 is a time-out (s).

        Its end is the end, also where a process that it left behind holds its output open.
        Raises KrunError where the runtime cannot run it.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        end = time.monotonic() + timeout
        process = None
        try:
            try:
                process = self.launch(
                    id, argv, directory, (subprocess.DEVNULL, writing, writing), seconds=timeout
                )
            finally:
                os.close(writing)
            output, ended = _read_until_end(reading, process.pidfd, end)
            if not ended:
                process.end(_KILL_SECONDS)
                return -1, f"timed out after {timeout:g} s"
            code, signo = process.status()
            return 128 + signo if signo else code, output
        finally:
            os.close(reading)
            if process is not None:
                self.launched(process)
                process.close()

    def launch(
        self,
        id: str,
        argv: list[str],
        directory: str,
        streams: tuple[int, int, int],
        *,
        flags: "list[str] | None" = None,
        seconds: float | None = None,
    ) -> Process:
        """Start a program in the container; returns it. Arguments: directory, for files of the moment; streams, its standard input,
        output and error; flags of the verb; seconds that the runtime may take.

        The runtime detaches the program, which becomes a child of this process (a subreaper). Nobody takes its status before
        `launched`: its pid stays its own until then. Raises KrunError where the runtime cannot run it.
        """
        pid_file = os.path.join(directory, f"exec.{os.urandom(4).hex()}")
        self._pid_files.add(pid_file)
        try:
            words = ["exec", "--detach", "--pid-file", pid_file, *(flags or []), id, *argv]
            self._run(words, directory, streams[1], streams[2], seconds, stdin=streams[0])
            process = Process(_pid_of(pid_file), "")
            self._programs.add(process.pid)
            return process
        finally:
            self._pid_files.discard(pid_file)
            self._forget(None, pid_file)

    def launched(self, process: Process) -> None:
        """Note that the caller itself reaps a program, or has done it."""
        self._programs.discard(process.pid)

    def interrupt(self) -> None:
        """Kill the commands that run, with their helpers: the worker ends. Their callers get KrunError. From any thread."""
        for pid in list(self._running):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended

    def _popen(
        self, words: "list[str]", stdin: int, stdout: int, stderr: int, cwd: str
    ) -> "subprocess.Popen[bytes]":
        self.spawning.add(threading.get_ident())
        try:
            process = subprocess.Popen(
                words, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, start_new_session=True
            )
            self._running.add(process.pid)
            return process
        except OSError as error:
            raise SysError.of("run the runtime", error, self.path) from None
        finally:
            self.spawning.discard(threading.get_ident())

    def _forget(self, process: "subprocess.Popen[bytes] | None", path: str) -> None:
        if process is not None:
            self._running.discard(process.pid)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def _run(
        self,
        words: list[str],
        bundle: str,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        seconds: float | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Run a verb with a log of its own, from which the error is read."""
        log = os.path.join(bundle, f"log.{os.urandom(4).hex()}")
        command = [self.path, *self.flags, "--root", self.root, "--log", log, "--log-format", "json", *words]
        process = None
        try:
            process = self._popen(command, stdin, stdout, stderr, bundle)
            if process.wait(seconds := seconds or self.seconds):
                raise KrunError(
                    _last_error(log) or f"{self.path} {words[0]}: exit status {process.returncode}"
                )
        except subprocess.TimeoutExpired:
            assert process is not None
            os.killpg(process.pid, signal.SIGKILL)  # with its helpers; a session of its own, see _popen
            process.wait()
            raise KrunError(f"{self.path} {words[0]}: no answer after {seconds:g} s") from None
        finally:
            self._forget(process, log)


def _read_until_end(fd: int, pidfd: int, end: float) -> "tuple[str, bool]":
    """Read a pipe until a process ends; returns the last bytes and whether it has ended by the time `end` (monotonic, s)."""
    output = b""
    waiter = select.poll()
    waiter.register(fd, select.POLLIN)
    waiter.register(pidfd, select.POLLIN)
    while (left := end - time.monotonic()) > 0:
        ready = {number for number, _ in waiter.poll(left * 1000)}
        if fd in ready:
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                continue
            output = (output + data)[-_OUTPUT:]
            if not data:
                waiter.unregister(fd)
        # What the program wrote before its end is in the pipe by now: output is read first, once more at most.
        elif pidfd in ready:
            return output.decode("utf-8", "replace"), True
        if pidfd in ready:
            try:
                output = (output + os.read(fd, 65536))[-_OUTPUT:]
            except BlockingIOError:
                pass
            return output.decode("utf-8", "replace"), True
    return output.decode("utf-8", "replace"), False


def _pid_of(path: str) -> int:
    """Return the pid in a file, or 0."""
    try:
        with open(path) as file:
            return int(file.read() or 0)
    except (OSError, ValueError):
        return 0


def _last_error(path: str) -> str:
    """Return the message of the last error in a runtime's JSON log."""
    message = ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict) and entry.get("level") in ("error", "fatal"):
                    message = str(entry.get("msg", ""))
    except OSError:
        pass
    return message
