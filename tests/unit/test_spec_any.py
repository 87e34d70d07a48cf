"""Any value at any place of config.json: an error that names the place, or a plan; never an exception of Python's."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from helpers.bundle import CONFIG

from krun.errors import KrunError
from krun.oci import fields, plan, spec

VALUES: list[Any] = [
    None, {}, [], [{}], {"x": {}}, {"x": None}, [None], "", 0, -1, True, "x", "\0", ["x"], [0], 1 << 70, 1.5, "/x", [[]],
]  # fmt: skip


def put(document: Any, pattern: str, value: Any) -> None:
    """Set the place that a pattern of FIELDS names, making what leads there; `*` is item 0, or the member x."""
    parts = pattern.strip("/").split("/")
    here = document
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        below = fields.FIELDS["/" + "/".join(parts[: index + 1])].type
        fresh: Any = value if last else [] if below == "array" else {}
        if part == "*" and isinstance(here, list):
            if last or not here or type(here[0]) is not type(fresh):
                here[:] = [fresh]
            here = here[0]
        else:
            key = "x" if part == "*" else part
            if last or type(here.get(key)) is not type(fresh):
                here[key] = fresh
            here = here[key]


@pytest.mark.parametrize("pattern", [pattern for pattern in fields.FIELDS if pattern])
def test_any_value(pattern: str) -> None:
    for value in VALUES:
        document = copy.deepcopy(CONFIG)
        put(document, pattern, copy.deepcopy(value))
        try:
            plan.build(spec.parse(json.dumps(document).encode(), "/bundle"))
        except KrunError as error:
            assert "\n" not in str(error)
