"""What a cage wrote in its copies of copy-on-write trees: all that is not as it was when the copies were made.

A copy is no layer: what it holds is mostly the tree's own. A name is the cage's work where it is another file now, by
its inode, or was changed, by its ctime (`live.copies`); one that is gone is a whiteout. What became of a mode when it
was copied is told as the tree's. Marks of overlayfs, which a cage can set here, mean nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping

from pysandbox.live.copies import Baseline, Copy, TreeCopies
from pysandbox.live.layers import DiskLayers
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.held import HeldUpper, Hidden
from pysandbox.workspace.upper import Tree, UpperEntry
from pysandbox.workspace.walk import KINDS, WalkBounds, bounded, marks_of, read_directory, user_attributes_of

if TYPE_CHECKING:
    from pysandbox.live.init import CageInit
    from pysandbox.runtime.prepared import Prepared


class CopyUpper(HeldUpper):
    """The copy `made` of a tree. `hollow`: names in it that stand for what the cage is not to have."""

    def __init__(self, tree: Tree, made: Copy, is_still: Callable[[], bool], layers: DiskLayers | None) -> None:
        super().__init__(tree, made.sink, is_still, layers)
        self._baseline: Baseline = made.baseline
        self._modes: Mapping[bytes, tuple[int, int]] = made.modes
        self._hollow = {os.fsencode(name) for name, _ in made.tree.hollow}

    def walk(self) -> Iterator[UpperEntry]:
        rows, needed = self._rows()
        for row in rows:
            yield from (each for each, is_changed in row if is_changed or each.path in needed)

    def _rows(self) -> tuple[list[list[tuple[UpperEntry, bool]]], set[bytes]]:
        """Directory by directory the entries that were changed, and all directories; those on the way to a change."""
        rows, needed, ahead = [], set[bytes](), [b""]
        bounds = WalkBounds()
        while ahead:
            above = ahead.pop()
            row = self._row(above, bounds)
            folders = [each for each, _ in row if each.kind == "dir" and each.path not in self._hollow]
            ahead += [each.path for each in reversed(folders)]
            rows.append(row)
            if any(is_changed for _, is_changed in row):
                while above and above not in needed:
                    needed.add(above)
                    above = above.rpartition(b"/")[0]
        return rows, needed

    def _row(self, above: bytes, bounds: WalkBounds) -> list[tuple[UpperEntry, bool]]:
        known = self._baseline.get(above, {})
        prefix = above + b"/" if above else b""
        found: list[tuple[UpperEntry, bool]] = []

        def read(fd: int) -> list[str]:
            names = os.listdir(fd)
            for name in names:
                path, state = prefix + os.fsencode(name), os.stat(name, dir_fd=fd, follow_symlinks=False)
                is_changed = known.get(name) != (state.st_ino, state.st_ctime_ns) and path not in self._hollow
                if is_changed or stat.S_ISDIR(state.st_mode):
                    entry = bounded(self._entry(fd, name, path, state, name in known))
                    bounds.take(path, entry.xattrs)
                    found.append((entry, is_changed or entry.kind == "deep"))
            return names

        there = set(read_directory(self._open_fd(), above, read))
        found += [(_whiteout(prefix + os.fsencode(name)), True) for name in known if name not in there]
        return sorted(found, key=lambda each: each[0].path)

    def _entry(self, fd: int, name: str, path: bytes, state: os.stat_result, was_there: bool) -> UpperEntry:
        kind, mode = KINDS[stat.S_IFMT(state.st_mode)], stat.S_IMODE(state.st_mode)
        copied, original = self._modes.get(path, (mode, mode))
        marks = user_attributes_of(marks_of(fd, name)) if kind in ("file", "dir") else {}
        return UpperEntry(
            path, kind, original if mode == copied else mode, state.st_uid, state.st_gid, state.st_size,
            state.st_blocks, state.st_mtime_ns, state.st_dev, state.st_ino, state.st_nlink, False, was_there, marks,
        )  # fmt: skip


def _whiteout(path: bytes) -> UpperEntry:
    return UpperEntry(path, "whiteout", 0, 0, 0, 0, 0, 0, 0, 0, 0)


def open_copies(live: CageInit, prepared: Prepared, hides: Hidden, is_still: Callable[[], bool]
                ) -> tuple[CopyUpper, ...]:  # fmt: skip
    """One for each copy-on-write tree of a cage that waits for its first command."""
    copies, layers = live.services.find(TreeCopies), live.services.find(DiskLayers)
    unguarded = prepared.policy.unguarded
    uppers = []
    for made in copies.take() if copies is not None else ():
        hollow = (os.fsencode(name) for name, _ in made.tree.hollow)
        denied = tuple(dict.fromkeys((*hides.in_tree(made.tree.path), *hollow)))
        tree = Tree(made.tree.path, made.source, made.opening, denied, unguarded, hides.patterns)
        uppers.append(CopyUpper(tree, made, is_still, layers))
    return tuple(uppers)
