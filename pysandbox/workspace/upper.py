"""START HERE for a copy-on-write workspace: what its two halves agree on.

One half makes an `Upper`: where what a cage wrote to one tree is kept, apart from the tree (an overlay's upper
directory, a snapshot, a bundle on disk). The other half only reads it: what has changed, whether the tree has changed
meanwhile, what of it is written to the tree. Nothing here knows which kind of upper it is, and nothing of what an upper
says is believed further than it can be: a cage wrote it.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from pysandbox.errors import CommitError
from pysandbox.probe.opening import Opening
from pysandbox.shapes import Literal, NamedTuple

Kind = Literal["file", "dir", "symlink", "fifo", "socket", "device", "deep", "whiteout"]


class Tree(NamedTuple):
    """The lower tree: a directory of the host. `fd` is open on it for as long as its `Upper` lives.

    `denied`: what the policy denies to the cage, relative to the tree; nothing at, below or around one is written.
    `patterns`: absolute ones of what it denies; nothing that matches is written, nor what lies in it.
    `unguarded`: names of guarded files (`policy.guarded`) that the policy opens all the same.
    """

    path: str
    fd: int
    opening: Opening
    denied: tuple[bytes, ...] = ()
    unguarded: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


class UpperEntry(NamedTuple):
    """One name in an upper. `path` is relative to the tree, in bytes as the kernel has it.

    A `whiteout` says that the name was removed. A `deep` one is a directory that lies deeper than anybody looks.
    `opaque`: a directory that replaces the one of the tree with all that is in it. `copied_up`: it began as the tree's
    own. `xattrs`: those of users (user.*) but the overlay's own.
    """

    path: bytes
    kind: Kind
    mode: int  # permissions with setuid, setgid and sticky; no type
    uid: int
    gid: int
    size: int
    blocks: int  # of 512 bytes, as stat(2) has it
    mtime_ns: int
    dev: int
    ino: int
    nlink: int
    opaque: bool = False
    copied_up: bool = False
    xattrs: Mapping[str, bytes] = {}  # never written to


class Quota(NamedTuple):
    """What an upper holds, and how much it may; a limit of 0 is none."""

    used_bytes: int
    limit_bytes: int = 0
    used_inodes: int = 0
    limit_inodes: int = 0


class Upper(ABC):
    """What a cage wrote to one tree. Owns `tree.fd`, and whatever else it needs until it is dropped."""

    tree: Tree

    @abstractmethod
    def walk(self) -> Iterator[UpperEntry]:
        """Everything in it: a directory before what is in it, and the names of one directory in a row. Raises
        OSError."""

    @abstractmethod
    def open(self, path: bytes) -> int:
        """A descriptor of one regular file, for reading; no link is followed and nothing blocks. Raises OSError."""

    @abstractmethod
    def readlink(self, path: bytes) -> bytes:
        """Raises OSError."""

    @abstractmethod
    def quota(self) -> Quota:
        """Raises OSError."""

    @abstractmethod
    def is_still(self) -> bool:
        """Whether nothing can write to it now, and nothing of its cage has run since it was paused. Raises OSError."""

    def is_slow_to_drop(self) -> bool:
        """Whether whoever drops it would wait."""
        return False

    @abstractmethod
    def drop(self) -> None:
        """Forgets what it holds and closes its descriptors. Idempotent."""

    def read(self, path: bytes, limit: int) -> bytes:
        """The beginning of one regular file. Raises OSError."""
        fd = self.open(path)
        try:
            chunks = []
            while limit > 0 and (chunk := os.read(fd, min(limit, 1 << 20))):
                chunks.append(chunk)
                limit -= len(chunk)
            return b"".join(chunks)
        finally:
            os.close(fd)


def require_still(uppers: Iterable[Upper]) -> None:
    """What was looked at is what is written: asked before it is read, and again when all of it was. Raises CommitError,
    OSError."""
    for upper in uppers:
        if not upper.is_still():
            busy = "its cage may still write, or has run since it was paused: pause it and look again, or close it"
            raise CommitError(upper.tree.path, OSError(errno.EBUSY, busy))
