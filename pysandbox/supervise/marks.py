"""Marking a process so that all it ever starts bears the mark too, however it hides its descent.

Parents tell too little: an orphan goes to cage-init or to any subreaper, CLONE_PARENT gives a child to somebody else.
What every child inherits, no exec resets, and nobody without CAP_SYS_RESOURCE can raise again is a hard resource limit.
RLIMIT_LOCKS is one that the kernel keeps and does not look at (since Linux 2.4.25, getrlimit(2)), so its value is free
to be a mark. A process may still lower its own: a value that is no mark counts as every mark there is.
"""

from __future__ import annotations

import resource
from collections.abc import Collection
from contextlib import suppress

RLIMIT_LOCKS = 10  # <asm-generic/resource.h>
UNMARKED = resource.RLIM_INFINITY
FIRST_MARK = 1 << 40  # later ones are lower, so that a marked process can be marked again


def mark_of(pid: int) -> int | None:
    """UNMARKED, or its mark; None when it is gone."""
    try:
        return resource.prlimit(pid, RLIMIT_LOCKS)[1]
    except OSError:
        return None


def set_mark(pid: int, mark: int) -> None:
    """What cannot be marked (it has lowered its limit below) counts as bearing every mark."""
    with suppress(OSError, ValueError):
        resource.prlimit(pid, RLIMIT_LOCKS, (mark, mark))


def marks_that_bind(pid: int, known: Collection[int]) -> frozenset[int]:
    found = mark_of(pid)
    if found == UNMARKED:
        return frozenset()
    return frozenset({found} if found is not None and found in known else known)
