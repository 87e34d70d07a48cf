"""krun list: prints the containers of one root."""

import os
import sys

from krun.errors import KrunError, NotFoundError, UsageError, one_line
from krun.jsonio import dumps
from krun.oci import state as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options
    from krun.log import Log

_COLUMNS = ("id", "pid", "status", "bundle", "created", "owner")


def main(opts: "Options") -> int:
    """Print the containers under opts.root as a table, as JSON (`null` for none, as runc) or, quiet, as ids.

    Errors: UsageError for a format that is none.
    """
    if opts.format not in (None, "", "table", "json"):
        raise UsageError(f"invalid format option: {opts.format}")
    found = containers(opts.root, opts.logger)
    if opts.quiet:
        sys.stdout.write("".join(f"{entry['id']}\n" for entry in found))
    elif opts.format == "json":
        sys.stdout.write((dumps(found) if found else "null") + "\n")
    else:
        sys.stdout.write(table([[str(entry[key]) for key in _COLUMNS] for entry in found]))
    return 0


def containers(root: str, log: "Log") -> "list[dict[str, Any]]":
    """Return the states of all containers with their owners; one that cannot be read is a warning, as it may
    just go.
    """
    found = []
    for name in st.ids(root):
        statedir = st.StateDir(root, name)
        try:
            state = statedir.load(anybody=True)
            owner = _user(os.stat(statedir.path).st_uid)
            found.append(st.oci_state(state, st.status(state, statedir), owner))
        except (NotFoundError, FileNotFoundError):
            continue
        except KrunError as error:
            log.warning(f"load container {name}: {error.message}")
    return found


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


def table(rows: "list[list[str]]") -> str:
    """Return rows in columns with runc's header (Go's tabwriter with width 12, padding 3). Control characters are shown as text: the
    words may be another user's."""
    shown = [[cell if cell.isprintable() else one_line(cell) for cell in row] for row in rows]
    lines = [[name.upper() for name in _COLUMNS], *shown]
    widths = [max(12, *(len(line[i]) + 3 for line in lines)) for i in range(len(_COLUMNS) - 1)]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)) + line[-1] + "\n"
        for line in lines
    )
