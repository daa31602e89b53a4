"""Paths compare by component, and deny wins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.match import access, covers, may_execute
from pysandbox.policy.model import Grant, Policy


@pytest.mark.parametrize(
    ("parent", "path", "covered"),
    [
        ("/usr/lib", "/usr/lib", True), ("/usr/lib", "/usr/lib/python3", True), ("/usr/lib", "/usr/library", False),
        ("/usr/lib", "/usr", False), ("/", "/anything", True), ("/", "/", True), ("/usr/lib", "/usr/lib64", False),
    ],
)  # fmt: skip
def test_a_path_covers_itself_and_what_lies_below(parent, path, covered):
    assert covers(parent, path) is covered


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.sampled_from(["a", "ab", "b"]), max_size=3)] * 2)
def test_covering_is_a_prefix_of_components(parent, path):
    assert covers("/" + "/".join(parent), "/" + "/".join(path)) == (path[: len(parent)] == parent)


POLICY = Policy(
    allow=["/home/u/.cargo", "/proj/vendor"],
    allow_write=["/proj"],
    deny=["/home/u/.cargo/credentials.toml", "/proj/.env"],
    mask=["/proj/.pysandbox"],
)


@pytest.mark.parametrize(
    ("path", "verdict", "entry"),
    [
        ("/home/u/.cargo/bin/cargo", "read", "/home/u/.cargo"),
        ("/home/u/.cargo/credentials.toml", "denied", "/home/u/.cargo/credentials.toml"),
        ("/home/u/.cargo/credentials.toml.bak", "read", "/home/u/.cargo"),
        ("/home/u", "unseen", None),
        ("/proj/src", "write", "/proj"),
        ("/proj/vendor/x", "read", "/proj/vendor"),
        ("/proj/.env", "denied", "/proj/.env"),
        ("/proj/.pysandbox/x", "masked", "/proj/.pysandbox"),
        ("/project", "unseen", None),
    ],
)
def test_the_deciding_entry_is_named(path, verdict, entry):
    assert access(POLICY, path) == (verdict, Grant(entry) if entry else None)


def test_deny_wins_over_a_more_specific_grant():
    policy = Policy(allow_write=["/a/b/c"], deny=["/a"], mask=["/a/b"])
    assert access(policy, "/a/b/c/d") == ("denied", Grant("/a"))


def test_writing_wins_over_reading_for_the_same_path():
    assert access(Policy(allow=["/a"], allow_write=["/a"]), "/a")[0] == "write"


@pytest.mark.parametrize(
    ("listed", "path", "allowed"),
    [
        ([], "/any", False), (["/nix/store/*"], "/nix/store/x/bin/y", True), (["/nix/store/*"], "/nix/store", False),
        (["/nix/store/*"], "/nix/store-extra/foo", False), (["/usr/bin/git"], "/usr/bin/git", True),
        (["/usr/bin/git"], "/usr/bin/git/x", False), (["/usr/bin/git"], "/usr/bin/gi", False), (["/*"], "/bin/x", True),
    ],
)  # fmt: skip
def test_executables_match_exactly_or_below_a_star(listed, path, allowed):
    assert may_execute(listed, path) is allowed
