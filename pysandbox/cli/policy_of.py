"""The one place where a command line (of `run`, of `up`) becomes a Policy: our defaults, the recipes, the last word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pysandbox.errors import PolicyError
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, Policy

# What a command line is for: working on the files at hand, as oneself. Recipes and flags override it.
DEFAULTS: dict[str, Any] = {"workdir": "write", "run_as": "self"}


class Asked(NamedTuple):
    """`read`: every path that had a say in the policy; when one of them changes, the policy may be another."""

    policy: Policy
    read: tuple[str, ...]


def policy_of(recipes: Sequence[str], *, command: Sequence[str], extra: Mapping[str, Any], pty: bool = False) -> Asked:
    """The defaults, then each recipe, then `extra`. PolicyError for what cannot be, before anything has started."""
    given = {"env_passthrough": ("TERM",), **DEFAULTS} if pty else DEFAULTS  # a program must know its terminal's kind
    read = []
    for name in recipes:
        file = recipe_file(name)
        given = merge_layers(MERGE_WORDS, given, _layer(file))
        read.append(file)
    policy = Policy(**merge_layers(MERGE_WORDS, given, extra))
    demand_one_mode(policy)
    return Asked(policy, tuple(read))


def recipe_file(name: str) -> str:
    """A path is taken as it is; anything else is the name of a recipe that ships."""
    if "/" in name or name.endswith(".toml"):
        return name
    from pysandbox.policy.recipe import shipped, shipped_file

    shipped(name)  # PolicyError lists the names
    return shipped_file(name)


def _layer(file: str) -> Mapping[str, Any]:
    from pysandbox.policy.sources import read_recipe

    return read_recipe(file).given


def demand_one_mode(policy: Policy) -> None:
    """Monitor lets everything happen and strict lets nothing pass: whoever says both, in whatever place (T43), means
    one of them, and we cannot know which."""
    if policy.strict and getattr(policy, "monitor", False):
        raise PolicyError("monitor and strict exclude each other", key="monitor",
                          suggestion="leave out --monitor, or strict in the flags, recipes and manifest")  # fmt: skip
