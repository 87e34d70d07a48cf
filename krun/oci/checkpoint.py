"""krun checkpoint and krun restore: not implemented; both verbs say so."""

from krun.errors import KrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options

_WHY = "is not implemented yet (snapshots of the virtual machine will serve it)"


def checkpoint(opts: "Options") -> int:
    """Refuse. Errors: KrunError."""
    raise KrunError(f"checkpoint of container {opts.id} {_WHY}; it goes on running")


def restore(opts: "Options") -> int:
    """Refuse. Errors: KrunError."""
    raise KrunError(f"restore of container {opts.id} {_WHY}")
