"""How much lies in a directory of the host that a cage writes, its scratch or its layers, found out a slice at a time.

The cage owns the tree and changes it while it is walked: every directory is opened below the first without following a
link, and no look takes longer than SLICE entries, however many the cage has made.
"""

from __future__ import annotations

import errno
import os

from pysandbox.launch import native

SLICE = 2000  # directory entries of one look
BLOCK = 512  # bytes, the unit of st_blocks
CHANGED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # it is gone, or something else by now
RESOLVE = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS


class ScratchUse:
    """One walk after the other over a directory. `found`: bytes, and `names`, by this walk so far; `blind`: something
    could not be looked into. `close()` is idempotent."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._ahead: list[str] = ["."]
        self.found, self.names, self.blind = 0, 0, False

    @property
    def is_whole(self) -> bool:
        """Whether this walk is at its end."""
        return not self._ahead

    def look(self) -> int:
        """Goes on with the walk; bytes found by it so far. Begins a new one after the end of the last."""
        if not self._ahead:
            self._ahead, self.found, self.names, self.blind = ["."], 0, 0, False
        entries = 0
        while self._ahead and entries < SLICE:
            entries += self._count(self._ahead.pop())
        return self.found

    def _count(self, path: str) -> int:
        try:
            fd = native.open_inside(self.fd, path, os.O_RDONLY | os.O_DIRECTORY, resolve=RESOLVE)
        except OSError as error:
            self.blind |= error.errno not in CHANGED
            return 1
        try:
            names = os.listdir(fd)
            for name in names:
                self._weigh(fd, path, name)
            return 1 + len(names)
        except OSError as error:  # what may be listed and not entered (r--), among others
            self.blind |= error.errno not in CHANGED
            return 1
        finally:
            os.close(fd)

    def _weigh(self, fd: int, path: str, name: str) -> None:
        try:
            seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        self.found += seen.st_blocks * BLOCK
        self.names += 1
        if seen.st_mode & 0o170000 == 0o040000:
            self._ahead.append(f"{path}/{name}")

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
