"""krun checkpoint and krun restore: not yet."""

from krun.errors import KrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHY = "is not implemented yet (snapshots of the virtual machine will serve it)"


def checkpoint(opts: "Any") -> int:
    """Refuse. Errors: KrunError."""
    raise KrunError(f"checkpoint of container {opts.id} {_WHY}; it goes on running")


def restore(opts: "Any") -> int:
    """Refuse. Errors: KrunError."""
    raise KrunError(f"restore of container {opts.id} {_WHY}")
