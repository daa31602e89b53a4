"""The bytes of a file of a workspace: compared with the tree's, hashed, copied with their holes.

What is opened is a regular file, found by descriptors, and never more of it is held than a piece. A sparse file of a
terabyte costs nothing in an upper; what is copied or hashed of it is its data, and its size is bounded by `commit`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from pysandbox.launch.below import open_below
from pysandbox.launch.contents import PIECE, data_ranges, exactly
from pysandbox.workspace.upper import Tree, Upper, UpperEntry
from pysandbox.workspace.walk import READ, attributes_of


def open_lower(tree: Tree, path: bytes) -> int:
    """A regular file of the tree, for reading. Raises OSError."""
    fd = open_below(tree.fd, path, READ)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file", os.fsdecode(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def same_content(upper: Upper, entry: UpperEntry | str, lower: str = "") -> bool:
    """Whether a file of the upper holds what the file `lower` of the tree holds (the one of its own name unless
    given). What cannot be read is not the same."""
    path = os.fsencode(entry) if isinstance(entry, str) else entry.path
    try:
        old = open_lower(upper.tree, os.fsencode(lower) or path)
    except OSError:
        return False
    try:
        new = upper.open(path)
        try:
            return os.fstat(new).st_size == os.fstat(old).st_size and _equal(new, old)
        finally:
            os.close(new)
    finally:
        os.close(old)


def _equal(new: int, old: int) -> bool:
    """By the pieces where one of the two has data; holes of both are the same zeros."""
    if _is_whole(new) or _is_whole(old):
        while piece := os.read(new, PIECE):
            if piece != exactly(old, len(piece)):
                return False
        return not os.read(old, 1)
    ranges = [*data_ranges(new), *data_ranges(old)]
    return all(os.pread(new, size, at) == os.pread(old, size, at)
               for start, end in ranges for at in range(start, end, PIECE)
               for size in (min(PIECE, end - at),))  # fmt: skip


def _is_whole(fd: int) -> bool:
    found = os.fstat(fd)
    return found.st_blocks * 512 >= found.st_size


def digest(upper: Upper, path: str) -> str:
    """The SHA-256 of a file of the upper. Raises OSError."""
    import hashlib

    hashed = hashlib.sha256()
    fd = upper.open(os.fsencode(path))
    try:
        while piece := os.read(fd, PIECE):
            hashed.update(piece)
    finally:
        os.close(fd)
    return hashed.hexdigest()


def user_attributes(tree: Tree, path: bytes) -> Mapping[str, bytes]:
    """The attributes user.* of a file or directory of the tree, but the overlay's. Raises OSError."""
    fd = open_below(tree.fd, path, os.O_PATH | os.O_NOFOLLOW)
    try:
        return attributes_of(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
