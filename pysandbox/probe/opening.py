"""When a workspace was opened, by clocks that say of a file whether it was changed since."""

from __future__ import annotations

import os
import time

from pysandbox._native import lib
from pysandbox.probe.file_systems import of_magic
from pysandbox.shapes import NamedTuple

CLOSE_NS, MOST_READINGS = 50_000, 20  # between two readings that nothing came between


class Opening(NamedTuple):
    """When a workspace was opened, by the clock that can be set back, and how far that one was ahead of the clock that
    cannot."""

    realtime_ns: int
    ahead_ns: int

    @classmethod
    def now(cls, magic: int = 0, fd: int = -1) -> Opening:
        """`magic`: the file system of the tree, by statfs(2). `fd`: a directory of ours, of which nobody asks when it
        was changed; -1 where there is none. Raises OSError."""
        return cls(_changed_now(fd) if of_magic(magic).multigrain else coarse_now(), clock_ahead_ns())


def coarse_now() -> int:
    """By the clock that the kernel stamps files with. It stands still for some milliseconds, and what was changed in
    those before the opening is taken for a change after it."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", 5))


def _changed_now(fd: int = -1) -> int:
    """A stamp that every change so far is before, and no later one (csrc/host/probe/stamp.c). Raises OSError."""
    stamp = int(lib.psb_stamp_now(fd))
    if stamp < 0:
        raise OSError(-stamp, os.strerror(-stamp))
    return stamp


def clock_ahead_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_BOOTTIME: it changes when somebody sets the clock, and at no other time.

    On a busy host others may run for milliseconds between two readings: of several pairs the closest one counts.
    """
    apart, ahead = _clocks()
    for _ in range(MOST_READINGS):
        if apart <= CLOSE_NS:
            break
        apart, ahead = min((apart, ahead), _clocks())
    return ahead


def _clocks() -> tuple[int, int]:
    """How long it took to read both, and how far the one is ahead of the other."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    real = time.clock_gettime_ns(time.CLOCK_REALTIME)
    apart = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - before
    return apart, real - before - apart // 2
