"""START HERE for copies of copy-on-write trees: what a cage works in where no overlay is laid over them.

`TreeCopies` belongs to one cage. It makes the copies before the cage is made (`live.copier`), in the directory of its
layers (`live.layers`), and looks at each name once when that is done: what is another file by then, by its inode or by
its ctime, which no program of the cage can set back, was changed by the cage. Whoever reads what was changed takes all
of it over (`take`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence

from pysandbox.compile.plan import LAYERS
from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.launch.below import opened_below
from pysandbox.live.copier import BENEATH, DIRECTORY, CopyBudget, TreeCopier
from pysandbox.live.services import CageService
from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.kernel import version
from pysandbox.probe.opening import Opening, coarse_now
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import CopiedTree, CopyPlan
    from pysandbox.live.layers import DiskLayers

AT_FDCWD = -100  # openat(2)
NO_LINKS = native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_MAGICLINKS
MULTIGRAIN = (6, 13)  # Linux, where a file that was looked at has another ctime after its next change

HINTS = {
    errno.ENOSPC: "no room is left for its copy, below $XDG_STATE_HOME: make room, or set that to another directory",
    errno.EDQUOT: "its copy is more than you may have below $XDG_STATE_HOME: set that to another directory",
    errno.EOPNOTSUPP: "where its copy is made, below $XDG_STATE_HOME, its attributes (user.*) cannot be kept: set that "
    "to a directory on another file system",
}

Look = tuple[int, int]  # inode and ctime of one name of a copy
Baseline = Mapping[bytes, Mapping[str, Look]]  # by directory, "" is the tree


class Copy(NamedTuple):
    """One tree and its copy, by open directories. `modes`: of what has another mode in the copy, (there, in the
    tree)."""

    tree: CopiedTree
    opening: Opening
    source: int
    sink: int
    baseline: Baseline
    modes: Mapping[bytes, tuple[int, int]]


class TreeCopies(CageService):
    """The copies of one cage. Raises StartError; nothing is left behind then but what `layers` removes."""

    def __init__(self, layers: DiskLayers, plan: CopyPlan) -> None:
        self._copies: list[Copy] = []
        budget = CopyBudget(plan.most, layers.room_left)
        try:
            for tree in plan.trees:
                self._copies.append(copy_tree(layers.path + tree.place.removeprefix(LAYERS), tree, budget))
        except BaseException:
            self.end()
            raise
        layers.hold_copies()
        _await_the_next_tick(self._copies)

    def take(self) -> Sequence[Copy]:
        """All of them, from now on the caller's to close."""
        taken, self._copies = self._copies, []
        return taken

    def end(self) -> None:
        for each in self.take():
            os.close(each.source)
            os.close(each.sink)

    def after_fork_in_child(self) -> None:
        self.end()


def copy_tree(place: str, tree: CopiedTree, budget: CopyBudget) -> Copy:
    """A tree as a new directory `place`, whose parent is nobody else's. Raises StartError."""
    held: list[int] = []
    try:
        source = native.open_inside(AT_FDCWD, tree.path, DIRECTORY, resolve=NO_LINKS)
        held.append(source)
        found = os.fstat(source)
        if (found.st_dev, found.st_ino) != (tree.dev, tree.ino):
            raise StartError("source_changed", errno.ESTALE, tree.path)
        opening = Opening.now(native.file_system(source))  # what changes from here on is later than the copy
        os.makedirs(place, mode=0o700)
        sink = native.open_inside(AT_FDCWD, place, DIRECTORY, resolve=NO_LINKS)
        held.append(sink)
        hollow = {os.fsencode(name): mode for name, mode in tree.hollow}
        copier = TreeCopier(tree.path, source, sink, budget, hollow)
        copier.copy()
        return Copy(tree, opening, source, sink, dict(_looked_at(sink, hollow)), copier.modes)
    except BaseException as error:
        for fd in held:
            os.close(fd)
        if isinstance(error, OSError) and not isinstance(error, StartError):
            raise StartError("upper", error.errno or 0, tree.path, HINTS.get(error.errno or 0)) from None
        raise


def _looked_at(root: int, hollow: Mapping[bytes, int]) -> Iterator[tuple[bytes, dict[str, Look]]]:
    """Every name of a copy that nobody has written to yet."""
    ahead = [b""]
    while ahead:
        above = ahead.pop()
        prefix = above + b"/" if above else b""
        names: dict[str, Look] = {}
        with opened_below(root, above, DIRECTORY, resolve=BENEATH) as fd, os.scandir(fd) as entries:
            for each in entries:
                found = each.stat(follow_symlinks=False)
                names[each.name] = found.st_ino, found.st_ctime_ns
                path = prefix + os.fsencode(each.name)
                if each.is_dir(follow_symlinks=False) and path not in hollow:
                    ahead.append(path)
        yield above, names


def _await_the_next_tick(copies: Sequence[Copy]) -> None:
    """Where the kernel stamps changes by a clock that stands still for some milliseconds, a change in the tick of the
    look would not be seen."""
    for each in copies:
        if version() >= MULTIGRAIN and of_magic(native.file_system(each.sink)).multigrain:
            continue
        last = max((look[1] for names in each.baseline.values() for look in names.values()), default=0)
        while last >= coarse_now() > last - 1_000_000_000:
            time.sleep(0.001)
