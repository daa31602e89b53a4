"""What the policy denies or masks in a tree, by name and by pattern, for the commit: a cage may have made any of it.

What was there when the cage was made is covered in it, but a name that was not there is the cage's own, and so is one
that is spelled otherwise and which the tree, where it folds names, has for the same. The way to the tree is the host's:
it is matched as it is spelled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from pysandbox.policy.folding import caseless
from pysandbox.policy.patterns import Matching
from pysandbox.workspace.folds import Folds
from pysandbox.workspace.path_sets import PathSet
from pysandbox.workspace.upper import Tree

_CLASS = re.compile(r"\[(!?)(\]?[^]]*)\]")


class DeniedInTree:
    """Asked of paths in the order of a walk, it matches each directory once. `folds`: whether a path of the tree is the
    same in another case."""

    def __init__(self, tree: Tree, folds: Callable[[str], bool] | None = None) -> None:
        self._names = PathSet(caseless(os.fsdecode(each)) for each in tree.denied)
        self._patterns = [DeniedPattern(each, tree.path) for each in tree.patterns]
        spelled = [each for each in tree.patterns if not _has_range(each)]
        ranges = [each for each in tree.patterns if _has_range(each)]
        self._folded = [DeniedPattern(each, tree.path, caseless) for each in spelled]
        self._widened = [DeniedPattern(each, tree.path, _widened) for each in ranges]
        self._folds = folds or Folds(tree.fd)

    def covers(self, path: str) -> bool:
        """Whether a path of the tree is denied, or lies in what is."""
        folded = caseless(path)
        return (
            self._names.covers(folded)
            or any(each.covers(path) for each in self._patterns)
            or any(each.covers(folded) for each in self._folded)
            or (any(each.covers(folded) for each in self._widened) and self._folds(path))
        )

    def is_around(self, path: str) -> bool:
        """Whether a denied name is this path or lies below it. What a pattern matched when the cage was made is among
        the names."""
        return self._names.is_around(caseless(path))


class DeniedPattern:
    """One absolute pattern, in one tree. What is known of the directories on the way to the last path is kept.
    `spelled`: how its components are spelled in the tree, beside how they are on the way to it."""

    def __init__(self, pattern: str, tree: str, spelled: Callable[[str], str] = str) -> None:
        exact = Matching(pattern)
        states: frozenset[int] | None = exact.start
        for name in filter(None, tree.split("/")):
            states = exact.below(states, name)
        self._matching = Matching(pattern, spelled)
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


def _has_range(pattern: str) -> bool:
    """Whether a class of it is one of other letters when it is folded: `[A-Z]`, `[!A]`."""
    return any(found[1] or "-" in found[2] for found in _CLASS.finditer(pattern))


def _widened(part: str) -> str:
    """A component with any letter for such a class: what folds names has too many for one."""
    return caseless(_CLASS.sub(lambda found: "?" if found[1] or "-" in found[2] else found[0], part))
