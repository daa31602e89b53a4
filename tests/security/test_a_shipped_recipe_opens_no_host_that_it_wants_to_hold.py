"""Claim: a host of which a shipped recipe says more than this version can hold is out of reach, whatever recipe stands
beside it, until its user opens it.

A name that a rule allows is looked up outside, and whether anybody knows it there does not matter here; one that no
rule allows is refused at the door, which the result tells.
"""

from __future__ import annotations

import pytest

from pysandbox import Cage
from pysandbox.policy.compose import resolve

HOST, INDEX = "api.anthropic.com", "pypi.org"
HOLDS = pytest.mark.parametrize("recipe", ["claude-code", "service:anthropic", "opencode"])
UNSCANNED = "*.other.example"  # a host of which not all could be scanned: then nothing is


def refused(name: str, *recipes: str, hosts: tuple[str, ...]) -> bool:
    """Whether the door refuses the name to a cage of these recipes, and of hosts that its user opens himself."""
    result = Cage(resolve(recipes, extra={"hosts": hosts}).policy).run(["getent", "hosts", name])
    door = name in [denial.target for denial in result.denials]
    assert not (door and result.ok), result
    assert name in hosts or any("not held beside host" in note.message for note in result.notes) == door, result.notes
    return door


@HOLDS
def test_it_is_reached_when_it_is_held_or_its_user_opens_it(recipe: str) -> None:
    assert not refused(HOST, recipe, hosts=("other.example",))
    assert not refused(HOST, recipe, hosts=(HOST, UNSCANNED))


@HOLDS
def test_it_is_out_of_reach_otherwise(recipe: str) -> None:
    assert refused(HOST, recipe, hosts=(UNSCANNED,))


def test_a_recipe_that_wants_a_scan_closes_what_stands_beside_it() -> None:
    """An agent that may read everything is not given the hosts of a package index, unscanned, by another recipe."""
    assert not refused(INDEX, "python-pip", hosts=(UNSCANNED,))
    assert refused(INDEX, "claude-code", "python-pip", hosts=(UNSCANNED,))
    assert refused(INDEX, "python-pip", "claude-code", hosts=(UNSCANNED,))
