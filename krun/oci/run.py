"""`krun run`: create and start; in the foreground also waits, forwards signals, copies the terminal, and deletes."""

from krun.errors import KrunError
from krun.oci import caller, wake
from krun.oci.create import make, prefixed
from krun.oci.foreground import Foreground
from krun.sysio import PR_SET_CHILD_SUBREAPER, prctl, socketpair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options


def main(opts: "Options") -> int:
    """Runs a container. Returns 0 if detached, else the program's exit code or 128 + signal. Raises KrunError."""
    try:
        return _run(opts)
    except KrunError as e:
        raise prefixed("run", e) from None


def _run(opts: "Options") -> int:
    detach = bool(opts.detach)
    # Before krun opens descriptors of its own, which would pass for the caller's.
    keep = caller.seal_descriptors(opts.preserve_fds, opts.logger.fileno())
    front = None
    ours = theirs = -1
    if not detach and not opts.dry_run:
        if not opts.no_subreaper:
            # Orphans of the container that leave its pid namespace's init (--pid=host) come to us.
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        front = Foreground()
        if not opts.console_socket:
            ours, theirs = socketpair()
    try:
        container = make(opts, keep, detach, theirs, front)
        if container is None:
            return 0
        relay = wake.open_relay(container.statedir, caller.notify_socket(), opts.logger)
        wake.log_stages(container.start(), opts.logger)
    except KrunError:
        if front is not None:
            front.flush()
        raise
    launched = container.launched
    assert launched is not None
    if front is None:
        if relay is not None:
            relay.wait(launched.pidfd, launched.pid)
        return 0
    front.relay = relay
    terminal = bool(container.spec.process and container.spec.process.terminal)
    code = front.wait(launched.pid, launched.pidfd, ours if terminal else -1)
    if not opts.keep:
        container.destroy()
    return code
