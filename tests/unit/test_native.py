"""Builds and runs the C unit tests of tests/native: the monitor's parts, hosted, under the address and undefined-behaviour sanitizers.

Each test names the files of krun/native that it needs in its first comment ("Sources: a.c b.c").
"""

import re
import subprocess
from pathlib import Path

import pytest

from krun.native import build_native

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "krun" / "native"
TESTS = ROOT / "tests" / "native"
BUILD = ROOT / "build" / "native-tests"
FLAGS = [
    *("-std=gnu11", "-O1", "-g", "-DKR_HOSTED", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    f"-I{NATIVE}",
    f"-I{TESTS}",
]


def sources(test: Path) -> list[Path]:
    """Returns the files that a test is compiled with, itself first."""
    named = re.search(r"Sources: (.*?)\*/", test.read_text(), re.DOTALL)
    assert named, f"{test.name} names no sources"
    found = [test, TESTS / "stubs.c", NATIVE / "lib" / "kr_lib.c", NATIVE / "lib" / "kr_lock.c"]
    for name in named.group(1).replace("*", " ").split():
        matches = [
            path
            for folder in build_native.MONITOR_FOLDERS
            for path in [NATIVE / folder / name]
            if path.exists()
        ]
        assert matches, f"{test.name}: no file {name}"
        found += matches
    return found


def build(test: Path) -> Path:
    """Builds a test's program as the product's objects are built: only what is older than its sources, headers, flags."""
    folder = BUILD / f"{test.stem}.objects"
    try:
        objects = build_native.compile_all(sources(test), folder, FLAGS, False)
        build_native.link(objects, BUILD / test.stem, folder, FLAGS, False)
    except SystemExit as error:
        pytest.fail(str(error))
    return BUILD / test.stem


@pytest.mark.parametrize("test", sorted(TESTS.glob("test_*.c")), ids=lambda path: path.stem)
def test_native(test: Path, tmp_path: Path) -> None:
    """One C test: it builds without a warning, and neither its checks nor a sanitizer complain."""
    program = build(test)
    done = subprocess.run(
        [str(program)], capture_output=True, text=True, timeout=120, cwd=tmp_path, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
