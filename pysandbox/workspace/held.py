"""What a cage wrote, below one directory that this program holds open: what the two kinds of it have in common.

The descriptors outlive the cage, and with them what it wrote.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from pysandbox.policy.match import covers
from pysandbox.shapes import TYPE_CHECKING, NamedTuple
from pysandbox.workspace.upper import Quota, Tree, Upper
from pysandbox.workspace.walk import open_file, read_link

if TYPE_CHECKING:
    from pysandbox.live.layers import DiskLayers


LARGE = 8 << 20  # bytes, for which the kernel takes some milliseconds


class HeldUpper(Upper):
    """Below the open directory `fd`, which it owns. `is_still` tells whether the cage has ended or is paused. `layers`:
    where it lies, if that is on disk, held until it is dropped."""

    def __init__(self, tree: Tree, fd: int, is_still: Callable[[], bool], layers: DiskLayers | None = None) -> None:
        self.tree = tree
        self._fd = fd
        self._is_still = is_still
        self._layers = layers
        if layers is not None:
            layers.hold()

    def open(self, path: bytes) -> int:
        return open_file(self._open_fd(), path)

    def readlink(self, path: bytes) -> bytes:
        return read_link(self._open_fd(), path)

    def quota(self) -> Quota:
        """What all trees of the cage hold together: they share one memory file system, or one directory."""
        if self._layers is not None and self._fd >= 0:
            return Quota(*self._layers.quota())
        found = os.fstatvfs(self._open_fd())
        return Quota(
            (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize,
            found.f_files - found.f_ffree, found.f_files,
        )  # fmt: skip

    def is_still(self) -> bool:
        return self._is_still()

    def is_slow_to_drop(self) -> bool:
        """The last descriptor of a memory file system has the kernel give back all of its pages before it is closed. A
        directory on disk is gone when it is said to be."""
        return self._layers is None and self._fd >= 0 and self.quota().used_bytes >= LARGE

    def drop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            os.close(self.tree.fd)
            self.tree = self.tree._replace(fd=-1)
            if self._layers is not None:
                self._layers.let_go()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.drop()

    def _open_fd(self) -> int:
        if self._fd < 0:
            raise OSError(errno.EBADF, "this workspace was dropped", self.tree.path)
        return self._fd


class Hidden(NamedTuple):
    """What the policy of a cage denies or masks: real paths, and absolute patterns."""

    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def in_tree(self, tree: str) -> tuple[bytes, ...]:
        """The paths that lie in a tree, relative to it."""
        inside = (os.fsencode(path[len(tree.rstrip("/")) + 1 :]) for path in self.paths if covers(tree, path))
        return tuple(dict.fromkeys(inside))
