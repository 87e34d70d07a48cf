"""How a leg of the emulated AMD machine is judged, and that the list of explained differences is sound."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "amd"))
import verdict  # noqa: E402

LOG = """ok one
FAIL two
    out differs
1c1
< a
> b
ok three
corpus: 2 ok, 1 failed
"""


def judge(programs="one two three", explained=None):
    return verdict.judge(LOG, programs.split(), explained or {})


def test_all_equal():
    found = verdict.judge("ok one\nok two\n", ["one", "two"], {})
    assert found.passed and found.equal == ["one", "two"]


def test_a_difference_without_a_reason_fails():
    found = judge()
    assert not found.passed and list(found.unexplained) == ["two"] and "> b" in found.unexplained["two"]


def test_a_difference_with_a_reason_passes():
    found = judge(explained={"two": (True, "why")})
    assert found.passed and found.explained == {"two": "why"} and "two: why" in found.text()


def test_a_program_that_did_not_run_fails():
    found = judge("one two three four", {"two": (True, "why")})
    assert not found.passed and found.missing == ["four"]


def test_nothing_run_fails():
    assert not verdict.judge("", [], {}).passed


def test_a_stale_row_fails_unless_it_says_sometimes():
    rows = {"two": (True, "why"), "three": (True, "stale")}
    assert judge(explained=rows).mended == ["three"] and not judge(explained=rows).passed
    assert judge(explained={**rows, "three": (False, "timing")}).passed


def test_rows_are_read_for_their_leg(tmp_path):
    path = tmp_path / "explained.txt"
    path.write_text("# comment\n\nnpt=1 always a why a\nboth sometimes b why b\nnpt=0 always c why c\n")
    assert verdict.read_explained("npt=1", path) == {"a": (True, "why a"), "b": (False, "why b")}


@pytest.mark.parametrize(
    "text", ["npt=1 always a\n", "npt=2 always a why\n", "both always a x\nnpt=1 always a y\n"]
)
def test_a_bad_row_is_refused(tmp_path, text):
    path = tmp_path / "explained.txt"
    path.write_text(text)
    with pytest.raises(ValueError):
        verdict.read_explained("npt=1", path)


@pytest.mark.parametrize("leg", verdict.LEGS)
def test_the_list_names_programs_of_the_corpus(leg):
    names = {p.stem for p in (ROOT / "tests" / "guest").glob("*.c")}
    assert set(verdict.read_explained(leg)) <= names
