"""Copy-on-write trees of which each cage has a private copy, where no overlay is laid over them (`storage = "copy"`).

The copy is made by the launcher before the cage (`live.copies`), below LAYERS. In full isolation it is bound over the
tree's path; without mounts the cage works where it lies, and the tree itself is not shown to it by any rule. What is
denied, masked or hidden in a tree is in the copy as an empty name, in either isolation. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from pysandbox.compile.plan import LAYERS, CopiedTree, CopyPlan, LandlockRule
from pysandbox.compile.shown import ShownTree, View
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.shapes import replace

MIB = 1 << 20
# What stands for a name that is hidden, by (kind, whether it is a directory): the watchdog looks into every directory.
HOLLOW = {("deny", False): 0, ("deny", True): 0o500, ("mask", False): 0o444, ("mask", True): 0o555}


def copy_places(trees: Mapping[str, ShownTree]) -> dict[str, str]:
    """Where the copy of each tree lies, by its real path. The name is kept: programs call what they make by it."""
    copied = sorted(real for real, tree in trees.items() if tree.cow)
    return {real: f"{LAYERS}/{number}/{posixpath.basename(real) or 'root'}" for number, real in enumerate(copied)}


def copy_plan(policy: Policy, view: View) -> CopyPlan:
    full = policy.isolation == "full"
    trees = (
        CopiedTree(real, place, view.trees[real].fact.dev, view.trees[real].fact.ino, _hollow(real, view), full)
        for real, place in view.copies.items()
    )
    return CopyPlan(tuple(trees), policy.copy_mb * MIB)


def _hollow(tree: str, view: View) -> tuple[tuple[str, int], ...]:
    return tuple(
        (real[len(tree.rstrip("/")) + 1 :], HOLLOW[hole.kind, hole.fact.kind == "dir"])
        for real, hole in view.holes.items()
        if real != tree and covers(tree, real)
    )


def on_the_copy(rule: LandlockRule, view: View) -> LandlockRule:
    """A rule on a tree, without mounts: on what the cage has of it."""
    place = view.copies.get(rule.path)
    return rule if place is None else replace(rule, path=place, dev=0, ino=0)
