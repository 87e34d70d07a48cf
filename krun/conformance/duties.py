"""THE table of documentation duties: what the contract wants an operator to write down, and the check that a page does.

The contract does not say how a document names a statement. The check wants, for each duty, a row of a table whose first cell is the
statement's number (Markdown), and in the row a text of its own: the number, a dash or "none" alone is no documentation.
"""

import os
import re
from collections.abc import Callable

from krun.conformance.facts import Absent, Facts, Verdict
from krun.conformance.rows import MAY, MUST, SHOULD, Row
from krun.errors import KrunError

_WORDS = 4  # the least text that says something


def _told(number: str) -> Callable[[Facts], Verdict]:
    def check(facts: Facts) -> Verdict:
        rows = facts["rows"].get(number)
        if not rows:
            raise Absent(f"no page has a row for {number}")
        page, text = max(rows, key=lambda row: len(row[1].split()))
        return Verdict(len(text.split()) >= _WORDS, f"{page}: {text[:120]}")

    return check


_DUTIES = (
    ("RC-03", SHOULD, SHOULD, "How long the local state of an instance lives."),
    ("RC-11", SHOULD, SHOULD, "The time between SIGTERM and SIGKILL."),
    ("RC-16", MUST, MUST, "Execution models beyond the OCI lifecycle, and how to opt in."),
    ("RC-18", SHOULD, SHOULD, "The space that failed instances take."),
    ("RC-40", MUST, MUST, "A proxy stands between client and instance."),
    ("RC-42", SHOULD, SHOULD, "The fields of a request that are dropped."),
    ("RC-46", SHOULD, SHOULD, "The fields of traces."),
    ("RC-58", MUST, MUST, "The metadata service, if there is one."),
    ("RC-62", SHOULD, SHOULD, "Whether instances can be reached other than by their service."),
    ("RC-67", MAY, MAY, "Variables of the environment beyond the contract's."),
    ("RC-70", SHOULD, SHOULD, "The user of a program whose manifest and image name none."),
    ("RC-78", SHOULD, SHOULD, "The mounts that the platform adds."),
    ("RC-83", MAY, MAY, "Whether the platform changes limits by itself."),
    ("RC-87", SHOULD, SHOULD, "The seccomp profile, and where it is chosen."),
)
#: The rows of --docs.
ROWS = tuple(Row(number, old, new, statement, _told(number)) for number, old, new, statement in _DUTIES)


def read(path: str) -> Facts:
    """Return the facts of a page, or of all pages (*.md) below a directory: number -> [(page, text)].

    Raises KrunError where nothing can be read.
    """
    rows: dict[str, list[tuple[str, str]]] = {}
    pages = [path]
    if os.path.isdir(path):
        pages = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(".md")
        )
    for page in pages:
        try:
            with open(page, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError as error:
            raise KrunError(f"read the page {page}: {error.strerror}") from None
        for line in lines:
            if found := re.match(r"\|\s*(RC-\d\d)\s*\|(.*)\|\s*$", line):
                # The last cell is the text: the others repeat the statement and its levels.
                text = found[2].rpartition("|")[2].strip()
                rows.setdefault(found[1], []).append((os.path.basename(page), text))
    return {"rows": rows}
