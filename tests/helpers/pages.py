"""The commands of a page (docs/getting-started.md), run as a reader gives them: one shell, one line after the other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = ROOT / "docs" / "getting-started.md"
CHINESE = ROOT / "docs" / "zh" / "getting-started.md"


class Command(NamedTuple):
    """A line of a block; `output` is what its comment says that it prints, "" where it has none."""

    section: int
    text: str
    output: str


def sections(page: Path) -> list[str]:
    """Returns the headings of the second level."""
    return re.findall(r"^## (.+)$", without_blocks(page.read_text()), flags=re.M)


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def commands(page: Path) -> list[Command]:
    """Returns the commands of all blocks, with the number of the section that they stand in."""
    found: list[Command] = []
    section, inside = -1, False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside:
            text, _, output = line.partition(" # ")
            found.append(Command(section, text, output))
        elif line.startswith("## "):
            section += 1
    return found


def script(chosen: list[Command], results: str) -> str:
    """Returns a bash script: output and errors of command N go to N.out and N.err in `results`; the first failure ends it.

    The server of the page is ended whatever happens.
    """
    lines = [
        "set -u",
        f"cd {results!r}/.. && results=$PWD/{Path(results).name} && cd - >/dev/null",
        "trap 'kill -INT %1 2>/dev/null; wait' EXIT",
    ]
    for number, command in enumerate(chosen):
        lines += [
            f"{{ {command.text}",
            f'}} >"$results/{number}.out" 2>"$results/{number}.err" || exit {min(number + 1, 99)}',
        ]
    return "\n".join([*lines, 'touch "$results/done"']) + "\n"


def check(chosen: list[Command], results: Path, done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns what is wrong: the command that failed with its words, and outputs that are not the page's."""
    wrong = []
    last = max((int(path.stem) for path in results.glob("*.out")), default=-1)
    if not (results / "done").exists():
        command = chosen[last].text if last >= 0 else "the shell"
        told = (
            (results / f"{last}.out").read_text()[-1500:] + (results / f"{last}.err").read_text()[-3000:]
            if last >= 0
            else ""
        )
        wrong.append(f"{command}: status {done.returncode}\n{told}{done.stdout}{done.stderr}")
    for number, command in enumerate(chosen[: last + 1]):
        got = (results / f"{number}.out").read_text().strip()
        if command.output and got != command.output:
            wrong.append(f"{command.text}: {got!r} instead of {command.output!r}")
    return wrong
