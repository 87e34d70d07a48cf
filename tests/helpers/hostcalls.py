"""What the sources of the monitor say about the host's system calls: which function makes which, and what a payload's call reaches.

A C function counts as making every call that its body names (`__NR_x`, `NR_X`, or a number as first argument of a `kr_sysN`), but for
names in `case` labels and in comparisons; a call whose number is a parameter is named by whoever passes it. A function reaches what the
functions reach that its body mentions.
"""

import re
from pathlib import Path
from typing import NamedTuple

from krun.native.build_native import MONITOR_FOLDERS

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "krun" / "native"


class Function(NamedTuple):
    """One C function: its file, the calls that it names, the identifiers in its body."""

    file: str
    calls: frozenset[str]
    words: frozenset[str]


def rows() -> dict[int, tuple[str, str]]:
    """The table of system calls: number -> (name, FWD, OWN or NO(E))."""
    text = (NATIVE / "table" / "syscalls.def").read_text()
    return {int(n): (name, how) for n, name, how in re.findall(r"^SYS\((\d+), (\w+), ([A-Z]+)", text, re.M)}


def _plain(text: str) -> str:
    """Without comments and without the contents of strings."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def _rows_of(path: Path, macro: str) -> list[list[str]]:
    """The arguments of each row of a table (`MACRO(a, f(b, c), ...)`); a comma inside parentheses or a string parts none."""
    text = _plain(path.read_text())
    found = []
    for match in re.finditer(rf"^{macro}\(", text, re.M):
        depth, begin, row = 1, match.end(), []
        for place in range(match.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0 or (depth == 1 and text[place] == ","):
                row.append(text[begin:place].strip())
                begin = place + 1
            if depth == 0:
                break
        found.append(row)
    return found


def _expanded(path: Path, text: str) -> str:
    """The text with each walk of a table written out: `#define MACRO(columns) what`, then `#include "table.def"`."""

    def walk(match: re.Match[str]) -> str:
        macro, columns, what, table = match.groups()
        names = [name.strip() for name in columns.split(",")]
        rows = _rows_of(path.parent / table, macro)
        assert rows and all(len(row) == len(names) for row in rows), f"{table}: rows of {macro}"
        used = [number for number, name in enumerate(names) if re.search(rf"\b{name}\b", what)]
        return " ".join(row[number] for row in rows for number in used) + "\n"

    pattern = r'^#define (\w+)\(([^)]*)\)((?:.*\\\n)*.*)\n#include "(\w+\.def)"\n'
    return re.sub(pattern, walk, text, flags=re.M)


def _bodies(text: str) -> list[tuple[str, str]]:
    """(name, body) of each function of a file laid out by clang-format: it ends with a brace in the first column, or on its own line."""
    found = []
    for match in re.finditer(r"^(?:[A-Za-z_].*[ *(])?(\w+)\((?:[^;{}]|\n)*?\) \{", text, re.M):
        if match.group(0).startswith((" ", "#")) or match.group(1) in ("if", "for", "while", "switch"):
            continue
        line_end = text.find("\n", match.end())
        rest = text[match.end() : line_end]
        end = line_end if rest.endswith("}") else text.find("\n}", match.end())
        found.append((match.group(1), text[match.start() : end]))
    return found


def _named(body: str, numbers: dict[int, str], defines: dict[str, str]) -> set[str]:
    body = re.sub(r"case __NR_\w+", "", body)
    body = re.sub(r"[=!]= __NR_\w+", "", body)
    calls = set(re.findall(r"__NR_([a-z]\w*)", body))
    calls |= {numbers[int(n)] for n in re.findall(r"kr_(?:sys[0-6]|call_intr|forward)\(\(?(\d+)", body)}
    calls |= {defines[n] for n in re.findall(r"\bNR_[A-Z]\w*", body) if n in defines}
    return calls


def functions() -> dict[str, Function]:
    """Every function and every call-making macro of the monitor by name (FILE:NAME for static ones); assembly that loads a call's number counts as a function of
    its file's name."""
    numbers = {n: name for n, (name, _) in rows().items()}
    by_name = {name: n for n, name in numbers.items()}
    sources = [
        p for d in MONITOR_FOLDERS for p in sorted((NATIVE / d).iterdir()) if p.suffix in (".c", ".h", ".S")
    ]
    texts = {p: p.read_text() for p in sources}
    defines = {
        name: numbers[int(n)]
        for text in texts.values()
        for name, n in re.findall(r"#define (NR_[A-Z]\w*) (\d+)", text)
    }
    made: dict[str, Function] = {}
    for path, raw in texts.items():
        text = _plain(_expanded(path, raw) if path.name == "state.c" else raw)
        pieces = _bodies(text)
        pieces += [
            (name, body) for name, body in re.findall(r"^#define (\w+)\(.*?\) (.*__NR_.*)$", text, re.M)
        ]
        pieces += [
            (f"sys_{name}", f"vectored __NR_{name}") for name in re.findall(r"^VECTORED\((\w+)\)", text, re.M)
        ]
        for name, body in pieces:
            calls = _named(body, numbers, defines)
            own = by_name.get(name.removeprefix("sys_")) if name.startswith("sys_") else None
            if own is not None and re.search(
                rf"\({own},|, {own},", body
            ):  # the handler hands its own number on
                calls.add(numbers[own])
            words = set(re.findall(r"\w+", body)) - {name}
            # What is static in a .c file is that file's own: another one may have the name, too.
            local = path.suffix == ".c" and re.match(r"(?:__\w+ )?(?:\w+\(\(\w+\)\) )?static\b", body)
            key = f"{path.name}:{name}" if local else name
            if key in made:  # both sides of an #if
                calls |= made[key].calls
                words |= made[key].words
            made[key] = Function(path.name, frozenset(calls), frozenset(words))
        loose = {numbers[int(n)] for n in re.findall(r"mov[l]? \$(\d+), ?%eax", raw) if int(n) in numbers}
        if loose:
            made[path.name] = Function(path.name, frozenset(loose), frozenset())
    return made


def reach(made: dict[str, Function], root: str) -> set[str]:
    """The calls that `root` may make, itself or through what it mentions. Dispatch is not followed back into all handlers."""
    seen, todo, calls = {root}, [root], set()
    while todo:
        function = made[todo.pop()]
        calls |= function.calls
        for word in function.words:
            local = f"{function.file}:{word}"
            key = local if local in made else word
            if key in made and key not in seen and not word.startswith("sys_") and word != "kr_syscall":
                seen.add(key)
                todo.append(key)
    return calls
