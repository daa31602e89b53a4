"""The upper layers of a running cage's copy-on-write trees, as the host sees them: no path of the cage leads there.

`apart` takes them from a cage that waits for its first command, and asks the clocks: from then on a change of the
host's is later than the workspace. The descriptors outlive the cage, and with them what it wrote.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence

from pysandbox._native import lib
from pysandbox.compile.cow import cow_steps
from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.live.layers import DiskLayers
from pysandbox.probe.opening import Opening
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.held import HeldUpper, denied_in
from pysandbox.workspace.upper import Tree, UpperEntry
from pysandbox.workspace.walk import walk_upper

if TYPE_CHECKING:
    from pysandbox.compile.plan import MountStep
    from pysandbox.live.init import CageInit
    from pysandbox.runtime.prepared import Prepared

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
AT_FDCWD = -100  # openat(2)
NO_LINKS = native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_MAGICLINKS


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


def open_uppers(live: CageInit, prepared: Prepared, denied: Sequence[str], is_still: Callable[[], bool]
                ) -> tuple[OverlayUpper, ...]:  # fmt: skip
    """One for each copy-on-write tree of a cage that waits for its first command. `denied`: real paths. Raises
    StartError, CageClosedError."""
    unguarded, swapped = prepared.policy.unguarded, prepared.plan.unrooted
    on_disk = live.services.find(DiskLayers) if prepared.plan.layers is not None else None
    uppers: list[OverlayUpper] = []
    layers = live.take_upper()
    try:
        for step in cow_steps(prepared.plan):
            tree_fd = _open_tree(step)
            try:
                opening = Opening.now(native.file_system(tree_fd))
                tree = Tree(step.source, tree_fd, opening, denied_in(step.source, denied), unguarded)
                fd = native.open_inside(layers, f"{step.data}/upper", DIRECTORY, resolve=NO_LINKS)
            except BaseException:
                os.close(tree_fd)
                raise
            uppers.append(OverlayUpper(tree, fd, is_still, swapped=swapped, layers=on_disk))
    except BaseException as error:
        for upper in uppers:
            upper.drop()
        if isinstance(error, OSError) and not isinstance(error, StartError):
            raise StartError("upper", error.errno or 0, error.filename) from None
        raise
    finally:
        os.close(layers)
    return tuple(uppers)


def _open_tree(step: MountStep) -> int:
    """The host's directory below an overlay. Raises StartError where it is another by now, OSError."""
    fd = native.open_inside(AT_FDCWD, step.source, DIRECTORY, resolve=NO_LINKS)
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != (step.dev, step.ino):
        os.close(fd)
        raise StartError("source_changed", errno.ESTALE, step.source)
    return fd
