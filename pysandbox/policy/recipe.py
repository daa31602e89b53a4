"""Recipes: partial policies that merge, and the ones that ship with the package, `base` first of all.

`sources.py` reads a recipe from a file, `search.py` finds one by name; the laws by which two become one are in
`merge.py`. The base recipe is also kept as Python (`base_grants.py`, generated from recipes/base.toml), so that a cage
needs neither a TOML reader nor a file on disk to start; so is what all of them say of themselves (`shipped_list.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pysandbox.policy import base_grants
from pysandbox.policy.merge import RULES, merge_layers, union_grants
from pysandbox.policy.model import MERGE_WORDS, Policy
from pysandbox.policy.option import RecipeMeta
from pysandbox.policy.refusal import Refused, did_you_mean
from pysandbox.policy.shipped_list import SHIPPED

__all__ = ["PACKAGED", "SHIPPED", "Recipe", "RecipeMeta", "completed", "shipped", "shipped_file", "with_base"]

PACKAGED = os.path.join(os.path.dirname(__file__), "recipes")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A partial policy: only the fields it gives, each already valid, under the names of Policy's fields."""

    given: Mapping[str, Any]
    meta: RecipeMeta | None = None
    file: str | None = None

    @property
    def name(self) -> str:
        """What [recipe] calls it, else the stem of its file."""
        if self.meta is not None and self.meta.name:
            return self.meta.name
        return os.path.basename(self.file or "").removesuffix(".toml")

    def merge(self, later: Recipe) -> Recipe:
        return Recipe(
            merge_layers(MERGE_WORDS, self.given, later.given),
            RULES["overlay"](self.meta, later.meta) if later.meta is not None else self.meta,
            RULES["overlay"](self.file, later.file) if later.file is not None else self.file,
        )

    def policy(self) -> Policy:
        """The complete policy, every field not given at its default. PolicyError where the fields contradict."""
        return Policy(**completed(self.given))


def completed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A [[host]] block is the permission to reach it: where nothing is said of the network, it is proxy-only (T06)."""
    return {"egress": "proxy-only", **given} if given.get("hosts") else given


def with_base(policy: Policy) -> Policy:
    """`policy` on top of the system directories that any program needs, unless it says base = false."""
    if not policy.base:
        return policy
    return replace(
        policy,
        allow=union_grants((*base_grants.ALLOW, *policy.allow)),
        deny=union_grants((*base_grants.DENY, *policy.deny)),
    )


def shipped(name: str) -> Recipe:
    """The recipe of that name that travels with the package."""
    from pysandbox.policy.sources import read_recipe

    if name not in SHIPPED:
        known = ", ".join(SHIPPED)
        raise Refused(f"no such recipe ships; there are {known}", did_you_mean(name, SHIPPED)).error(name)
    return read_recipe(shipped_file(name))


def shipped_file(name: str) -> str:
    kind, _, stem = name.rpartition(":")
    return os.path.join(PACKAGED, f"{kind}s" if kind else "", f"{stem}.toml")
