"""How much a cage has written to directories of the host's disk that are its own: its scratch, the layers of its
copy-on-write trees. Looked at by the watchdog.

No quota of the kernel's is for whoever is not root, so it is found out by walking, a slice at a time. What a walk
cannot see is not taken for nothing: files without a name are asked of whoever has them open, and a directory that
cannot be read counts as too much as soon as the file system has lost more than the cage may have written, or, where
others free as much meanwhile, when it stays so and the cage has written more, wherever that is. Whatever hides beyond
that (a file that is only mapped, or on its way through a socket), the file system is never filled up: a cage is ended
when less than KEPT_FREE is left.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pysandbox.live.kill_reason import (
    DISK_FULL,
    OUT_OF_LAYERS,
    OUT_OF_SCRATCH,
    SCRATCH_FULL,
    SCRATCH_UNSEEN,
    KillReason,
)
from pysandbox.live.scratch_use import ScratchUse
from pysandbox.shapes import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from pysandbox.live.tree import ProcessTree

KEPT_FREE = 256 << 20  # bytes of the file system
NAMES_KEPT_FREE = 4096
PAGE = 4096  # there may be as many names as the limit has pages, as on a memory file system
FEWEST_NAMES = 4096
PERSISTS = 10  # walks in a row, two seconds at least: a directory may be shut for a moment


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Why a cage is ended. `spares`: a disk that is nearly full is no reason before it has lost what the cage may
    write, since it need not be the cage's doing."""

    too_much: KillReason
    unseen: KillReason
    full: KillReason
    spares: bool


LAYERS = Verdicts(OUT_OF_LAYERS, OUT_OF_LAYERS, DISK_FULL, spares=False)
SCRATCH = Verdicts(OUT_OF_SCRATCH, SCRATCH_UNSEEN, SCRATCH_FULL, spares=True)


class DiskUse:
    """One walk after the other over the directory `path`. `trees`: the same, and what else counts, as the cage names
    it. `more_names`: beside those that `most` bytes give. `close()` is idempotent."""

    def __init__(self, path: str, most: int, trees: Sequence[str], verdicts: Verdicts, more_names: int = 0) -> None:
        self._walk = ScratchUse(path)
        self._most, self._trees, self._verdicts = most, trees, verdicts
        self.most_names = max(most // PAGE, FEWEST_NAMES) + more_names
        self._free = room(self._walk.fd)[0]
        self._blind = 0  # walks in a row that could not see all

    def look(self, tree: ProcessTree | None) -> KillReason | None:
        """Goes on with the walk; why the cage is to be ended, if it is."""
        free, names = room(self._walk.fd)
        lost = self._free - free
        if (free < KEPT_FREE or names < NAMES_KEPT_FREE) and (lost > self._most or not self._verdicts.spares):
            return self._verdicts.full
        used = self._walk.look()
        if used > self._most or self._walk.names > self.most_names:
            return self._verdicts.too_much
        if not self._walk.is_whole:
            return None
        if used + (tree.unnamed(self._trees) if tree is not None else 0) > self._most:
            return self._verdicts.too_much
        self._blind = self._blind + 1 if self._walk.blind else 0
        hides = lost > self._most or (self._blind >= PERSISTS and _written(tree) > self._most)
        return self._verdicts.unseen if self._blind and hides else None

    def total(self) -> tuple[int, int]:
        """Bytes and names, of one walk to its end."""
        self._walk.look()
        while not self._walk.is_whole:
            self._walk.look()
        return self._walk.found, self._walk.names

    def close(self) -> None:
        self._walk.close()


def _written(tree: ProcessTree | None) -> int:
    """Bytes that its processes have written, of those that can be asked."""
    try:
        return sum(each.least for each in (tree.written() or {}).values()) if tree is not None else 0
    except OSError:
        return 0


def room(fd: int) -> tuple[int, int]:
    """Bytes and names that its user can still have on a file system; one without a number of names has any."""
    found = os.fstatvfs(fd)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else NAMES_KEPT_FREE
