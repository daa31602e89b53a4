"""What the policy denies or masks in a tree, by name and by pattern, for the commit: a cage may have made any of it.

What was there when the cage was made is covered in it, but a name that was not there is the cage's own, and so is one
that is spelled otherwise and which the tree, where it folds names, has for the same. Pure.
"""

from __future__ import annotations

import os

from pysandbox.policy.folding import caseless
from pysandbox.policy.patterns import Matching
from pysandbox.workspace.path_sets import PathSet
from pysandbox.workspace.upper import Tree


class DeniedInTree:
    """Asked of paths in the order of a walk, it matches each directory once."""

    def __init__(self, tree: Tree) -> None:
        self._names = PathSet(caseless(os.fsdecode(each)) for each in tree.denied)
        self._patterns = [DeniedPattern(each, tree.path) for each in tree.patterns]
        self._folded = [DeniedPattern(caseless(each), caseless(tree.path)) for each in tree.patterns]

    def covers(self, path: str) -> bool:
        """Whether a path of the tree is denied, or lies in what is."""
        folded = caseless(path)
        return (
            self._names.covers(folded)
            or any(each.covers(path) for each in self._patterns)
            or any(each.covers(folded) for each in self._folded)
        )

    def is_around(self, path: str) -> bool:
        """Whether a denied name lies in it. What a pattern matched when the cage was made is among the names."""
        return self._names.is_around(caseless(path))


class DeniedPattern:
    """One absolute pattern, in one tree. What is known of the directories on the way to the last path is kept."""

    def __init__(self, pattern: str, tree: str) -> None:
        self._matching = Matching(pattern)
        states: frozenset[int] | None = self._matching.start
        for name in filter(None, tree.split("/")):
            states = self._matching.below(states, name)
        self._last = ""
        self._way = [(0, states)]  # how much of `_last` it is of, and what was matched so far

    def covers(self, path: str) -> bool:
        path += "/"
        while not path.startswith(self._last[: self._way[-1][0]]):
            self._way.pop()
        at, states = self._way[-1]
        while at < len(path):
            end = path.index("/", at)
            states = self._matching.below(states, path[at:end])
            at = end + 1
            self._way.append((at, states))
        self._last = path
        return states is None
