"""krun kill: sends a signal to a container's process, or to all of them."""

import _signal  # signal itself makes enums: 3 ms
import os
from _signal import SIGKILL

from krun.errors import KrunError, SysError
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.log import Log
    from krun.oci.cgroup.group import Cgroup

NOT_RUNNING = "container not running"  # containerd and CRI-O match these words


def main(opts: "Options") -> int:
    """Send opts.signal (default TERM) to container opts.id. Errors: NotFoundError, KrunError "container not
    running".
    """
    number = parse_signal(opts.signal or "TERM")
    for container_id in chosen(opts.root, opts.id, opts.regex):
        signal_container(st.StateDir(opts.root, container_id), number, opts.all, opts.logger)
    return 0


def parse_signal(text: str) -> int:
    """Return the number of a signal given as number, "TERM", "SIGTERM", "rtmin+3", in any case (signal(7)).

    Errors: KrunError.
    """
    if text.isascii() and text.isdigit():
        number = int(text)
        if number <= 64:
            return number
    name = text.upper()
    if not name.startswith("SIG"):
        name = "SIG" + name
    base, sign, offset = name.partition("+") if "+" in name else name.partition("-")
    # "SIG_BLOCK" and the like also live in the module.
    found = getattr(_signal, base, None) if "_" not in base else None
    if isinstance(found, int):
        if not sign:
            return int(found)
        if base in ("SIGRTMIN", "SIGRTMAX") and offset.isascii() and offset.isdigit():
            number = int(found) + (int(offset) if sign == "+" else -int(offset))
            if int(_signal.SIGRTMIN) <= number <= int(_signal.SIGRTMAX):
                return number
    raise KrunError(f'unknown signal "{text}", use a number up to 64 or a name such as TERM')


def chosen(root: str, container_id: str, regex: bool) -> "list[str]":
    """Return the ids meant: the id itself, or with crun's --regex every id that the expression matches
    somewhere.
    """
    if not regex:
        return [container_id]
    import re

    try:
        expression = re.compile(container_id)
    except re.error as error:
        raise KrunError(f"invalid regular expression {container_id!r}: {error}") from None
    return [name for name in st.ids(root) if expression.search(name)]


def signal_container(statedir: st.StateDir, number: int, everybody: bool, log: "Log") -> None:
    """Send one signal. Argument: everybody, to each process of the container; then "not running" is no error
    (runc). SIGKILL goes to each one also where no pid namespace of the container's own ends with its init (runc from 1.2 on).

    No lock is taken: kill must work while another krun hangs on this container.
    """
    state = statedir.load()
    sent = signal_init(state, number)
    if number == SIGKILL and state.cgroup_paths and state.namespaces.get("pid") != "":
        everybody = True
    if everybody and state.cgroup_paths:
        cgroup = own_cgroup(state, log, "kill", "get no signal")
        if cgroup is not None:
            cgroup.kill(number, gone=False)  # as runc: what becomes of them is not awaited
        return
    if not sent and not everybody:
        raise KrunError(NOT_RUNNING)
    if sent and number == SIGKILL:
        thaw(state, log)


def own_cgroup(state: st.ContainerState, log: "Log", verb: str, spared: str) -> "Cgroup | None":
    """Return the container's cgroup, None if another unit of systemd has got the name of its own.

    Arguments: verb and spared, for the warning: what is done to the container, and what the other unit's processes do instead.
    """
    from krun.oci.cgroup.group import Cgroup

    cgroup = Cgroup.load(state.cgroup_paths, log, state.manager)
    if not cgroup.foreign():
        return cgroup
    log.warning(f"{verb} {state.id}: another unit has the name of {state.manager}; its processes {spared}")
    return None


def thaw(state: st.ContainerState, log: "Log") -> None:
    """Thaw a container whose init was killed: a frozen process of cgroup v1 dies only then. Errors: KrunError, SysError."""
    frozen = st.frozen(state.cgroup_paths)
    if not frozen and not _has_groups_below(state.cgroup_paths):
        return
    from krun.oci.cgroup.group import Cgroup

    cgroup = Cgroup.load(state.cgroup_paths, log, state.manager)
    if frozen:
        cgroup.thaw()
    cgroup.release()


def _has_groups_below(cgroup_paths: "dict[str, str]") -> bool:
    """Return whether the container has groups of the v1 freezer below its own, which its payload may have frozen."""
    path = cgroup_paths.get("freezer")
    try:
        return bool(path) and os.stat(path or "").st_nlink > 2
    except OSError:
        return False


def open_init(state: st.ContainerState) -> int:
    """Return a pidfd of the init process, -1 when it has ended.

    The start time is compared after the pidfd is open: from then on the number cannot be given to another
    process.
    """
    if state.pid <= 0:
        return -1
    fd = st.open_process(state.pid)
    if fd >= 0 and not st.alive(state):
        os.close(fd)
        return -1
    return fd


def signal_init(state: st.ContainerState, number: int) -> bool:
    """Send a signal to the init process, never to another that got its pid. Returns whether it was there."""
    fd = open_init(state)
    if fd < 0:
        return False
    try:
        return signal_opened(fd, state, number)
    finally:
        os.close(fd)


def signal_opened(fd: int, state: st.ContainerState, number: int) -> bool:
    """Send a signal to the init process, whose pidfd `open_init` has given. Returns whether it was there."""
    try:
        _signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise SysError.of(f"send signal {number} to", error, f"pid {state.pid}") from None
    return True
