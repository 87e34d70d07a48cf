"""The shape of the C sources: how long a function and a file are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "krun" / "native"
SOURCES = sorted(p for p in NATIVE.rglob("*.[ch]") if "build" not in p.relative_to(NATIVE).parts)
FUNCTION, FILE = 80, 500


def functions(text: str) -> dict[str, int]:
    """Returns the number of lines of each function, by name. clang-format puts a body's last brace into the first column."""
    found = {}
    for m in re.finditer(r"^(?![#}\s/])[^;{}=]*?\b(\w+)\([^;{}]*\)[\w\s]*\{\n.*?^\}", text, re.M | re.S):
        found[m[1]] = m[0].count("\n") + 1
    return found


def test_the_pattern_sees() -> None:
    text = "static int a;\nint f(int x) {\n    if (x) {\n    }\n}\n\nlong g(struct b *c,\n       int d) {\n    return 0;\n}\n"
    assert functions(text) == {"f": 4, "g": 4}
    assert sum(len(functions(p.read_text())) for p in SOURCES) > 1000


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(NATIVE)))
def test_lengths(source: Path) -> None:
    text = source.read_text()
    assert text.count("\n") <= FILE
    long = {name: n for name, n in functions(text).items() if n > FUNCTION}
    assert not long, f"longer than {FUNCTION} lines: {long}"
