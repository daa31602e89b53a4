"""A descriptor of ours that stays open as long as the process, and is known again. Cheap to import.

A forked copy of the process has it as well. A program that becomes a daemon closes all that it finds open, and then its
number is another file's, which would be handed to a cage, or executed, in the place of ours. So each use looks which
file it is.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class KeptDescriptor:
    """`make` opens it, at the first use and where it is ours no more; `fileno` raises what that raises."""

    __slots__ = ("_fd", "_file", "_make")

    def __init__(self, make: Callable[[], int]) -> None:
        self._make = make
        self._fd, self._file = -1, (0, 0)

    def fileno(self) -> int:
        """Not the caller's to close."""
        if not self._is_ours():
            fd = self._make()
            try:
                found = os.fstat(fd)
            except OSError:
                os.close(fd)
                raise
            self._fd, self._file = fd, (found.st_dev, found.st_ino)
        return self._fd

    def close(self) -> None:
        """What has its number by now, if that is not ours, stays open."""
        if self._is_ours():
            os.close(self._fd)
        self._fd = -1

    def _is_ours(self) -> bool:
        """Raises OSError where the host is short of something: another one would be opened, and this one stay open."""
        try:
            found = os.fstat(self._fd)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            return False
        return (found.st_dev, found.st_ino) == self._file
