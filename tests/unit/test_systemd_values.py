"""Annotations that name properties of the systemd unit: names, the text form of values, what is refused."""

from __future__ import annotations

import pytest

from krun.errors import KrunError
from krun.oci.cgroup import properties as values


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("true", ("b", True)),
        ("boolean false", ("b", False)),
        ("7", ("i", 7)),
        ("-7", ("i", -7)),
        ("0x10", ("i", 16)),
        ("uint64 7000000", ("t", 7000000)),
        ("@t 18446744073709551615", ("t", (1 << 64) - 1)),
        ("byte 255", ("y", 255)),
        ("1.5", ("d", 1.5)),
        ("double 2", ("d", 2.0)),
        ("'a b'", ("s", "a b")),
        (r'"it\'s \"x\"\n"', ("s", 'it\'s "x"\n')),
        ("objectpath '/a'", ("o", "/a")),
        ("['a', \"b\"]", ("as", ["a", "b"])),
        ("[uint32 1, 2]", ("au", [1, 2])),
        ("@as []", ("as", [])),
        ("@ay [1, 2,3]", ("ay", [1, 2, 3])),
    ],
)
def test_values(text, wanted):
    assert values.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "'a", "[1", "[1 2]", "[]", "1 2", "'a' b", "byte 256", "uint32 -1", "@zz 1", "boolean 1", "uint64 true", "[1, 'a']",
     "@as 'x'", "uint32 [1]", "2147483648", "'a\0b'", "x", "@t", "true]", "signature 'é'",
     f"signature '{'a' * 256}'", "'\ud800'"],
)  # fmt: skip
def test_what_is_no_value(text):
    with pytest.raises(ValueError):
        values.parse(text)


def test_properties_in_order_and_nothing_else():
    found = values.from_annotations(
        {"x": "y", values.PREFIX + "TimeoutStopUSec": "uint64 5", values.PREFIX + "CollectMode": "'inactive'"}
    )
    assert found == [("CollectMode", ("s", "inactive")), ("TimeoutStopUSec", ("t", 5))]


def test_seconds_become_microseconds():
    assert values.from_annotations({values.PREFIX + "TimeoutStopSec": "uint64 3"}) == [
        ("TimeoutStopUSec", ("t", 3000000))
    ]
    assert values.from_annotations({values.PREFIX + "TimeoutStopSec": "1.5"}) == [
        ("TimeoutStopUSec", ("t", 1500000))
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "1"), ("ab", "1"), ("Ab-c", "1"), ("Ab/c", "1"), ("PIDs", "@au [1]"), ("Slice", "'x.slice'"), ("Delegate", "false"),
     ("TimeoutStopSec", "'x'"), ("TimeoutStopSec", "-1"), ("CPUWeight", "many"),
     ("TimeoutStopSec", "double 1e999"), ("TimeoutStopSec", "double nan"), ("TimeoutStopSec", "double 2e13")],
)  # fmt: skip
def test_refused_with_the_annotation_named(name, value):
    with pytest.raises(KrunError, match=f"annotation org.systemd.property.{name}: "):
        values.from_annotations({values.PREFIX + name: value})
