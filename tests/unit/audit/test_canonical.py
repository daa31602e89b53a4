"""The hand-written text of a value is the one that json writes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pysandbox.audit.canonical import canonical

TEXT = st.text(st.characters(codec=None), max_size=30)  # lone surrogates too: names of files need not be UTF-8
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_it_writes_what_json_writes(value: object) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@given(st.dictionaries(TEXT, VALUES))
def test_it_is_one_line_of_ascii(value: dict[str, object]) -> None:
    text = canonical(value)
    assert text.isascii()
    assert len(text.splitlines()) == 1


def test_what_json_does_not_know_is_written_as_text() -> None:
    assert canonical({"a": (1, "b"), "n": float("nan"), "i": float("-inf"), 3: b"x"}) == (
        '{"3":"b\'x\'","a":[1,"b"],"i":"-inf","n":"nan"}'
    )
