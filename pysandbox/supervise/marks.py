"""Marking a process so that all it ever starts bears the mark too, however it hides its descent.

Parents tell too little: an orphan goes to cage-init or to any subreaper, CLONE_PARENT gives a child to somebody else.
What every child inherits, no exec resets, and nobody without CAP_SYS_RESOURCE can raise again is a hard resource limit.
RLIMIT_LOCKS and RLIMIT_RSS are two that the kernel keeps and does not look at (since Linux 2.4.25 and 2.4.30,
getrlimit(2)), so their values are free to be a mark.

A process may still lower its own, to the value of any other mark: /proc shows them. So a mark is an interval, and both
its ends are kept as numbers that only fall: one limit is its upper end, the other says how far its lower end is from
the top. By lowering either a process comes to an interval inside its own, and to no other. Inside an interval lie only
the marks that were given to a process that bore it, with lists that are narrower; whatever else is found there is no
mark, and counts as every mark there is.
"""

from __future__ import annotations

import resource
from collections.abc import Collection
from contextlib import suppress

from pysandbox.launch import native
from pysandbox.shapes import NamedTuple

RLIMIT_LOCKS, RLIMIT_RSS = 10, resource.RLIMIT_RSS  # <asm-generic/resource.h>
WHOLE = 1 << 60
SHARE = 10  # bits: of the room that is left in an interval, a new mark takes one part in 1 << SHARE


class Mark(NamedTuple):
    """The two hard limits: an interval's upper end, and how far its lower end is from the top."""

    locks: int
    rss: int


LAST = Mark(0, 0)  # where there is no room for a mark of one's own: it counts as every mark


class Marks:
    """The marks of one cage, by number. `unmarked` is what its processes have from the start."""

    def __init__(self, unmarked: Mark) -> None:
        self.unmarked = unmarked
        self._top = min([WHOLE, *(each for each in unmarked if each >= 0)])
        self._numbers: dict[Mark, int] = {}
        self._count = 0
        self._free = {unmarked: (1, self._top - 1)}  # what is left in each interval, both ends included

    @property
    def are_told_apart(self) -> bool:
        """Whether a process without a mark looks different from one that bears the last of them."""
        return self.unmarked != LAST

    def number_of(self, mark: Mark) -> int:
        """The number of a mark; 0 for any other pair of limits."""
        return self._numbers.get(mark, 0)

    def inside(self, mark: Mark) -> tuple[int, Mark]:
        """The number of a new mark, and the mark, for processes that bear this one, or none."""
        self._count += 1
        low, high = self._free.get(mark, (1, 0))
        size = (high - low) >> SHARE
        if size < 4:
            return self._count, LAST
        self._free[mark] = low + size + 1, high
        made = Mark(low + size, self._top - low)
        self._free[made] = low + 1, low + size - 1
        self._numbers[made] = self._count
        return self._count, made

    def binding(self, pid: int, known: Collection[int]) -> frozenset[int]:
        """The numbers, among those known, of the marks whose lists hold for a process."""
        if not known:
            return frozenset()
        found = mark_of(pid)
        if found == self.unmarked:
            return frozenset()
        number = self.number_of(found) if found is not None else 0
        return frozenset({number} if number in known else known)


def mark_of(pid: int) -> Mark | None:
    """The mark of a process; None when it is gone. RLIM_INFINITY is -1."""
    try:
        return Mark(native.limit(pid, RLIMIT_LOCKS), native.limit(pid, RLIMIT_RSS))
    except OSError:
        return None


def set_mark(pid: int, mark: Mark) -> None:
    """Marks a process. One that cannot be marked (it has lowered a limit already) counts as bearing every mark."""
    for limit, value in ((RLIMIT_LOCKS, mark.locks), (RLIMIT_RSS, mark.rss)):
        with suppress(OSError, ValueError):
            native.limit(pid, limit, value)
