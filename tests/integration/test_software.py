"""Unmodified Debian software, equal to runc: the quick cases of tests/suites/software.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "suites"))

import software

QUICK = [c for c in software.CASES if c.quick]


@pytest.fixture(scope="module")
def root(as_root):
    """A root of its own kind would be another download: the suite's is used, with what the quick cases need."""
    return software.make_root(software.all_packages(QUICK), sources=False)


@pytest.mark.parametrize("case", QUICK, ids=lambda c: c.name)
def test_equal_to_runc(root, case):
    native = software.run("runc", root, case.script, case.timeout)
    assert native.status is not None, f"does not end natively: {native.output[-2000:]}"
    difference = software.compare(case, native, software.run("krun", root, case.script, case.timeout))
    assert not difference, difference
