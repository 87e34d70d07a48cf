"""The `console` blocks of a page: commands after "$ ", then what they print, as a reader sees it on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One command of a block and the output that the page shows for it."""

    command: str
    output: str


def steps(page: Path) -> list[Step]:
    """Returns the commands of all `console` blocks of the page, in their order.

    A line of a block that does not begin with "$ " belongs to the output of the command above it.
    """
    found: list[Step] = []
    inside = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Step(line[2:], ""))
        elif inside:
            found[-1] = found[-1]._replace(output=found[-1].output + line + "\n")
    return found
