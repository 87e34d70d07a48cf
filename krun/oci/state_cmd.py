"""krun state: prints one container's state."""

import os

from krun.jsonio import dumps
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.options import Options


def main(opts: "Options") -> int:
    """Print the state of container opts.id, indented by 2, without a final line end (as runc). Errors:
    NotFoundError.
    """
    statedir = st.StateDir(opts.root, opts.id)
    state = statedir.load(anybody=True)
    # Not sys.stdout: the fast launcher makes no streams.
    text = dumps(st.oci_state(state, st.status(state, statedir)), 2).encode("utf-8", "surrogateescape")
    while text:
        text = text[os.write(1, text) :]
    return 0
