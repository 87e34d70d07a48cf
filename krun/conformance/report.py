"""Results of rows, and how they are shown: a table, JSON, JUnit's XML."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from krun.conformance.facts import Absent, Facts, shown
from krun.conformance.rows import BINDING, ROWS, Row

PASS, FAIL, NOT_APPLICABLE = "PASS", "FAIL", "N-A"


class Result(NamedTuple):
    """A row's result. Fields: row; its level in the profile; PASS, FAIL or N-A; what was seen."""

    row: Row
    level: str
    status: str
    seen: str

    @property
    def binds(self) -> bool:
        """Whether a failure makes the runtime fail."""
        return self.level in BINDING


def judge(facts: Facts, profile: str, rows: Iterable[Row] = ROWS) -> list[Result]:
    """Return the results of a profile's rows. Arguments: facts of a drive.run; profile, "2019" or "current"."""
    results = []
    for row in rows:
        level = row.level(profile)
        if level is None:
            continue
        try:
            ok, seen = row.check(facts)
        except Absent as absent:
            ok, seen = False, str(absent)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            # The facts hold what a runtime, its container or a platform has sent: it may have any shape.
            ok, seen = False, f"the answer has not the form that is due: {type(error).__name__}: {error}"
        status = NOT_APPLICABLE if ok is None else PASS if ok else FAIL
        results.append(Result(row, level, status, shown(seen)))
    return results


def exit_code(results: list[Result]) -> int:
    """Return 1 if a binding row fails, else 0."""
    return int(any(result.status == FAIL and result.binds for result in results))


def summary(results: list[Result]) -> dict[str, int]:
    """Return the number of results of each status."""
    return {name: sum(r.status == name for r in results) for name in (PASS, FAIL, NOT_APPLICABLE)}


def table(results: list[Result], runtime: str, profile: str) -> str:
    """Return lines for a terminal, and a last one with the sums."""
    lines = [f"{'ROW':6} {'LEVEL':10} {'RESULT':6} SEEN"]
    lines += [f"{r.row.number:6} {r.level:10} {r.status:6} {r.seen}" for r in results]
    sums = ", ".join(f"{number} {name}" for name, number in summary(results).items())
    lines.append(f"{runtime}, profile {profile}: {sums}")
    return "\n".join(lines) + "\n"


def as_json(results: list[Result], runtime: str, profile: str) -> str:
    """Return one object: runtime, profile, summary, rows."""
    rows: list[dict[str, Any]] = [
        {
            "number": r.row.number,
            "level": r.level,
            "statement": r.row.statement,
            "result": r.status,
            "seen": r.seen,
        }
        for r in results
    ]
    whole = {"runtime": runtime, "profile": profile, "summary": summary(results), "rows": rows}
    return json.dumps(whole, indent=2) + "\n"


def junit(results: list[Result], runtime: str, profile: str) -> str:
    """Return a suite of JUnit's XML: a test for each row. A row that does not bind and fails is an error of the test, too."""
    from xml.sax.saxutils import quoteattr

    sums = summary(results)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={quoteattr(f"krun conformance {profile} {runtime}")} tests="{len(results)}"'
        f' failures="{sums[FAIL]}" skipped="{sums[NOT_APPLICABLE]}">',
    ]
    for r in results:
        lines.append(
            f"  <testcase classname={quoteattr(f'conformance.{profile}')} name={quoteattr(f'{r.row.number} {r.level}: {r.row.statement}')}>"
        )
        tag = {FAIL: "failure", NOT_APPLICABLE: "skipped"}.get(r.status)
        seen = quoteattr(r.seen)
        lines += (
            [f"    <{tag} message={seen}/>"]
            if tag
            else [f'    <properties><property name="seen" value={seen}/></properties>']
        )
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"
