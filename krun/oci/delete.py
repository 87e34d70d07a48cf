"""krun delete: undo create. Works from whatever a killed create, start, exec or delete left behind."""

import os
import select

from krun import log
from krun.errors import KrunError, NotFoundError
from krun.oci import state as st
from krun.oci.kill import SIGKILL, chosen, open_init, signal_init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EXIT_WAIT_MS = 10_000  # runc waits 100 times 100 ms
_LOCK_WAIT_S = 10.0


def main(opts: "Any") -> int:
    """Remove container opts.id; with --force kill it first, and a container that is not there is no error.

    Errors: NotFoundError, KrunError "cannot delete container ID that is not stopped: STATUS", SysError.
    """
    for container_id in chosen(opts.root, opts.id, opts.regex):
        delete(st.StateDir(opts.root, container_id), opts.force)
    return 0


def delete(statedir: st.StateDir, force: bool) -> None:
    """Remove one container. Precondition: the caller does not hold its lock."""
    try:
        if force:
            _kill_before_lock(statedir)
        with statedir.lock(_LOCK_WAIT_S):
            _delete_locked(statedir, force)
    except NotFoundError:
        if not force:
            raise


def _kill_before_lock(statedir: st.StateDir) -> None:
    """A create or start that hangs holds the lock: the death of its container's process lets it fail and go
    away.
    """
    try:
        state = statedir.load()
    except KrunError:
        return
    signal_init(state, SIGKILL)


def _delete_locked(statedir: st.StateDir, force: bool) -> None:
    try:
        state = statedir.load()
    except KrunError as error:
        # state.json is missing or damaged: create was killed before it wrote it, or the disk was full.
        if not force and not isinstance(error, NotFoundError):
            raise
        log.debug(f"delete {statedir.id}: {error.message}")
        state = st.ContainerState(id=statedir.id)
    status = st.status(state, statedir)
    # The lock is ours, so nobody is creating it any more: what reads as "creating" was left by a dead create.
    if status in (st.RUNNING, st.PAUSED) and not force:
        raise KrunError(f"cannot delete container {statedir.id} that is not stopped: {status}")
    config = _config(statedir, state)
    if status not in (st.STOPPED, st.CREATING):
        _kill_init(state, status == st.PAUSED)
    destroy(statedir, state, config)


def destroy(
    statedir: st.StateDir, state: st.ContainerState, config: "dict[str, Any]", hooks: bool = True
) -> None:
    """Remove cgroup, resctrl group and state directory, then run the poststop hooks (runtime.md, lifecycle 12
    and 13).

    Arguments: config, the private copy; hooks, whether to run them. Precondition: the init process has ended.
    Also the way back of a create that failed. Errors: SysError for what cannot be removed; the state stays
    then, so that delete can be called again. A failing poststop hook is only a warning.
    """
    _destroy_cgroup(state, config)
    if state.intel_rdt_made:
        from krun.oci import resctrl

        resctrl.remove(state)
    if state.root_mount:
        from krun.oci.rootfs import detach_root

        detach_root(state.rootfs, state.root_mount)
    statedir.destroy()
    poststop = (config.get("hooks") or {}).get("poststop")
    if hooks and poststop:
        from krun.oci.hooks import run_all

        for failure in run_all(poststop, "poststop", st.hook_state(state, st.STOPPED, 0)):
            log.warning(failure.message)


def _config(statedir: st.StateDir, state: st.ContainerState) -> "dict[str, Any]":
    try:
        return statedir.load_config(state)
    except KrunError as error:
        log.debug(f"delete {statedir.id}: {error.message}")
        return {}


def _destroy_cgroup(state: st.ContainerState, config: "dict[str, Any]") -> None:
    if state.manager == "disabled":
        return
    if state.cgroup_paths:
        from krun.oci.cgroup.group import Cgroup

        cgroup = Cgroup.load(state.cgroup_paths, state.manager)
        cgroup.kill(SIGKILL)
        cgroup.destroy()
        return
    linux = config.get("linux") or {}
    if not linux:
        return
    # create died before it wrote down where the cgroup is. The place follows from config.json, but somebody
    # else may live there, so nothing is killed: what is empty goes.
    from krun.oci.cgroup.group import Cgroup, locate

    try:
        Cgroup.load(locate(linux.get("cgroupsPath") or "", state.id), "cgroupfs").destroy(0.5)
    except KrunError as error:
        log.debug(f"delete {state.id}: {error.message}")


def _kill_init(state: st.ContainerState, paused: bool) -> None:
    """Kill the init process and wait until it has ended (a zombie has). Errors: KrunError after 10 s."""
    fd = open_init(state)
    if fd < 0:
        return
    try:
        signal_init(state, SIGKILL)
        if paused or st.frozen(state.cgroup_paths):
            from krun.oci.cgroup.group import Cgroup

            Cgroup.load(state.cgroup_paths, state.manager).thaw()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(_EXIT_WAIT_MS):
            raise KrunError(
                f"kill container {state.id}: init process {state.pid} is still running after 10 s"
            )
    finally:
        os.close(fd)
