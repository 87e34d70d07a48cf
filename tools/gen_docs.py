"""gen_docs.py [--check]: write docs/cli.md, docs/spec-conformance.md, docs/knative.md, krun/kvm/refusals.py and krun/kvm/calls.py from the
tables that the code reads.

--check writes nothing and fails when a page is not what would be. docs/syscalls.md has a script of its own.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import docs_knative  # noqa: E402
from docs_knative import cell  # noqa: E402

from krun.cli import table, verbs  # noqa: E402
from krun.oci import fields  # noqa: E402

HEADER = "<!-- Written by tools/gen_docs.py from {source}. Change that, then run tools/gen_docs.py. -->\n"


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


def contract_page() -> str:
    """docs/knative.md."""
    return docs_knative.contract_page(HEADER)


def refusals_module() -> str:
    """krun/kvm/refusals.py."""
    source = (ROOT / "krun/native/table/syscalls.def").read_text()
    rows = re.findall(r'^SYS\((\d+), (\w+), NO\((\w+)\), .*, "(.*)"\)', source, re.M)
    lines = [
        '"""The system calls that the monitor refuses, and why.',
        "",
        "Written by tools/gen_docs.py from krun/native/table/syscalls.def: change that.",
        '"""',
        "",
        "#: Number: name, errno, reason.",
        "REFUSALS = {",
    ]
    for number, name, errno, note in rows:
        lines += [
            f"    {number}: (",
            f'        "{name}",',
            f'        "{errno}",',
            f'        "{note}",',
            "    ),",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def calls_module() -> str:
    """krun/kvm/calls.py."""
    source = (ROOT / "krun/native/table/syscalls.def").read_text()
    rows = re.findall(
        r"^SYS\((\d+), (\w+), (?:\w+|NO\(\w+\)), [\w |]+, (\w+), (A0|A\(.*\)), \"", source, re.M
    )
    lines = [
        '"""The system calls as `krun trace` and `krun debug` show them.',
        "",
        "Written by tools/gen_docs.py from krun/native/table/syscalls.def: change that, which says what the words mean.",
        '"""',
        "",
        "#: Number: name, the way in which the guest completes it, kinds of its arguments.",
        "CALLS = {",
    ]
    for number, name, way, kinds in rows:
        words = re.findall(r"\w+(?:\([^)]*\))?", kinds[2:-1]) if kinds != "A0" else []
        text = " ".join(word.replace(" ", "") for word in words)
        lines.append(f'    {number}: ("{name}", "{way}", "{text}"),')
    return "\n".join([*lines, "}"]) + "\n"


PAGES = {
    "krun/kvm/calls.py": calls_module,
    "krun/kvm/refusals.py": refusals_module,
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
