"""krun conformance --docs: krun serve's own page passes, and pages that say nothing fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from krun.conformance import duties, report
from krun.conformance.rows import PROFILES
from krun.errors import KrunError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("profile", PROFILES)
def test_krun_serve_s_own_pages_pass(profile: str) -> None:
    results = report.judge(duties.read(str(ROOT / "docs")), profile, duties.ROWS)
    assert [r for r in results if r.status != report.PASS] == []
    assert len(results) == len(duties.ROWS)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "| RC-16 | | | | none |",
        "| RC-16 |",
        "RC-16: all of it is told here, in some words",
        "| RC-17 | a text of its own, with words |",
    ],
)
def test_a_page_that_says_nothing_fails(tmp_path: Path, line: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{line}\n\xff\n", encoding="latin-1")
    results = {r.row.number: r.status for r in report.judge(duties.read(str(page)), "current", duties.ROWS)}
    assert results["RC-16"] == report.FAIL
    assert report.exit_code(report.judge(duties.read(str(page)), "current", duties.ROWS)) == 1


def test_a_row_with_a_text_passes(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("| RC-16 | MUST | There is no other model here |\n")
    results = {r.row.number: r for r in report.judge(duties.read(str(tmp_path)), "current", duties.ROWS)}
    assert results["RC-16"].status == report.PASS and results["RC-16"].seen.startswith("a.md: There is no")


def test_a_page_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(KrunError, match="read the page .*none: No such file"):
        duties.read(str(tmp_path / "none"))
