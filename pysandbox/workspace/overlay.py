"""The upper layers of a running cage's copy-on-write trees, as the host sees them: no path of the cage leads there.

Their descriptors were opened with the cage (`live.uppers`), and outlive it, and with them what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox._native import lib
from pysandbox.live.layers import DiskLayers
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.held import HeldUpper, Hidden
from pysandbox.workspace.upper import Tree, UpperEntry
from pysandbox.workspace.walk import walk_upper

if TYPE_CHECKING:
    from pysandbox.live.init import CageInit
    from pysandbox.live.uppers import OpenedUppers
    from pysandbox.runtime.prepared import Prepared


class OverlayUpper(HeldUpper):
    """The layer below the open directory `fd`. `swapped`: root has started the cage as another user, whose ids stand
    for root's."""

    def __init__(
        self, tree: Tree, fd: int, is_still: Callable[[], bool], *, swapped: bool, layers: DiskLayers | None = None
    ) -> None:
        super().__init__(tree, fd, is_still, layers)
        self._swapped = swapped

    def walk(self) -> Iterator[UpperEntry]:
        found = walk_upper(self._open_fd())
        return map(_as_of_root, found) if self._swapped else found


def _as_of_root(entry: UpperEntry) -> UpperEntry:
    uid, gid = (0 if each == lib.PSB_OUTSIDE else each for each in (entry.uid, entry.gid))
    return entry._replace(uid=uid, gid=gid)


def open_uppers(
    opened: OpenedUppers, prepared: Prepared, hides: Hidden, is_still: Callable[[], bool],
    live: CageInit | None = None,
) -> tuple[OverlayUpper, ...]:  # fmt: skip
    """One for each copy-on-write tree of a cage whose workspace was opened. `live`: the cage, where its layers lie
    on disk."""
    unguarded, swapped = prepared.policy.unguarded, prepared.plan.unrooted
    on_disk = live.services.find(DiskLayers) if live is not None else None
    uppers = []
    for opening, (path, tree_fd, fd, _) in zip(opened.openings, opened.take(), strict=True):
        tree = Tree(path, tree_fd, opening, hides.in_tree(path), unguarded, hides.patterns)
        uppers.append(OverlayUpper(tree, fd, is_still, swapped=swapped, layers=on_disk))
    return tuple(uppers)
