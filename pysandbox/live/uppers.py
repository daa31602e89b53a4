"""The descriptors of a cage's copy-on-write trees: of each layer, to which no path of the cage leads, and of the tree
below it. They are opened when the cage is made, which is ahead of its command where cages wait.

What they are of is decided with the overlay itself: whatever has a tree's path later, the cage does not show.
"""

from __future__ import annotations

import errno
import os

from pysandbox.compile.cow import cow_steps
from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.probe.opening import Opening
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import MountStep, Plan

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
AT_FDCWD = -100  # openat(2)
NO_LINKS = native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_MAGICLINKS


class OpenedUpper(NamedTuple):
    """One tree and its layer. `path`: on the host. `magic`: its file system, by statfs(2)."""

    path: str
    tree_fd: int
    fd: int
    magic: int

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.tree_fd)


class OpenedUppers:
    """All trees of a cage that has its layers below the descriptor `top`, which is its own from now on. Raises
    StartError."""

    def __init__(self, top: int, plan: Plan) -> None:
        self._top = top
        self._opened: list[OpenedUpper] = []
        self.openings: tuple[Opening, ...] = ()  # of each, once `stamp` has said so
        try:
            for step in cow_steps(plan):
                self._opened.append(_open(top, step))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, StartError):
                hint = native.HINTS.get(("upper", error.errno or 0))
                raise StartError("upper", error.errno or 0, error.filename, hint) from None
            raise

    def stamp(self) -> None:
        """The workspace is opened now: what the host changes from here on is later. Raises StartError."""
        try:
            self.openings = tuple([Opening.now(each.magic, self._top) for each in self._opened])
        except OSError as error:
            raise StartError("upper", error.errno or 0, error.filename) from None

    def take(self) -> list[OpenedUpper]:
        """All of them, from now on the caller's to close."""
        taken, self._opened = self._opened, []
        self.close()
        return taken

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        opened, self._opened = self._opened, []
        for each in opened:
            each.close()
        top, self._top = self._top, -1
        if top >= 0:
            os.close(top)


def _open(layers: int, step: MountStep) -> OpenedUpper:
    tree_fd = _open_tree(step)
    try:
        fd = native.open_inside(layers, f"{step.data}/upper", DIRECTORY, resolve=NO_LINKS)
    except BaseException:
        os.close(tree_fd)
        raise
    return OpenedUpper(step.source, tree_fd, fd, native.file_system(tree_fd))


def _open_tree(step: MountStep) -> int:
    """The host's directory below an overlay. Raises StartError where it is another by now, OSError."""
    fd = native.open_inside(AT_FDCWD, step.source, DIRECTORY, resolve=NO_LINKS)
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != (step.dev, step.ino):
        os.close(fd)
        raise StartError("source_changed", errno.ESTALE, step.source)
    return fd
