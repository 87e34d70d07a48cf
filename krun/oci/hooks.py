"""Runs OCI hooks (config.md "POSIX-platform Hooks") with the state on standard input, the exact environment and a time limit.

posix_spawn(3), a pidfd and poll(2) replace the subprocess module, whose imports take 6 ms.
"""

import errno
import os
import select
import time
from _signal import SIGKILL, SIGPIPE, SIGXFSZ  # signal itself makes enums: 3 ms

from krun.errors import HookError, one_line, strerror
from krun.jsonio import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")

# Bytes of a hook's output that are kept. The rest is read and dropped: a hook must not fill our memory, and
# must not block on a full pipe.
_KEPT = 4096
_LONGEST_MS = (1 << 31) - 1


def run(hooks: "Any", kind: str, state: "dict[str, Any]") -> None:
    """Run the hooks of one kind in listed order and stop at the first that fails.

    Arguments: hooks, the `hooks` object of config.json or the list of one kind (None = none); kind, one of
    KINDS; state, the State for standard input (oci.state.hook_state).
    Errors: HookError when a hook cannot be started, ends with a status other than 0, or outlives its timeout
    (it is killed then). The text holds what it wrote to standard output and error.
    """
    chosen = hooks.get(kind) if type(hooks) is dict else hooks
    if not chosen:
        return
    text = dumps(state).encode()
    for number, hook in enumerate(chosen):
        _run_one(hook, f"{kind} hook #{number}", text)


def run_all(hooks: "Any", kind: str, state: "dict[str, Any]") -> "list[HookError]":
    """Run every hook of a kind whatever the others do and return the errors (poststop: runtime.md, lifecycle
    13).
    """
    chosen = hooks.get(kind) if type(hooks) is dict else hooks
    errors = []
    for number, hook in enumerate(chosen or ()):
        try:
            _run_one(hook, f"{kind} hook #{number}", dumps(state).encode())
        except HookError as error:
            errors.append(error)
    return errors


def _run_one(hook: "dict[str, Any]", what: str, text: bytes) -> None:
    path = hook["path"]
    env = hook.get("env")
    # No "env" at all: the runtime's own environment, as Go's exec does for runc; an empty list is empty.
    environ = os.environ if env is None else dict(entry.partition("=")[::2] for entry in env)
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    try:
        try:
            pid = os.posix_spawn(
                path,
                hook.get("args") or [path],
                environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, in_r, 0),
                    (os.POSIX_SPAWN_DUP2, out_w, 1),
                    (os.POSIX_SPAWN_DUP2, out_w, 2),
                ],
                setsigmask=(),
                # Python ignores these at start-up, and an ignored signal would stay so in the hook.
                setsigdef=(SIGPIPE, SIGXFSZ),
            )
        except (OSError, ValueError) as error:
            words = strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise HookError(f"error running {what}: exec {path}: {words}") from None
        os.close(in_r)
        in_r = -1
        os.close(out_w)
        out_w = -1
        feed, in_w = in_w, -1  # _talk closes it on every path
        said = _talk(pid, feed, out_r, text, hook.get("timeout"), what)
    finally:
        for fd in (in_r, in_w, out_r, out_w):
            if fd >= 0:
                _close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        how = f"exit status {code}" if code > 0 else f"signal {-code}"
        raise HookError(f"error running {what}: {path}: {how}" + (f", output: {said}" if said else ""))


def _talk(pid: int, in_w: int, out_r: int, text: bytes, timeout: "float | None", what: str) -> str:
    """Feed the hook and collect its words until it ends; leaves it to be waited for. Closes in_w on every
    path.
    """
    deadline = time.monotonic() + timeout if timeout and timeout > 0 else None
    said = b""
    pidfd = -1
    writing = True
    try:
        pidfd = os.pidfd_open(pid)
        os.set_blocking(in_w, False)
        os.set_blocking(out_r, False)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(in_w, select.POLLOUT)
        poll.register(out_r, select.POLLIN)
        while True:
            # poll(2) takes a C int of milliseconds: a longer timeout is waited for in parts.
            left = (
                None if deadline is None else min(max(0.0, (deadline - time.monotonic()) * 1000), _LONGEST_MS)
            )
            ready = poll.poll(left)
            for fd, _ in ready:
                if fd == in_w:
                    # A hook that ends without reading its input is right to do so: EPIPE means "fed enough".
                    try:
                        text = text[os.write(in_w, text) :]
                    except OSError as error:
                        if error.errno not in (errno.EPIPE, errno.EAGAIN):
                            raise
                        if error.errno == errno.EPIPE:
                            text = b""
                    if not text:
                        poll.unregister(in_w)
                        os.close(in_w)
                        writing = False
                elif fd == out_r:
                    part = _read(out_r)
                    if part is not None:
                        if part:
                            said = (said + part)[:_KEPT]
                        else:
                            poll.unregister(out_r)
            if any(fd == pidfd for fd, _ in ready):
                while part := _read(out_r):
                    said = (said + part)[:_KEPT]
                return one_line(said.decode("utf-8", "replace"))
            if deadline is not None and time.monotonic() >= deadline:
                _kill(pid)
                raise HookError(f"error running {what}: timed out after {timeout:g} s and was killed")
    except BaseException as error:
        if not isinstance(error, HookError):
            _kill(pid)
        raise
    finally:
        if writing:
            _close(in_w)
        if pidfd >= 0:
            os.close(pidfd)


def _kill(pid: int) -> None:
    """Kill a child and wait for it (nobody has waited for it yet, so the pid is still the child's)."""
    try:
        os.kill(pid, SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass


def _read(fd: int) -> "bytes | None":
    """Return what there is, b"" at the end, None for "nothing now"."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass
