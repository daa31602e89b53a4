"""Adding to a recipe's text: what was there stays, what is added reads as a merge would have it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from pysandbox.errors import PolicyError
from pysandbox.policy.edit import add_to, layer_of, located
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.sources import parse_recipe

from .strategies import POLICIES

RECIPE = """\
# ours
strict = false  # for now

[filesystem]
allow = [
    "/a",  # one, with a ] and a "
    "/b"   # two
    # the end
]
deny = ["/x"]   # never

[resources]
# nothing yet
"""


def layer(line: str) -> Any:
    return parse_recipe(line).given


@pytest.mark.parametrize(("line", "removed", "added"), [
    ('filesystem.allow = ["/c"]', '    "/b"   # two', '    "/b",   # two\n    # the end\n    "/c",\n]'),
    ('filesystem.deny = ["/y", "/z"]', 'deny = ["/x"]', 'deny = ["/x", "/y", "/z"]   # never'),
    ('filesystem.allow_write = ["/w"]', "", 'never\nallow_write = ["/w"]\n'),
    ("resources.memory_mb = 64", "", "[resources]\nmemory_mb = 64\n# nothing yet"),
    ("strict = true", "strict = false", "strict = true  # for now"),
    ('network.egress = "none"', "", '\n[network]\negress = "none"\n'),
    ('isolation = "landlock"', "", 'now\nisolation = "landlock"\n'),
])  # fmt: skip
def test_a_line_goes_where_it_belongs_and_the_rest_stays(line: str, removed: str, added: str) -> None:
    edited = add_to(RECIPE, layer(line))
    assert added in edited
    gone = [each for each in RECIPE.splitlines() if each not in edited.splitlines()]
    assert all(each.startswith(removed) for each in gone) if removed else gone == []


def test_what_is_there_already_changes_nothing() -> None:
    assert add_to(RECIPE, layer('filesystem.allow = ["/b"]')) == RECIPE


def test_an_empty_file_becomes_a_recipe() -> None:
    edited = add_to("", layer('filesystem.allow = ["/c"]\nstrict = true'))
    assert parse_recipe(edited).given == {"allow": Policy(allow=["/c"]).allow, "strict": True}


def test_keys_with_their_section_in_front_get_one_more_such() -> None:
    edited = add_to('filesystem.allow = ["/a"]  # first\n', layer('filesystem.deny = ["/b"]'))
    assert edited == 'filesystem.allow = ["/a"]  # first\nfilesystem.deny = ["/b"]\n'


def test_a_layout_that_cannot_grow_is_left_alone() -> None:
    with pytest.raises(PolicyError, match="by hand"):
        add_to('filesystem = { allow = ["/a"] }\n', layer('filesystem.deny = ["/b"]'), "mine.toml")


@pytest.mark.parametrize(("line", "whole"), [
    ('allow_execve = ["/x"]', 'process.allow_execve = ["/x"]'),
    ('process.allow_execve = ["/x"]', 'process.allow_execve = ["/x"]'),
    ("strict = true", "strict = true"),
    ("", ""),
])  # fmt: skip
def test_a_line_gets_the_section_of_its_key(line: str, whole: str) -> None:
    assert located(line) == whole


@pytest.mark.parametrize("line", [
    "", "allow =", "nothing = 1", 'allow = ["/a"]\nstrict = true', '[filesystem]\nallow = ["/a"]', "# allow",
])  # fmt: skip
def test_what_is_not_one_line_of_a_policy_is_refused(line: str) -> None:
    with pytest.raises(PolicyError):
        layer_of(line)


@given(POLICIES, POLICIES)
@settings(max_examples=60, deadline=None)
def test_the_result_reads_as_the_merge(first: Policy, second: Policy) -> None:
    try:
        text = first.to_toml()
        edited = add_to(text, second.given)
    except PolicyError:
        return  # a name that TOML cannot hold, or a layout that is left alone
    wanted = Recipe(first.given).merge(Recipe(second.given)).given
    read = parse_recipe(edited).given
    assert {name: read[name] for name in wanted} == dict(wanted)
