"""Where a path of the host is for the commands of a cage: in the copy that they work in, where they have no mounts."""

from __future__ import annotations

import os

from pysandbox.compile.plan import LAYERS, Plan
from pysandbox.policy.match import covers


def located(path: str, plan: Plan, layers: str) -> str:
    """`layers`: the directory that stands for LAYERS. A path that is not of a copied tree is what it was."""
    for tree in plan.copies.trees if plan.copies is not None else ():
        if tree.at_its_place:
            continue
        for top in (tree.path, tree.place):
            if covers(top, os.path.normpath(path)):
                return layers + tree.place.removeprefix(LAYERS) + os.path.normpath(path)[len(top) :]
    return path
