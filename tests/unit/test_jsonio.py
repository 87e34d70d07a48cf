"""krun.jsonio against json itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krun import jsonio
from krun.errors import ConfigError, KrunError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_dumps_writes_what_json_writes(value):
    assert jsonio.dumps(value) == json.dumps(value, separators=(",", ":"))
    assert jsonio.dumps(value, 2) == json.dumps(value, indent=2)
    assert jsonio.dumps(value, "\t") == json.dumps(value, indent="\t")


@given(VALUES, st.booleans())
def test_loads_reads_what_json_reads(value, pretty):
    text = json.dumps(value, indent=3 if pretty else None, ensure_ascii=not pretty)
    try:
        data = f" \n{text}\t".encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form
        data = json.dumps(value).encode()
    assert jsonio.loads(data) == value
    assert jsonio.loads(jsonio.dumps(value)) == value


@given(st.binary(max_size=40) | st.text(alphabet='[]{}":,0123456789.eE+-truefalsn\\u \n').map(str.encode))
def test_loads_takes_no_more_than_json_takes(data):
    try:
        want = json.loads(data.decode(), parse_constant=lambda _: 1 / 0)
    except Exception:
        with pytest.raises(ConfigError):
            jsonio.loads(data)
    else:
        try:
            assert jsonio.loads(data) == want
        except ConfigError as error:
            assert "stands twice" in error.message or "surrogate" in error.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "a": 2}', 'x.json: invalid JSON: name "a" stands twice'),
        (b'{"a": {"b": 1, "b": 1}}', "stands twice"),
        (b"{x", "x.json: invalid JSON at line 1 column 2: expecting property name"),
        (b'{\n  "a" 1}', "x.json: invalid JSON at line 2 column 7: expecting ':' delimiter"),
        (b"", "line 1 column 1: expecting value"),
        (b"{} {}", "extra data"),
        (b"[NaN]", "NaN is not JSON"),
        (b"\xff", "x.json: not UTF-8 at byte 0"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_errors_say_where(data, words):
    with pytest.raises(ConfigError) as error:
        jsonio.loads(data, "x.json")
    assert words in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, b"x", {1, 2}, [object()]])
def test_dumps_refuses_what_json_cannot_say(value):
    with pytest.raises(KrunError):
        jsonio.dumps(value)


def test_without_the_c_scanner(monkeypatch):
    monkeypatch.setattr(jsonio, "_scan", jsonio._no_scanner)
    monkeypatch.setattr(jsonio, "_quote", None)
    assert jsonio.loads(b'{"a": [1, "x"]}') == {"a": [1, "x"]}
    assert jsonio.dumps({"a": "ä"}) == '{"a":"\\u00e4"}'


def test_a_name_that_is_not_utf8_survives():
    name = "caf\udce9"  # os.fsdecode(b"caf\xe9")
    assert jsonio.loads(jsonio.dumps([name]).encode()) == [name]


@pytest.mark.parametrize("document", [r'["\ud800"]', r'{"\ud800": 1}', r'{"a": [{"b": "x\udc2f"}]}'])
@pytest.mark.parametrize("scanner", [True, False])
def test_half_a_character_is_refused(monkeypatch, document, scanner):
    """No path, argument or line of a log can be made of it; "\\udc2f" is no slash."""
    if not scanner:
        monkeypatch.setattr(jsonio, "_scan", jsonio._no_scanner)
    with pytest.raises(ConfigError, match="x.json: .* has half of a surrogate pair"):
        jsonio.loads(document.encode(), "x.json")
    assert jsonio.loads(rb'["\ud83d\ude00"]') == ["\U0001f600"]
