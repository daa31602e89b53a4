"""Whether the tree has changed since a workspace was opened, path by path. Pure but for `clock_trouble`.

Nothing is looked at when a workspace is opened. The kernel stamps ctime at every change of a file, and no program of
its user can set it back: what has a ctime before the opening is what the cage saw. Four things undo that rule: a
clock that was set back, a file system whose server stamps the times (its clock is another), one that has no ctime on
its disk, and a page that was mapped and dirtied before the opening and written again after it; the first three are
found here, the last is documented.
"""

from __future__ import annotations

import time

from pysandbox.errors import Conflict
from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.opening import Opening, clock_ahead_ns
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.workspace.changes import Change, State

SECOND_NS = 1_000_000_000
SET_BACK_NS = 5_000_000  # less than this is how far apart the two clocks are read


Stamp = tuple[int, int, int]  # device, inode, ctime: of what a commit of this workspace left there itself


def stamp_of(state: State) -> Stamp:
    return state.dev, state.ino, state.ctime_ns


def conflict_of(
    change: Change, opening: Opening, own: frozenset[Stamp] = frozenset(), above: State | None = None
) -> Conflict | None:
    """By what the tree has there now (`change.before`). What is below a removed directory is `changed_since`'s.

    What began as the tree's own and has no other name's content was renamed by the cage, or its name was removed from
    the tree; a directory tells, whose ctime is that of its last name. `above`: the last on the way that is there.
    """
    before = change.before
    if before is None:
        if is_without_its_own(change) and (above is None or changed_since(above, opening, own)):
            return Conflict(change.path, "its directory was changed in the tree meanwhile, and may have lost it")
        return None
    if changed_since(before, opening, own):
        return Conflict(change.path, "it was changed in the tree meanwhile")
    return None


def is_without_its_own(change: Change) -> bool:
    """Whether it began as a file of the tree's, which has none of its name now."""
    return change.before is None and change.copied_up and change.kind == "added"


def changed_since(state: State, opening: Opening, own: frozenset[Stamp] = frozenset()) -> bool:
    """A stamp of whole seconds is one of a file system that has no finer ones (ext3, ext4 with inodes of 128 bytes,
    HFS+): it is held against the second of the opening."""
    fine = state.ctime_ns % SECOND_NS
    since = opening.realtime_ns if fine else opening.realtime_ns - opening.realtime_ns % SECOND_NS
    return state.ctime_ns >= since and (not own or stamp_of(state) not in own)


def clock_trouble(opening: Opening, magic: int) -> str | None:
    """Why no time of this tree can be relied on, None where it can."""
    if (kind := of_magic(magic)).no_ctime:
        return f"the tree lies on {kind.name}, which keeps no time of change that programs cannot set"
    if kind.own_clock:
        return f"the tree lies on {kind.name}, which stamps files by a clock of its own"
    if opening.ahead_ns - clock_ahead_ns() > SET_BACK_NS or time.time_ns() < opening.realtime_ns:
        return "the clock of this host was set back meanwhile"
    return None
