"""Takes a container down: ONE order and one error policy, for delete, run, a failed create and a failed start.

The teardown works from any state that a killed create, start, exec or delete left behind. `delete` is a hot verb, so this
file imports little.
"""

import os
import select

from krun.errors import KrunError, NotFoundError
from krun.kvm import board
from krun.oci import state as st
from krun.oci.kill import SIGKILL, open_init, own_cgroup, signal_init, signal_opened, thaw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.log import Log

_EXIT_WAIT_MS = 10_000  # runc waits 100 times 100 ms
_LOCK_WAIT_S = 10.0


def delete(statedir: st.StateDir, force: bool, log: "Log") -> None:
    """Takes down one container: a stopped one, with `force` any. Precondition: the caller does not hold its lock.

    Raises NotFoundError unless `force`; KrunError "cannot delete container ID that is not stopped: STATUS"; those of
    take_down.
    """
    try:
        if force:
            _kill_before_lock(statedir)
        with statedir.lock(_LOCK_WAIT_S):
            _delete_locked(statedir, force, log)
    except NotFoundError:
        if not force:
            raise


def _kill_before_lock(statedir: st.StateDir) -> None:
    """A create or start that hangs holds the lock: the death of its container's process lets it fail and go away."""
    try:
        state = statedir.load()
    except KrunError:
        return
    signal_init(state, SIGKILL)


def _delete_locked(statedir: st.StateDir, force: bool, log: "Log") -> None:
    try:
        state = statedir.load()
    except KrunError as error:
        # state.json is missing or damaged: create was killed before it wrote it, or the disk was full.
        if not force and not isinstance(error, NotFoundError):
            raise
        log.debug(f"delete {statedir.id}: {error.message}")
        state = st.ContainerState(id=statedir.id)
    status = st.status(state, statedir)
    # We hold the lock, so no create is at work: a status "creating" was left by a create that died.
    if status in (st.RUNNING, st.PAUSED) and not force:
        raise KrunError(f"cannot delete container {statedir.id} that is not stopped: {status}")
    try:
        config = statedir.load_config(state)
    except KrunError as error:
        log.debug(f"delete {statedir.id}: {error.message}")
        config = {}
    take_down(statedir, state, config, log)


def take_down(
    statedir: st.StateDir, state: st.ContainerState, config: "dict[str, Any]", log: "Log", hooks: bool = True
) -> None:
    """THE teardown: process, cgroup, resctrl group, root mount, state directory, poststop hooks (runtime.md, lifecycle
    12 and 13).

    Arguments: config, the private copy of config.json, {} if it is lost; hooks, whether the container came so far that
    its poststop hooks are due. Every step is tried, whatever the ones before it did. The state directory stays while
    anything else does, so that `delete` can be called again; and a failing hook is a warning.
    Raises the first step's error; the others are warnings.
    """
    failures: list[KrunError] = []
    for step in (_end_init, _destroy_cgroup, _remove_resctrl, _detach_root):
        try:
            step(state, config, log)
        except KrunError as error:
            failures.append(error)
    if failures:
        for further in failures[1:]:
            log.warning(further.message)
        raise failures[0]
    report_last_words(statedir, log)
    statedir.destroy()
    poststop = (config.get("hooks") or {}).get("poststop")
    if hooks and poststop:
        # Cost: hardly any container has such a hook.
        from krun.oci.hooks import run_all

        for failure in run_all(poststop, "poststop", st.hook_state(state, st.STOPPED, 0)):
            log.warning(failure.message)


def report_last_words(statedir: st.StateDir, log: "Log") -> None:
    """Warns of monitors that ended by a fault of krun's or of the host's; with --debug also a line for each system call that was refused.
    Called when all processes have ended.

    The monitor's own line may be lost: the payload decides where its stderr leads.
    """
    for pid, line in board.last_words(f"{statedir.path}/{st.BOARD}"):
        log.warning(f"container {statedir.id}: the monitor of process {pid} ended: {line}")
    if log.debugging():
        for call in board.refused(board.counters(f"{statedir.path}/{st.BOARD}")):
            log.debug(
                f"container {statedir.id}: {call['call']} was refused ({call['errno']}): {call['reason']}"
            )


def _end_init(state: st.ContainerState, config: "dict[str, Any]", log: "Log") -> None:
    """Kills the init process and waits until it has ended (a zombie has). Raises KrunError after 10 s."""
    fd = open_init(state)
    if fd < 0:
        return
    try:
        signal_opened(fd, state, SIGKILL)
        thaw(state, log)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(_EXIT_WAIT_MS):
            raise KrunError(
                f"kill container {state.id}: init process {state.pid} is still running after 10 s"
            )
    finally:
        os.close(fd)


def _destroy_cgroup(state: st.ContainerState, config: "dict[str, Any]", log: "Log") -> None:
    if state.manager == "disabled":
        return
    if state.cgroup_paths:
        cgroup = own_cgroup(state, log, "delete", "stay")
        if cgroup is not None:
            cgroup.kill(SIGKILL)
            cgroup.destroy()
        return
    linux = config.get("linux") or {}
    if not linux or state.manager.startswith("systemd:"):
        return  # the unit was never started
    # create died before it wrote down where the cgroup is. The place follows from config.json, but somebody
    # else may live there, so nothing is killed: what is empty goes.
    from krun.oci.cgroup.group import Cgroup, locate

    try:
        Cgroup.load(locate(linux.get("cgroupsPath") or "", state.id), log).destroy(0.5)
    except KrunError as error:
        log.debug(f"delete {state.id}: {error.message}")


def _remove_resctrl(state: st.ContainerState, config: "dict[str, Any]", log: "Log") -> None:
    if state.intel_rdt_made:
        from krun.oci import resctrl

        resctrl.remove(state, log)


def _detach_root(state: st.ContainerState, config: "dict[str, Any]", log: "Log") -> None:
    if state.root_mount:
        from krun.oci.rootfs import detach_root

        detach_root(state.rootfs, state.root_mount)
