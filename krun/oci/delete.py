"""`krun delete`: takes a container down (oci/teardown.py)."""

from krun.oci.kill import chosen
from krun.oci.state import StateDir
from krun.oci.teardown import delete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options


def main(opts: "Options") -> int:
    """Removes container opts.id; with --force kills it first, and a container that is not there is no error.

    Raises NotFoundError, KrunError "cannot delete container ID that is not stopped: STATUS", SysError.
    """
    for id in chosen(opts.root, opts.id, opts.regex):
        delete(StateDir(opts.root, id), opts.force, opts.logger)
    return 0
