"""The packed text of the store's objects."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from krun.serve.store.packing import pack, unpack


@given(st.binary(max_size=20000))
def test_any_text_comes_back(text: bytes) -> None:
    assert unpack(pack(text)) == text


def test_a_text_beyond_the_window_comes_back() -> None:
    text = json.dumps({"data": {f"key{number}": "value" * number for number in range(300)}}).encode()
    assert unpack(pack(text)) == text
    assert len(pack(text)) < len(text)
