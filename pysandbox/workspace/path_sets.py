"""Sets of paths that are asked of each path of a workspace: by one search in a sorted list, however many they are and
however deep it is. Pure.

A cage makes as many names as it likes, as deep as it likes; whoever reads them does work for each name once.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable


def walk_order(path: str) -> bytes:
    """A key that sorts what lies in a directory right behind it: "a", "a/b", "a-b". `.` is before all."""
    return b"" if path in ("", ".") else os.fsencode(path).replace(b"/", b"\0") + b"\0"


class PathSet:
    """`paths` are relative to one directory, which `.` is itself; an empty one is none."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._tops: list[bytes] = []  # of those that lie in each other the topmost
        for key in sorted(walk_order(each) for each in paths if each):
            if not self._tops or not key.startswith(self._tops[-1]):
                self._tops.append(key)

    def covers(self, path: str) -> bool:
        """Whether a path is one of them, or lies in one."""
        key = walk_order(path)
        at = bisect_right(self._tops, key)
        return at > 0 and key.startswith(self._tops[at - 1])

    def is_around(self, path: str) -> bool:
        """Whether one of them is the path or lies below it. Of those that lie in each other the topmost alone is asked:
        one that is covered by another is around nothing."""
        key = walk_order(path)
        at = bisect_left(self._tops, key)
        return at < len(self._tops) and self._tops[at].startswith(key)


class TopmostMarked:
    """The last marked directory, for as long as what is asked, in `walk_order`, lies in it."""

    def __init__(self) -> None:
        self._top = self._prefix = ""

    def mark(self, path: str) -> None:
        """From now on, unless it lies in the one that is marked."""
        if not self.above(path):
            self._top, self._prefix = path, path + "/"

    def above(self, path: str) -> str:
        """The marked one that it lies in; empty for none."""
        return self._top if self._prefix and path.startswith(self._prefix) else ""
