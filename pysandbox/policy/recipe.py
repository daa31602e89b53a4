"""Recipes: partial policies that merge, and the ones that ship with the package, `base` first of all.

`sources.py` reads a recipe from a file, `search.py` finds one by name; the laws by which two become one are in
`merge.py`. The base recipe is also kept as Python (`base_grants.py`, generated from recipes/base.toml), so that a cage
needs neither a TOML reader nor a file on disk to start; so is what all of them say of themselves (`shipped_list.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pysandbox.policy import base_grants
from pysandbox.policy.fields import MERGE_WORDS, P
from pysandbox.policy.merge import RULES, merge_layers, union_grants
from pysandbox.policy.option import Grant, RecipeMeta
from pysandbox.policy.shipped_list import SHIPPED
from pysandbox.shapes import Any, dataclass

__all__ = ["PACKAGED", "SHIPPED", "Recipe", "RecipeMeta", "base_paths", "completed", "shipped_file", "with_base"]

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

    def policy(self, kind: type[P]) -> P:
        """The complete Policy, every field not given at its default. PolicyError where the fields contradict."""
        return kind(**completed(self.given))


def completed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A [[host]] block is the permission to reach it: where nothing is said of the network, it is proxy-only (T06)."""
    return {"egress": "proxy-only", **given} if given.get("hosts") else given


# Without a view of its own a cage is shown that this file is there, and whoever asks which distribution this is (pip
# does) fails where it cannot be read.
SHOWN_ANYWAY = (Grant("/etc/debian_version", optional=True),)


def with_base(policy: P) -> P:
    """`policy` on top of the system directories that any program needs, unless it says base = false. What is denied
    in them is denied either way: a policy without the base shows no more of /etc than one with it."""
    denied = union_grants((*base_grants.DENY, *policy.deny))
    if not policy.base:
        return policy.with_checked(deny=denied)
    on_host = SHOWN_ANYWAY if policy.isolation == "landlock" else ()
    return policy.with_checked(
        allow=union_grants((*base_grants.ALLOW, *on_host, *policy.allow)),
        deny=denied,
    )


def base_paths() -> frozenset[str]:
    """Every path that `with_base` adds to a policy."""
    return frozenset([grant.path for grant in (*base_grants.ALLOW, *SHOWN_ANYWAY, *base_grants.DENY)])


def shipped_file(name: str) -> str:
    kind, _, stem = name.rpartition(":")
    return os.path.join(PACKAGED, f"{kind}s" if kind else "", f"{stem}.toml")
