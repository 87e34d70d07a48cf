"""The monitor's layers (docs/architecture.md): an include goes down or stays in its folder, in C as in Python.

What a lower layer calls of a higher one stands in its `above.h`, and nowhere else: the header of the file that defines such a function
includes that one, so that the two cannot differ.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from krun.native.build_native import MONITOR_FOLDERS

NATIVE = Path(__file__).resolve().parents[2] / "krun" / "native"

#: Folders from the lowest to the highest; those of one row know nothing of each other.
LAYERS = [
    {"abi", "guest"},
    {"lib"},
    {"table"},
    {"machine"},
    {"process"},
    {"view", "filter"},
    {"sys"},
    {"local"},
    {"monitor"},
]
RANK = {folder: rank for rank, row in enumerate(LAYERS) for folder in row}
SOURCES = sorted(
    p for folder in RANK for p in (NATIVE / folder).iterdir() if p.suffix in (".c", ".h", ".S", ".def")
)


def test_every_folder_has_a_layer() -> None:
    assert set(MONITOR_FOLDERS) <= set(RANK)
    assert len(SOURCES) > 120


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_includes_go_down(source: Path) -> None:
    own = source.parent.name
    for name in re.findall(r'^#include "([^"]+)"', source.read_text(), re.M):
        target = (source.parent / name).resolve()
        assert target.exists(), f"{name} is not there"
        theirs = target.parent.name
        assert theirs == own or RANK[theirs] < RANK[own], (
            f"{own}/{source.name} includes {theirs}/{target.name}"
        )


def test_what_goes_up_is_defined_above() -> None:
    """A declaration of an above.h has its definition in the file that the heading over it names."""
    for header in NATIVE.glob("*/above.h"):
        parts = re.split(r"/\* ---- (\S+) ---- \*/", header.read_text())
        for where, text in zip(parts[1::2], parts[2::2], strict=True):
            assert RANK[where.split("/")[0]] > RANK[header.parent.name]
            for name in re.findall(r"\b(kr_\w+)\([^;]*\);", re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
                assert re.search(rf"^\w[^;\n]*\b{name}\(", (NATIVE / where).read_text(), re.M), (
                    f"{name}: {where}"
                )
