"""The shape of the C sources: how long a function and a file are; names instead of the kernel's numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from krun.native.build_native import MONITOR_FOLDERS

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


#: Numbers of types of files, in octal as headers have them, and structures that kr_linux.h has.
TYPED = re.compile(
    r"\b0?0?(?:17|14|12|10|06|04|02|01)0000\b|kr_\w+\(__NR_ioctl, [^;]*?, 0x[0-9a-f]+\b|kr_sys\d\(\d|struct \w*msghdr\w* \{"
)


#: A number whose comment is the kernel's name of it, in code or as a label; the number of a call by a name of our own.
NAMED = re.compile(
    r"^(?!#define).*?\b(?:0x[0-9a-f]+|\d+)u? /\* [A-Z]\w*_[A-Z0-9_]+[ :]|^\s*case \w+: +/\* [A-Z][A-Z_]+ \*/|^#define NR_\w+ \d+",
    re.M,
)


def typed(text: str) -> list[str]:
    """Returns the hand-typed numbers in C text; in comments only where they name a number."""
    return NAMED.findall(text) + TYPED.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def test_the_second_pattern_sees() -> None:
    for text in (
        "m & 0170000",
        "t == 0040000",
        "x = 0120000;",
        "kr_sys1(3, fd)",
        "struct msghdr_k {",
        "kr_sys3(__NR_ioctl, fd, 0xae80, 0)",
        "    case 18: /* SEM_STAT */",
        "    r = kr_sys3(__NR_fcntl, fd, 1 /* F_GETFD */, 0);",
        "#define NR_FCHMODAT2 452",
    ):
        assert typed(text), text
    assert not typed(
        "10000 + 0x10000 /* 0170000 */ + 020\n#define LINE 256 /* BINPRM_BUF_SIZE */\n    case F_GETFD: /* no flag */"
    )


@pytest.mark.parametrize(
    "source",
    [p for p in SOURCES if p.parent.name in MONITOR_FOLDERS],
    ids=lambda p: str(p.relative_to(NATIVE)),
)
def test_names_of_the_kernel(source: Path) -> None:
    """A number of Linux's interface has its name, from the kernel's headers or from lib/kr_linux.h."""
    if source.name != "kr_linux.h":
        assert not typed(source.read_text())
