"""krun pause and krun resume: the freezer."""

from krun.errors import KrunError
from krun.oci import state as st
from krun.oci.cgroup.group import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options


def pause(opts: "Options") -> int:
    """Stop all processes of container opts.id. Errors: NotFoundError, KrunError "container not running"."""
    statedir = st.StateDir(opts.root, opts.id)
    with statedir.lock():
        state = statedir.load()
        if st.status(state, statedir) not in (st.RUNNING, st.CREATED):
            raise KrunError("container not running")
        try:
            Cgroup.load(state.cgroup_paths, opts.logger, state.manager).freeze()
        except KrunError:
            if st.status(state, statedir) == st.STOPPED:  # its end was quicker
                raise KrunError("container not running") from None
            raise
    return 0


def resume(opts: "Options") -> int:
    """Let a paused container go on. Errors: NotFoundError, KrunError "container not paused"."""
    statedir = st.StateDir(opts.root, opts.id)
    with statedir.lock():
        state = statedir.load()
        if st.status(state, statedir) != st.PAUSED:
            raise KrunError("container not paused")
        Cgroup.load(state.cgroup_paths, opts.logger, state.manager).thaw()
    return 0
