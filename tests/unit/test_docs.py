"""The pages are true where that can be checked: links lead somewhere, generated pages are current, the README's commands exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "tests").glob("**/*.md")])
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]

#: Page -> the script that writes it; with --check it fails when the page is not what it would write.
GENERATED = {
    "docs/cli.md": "tools/gen_docs.py",
    "docs/spec-conformance.md": "tools/gen_docs.py",
    "docs/knative.md": "tools/gen_docs.py",
    "docs/syscalls.md": "krun/native/table/gen_syscalls_doc.py",
}


def headings(page):
    """The anchors of a page, as the usual renderers make them."""
    found = set()
    for line in page.read_text().splitlines():
        if match := re.match(r"#+ +(.*)", line):
            text = re.sub(r"[^\w\- ]", "", match[1].strip().lower().replace("`", ""))
            found.add(text.replace(" ", "-"))
    return found


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.S)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page):
    bad = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            bad.append(target)
        elif anchor and file.suffix == ".md" and anchor not in headings(file):
            bad.append(target)
    assert not bad, bad


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_are_named_exist(page):
    """A path in back quotes that begins with a folder of the project is there."""
    bad = set()
    for path in re.findall(r"`((?:krun|tests|docs|tools|\.ci)/[\w./-]+)`", page.read_text()):
        if not (ROOT / path).exists() and "/build/" not in path and not path.endswith("krun-monitor"):
            bad.add(path)
    assert not bad, sorted(bad)


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages_are_current(page):
    script = GENERATED[page]
    assert (ROOT / script).exists(), f"{script} is missing: it writes {page}"
    done = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and (ROOT / page).exists(), (
        f"run: .venv/bin/python {script}\n{done.stdout}{done.stderr}"
    )


def test_dev_verbs_of_the_pages_exist():
    dev = (ROOT / "dev").read_text()
    verbs = set(re.findall(r"^([a-z-]+)(?: \| -h \| --help)?\)$", dev, flags=re.M))
    assert {"setup", "demo", "test", "lint", "bench", "test-amd"} <= verbs
    for page in PAGES:
        for verb in re.findall(r"\./dev ([a-z-]+)", page.read_text()):
            assert verb in verbs, f"{page.name}: ./dev {verb}"


def test_the_map_has_every_file_and_no_other():
    """docs/architecture.md: a table "file of FOLDER" for each folder with sources, a row for each; headers may have one, too."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    tables = re.findall(r"^\| file of `([\w/]+)` \|.*\n\| --- .*\n((?:\|.*\n)*)", text, flags=re.M)
    named = [
        (ROOT / folder, word)
        for folder, rows in tables
        for row in rows.splitlines()
        for word in re.findall(r"`([\w.]+)`", row.split("|")[1])
    ]
    assert len(named) == len(set(named)), "a file is named twice"
    mapped = {folder / f"{word}{end}" for folder, word in named for end in ("", ".py", ".c", ".S")}
    there = {
        path
        for path in (ROOT / "krun").rglob("*")
        if path.suffix in (".py", ".c", ".S") and path.name != "__init__.py"
    }
    missing = sorted(str(path.relative_to(ROOT)) for path in there - mapped)
    assert not missing, f"docs/architecture.md has no row for {missing}"
    gone = [
        f"{folder.relative_to(ROOT)}: {word}" for folder, word in named if not list(folder.glob(f"{word}*"))
    ]
    assert not gone, f"docs/architecture.md names what is not there: {gone}"


def test_calls_by_way():
    """docs/calls.md has each way of the column `local` with all its calls, in the order of the table."""
    folder = ROOT / "krun/native/table"
    done = subprocess.run(
        [sys.executable, "-c", "import gen_syscalls_doc as g; print([(r.local, r.name) for r in g.parse(g.TABLE.read_text())])"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = {}
    for way, name in ast.literal_eval(done.stdout):
        if way not in ("NONE", "CHANGES"):
            wanted.setdefault(way.lower(), []).append(name)
    page = (ROOT / "docs/calls.md").read_text()
    found = dict(re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", page, flags=re.M))
    assert {way: re.findall(r"\w+", names) for way, names in found.items()} == wanted


def test_every_promise_has_its_test():
    """docs/specification.md: each row names tests, and each of them is there (FILE or FILE::FUNCTION)."""
    rows = re.findall(
        r"^\| (?!promise|---)(.+) \| (.+) \|$", (ROOT / "docs" / "specification.md").read_text(), flags=re.M
    )
    assert len(rows) > 30
    bad = []
    for promise, shown in rows:
        tests = re.findall(r"`([^`]+)`", shown)
        assert tests, f"no test shows: {promise}"
        for test in tests:
            file, _, function = test.partition("::")
            path = ROOT / file
            if not (file.startswith("tests/") and path.exists()):
                bad.append(test)
            elif function and not re.search(rf"^def {function}\(", path.read_text(), flags=re.M):
                bad.append(test)
    assert not bad, f"docs/specification.md names tests that are not there: {bad}"


def test_every_attack_is_on_the_security_page():
    """An attack whose class the page does not name is one that nobody reads about. control_* are the oracle's own tests."""
    text = (ROOT / "docs" / "security.md").read_text()
    attacks = {p.name for p in (ROOT / "tests" / "attacks").glob("*.c")}
    assert len(attacks) > 25
    assert {name for name in attacks if f"`tests/attacks/{name}`" not in text} == {"control_peace.c"}
