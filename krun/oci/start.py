"""`krun start`: lets the program of a created container run (oci/wake.py)."""

from krun.oci import caller, wake
from krun.oci.state import StateDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options


def main(opts: "Options") -> int:
    """Starts container opts.id. Raises what wake.start does."""
    wake.start(StateDir(opts.root, opts.id), caller.notify_socket(), opts.logger)
    return 0
