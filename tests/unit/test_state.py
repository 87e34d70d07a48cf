"""Every writable variable of the monitor has a row in krun/native/monitor/state.def, and every row names what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from krun.native.build_native import MONITOR_FOLDERS

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "krun" / "native"
OBJECTS = ROOT / "build" / "native" / "monitor"
WRITABLE = re.compile(
    r"^[0-9a-f]+ .{6}[O ] (\.data|\.bss|COMMON)(?:\.(?!rel\.ro)\S*)?\s+[0-9a-f]+\s+(?:\.\w+ )?(\S+)$"
)
FIXED = ("FRESH", "KERNEL")


def rows() -> dict[str, list[str]]:
    """Returns the columns of each row by its name."""
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "monitor" / "state.def").read_text(), flags=re.S)
    found = {}
    for body in re.findall(r"^STATE\((.*?)\)$", text, flags=re.S | re.M):
        columns, depth, quoted, start = [], 0, False, 0
        for at, char in enumerate(body):
            quoted ^= char == '"'
            depth += (char == "(") - (char == ")")
            if char == "," and not depth and not quoted:
                columns.append(" ".join(body[start:at].split()))
                start = at + 1
        columns.append(" ".join(body[start:].split()))
        found[columns[0]] = columns
    return found


def named() -> dict[str, set[str]]:
    """Returns the variables that the rows name, by file."""
    found: dict[str, set[str]] = {}
    for columns in rows().values():
        for part in columns[-1].strip('"').split(";"):
            where, _, variables = part.strip().partition(": ")
            assert not found.get(where, set()) & set(variables.split()) or where.startswith("kr_"), part
            found.setdefault(where, set()).update(variables.split())
    return found


def variables(obj: Path) -> set[str]:
    """Returns the writable variables of an object file, those inside functions without gcc's suffix."""
    table = subprocess.run(["objdump", "-t", obj], capture_output=True, text=True, check=True).stdout
    found = (WRITABLE.match(line) for line in table.splitlines())
    return {m[2].partition(".")[0] for m in found if m and not m[2].startswith(".")}


def objects() -> dict[str, Path]:
    """Returns the monitor's object files by source name."""
    sources = [p for folder in MONITOR_FOLDERS for p in (NATIVE / folder).glob("*.c")]
    return {p.name: OBJECTS / f"{p.parent.name}_{p.name}.o" for p in sources}


def test_every_variable_has_a_row() -> None:
    known = named()
    missing = {
        f"{name}: {v}" for name, obj in objects().items() for v in variables(obj) - known.get(name, set())
    }
    assert not missing, f"writable variables without a row in monitor/state.def: {sorted(missing)}"


def test_every_row_names_what_exists() -> None:
    made = objects()
    headers = "".join(p.read_text() for folder in MONITOR_FOLDERS for p in (NATIVE / folder).glob("*.h"))
    for where, names in named().items():
        if where in made:
            assert names <= variables(made[where]), (
                f"{where}: {names - variables(made[where])} is no variable"
            )
        else:
            body = re.search(rf"^struct {where} {{(.*?)^}};", headers, flags=re.S | re.M)
            assert body, f"no structure {where}"
            assert all(re.search(rf"\b{name}\b", body[1]) for name in names), where


def test_the_test_sees_variables(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        'int a; static int b = 1; const char *const c[] = {""};'
        " int *f(void) { static int d; b++; return a ? &d : &b; }"
    )
    subprocess.run(["gcc", "-fPIE", "-c", "-o", tmp_path / "x.o", tmp_path / "x.c"], check=True)
    assert variables(tmp_path / "x.o") == {"a", "b", "d"}


@pytest.mark.parametrize("name", rows())
def test_columns(name: str) -> None:
    columns = rows()[name]
    assert len(columns) == 12
    lock, before, parent, child, exec_, core, save, load = (columns[i] for i in (1, 2, 3, 4, 7, 8, 9, 10))
    assert core == "NONE" or core.startswith("kr_core_save_")
    assert (exec_ in FIXED or exec_.startswith("kr_exec_save_")) and (save, load) == ("NONE", "NONE")
    assert (before == "NONE") == (parent == "NONE"), "a lock that is taken is given back"
    assert before == "NONE" or child != "NONE", "and in the child, too"
    assert lock.startswith('"')
