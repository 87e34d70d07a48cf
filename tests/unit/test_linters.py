"""Formatting and types are tests: what they say is part of `./dev test` and the whole of `./dev lint`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def tool(name):
    """The one of the virtual environment; its absence is a failure."""
    path = Path(sys.executable).parent / name
    found = str(path) if path.exists() else shutil.which(name)
    assert found, f"{name} is missing: run ./dev lint, which installs it"
    return found


def files(*patterns):
    """The project's files of these kinds, tracked or about to be."""
    command = [
        "git",
        "-c",
        f"safe.directory={ROOT}",
        "ls-files",
        "-co",
        "--exclude-standard",
        "-z",
        "--",
        *patterns,
    ]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).exists()})


def check(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command[:4])}\n{done.stdout}{done.stderr}"[:8000], pytrace=False)


def test_python_rules():
    check(tool("ruff"), "check", "--no-cache", ".")


def test_python_layout():
    check(tool("ruff"), "format", "--no-cache", "--diff", ".")


def test_python_types():
    check(tool("mypy"))


def test_c_layout():
    sources = files("krun/native/*.[ch]", "krun/conformance/*.[ch]", "tests/*.[ch]")
    assert sources
    check(tool("clang-format"), "--dry-run", "-Werror", *sources)


def test_shell_syntax():
    for name in shell_scripts():
        shell = (ROOT / name).read_text().splitlines()[0].removeprefix("#!").split()[0]
        check(shell, "-n", name)


def test_dev_is_posix():
    """dash is Debian's sh; a bash-only word in ./dev would be found on somebody's machine."""
    for name in ("dev", ".ci/run"):
        text = (ROOT / name).read_text()
        assert text.startswith("#!/bin/sh\n")
        for word in ("[[", "function ", "local ", "<<<", "&>", "pipefail"):
            assert word not in text, f"{name} uses {word!r}"


def shell_scripts():
    found = []
    for name in files("*"):
        path = ROOT / name
        if path.suffix in ("", ".sh") and path.is_file():
            with path.open("rb") as f:
                first = f.readline(64)
            if first.startswith((b"#!/bin/sh", b"#!/bin/bash")):
                found.append(name)
    assert "dev" in found
    return found


def test_no_tabs_and_no_trailing_blanks():
    bad = []
    for name in files("*.py", "*.md", "*.toml", "*.cfg", "*.[chS]", "dev", ".ci/run", "*.def", "*.sh"):
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if line != line.rstrip() or ("\t" in line and not name.endswith((".S", ".md"))):
                bad.append(f"{name}:{number}")
    assert not bad, "\n".join(bad[:50])
