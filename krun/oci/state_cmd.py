"""krun state: print one container's state."""

import sys

from krun.jsonio import dumps
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(opts: "Any") -> int:
    """Print the state of container opts.id, indented by 2, without a final line end (as runc). Errors:
    NotFoundError.
    """
    statedir = st.StateDir(opts.root, opts.id)
    state = statedir.load()
    sys.stdout.write(dumps(st.oci_state(state, st.status(state, statedir)), 2))
    return 0
