"""Where a key stands in a TOML text."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.toml_lines import line_of

TEXT = """\
# a = 0
a = 1
[t] # [u]
b = '''
c = 2
'''
c = "x # \\" ]"
d.e."f g" = [ # one
  1, "two",
  [3,
   4],
]
i = { x = 1, y.z = { q = [5] } }
[[list]]
k = 1
[list.sub]
k = 2
[[list]]
k = 3
when = 1979-05-27 07:32:00
["quoted.\\u0041"]
s = \"\"\"\\\"
t = 1
\"\"\"\"\"
u = 'x'
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 2), (("t",), 3), (("t", "b"), 4), (("t", "c"), 7), (("t", "d"), 8), (("t", "d", "e", "f g"), 8),
        (("t", "d", "e", "f g", 1), 9), (("t", "d", "e", "f g", 2, 1), 11), (("t", "i"), 13),
        (("t", "i", "y", "z", "q", 0), 13), (("list",), 14), (("list", 0, "k"), 15), (("list", 0, "sub", "k"), 17),
        (("list", 1, "k"), 19), (("list", 1, "when"), 20), (("quoted.A", "s"), 22), (("quoted.A", "u"), 25),
        (("a", "below"), 2), (("nowhere",), None),
    ],
)  # fmt: skip
def test_a_key_or_element_is_found_on_its_line(path, line):
    tomllib.loads(TEXT)  # the text is TOML
    assert line_of(TEXT, path) == line


def test_what_was_read_before_the_text_stops_being_toml_is_still_found():
    assert line_of("a = 1\nb = ???\n= 3", ("a",)) == 1
    assert line_of("a = '", ("b",)) is None
    assert line_of("a = " + "[" * 100_000, ("a",)) == 1


KEYS = st.sampled_from(["a", "b-c", '"d.e"', "'f #'", '"\\t"'])
SCALARS = st.sampled_from(["1", "true", '"x"', "'y # ='", '"""\nm = 1\n"""', "1979-05-27 07:32:00", "inf", '"\\""'])
INLINE = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[ # c\n" + ",\n".join(items) + "\n]")
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda t: "{" + ", ".join(f"{k} = {v}" for k, v in t.items()) + "}"
        )
    ),
    max_leaves=6,
)


def paths(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*path, key)
        yield from paths(each, (*path, key))


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, INLINE, max_size=3), max_size=3))
def test_every_key_of_every_document_is_found_and_on_a_line_that_holds_it(tables):
    text = "\n".join(
        f"[{name}]\n" + "\n".join(f"{key} = {value}" for key, value in table.items()) for name, table in tables.items()
    )
    lines = text.split("\n")
    for path in paths(tomllib.loads(text)):
        line = line_of(text, path)
        assert line is not None
        if isinstance(path[-1], str):
            assert path[-1].replace("\t", "\\t") in lines[line - 1]
