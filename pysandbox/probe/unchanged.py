"""Directories that were looked through and hold nothing to be done: one stat(2) tells whether that still holds.

A change of what is in a directory, of its owner or of its mode changes its times. A stamp that is younger than the
coarsest of file systems count is not believed: another change could still get the same one.
"""

from __future__ import annotations

import os
import time

from pysandbox.shapes import NamedTuple

COARSEST_NS = 3_000_000_000  # FAT has two seconds


class Stamp(NamedTuple):
    """By stat(2), of a directory that somebody is about to look through."""

    device: int
    inode: int
    changed_ns: int
    modified_ns: int


_UNCHANGED: dict[str, tuple[Stamp, float]] = {}


def stamp_of(path: str) -> Stamp | None:
    """None where nothing has that name. Raises OSError."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns)


def is_unchanged(path: str, stamp: Stamp | None) -> bool:
    """Whether there is nothing to be done below `path`, whose stamp was just taken."""
    if stamp is None:
        return True
    known, until = _UNCHANGED.get(path, (None, 0.0))
    return known == stamp and time.time() < until


def remember_unchanged(path: str, stamp: Stamp, until: float = float("inf")) -> None:
    """What was listed after `stamp` was taken needs nothing before the time `until`."""
    if max(stamp.changed_ns, stamp.modified_ns) < time.time_ns() - COARSEST_NS:
        _UNCHANGED[path] = (stamp, until)
    else:
        _UNCHANGED.pop(path, None)
