"""One name below an open directory that others may change meanwhile, however long the way to it is.

No link is followed at any place of the way, and nothing leads out of the directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pysandbox.launch import native

LONGEST = 2000  # bytes of a path that are looked up at once: the kernel takes 4095
RESOLVE = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_MAGICLINKS


def open_below(root: int, path: bytes, flags: int, *, resolve: int = RESOLVE) -> int:
    """A descriptor of it; of `root` for an empty path. By halves where it is longer than the kernel takes. Raises
    OSError."""
    if len(path) < LONGEST:
        return native.open_inside(root, os.fsdecode(path) or ".", flags, resolve=resolve)
    middle = path.index(b"/", len(path) // 2)
    above = open_below(root, path[:middle], os.O_PATH | os.O_DIRECTORY, resolve=resolve)
    try:
        return open_below(above, path[middle + 1 :], flags, resolve=resolve)
    finally:
        os.close(above)


@contextmanager
def opened_below(root: int, path: bytes, flags: int, *, resolve: int = RESOLVE) -> Iterator[int]:
    """A descriptor of it, closed at the end. Raises OSError."""
    fd = open_below(root, path, flags, resolve=resolve)
    try:
        yield fd
    finally:
        os.close(fd)
