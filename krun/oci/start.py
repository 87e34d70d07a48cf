"""`krun start`: wakes the monitor that waits in start.fifo, and waits for its word that the program runs."""

import os

from krun import log
from krun.errors import HookError, KrunError, SysError
from krun.oci import sync
from krun.oci.state import CREATED, PAUSED, RESULT_FIFO, START_FIFO, STOPPED, StateDir, hook_state, status
from krun.sysio import ESRCH, pidfd_open, poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.table import Options
    from krun.oci.notify import Relay
    from krun.oci.state import ContainerState


def main(opts: "Options") -> int:
    """Starts the program of a created container.

    Raises NotFoundError; KrunError in runc's words if the container is not in state created, if the program cannot be
    run after all, or if a startContainer or poststart hook fails.
    """
    statedir = StateDir(opts.root, opts.id)
    with statedir.lock():
        state = statedir.load()
        found = status(state, statedir)
        if found == STOPPED:
            raise KrunError("cannot start a container that has stopped")
        if found == PAUSED:
            raise KrunError("cannot start a paused container")
        if found != CREATED:
            raise KrunError("cannot start an already running container")
        pidfd = _pidfd(state.pid)
        start = _open(statedir, START_FIFO, os.O_WRONLY)
        result = _open(statedir, RESULT_FIFO, os.O_RDONLY)
        relay = open_relay(statedir)
        wake(start, result, pidfd)
        finish(statedir)
        wanted = statedir.load_config(state).get("hooks") or {}
        run_poststart(statedir, state, wanted)
    if relay is not None:
        # Without the lock: whoever waits for a payload that is never ready must be able to kill it.
        relay.wait(pidfd, state.pid)
    return 0


def open_relay(statedir: StateDir) -> "Relay | None":
    """Returns what hands on the payload's "ready", if there is a NOTIFY_SOCKET."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    from krun.oci import notify

    return notify.open_relay(statedir.path)


def _pidfd(pid: int) -> int:
    try:
        return pidfd_open(pid)
    except SysError as e:
        if e.errno == ESRCH:
            raise KrunError("cannot start a container that has stopped") from None
        raise


def _open(statedir: StateDir, name: str, flags: int) -> int:
    """The monitor holds both FIFOs open for reading and writing, so neither open blocks; if it died, ENXIO tells."""
    path = f"{statedir.path}/{name}"
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as e:
        raise SysError("open", path, e.errno or 0) from None


def wake(start: int, result: int, pidfd: int) -> "dict[str, int]":
    """Lets the monitor go and waits for its answer.

    Arguments: start, result, the FIFOs' descriptors; pidfd of the monitor. Returns the stage times.
    Raises the monitor's error, or KrunError if it died.
    """
    try:
        os.write(start, b"\n")
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
            raise KrunError("cannot start container: its process died while it was being started")


def finish(statedir: StateDir) -> None:
    """Removes start.fifo: without it the container counts as running (docs/architecture.md)."""
    try:
        os.unlink(f"{statedir.path}/{START_FIFO}")
    except OSError as e:
        raise SysError("remove", START_FIFO, e.errno or 0) from None


def run_poststart(statedir: StateDir, state: "ContainerState", wanted: "dict[str, Any]") -> None:
    """Runs poststart hooks; if one fails, the container is stopped and removed (runtime-spec 1.3, lifecycle 9)."""
    if not wanted.get("poststart"):
        return
    # Only where there is such a hook: start is otherwise the shortest verb of all.
    from krun.oci import hooks

    try:
        hooks.run(wanted, "poststart", hook_state(state, "running"))
    except HookError:
        from krun.oci import launch, resctrl, rootfs
        from krun.oci.cgroup import group as cgroups

        cgroup = cgroups.Cgroup.load(state.cgroup_paths, state.manager)
        try:
            os.kill(state.pid, 9)
            cgroup.kill()
            cgroup.destroy()
            resctrl.remove(state)
            rootfs.detach_root(state.rootfs, state.root_mount)
            statedir.destroy()
        except (KrunError, OSError) as e:
            log.warning(f"undo start: {e}")
        launch.run_poststop(wanted, state)
        raise
