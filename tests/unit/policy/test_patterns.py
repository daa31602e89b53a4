"""Patterns of denials: what is one, what it matches, and what is put into one without a meaning of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox import Policy
from pysandbox.policy.expand import expand
from pysandbox.policy.match import access
from pysandbox.policy.model import Grant
from pysandbox.policy.patterns import covers_path, escape, fixed_part, literal, may_match_in

TEXT = st.text(alphabet="ab*?[]./", max_size=12)


@given(TEXT)
def test_what_is_escaped_stands_for_itself(text: str) -> None:
    assert literal(escape(text)) == text


@pytest.mark.parametrize("pattern", ["*", "a?", "[ab]", "[!a]", "[[]*", "[*", "["])
def test_a_sign_outside_of_its_brackets_makes_a_pattern(pattern: str) -> None:
    assert literal(pattern) is None


COVERED = [
    ("/w/*.key", "/w/a.key"), ("/w/*.key", "/w/.key"), ("/w/*.key", "/w/a.key/inside/it"), ("/w/?", "/w/a"),
    ("/w/**/.env", "/w/.env"), ("/w/**/.env", "/w/a/b/.env"), ("/w/**", "/w/a/b"), ("/**/x", "/x"),
    ("/w/[ab]/c", "/w/b/c"), ("/w/**/**/x", "/w/x"), ("/w/**/a/**/x", "/w/a/a/b/x"),
]  # fmt: skip
OPEN = [
    ("/w/*.key", "/w/sub/a.key"), ("/w/*.key", "/w"), ("/w/**", "/w"), ("/w/**/.env", "/w/a.env"),
    ("/w/**/.env", "/v/.env"), ("/w/?", "/w/ab"), ("/w/*/c", "/w/c"), ("/w/[ab]", "/w/A"),
]  # fmt: skip


@pytest.mark.parametrize("pattern, path", COVERED)
def test_it_covers(pattern: str, path: str) -> None:
    assert covers_path(pattern, path)


@pytest.mark.parametrize("pattern, path", OPEN)
def test_it_does_not_cover(pattern: str, path: str) -> None:
    assert not covers_path(pattern, path)


@pytest.mark.parametrize("pattern, directory, may", [
    ("/w/*.key", "/w", True), ("/w/*.key", "/w/sub", False), ("/w/**/x", "/w/sub", True), ("/w/**/x", "/", True),
    ("/w/*.key", "/v", False), ("/w/*", "/w/sub", False),
])  # fmt: skip
def test_where_something_could_match_later(pattern: str, directory: str, may: bool) -> None:
    assert may_match_in(pattern, directory) == may


def test_the_part_without_signs_is_where_a_search_begins() -> None:
    assert fixed_part("/w/[[]x/**/a*/b") == ("/w/[x", ("**", "a*", "b"))


def test_what_a_directory_is_called_is_no_pattern() -> None:
    """Its name comes from whoever made it, and must not widen or take away a denial."""
    odd = "/home/a[b]*"
    policy = expand(
        Policy(deny=["x", "*.key", "$HERE/y", "~/z"], allow=["in"]),
        env={"HERE": odd},
        cwd=odd,
        home=odd,  # type: ignore[arg-type]
    )
    assert [access(policy, f"{odd}/{name}")[0] for name in ("x", "a.key", "y", "z")] == ["denied"] * 4
    assert access(policy, "/home/ab/x")[0] == "unseen"
    assert policy.allow == (Grant(f"{odd}/in"),)
