"""What the repository holds: the version in one place, no binaries, no large files, no registry hosts, licence, packaging."""

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

#: This file spells out what the others must not contain.
OWN_WORDS = {"tests/unit/test_repo.py"}


def tracked():
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_one_version():
    import krun

    version = setup_cfg()["metadata"]["version"]
    assert krun.__version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_changelog_has_its_sections():
    """A version's entries stand under Added, Changed, Fixed or Security, each at most once, in this order."""
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]
    assert versions
    for version in versions:
        sections = re.findall(r"^### (.*)$", version, flags=re.M)
        assert sections and sections == [
            s for s in ("Added", "Changed", "Fixed", "Security") if s in sections
        ]
        before, _, entries = version.partition("### ")
        assert "\n- " not in before and "\n- " in entries


def test_pre_commit_needs_no_network():
    """Hooks are local programs of .venv; a repository of hooks would be fetched."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: *(\S+)", text) == ["local"]
    assert set(re.findall(r"language: *(\S+)", text)) == {"system"}
    assert all(entry.startswith(".venv/bin/") for entry in re.findall(r"entry: *(\S+)", text))


def test_pytest_takes_the_options_that_other_files_give_it():
    """--strict-config refuses a setting of a plug-in that is off: pytest 9 says so of cache_dir under -p no:cacheprovider."""
    texts = [(ROOT / name).read_text() for name in (".pre-commit-config.yaml", "tests/suites/fresh.py")]
    calls = [re.findall(r"(?:-m pytest|\./dev test) +(-[^\"\n]*)", text) for text in texts]
    assert all(calls)
    for words in (call.split() for found in calls for call in found):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def test_no_binary_and_no_large_file_is_committed():
    bad = []
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" in data[:4096] or len(data) > 500_000:
            bad.append(name)
    assert not bad, bad


def test_no_source_is_long():
    """One concern a file: 500 lines, and 80 a function of Python."""
    for name in tracked():
        if name.startswith("krun/") and name.endswith((".py", ".c", ".h")):
            text = (ROOT / name).read_text()
            assert len(text.splitlines()) <= 500, f"{name}: split it by concern"
            for node in ast.walk(ast.parse(text)) if name.endswith(".py") else ():
                if isinstance(node, ast.FunctionDef):
                    assert (node.end_lineno or 0) - node.lineno < 80, f"{name}: {node.name} is long"


def test_top_level():
    """The project's fixed top level; a new name there is a decision, made here."""
    names = {name.split("/")[0] for name in tracked()}
    wanted = set(
        "pyproject.toml setup.cfg MANIFEST.in LICENSE NOTICE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md dev krun tests"
        " docs tools .ci .gitignore .clang-format .editorconfig .pre-commit-config.yaml".split()
    )
    assert names <= wanted, names - wanted


def test_the_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text and len(text) > 11000


def test_no_registry_is_named():
    """Packages come from wherever the machine's own clients are pointed at."""
    pattern = re.compile(
        r"--index-url|--extra-index|deb\.debian\.org|pypi\.org|docker\.io/|ghcr\.io|quay\.io"
    )
    bad = [n for n in tracked() if n != "tests/unit/test_repo.py" and pattern.search(read(n))]
    assert not bad, bad


#: Words of papers that are not in the repository, so that a reader could not look them up.
PAPERS = re.compile(
    r"reference/|\bdesign\.md|portability rule|calls-without-exits|\bdesign, section|\bdesign budget|/work/shared"
)


def papers(text):
    """Returns the lines of `text` that send the reader to a paper outside of the repository."""
    return [line.strip() for line in text.splitlines() if PAPERS.search(line)]


def test_comments_and_pages_name_no_paper_outside_of_the_repository():
    """The source of a rule is a section of a specification, a manual page, the processor's manual or a page of docs/."""
    found = {n: lines for n in tracked() if n not in OWN_WORDS and (lines := papers(read(n)))}
    assert not found, found


def test_the_check_of_papers_finds_them():
    assert papers("(portability rule 8)") and papers("as in reference/oci.md 2.6")
    assert not papers("config.md 1.1; docs/memory.md; a reference to /work")


def read(name):
    return (ROOT / name).read_text(errors="replace")


def test_never_the_python_of_path():
    """A shim on PATH costs 50 ms and may be another version; scripts name /usr/bin/python3 or .venv/bin/python."""
    bad = [n for n in tracked() if read(n).startswith("#!/usr/bin/env python")]
    assert not bad, bad
    for line in read("dev").splitlines():
        assert not re.search(r"(^|[ (;&|])python3? -", line), line


def test_krun_is_never_run_by_the_systems_python():
    """Only the environment's interpreter is sure to find cffi: helpers/runtime.py, DIRECT."""
    call = re.compile(r"/usr/bin/python3\"?,?\s+\"?-m\"?,?\s+\"?krun\.(?!native\.build_launcher)")
    names = [n for n in tracked() if n.startswith(("tests/", "docs/")) and n not in OWN_WORDS]
    assert not [n for n in names if call.search(read(n))]


def test_the_build_system_is_in_the_tree():
    build = tomllib.loads(read("pyproject.toml"))["build-system"]
    module = build["build-backend"].replace(".", "/") + ".py"
    assert build["backend-path"] == ["."] and (ROOT / module).exists()


def test_every_package_has_its_init():
    """setup.cfg finds packages by __init__.py: a folder without one would be missing from the wheel."""
    folders = {(ROOT / n).parent for n in tracked() if re.fullmatch(r"krun/.*[^/]*\.py", n)}
    # A script beside its table, not a module.
    folders.discard(ROOT / "krun" / "native" / "table")
    assert not [f for f in folders if not (f / "__init__.py").exists()]


def test_dependencies_are_the_fixed_ones():
    lines = setup_cfg()["options"]["install_requires"].split()
    names = {re.split(r"[><=]", line)[0] for line in lines}
    assert names == {"click", "pyroute2", "python-prctl", "pyseccomp", "cffi", "pyyaml"}


def test_python_is_new_enough():
    assert sys.version_info >= (3, 11)
