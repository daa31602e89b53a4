"""Scopes: one spelling of a path, prefixes by component, the order of a pair."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.apps.opcodes import DOMAIN, ENTRY, PATH
from pysandbox.apps.scope import Scopes, checks_of, intersect, is_domain, is_path, pair_allowed, within

TRICKS = (
    "", ".", "..", "/", "docs/", "docs//a", "./docs/a", "docs/./a", "docs/../docs/a", "docs/..", "../docs", "/docs/a",
    "docs\0", "docs/a\n", "docs/\x7f", "docs/\ud800", "docs/caf" + "e\u0301", ".pysandbox-trash/x", "a" * 1025,
)  # fmt: skip


@pytest.mark.parametrize("text", TRICKS)
def test_another_spelling_is_in_no_scope(text: str) -> None:
    checks = checks_of(Scopes(prefixes=(".",)))
    assert not is_path(text) and not checks[ENTRY](text)
    assert checks[PATH](text) is (text == ".")


@pytest.mark.parametrize("value", [1, True, 1.0, b"docs/a", None, ["docs"]])
def test_what_is_no_text_is_in_no_scope(value: object) -> None:
    checks = checks_of(Scopes(prefixes=(".",)))
    assert not any(checks[kind](value) for kind in (PATH, ENTRY, DOMAIN))


def test_prefixes_are_components() -> None:
    check = checks_of(Scopes(prefixes=("docs",)))[PATH]
    assert check("docs") and check("docs/a/b") and check("docs/..a")
    assert not check("docs2") and not check("docs2/a") and not check("doc") and not check("Docs/a")


def test_what_is_changed_lies_strictly_below_a_prefix() -> None:
    check = checks_of(Scopes(prefixes=("docs",)))[ENTRY]
    assert check("docs/a") and not check("docs")


def test_a_composed_letter_is_a_path_and_a_decomposed_one_is_none() -> None:
    assert is_path("docs/" + unicodedata.normalize("NFC", "é"))
    assert not is_path("docs/" + unicodedata.normalize("NFD", "é"))


@pytest.mark.parametrize(
    "text", ["*", "Notes", "nötes", "xn--", "notes.", ".notes", "a..b", "notes\n", "a b", "a" * 129]
)
def test_what_is_no_domain_is_none_without_a_list_either(text: str) -> None:
    assert not is_domain(text) or text == "xn--"
    assert not checks_of(Scopes(domains=None))[DOMAIN](text)


def test_a_pair_has_an_order() -> None:
    scopes = Scopes(peers=frozenset((("notes", "mail"),)))
    assert pair_allowed(scopes, "notes", "mail")
    assert not pair_allowed(scopes, "mail", "notes") and not pair_allowed(scopes, "notes", "notes")
    assert pair_allowed(Scopes(peers=None), "a", "b") and not pair_allowed(Scopes(), "a", "b")


NAMES = st.lists(st.sampled_from(["a", "b", "docs", "docs2"]), min_size=1, max_size=3).map("/".join)
SCOPES = st.builds(
    Scopes,
    st.none() | st.frozensets(st.sampled_from(["x", "y", "z"])),
    st.lists(NAMES | st.just("."), max_size=3).map(tuple),
    st.none() | st.frozensets(st.tuples(st.sampled_from("xy"), st.sampled_from("xy"))),
)


@given(SCOPES, SCOPES, NAMES, st.sampled_from("xyz"))
def test_an_intersection_allows_what_both_allow(one: Scopes, other: Scopes, path: str, name: str) -> None:
    both = intersect(one, other)
    for kind, value in ((PATH, path), (PATH, "."), (DOMAIN, name)):
        allowed = [checks_of(each)[kind](value) for each in (one, other, both)]
        assert allowed[2] == (allowed[0] and allowed[1])
    assert pair_allowed(both, "x", "y") == (pair_allowed(one, "x", "y") and pair_allowed(other, "x", "y"))
    assert within(both, one) and within(both, other) and within(one, one)
