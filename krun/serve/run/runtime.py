"""The OCI runtime as a command: create, start, exec, kill, delete (runc's command line, which every runtime has)."""

import json
import os
import signal
import subprocess

from krun.errors import KrunError, SysError
from krun.sysio import pidfd_open, pidfd_send_signal

_SECONDS = 120  # for a runtime that hangs
_OUTPUT = 4096


class Runtime:
    """A runtime. Arguments: path of its command; root, directory of its containers' states; flags before the verb."""

    def __init__(self, path: str, root: str, flags: "list[str] | None" = None) -> None:
        self.path = path
        self.root = root
        self.flags = flags or []
        self.running: set[int] = set()  # pids of its commands that run
        os.makedirs(root, mode=0o700, exist_ok=True)

    def create(self, id: str, bundle: str, stdout: int, stderr: int) -> int:
        """Create a container with the streams given. Returns the pid of its init. Raises KrunError with the runtime's message."""
        pid_file = os.path.join(bundle, "pid")
        self._run(["create", "--bundle", bundle, "--pid-file", pid_file, id], bundle, stdout, stderr)
        with open(pid_file) as file:
            return int(file.read())

    def start(self, id: str, bundle: str) -> None:
        """Start the program. Raises KrunError."""
        self._run(["start", id], bundle)

    def kill(self, id: str, signo: int, bundle: str) -> None:
        """Signal the init. Raises KrunError, also where it has ended."""
        self._run(["kill", id, str(signo)], bundle)

    def delete(self, id: str, bundle: str) -> None:
        """Delete the container, running or not. Raises KrunError."""
        self._run(["delete", "--force", id], bundle)

    def exec(self, id: str, argv: list[str], bundle: str, timeout: float) -> "tuple[int, str]":
        """Run a program in the container. Returns its status and the end of its output; status -1 is a time-out.

        The program is killed by its own pid at a time-out, because a runtime that is killed leaves it running.
        """
        pid_file = os.path.join(bundle, f"exec.{os.urandom(4).hex()}")
        words = [self.path, *self.flags, "--root", self.root, "exec", "--pid-file", pid_file, id, *argv]
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output[-_OUTPUT:].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            _kill_by_file(pid_file)
            process.kill()
            process.communicate()
            return -1, f"timed out after {timeout:g} s"
        finally:
            self.running.discard(process.pid)
            try:
                os.unlink(pid_file)
            except FileNotFoundError:
                pass

    def _run(
        self,
        words: list[str],
        bundle: str,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
    ) -> None:
        """Run a verb with a log of its own, from which the error is read."""
        log = os.path.join(bundle, f"log.{os.urandom(4).hex()}")
        command = [self.path, *self.flags, "--root", self.root, "--log", log, "--log-format", "json", *words]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=bundle
            )
        except OSError as error:
            raise SysError.of("run the runtime", error, self.path) from None
        self.running.add(process.pid)
        try:
            if process.wait(_SECONDS):
                raise KrunError(
                    _last_error(log) or f"{self.path} {words[0]}: exit status {process.returncode}"
                )
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise KrunError(f"{self.path} {words[0]}: no answer after {_SECONDS} s") from None
        finally:
            self.running.discard(process.pid)
            try:
                os.unlink(log)
            except FileNotFoundError:
                pass


def _kill_by_file(path: str) -> None:
    try:
        with open(path) as file:
            fd = pidfd_open(int(file.read()))
        try:
            pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)
    except (OSError, ValueError, SysError):
        pass  # it has ended, or has not begun


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
