"""Writes docs/syscalls.md from the one table, krun/native/table/syscalls.def.

Without arguments it writes the page; with --check it fails if the page is not what it would write.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE / "syscalls.def"
PAGE = HERE.parents[2] / "docs" / "syscalls.md"

ROW = re.compile(
    r"SYS\((?P<nr>\d+), (?P<name>\w+), (?P<how>FWD|OWN|NO\(\w+\)), (?P<attr>0|THREAD|BLOCK|BOTH)(?: \| TIMED)?, "
    r"(?P<local>NONE|FACT|ACTION|CHANGES|READ|QUEUE|FILE), "
    r'(?P<args>A0|A\(.*?\)), "(?P<note>(?:[^"\\]|\\.)*)"\)'
)
KIND = re.compile(r"(?P<kind>[A-Z]+)(?:\((?P<numbers>[\d, ]+)\))?")

#: Kind -> how the page shows it; {0} and {1} are the numbers in brackets.
WORDS = {
    "INT": "int",
    "UINT": "uint",
    "LONG": "long",
    "SIZE": "size",
    "FLAGS": "flags",
    "HEX": "long flags",
    "MODE": "mode",
    "PID": "pid",
    "ID": "id",
    "SIG": "signal",
    "CLK": "clock",
    "ADDR": "address",
    "ARG": "argument",
    "FD": "fd",
    "DFD": "dirfd",
    "NEWFD": "new fd",
    "PATH": "path",
    "STR": "string",
    "PTR": "pointer",
    "IN": "in[{0}]",
    "OUT": "out[{0}]",
    "IO": "inout[{0}]",
    "INV": "in[{1} × arg {0}]",
    "OUTV": "out[{1} × arg {0}]",
    "IOVEC": "iovec[arg {0}]",
    "MSGHDR": "msghdr",
    "MMSG": "mmsghdr[arg {0}]",
    "RANGE": "range[arg {0}]",
}

SERVED = {"FWD": "forwarded", "OWN": "own handler"}
ATTRIBUTES = {"0": "", "THREAD": "thread", "BLOCK": "may block", "BOTH": "thread, may block"}

HEAD = """# System calls

Written by `krun/native/table/gen_syscalls_doc.py` from `krun/native/table/syscalls.def`; do not edit.

All system calls of Linux x86-64 up to 6.18 (number {last}), one row each: {total} rows, {forwarded}
forwarded to the host's kernel, {own} with a handler of their own, {refused} refused on purpose. Any other
number is ENOSYS, counted, and logged once.

* **Forwarded**: the monitor makes the same call with the same arguments, once they are checked: a pointer
  must lie in the payload's window with its whole length, a descriptor must not be one of the monitor's.
* **Own handler**: structures that hold pointers or descriptors are copied once, checked and used from the
  copy; calls about memory, processes, signals and the payload's own /proc are served by the monitor.
* **Refused**: the errno that Linux gives where the call is not configured or not permitted; the note has
  the reason.

A bad pointer or hidden descriptor is replaced by one that the host's kernel refuses, so EFAULT and EBADF
come in Linux's own order.

In the arguments, `in[16]` is a pointer to 16 bytes that are read, `out[1 × arg 2]` one to as many bytes
as argument 2 (from 0) says that are written. *thread*: the result depends on which thread calls. *may
block*: a signal interrupts it as on Linux, and is never lost before it.

| no. | call | served | arguments | attributes | note |
| ---: | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Row:
    """One line of the table. `args` holds (kind, numbers)."""

    number: int
    name: str
    how: str
    attribute: str
    local: str
    args: tuple[tuple[str, tuple[int, ...]], ...]
    note: str


def parse(text: str) -> list[Row]:
    """The rows, in their order. ValueError names a line that is not understood."""
    rows = []
    for line in text.splitlines():
        if not line.startswith("SYS("):
            continue
        match = ROW.fullmatch(line)
        if not match:
            raise ValueError(f"not understood: {line}")
        args = []
        inner = "" if match["args"] == "A0" else match["args"][2:-1]
        for kind in KIND.finditer(inner):
            if kind["kind"] not in WORDS:
                raise ValueError(f"unknown kind {kind['kind']}: {line}")
            numbers = tuple(int(n) for n in re.findall(r"\d+", kind["numbers"] or ""))
            args.append((kind["kind"], numbers))
        rows.append(
            Row(
                int(match["nr"]),
                match["name"],
                match["how"],
                match["attr"],
                match["local"],
                tuple(args),
                match["note"],
            )
        )
    return rows


def page(rows: list[Row]) -> str:
    """The text of docs/syscalls.md."""
    kinds = Counter(row.how[:3] for row in rows)
    text = HEAD.format(
        last=rows[-1].number,
        total=len(rows),
        forwarded=kinds["FWD"],
        own=kinds["OWN"],
        refused=kinds["NO("],
    )
    for row in rows:
        served = SERVED.get(row.how) or f"refused: {row.how[3:-1]}"
        args = ", ".join(WORDS[kind].format(*numbers) for kind, numbers in row.args)
        cells = (str(row.number), row.name, served, args, ATTRIBUTES[row.attribute], row.note)
        text += f"| {' | '.join(cells)} |\n"
    return text


def main(argv: list[str]) -> int:
    """Writes the page, or compares it (--check). Returns the exit code."""
    text = page(parse(TABLE.read_text(encoding="utf-8")))
    if "--check" not in argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not current: run python3 {Path(__file__).name}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
