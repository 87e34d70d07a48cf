"""The order of the tests, and the sample that `./dev test --fast` runs."""

from __future__ import annotations

import hashlib
import re

import pytest

#: Files by a regular expression on the node id: what shows a slip in seconds comes before what needs minutes.
STAGES = (
    ("lint", r"tests/unit/test_(linters|repo|docs|layers)\.py"),
    ("unit", r"tests/(unit/(?!test_native|test_launcher)|serve/(?!test_instance|test_serve|test_getting))"),
    ("native", r"tests/unit/test_(native|launcher)\.py"),
    ("corpus", r"tests/integration/test_guest_corpus\.py"),
    (
        "krun by its command line",
        r"tests/serve/|tests/integration/test_(?!podman|docker|engines|containerd|cri|soak|software|suites|fuzz)",
    ),
    ("engines and software", r""),
)
#: Of the corpus --fast runs one program in this many, the same ones each time.
SAMPLE = 16
#: One case of podman's and one of docker's, with runc and with krun; what only needs bundles, and few of them.
FAST = (
    r"tests/unit/",
    r"tests/serve/test_(run_parts|scale|settings|store|api|control)\.py",
    r"test_engines\.py::test_run_and_exit_code\[",
    r"integration/test_(run|exec)\.py",
)


def stage(nodeid: str) -> int:
    """The number of a case's stage."""
    return next(number for number, (_, pattern) in enumerate(STAGES) if re.search(pattern, nodeid))


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """The cases by stages; within one as they were."""
    return sorted(items, key=lambda item: stage(item.nodeid))


def is_fast(item: pytest.Item) -> bool:
    """Whether --fast runs a case."""
    match = re.search(r"test_guest_corpus\.py::test_\w+\[(.*)\]", item.nodeid)
    if match:
        return hashlib.sha256(match[1].encode()).digest()[0] % SAMPLE == 0
    return any(re.search(pattern, item.nodeid) for pattern in FAST)
