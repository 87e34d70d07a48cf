"""Starts a created container: writes a byte into start.fifo, reads the monitor's answer from result.fifo, runs the poststart hooks."""

import os
from errno import ENXIO

from krun.errors import HookError, KrunError, SysError
from krun.oci import sync
from krun.oci.state import (
    CREATED,
    PAUSED,
    RESULT_FIFO,
    START_FIFO,
    STOPPED,
    StateDir,
    hook_state,
    open_process,
    status,
)
from krun.sysio import poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.log import Log
    from krun.oci.notify import Relay
    from krun.oci.state import ContainerState


_STOPPED = "cannot start a container that has stopped"
_DIED = (
    "cannot start container: its process died while it was being started; was it killed, or out of memory? look at "
    "memory.limit, process.rlimits and the kernel's log"
)


def start(statedir: StateDir, notify_socket: str, log: "Log") -> None:
    """Starts the program of a created container.

    Arguments: statedir; notify_socket, the caller's NOTIFY_SOCKET or ""; log.

    Raises NotFoundError; KrunError in runc's words if the container is not in state created, if the program cannot be
    run after all, or if a startContainer or poststart hook fails.
    """
    with statedir.lock():
        state = statedir.load()
        found = status(state, statedir)
        if found == STOPPED:
            raise KrunError(_STOPPED)
        if found == PAUSED:
            raise KrunError("cannot start a paused container")
        if found != CREATED:
            raise KrunError("cannot start an already running container")
        pidfd = _pidfd(state.pid)
        begin = _open(statedir, START_FIFO, os.O_WRONLY)
        result = _open(statedir, RESULT_FIFO, os.O_RDONLY)
        relay = open_relay(statedir, notify_socket, log)
        log_stages(wake(begin, result, pidfd), log)
        finish(statedir)
        run_poststart(statedir, state, statedir.load_config(state), log)
    if relay is not None:
        # Without the lock: whoever waits for a payload that is never ready must be able to kill it.
        relay.wait(pidfd, state.pid)


def log_stages(stages: "dict[str, int]", log: "Log") -> None:
    """Writes the times of the way to the first instruction, with --debug."""
    if log.debugging() and stages:
        first = min(stages.values())
        words = " ".join(f"{name}={(at - first) / 1e6:.2f}" for name, at in stages.items())
        log.debug(f"started, ms: {words}")


def open_relay(statedir: StateDir, notify_socket: str, log: "Log") -> "Relay | None":
    """Returns what hands on the payload's "ready", if there is a NOTIFY_SOCKET."""
    if not notify_socket:
        return None
    from krun.oci import notify

    return notify.open_relay(statedir.path, notify_socket, log)


def _pidfd(pid: int) -> int:
    fd = open_process(pid)
    if fd < 0:
        raise KrunError(_STOPPED)
    return fd


def _open(statedir: StateDir, name: str, flags: int) -> int:
    """The monitor holds both FIFOs open for reading and writing, so neither open blocks; if it died, ENXIO tells."""
    path = f"{statedir.path}/{name}"
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as e:
        if e.errno == ENXIO:
            raise KrunError(_STOPPED) from None  # it has closed its files and is just dying
        raise SysError("open", path, e.errno or 0) from None


def wake(begin: int, result: int, pidfd: int) -> "dict[str, int]":
    """Lets the monitor go and waits for its answer.

    Arguments: begin, result, the FIFOs' descriptors; pidfd of the monitor. Returns the stage times.
    Raises the monitor's error, or KrunError if it died.
    """
    try:
        os.write(begin, b"\n")
    except BrokenPipeError:
        raise KrunError(_STOPPED) from None  # it died between the open and the write
    except OSError as e:
        raise SysError("write", START_FIFO, e.errno or 0) from None
    while True:
        answered, dead = poll((result, pidfd))
        if answered:
            kind, fields = sync.receive(result)
            if kind == sync.OK:
                return sync.stages(fields)
            if kind == sync.ERROR:
                raise sync.explain(sync.error_of(fields))
        if dead:
            raise KrunError(_DIED)


def finish(statedir: StateDir) -> None:
    """Removes start.fifo: without it the container counts as running (docs/architecture.md)."""
    try:
        os.unlink(f"{statedir.path}/{START_FIFO}")
    except OSError as e:
        raise SysError("remove", START_FIFO, e.errno or 0) from None


def run_poststart(statedir: StateDir, state: "ContainerState", config: "dict[str, Any]", log: "Log") -> None:
    """Runs poststart hooks; if one fails, the container is stopped and removed (runtime-spec 1.3, lifecycle 9).

    Arguments: config, of which the hooks count. Raises HookError.
    """
    wanted = config.get("hooks") or {}
    if not wanted.get("poststart"):
        return
    # Only where there is such a hook: start is otherwise the shortest verb of all.
    from krun.oci import hooks, teardown

    try:
        hooks.run(wanted, "poststart", hook_state(state, "running"))
    except HookError:
        try:
            teardown.take_down(statedir, state, config, log)
        except KrunError as e:
            log.warning(f"undo start: {e}")
        raise
