"""How much lies in a directory of the host that a cage writes, its scratch or its layers, found out a slice at a time.

The cage owns the tree and changes it while it is walked: every directory is opened below the first without following a
link, and no look takes longer than SLICE entries, however many the cage has made.
"""

from __future__ import annotations

import errno
import os
import stat

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
        self._listed: Listing | None = None  # the directory in which the last look ended
        self.found, self.names, self.blind = 0, 0, False

    @property
    def is_whole(self) -> bool:
        """Whether this walk is at its end."""
        return not self._ahead and self._listed is None

    def look(self) -> int:
        """Goes on with the walk; bytes found by it so far. Begins a new one after the end of the last."""
        if self.is_whole:
            self._ahead, self.found, self.names, self.blind = ["."], 0, 0, False
        for _ in range(SLICE):
            try:
                if self._listed is not None:
                    self._weigh_next(self._listed)
                elif self._ahead:
                    self._listed = Listing(self.fd, self._ahead.pop())
                else:
                    break
            except OSError as error:  # what may be listed and not entered (r--), among others
                self.blind |= error.errno not in CHANGED
                self._leave()
        return self.found

    def _weigh_next(self, listed: Listing) -> None:
        entry = next(listed.entries, None)
        if entry is None:
            self._leave()
            return
        try:
            seen = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        self.found += seen.st_blocks * BLOCK
        self.names += 1
        if stat.S_ISDIR(seen.st_mode):
            self._ahead.append(f"{listed.path}/{entry.name}")

    def _leave(self) -> None:
        listed, self._listed = self._listed, None
        if listed is not None:
            listed.close()

    def close(self) -> None:
        self._leave()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Listing:
    """A directory that is being listed. Raises OSError."""

    def __init__(self, top: int, path: str) -> None:
        self.path = path
        self._fd = native.open_inside(top, path, os.O_RDONLY | os.O_DIRECTORY, resolve=RESOLVE)
        try:
            self.entries = os.scandir(self._fd)  # each entry is looked at below this descriptor
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        self.entries.close()
        os.close(self._fd)
