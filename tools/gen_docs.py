"""gen_docs.py [--check]: write docs/cli.md, docs/spec-conformance.md and docs/knative.md from the tables that the code reads.

--check writes nothing and fails when a page is not what would be. docs/syscalls.md has a script of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from krun.cli import table, verbs  # noqa: E402
from krun.conformance import report, rows  # noqa: E402
from krun.oci import fields  # noqa: E402

HEADER = "<!-- Written by tools/gen_docs.py from {source}. Change that, then run tools/gen_docs.py. -->\n"


def cell(text: str) -> str:
    """Text for a table cell."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def flag_rows(flags: tuple[table.Flag, ...]) -> list[str]:
    rows = []
    for flag in flags:
        if flag.dialect.startswith("hidden"):
            continue
        shown = ", ".join(f"`{'--' if len(n) > 1 else '-'}{n}`" for n in flag.names)
        value = {"bool": "", "list": "value, may be repeated", "int": "number", "str": "value"}[flag.kind]
        only = "" if flag.dialect == "both" else flag.dialect
        rows.append(f"| {shown} | {value} | {cell(flag.help)} | {only} |")
    return rows


def cli_page() -> str:
    """docs/cli.md."""
    lines = [HEADER.format(source="krun/cli/table.py and krun/cli/verbs.py"), "# The command line", ""]
    lines += [
        "`krun [global flags] VERB [flags] [operands]`. The flags of runc and, for its callers, crun.",
        "",
    ]
    head = ["| flag | takes | what it does | only in the manner of |", "| --- | --- | --- | --- |"]
    lines += ["## Global flags", "", *head, *flag_rows(table.GLOBALS), ""]
    marks = {"one": "{}", "one.": "{}", "opt": "[{}]", "rest": "[{}...]"}
    for row in verbs.VERBS:
        name, flags, text, hot = row.name, row.flags, row.help, row.hot
        words = " ".join(marks[how].format(operand.upper()) for operand, how in row.words)
        lines += [
            f"## {name}",
            "",
            f"`krun {name}{' [flags]' if flags else ''}{' ' + words if words else ''}`",
            "",
        ]
        lines += [f"{text[0].upper()}{text[1:]}.{' Served by the fast matcher.' if hot else ''}", ""]
        if flags:
            lines += [*head, *flag_rows(flags), ""]
    return "\n".join(lines).rstrip() + "\n"


def conformance_page() -> str:
    """docs/spec-conformance.md."""
    rows = [(pointer, row) for pointer, row in fields.FIELDS.items()]
    count = {
        level: sum(row.level == level for _, row in rows)
        for level in (fields.SERVED, fields.REFUSED, fields.IGNORED)
    }
    lines = [HEADER.format(source="krun/oci/fields.py"), "# Conformance to the runtime specification", ""]
    lines += [
        f"Every field of config.json for Linux (runtime-spec 1.3): {count[fields.SERVED]} served,"
        f" {count[fields.REFUSED]} refused (any value but an empty one is an error that names the field),"
        f" {count[fields.IGNORED]} ignored by rule. Keys that are not listed are unknown and ignored.",
        "",
        "| field | type | level | served by | note |",
        "| --- | --- | --- | --- | --- |",
    ]
    for pointer, row in rows:
        by = f"`{row.step}`" if row.step else ""
        lines.append(f"| `{pointer}` | {row.type} | {row.level} | {by} | {cell(row.note)} |")
    return "\n".join(lines) + "\n"


CONTRACT = """# Knative's runtime contract

`krun conformance --runtime PATH` checks the rows of the contract that bind an OCI runtime, on any runtime with runc's command
line, as root. It runs a few containers as `krun serve` makes them; their program is a static probe (`krun/conformance/probe.c`).

* `--profile 2019` takes the text of knative/serving release-0.5, `--profile current` (the default) the one of knative/specs
  (`specs/serving/runtime-contract.md`). A row that only one text has, or that has another level there, shows it below.
* `--format table` is for people, `json` and `junit` are for programs. Each row has its number, level, result and what was seen.
* The command ends with 1 if a row of level MUST, MUST NOT or OCI fails. OCI marks statements that the contract takes from the
  runtime specification. SHOULD and MAY rows do not change the exit code: a MAY row that fails says what the
  runtime does not offer. N-A: the contract leaves the matter open (RC-07).
* RC-10 and RC-26 are MUST in `current` because the discussion of the contract (knative/serving, pull request 4035) ended so;
  the text does not say it.
* Rows that need the platform's share (PORT, the files below /etc, /dev/log) get it from the bundle:
  the row says whether the runtime passes it on.

Rows that bind the platform, its documentation or the developer are not checked, and have no row here: probes, scaling, headers,
validation of the API. Not yet shown on a runtime: the rows of control groups v2 (the containers of the recorded runs have v1).

## Rows and results

The last columns are results of the profile `current` (2019 where only that text has the row), recorded with
`tools/record_conformance.py` on the development machine, which has hybrid control groups. crun 1.8.1 needs a machine or a mount
namespace without /sys/fs/cgroup/unified.
"""
RUNTIMES = ("runc", "crun", "krun")


def contract_page() -> str:
    """docs/knative.md: the rows, and the recorded facts of three runtimes judged by today's checks."""
    results: dict[str, dict[str, str]] = {}
    for name in RUNTIMES:
        facts = json.loads((ROOT / "tests" / "unit" / "data" / "conformance" / f"{name}.json").read_text())
        results[name] = {r.row.number: r.status for p in rows.PROFILES for r in report.judge(facts, p)}
    lines = [HEADER.format(source="krun/conformance/rows.py and tests/unit/data/conformance"), CONTRACT]
    lines += [
        f"| row | 2019 | current | statement | {' | '.join(RUNTIMES)} |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows.ROWS:
        cells = [row.number, row.level_2019 or "", row.level_current or "", cell(row.statement)]
        cells += [results[name][row.number] for name in RUNTIMES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


PAGES = {
    "docs/cli.md": cli_page,
    "docs/spec-conformance.md": conformance_page,
    "docs/knative.md": contract_page,
}


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
            print(f"wrote {name}")
    if stale and "--check" in sys.argv:
        print(f"not current: {', '.join(stale)}; run tools/gen_docs.py")
        return 1
    return 0


sys.exit(main())
