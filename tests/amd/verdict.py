"""What a leg of the emulated machine showed, against the differences that are explained (explained.txt)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

EXPLAINED = Path(__file__).with_name("explained.txt")
LEGS = ("npt=1", "npt=0")


@dataclasses.dataclass
class Verdict:
    """The outcome of one corpus run."""

    equal: list[str]
    explained: dict[str, str]  # that differ, and why they may
    unexplained: dict[str, str]  # that differ, and what the run printed about it
    missing: list[str]  # that did not run
    mended: list[str]  # explained as differing always, but equal here

    @property
    def passed(self) -> bool:
        return not (self.unexplained or self.missing or self.mended) and bool(self.equal)

    def text(self) -> str:
        """The summary: one line of counts, then each that needs to be looked at."""
        lines = [
            f"{len(self.equal)} equal, {len(self.explained)} differ with a reason, "
            f"{len(self.unexplained)} differ without, {len(self.missing)} did not run"
        ]
        lines += [f"  explained {name}: {reason}" for name, reason in self.explained.items()]
        lines += [f"  UNEXPLAINED {name}:\n{why}" for name, why in self.unexplained.items()]
        lines += [f"  DID NOT RUN {name}" for name in self.missing]
        lines += [f"  EQUAL, but explained.txt says it differs: {name}" for name in self.mended]
        return "\n".join(lines)


def read_explained(leg: str, path: Path = EXPLAINED) -> dict[str, tuple[bool, str]]:
    """The programs that may differ in a leg: name to (always or only sometimes, reason).

    Rows are `LEG WHEN PROGRAM REASON`; LEG is npt=1, npt=0 or both, WHEN is always or sometimes. Errors: ValueError for
    another row, or a program named twice.
    """
    found: dict[str, tuple[bool, str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        row = re.fullmatch(r"(npt=1|npt=0|both)\s+(always|sometimes)\s+(\S+)\s+(\S.*)", line)
        if not row:
            raise ValueError(f"{path.name}:{number}: not `LEG WHEN PROGRAM REASON`")
        if row[1] in (leg, "both"):
            if row[3] in found:
                raise ValueError(f"{path.name}:{number}: {row[3]} a second time")
            found[row[3]] = (row[2] == "always", row[4])
    return found


def judge(log: str, programs: list[str], explained: dict[str, tuple[bool, str]]) -> Verdict:
    """Read what run.sh printed ("ok NAME", or "FAIL NAME" and the indented difference)."""
    equal: list[str] = []
    different: dict[str, str] = {}
    name = ""
    for line in log.splitlines():
        row = re.fullmatch(r"(ok|FAIL) (\S+)", line)
        if row and row[1] == "ok":
            equal.append(row[2])
            name = ""
        elif row:
            name = row[2]
            different[name] = ""
        elif name and not line.startswith("corpus: "):
            different[name] += line + "\n"
    seen = {*equal, *different}
    return Verdict(
        equal,
        {n: explained[n][1] for n in different if n in explained},
        {n: why for n, why in different.items() if n not in explained},
        [n for n in programs if n not in seen],
        [n for n in equal if n in explained and explained[n][0]],
    )
