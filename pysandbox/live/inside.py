"""Directories of a cage, opened from outside by paths that nothing in it can bend."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from pysandbox.launch import native


def open_inside(init_pid: int, paths: Iterable[str], flags: int) -> Iterator[int]:
    """Opens directories of a cage, one by one. Raises OSError."""
    root = os.open(f"/proc/{init_pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            yield _below(root, path, flags)
    finally:
        os.close(root)


def _below(root: int, path: str, flags: int) -> int:
    """A directory of the cage, by a path that no symlink bends."""
    resolve = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_SYMLINKS
    return native.open_inside(root, path, flags | os.O_DIRECTORY, resolve=resolve)
