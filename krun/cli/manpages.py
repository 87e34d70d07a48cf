"""Writes the manual pages from cli.table (tools/gen_docs.py writes docs/cli.md from the same table)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import krun
from krun.cli.table import GLOBALS
from krun.cli.verbs import VERBS
from krun.errors import SysError

if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.cli.table import Flag, Verb

_VALUE = {"int": "N", "str": "VALUE", "list": "VALUE"}


def main(opts: Options) -> int:
    """Write krun.8 and one krun-VERB.8 per verb into opts.directory, or krun.8 to standard output. Errors:
    SysError.
    """
    if not opts.directory:
        sys.stdout.write(overview())
        return 0
    pages = {"krun.8": overview(), **{f"krun-{row.name}.8": page(row) for row in VERBS}}
    try:
        os.makedirs(opts.directory, exist_ok=True)
        for name, text in pages.items():
            with open(os.path.join(opts.directory, name), "w") as file:
                file.write(text)
    except OSError as error:
        raise SysError.of("write manual page", error, opts.directory) from None
    return 0


def shown(flags: tuple[Flag, ...]) -> list[Flag]:
    """Return the flags that help and manuals show."""
    return [flag for flag in flags if not flag.dialect.startswith("hidden")]


def synopsis(row: Verb) -> str:
    """Return "krun VERB [flags] ID [SIGNAL]"."""
    words = [f"krun {row.name}"]
    if row.flags:
        words.append("[flags]")
    for name, how in row.words:
        word = name.upper()
        words.append(f"[{word}]" if how == "opt" else f"[{word}...]" if how == "rest" else word)
    return " ".join(words)


def flag_words(flag: Flag) -> str:
    """Return "--bundle, -b VALUE"."""
    names = ", ".join(("--" if len(name) > 1 else "-") + name for name in flag.names)
    return names if flag.kind == "bool" else f"{names} {_VALUE[flag.kind]}"


def note(flag: Flag) -> str:
    """Return what a flag does, with where it comes from if only one of runc and crun has it, and that it
    repeats.
    """
    text = flag.help
    if flag.kind == "list":
        text += " (may be given several times)"
    if flag.dialect != "both":
        text += f" [{flag.dialect}]"
    return text


def capital(text: str) -> str:
    """Return a row's help as the start of a sentence."""
    return text[:1].upper() + text[1:]


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def _head(name: str, summary: str) -> list[str]:
    # No date: the page must be the same for the same source.
    return [
        f'.TH {name.upper()} 8 "" "krun {krun.__version__}" "System Administration"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(summary)}",
    ]


def _flag_lines(flags: list[Flag]) -> list[str]:
    lines = []
    for flag in flags:
        lines += [".TP", f"\\fB{_roff(flag_words(flag))}\\fR", _roff(note(flag))]
    return lines


def overview() -> str:
    """Return krun(8)."""
    lines = _head("krun", "OCI runtime whose payloads run in KVM virtual machines")
    lines += [".SH SYNOPSIS", "\\fBkrun\\fR [global flags] VERB [flags] [arguments]"]
    lines.append(".SH DESCRIPTION")
    lines.append(
        "krun takes the commands and flags of runc(8) and, where engines use them, of crun(1). "
        + _roff("Flags are written --flag VALUE, --flag=VALUE or with one dash.")
    )
    lines.append(".SH GLOBAL FLAGS")
    lines += _flag_lines(shown(GLOBALS))
    lines.append(".SH VERBS")
    for row in VERBS:
        lines += [
            ".TP",
            f"\\fB{_roff(row.name)}\\fR",
            f"{_roff(row.help)}. See \\fBkrun\\-{_roff(row.name)}\\fR(8).",
        ]
    lines += [
        ".SH EXIT STATUS",
        "0 on success, 1 on an error, 3 for an unknown verb; run and exec end with the status of the program, "
        "128 + n when signal n ended it; exec ends with 255 when the program could not be started.",
        ".SH FILES",
        ".TP",
        "/run/krun",
        "state of the containers ($XDG_RUNTIME_DIR/krun for a user)",
        ".SH SEE ALSO",
        "runc(8), podman(1), dockerd(8), containerd(8)",
    ]
    return "\n".join(lines) + "\n"


def page(row: Verb) -> str:
    """Return krun-VERB(8)."""
    lines = _head(f"krun-{row.name}", row.help)
    lines += [
        ".SH SYNOPSIS",
        f"\\fB{_roff(synopsis(row))}\\fR",
        ".SH DESCRIPTION",
        _roff(capital(row.help)) + ".",
    ]
    if row.flags:
        lines.append(".SH FLAGS")
        lines += _flag_lines(shown(row.flags))
    lines += [".SH SEE ALSO", "\\fBkrun\\fR(8)"]
    return "\n".join(lines) + "\n"
