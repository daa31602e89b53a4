"""What a plain, small file says that a cage may have put there, and whether it says the same now.

Nothing else is opened: no link, no pipe that would hold whoever opens it.
"""

from __future__ import annotations

import os
import stat

from pysandbox.probe.kernel import tell_shortage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Stamp = tuple[int, ...]


def read_small(path: str, most: int) -> tuple[str | None, Stamp]:
    """The text, None where it is not a plain file of less than `most` bytes; with what it is now, () where it is
    not there. Raises StartError where the host is short of something."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # who waits at the other end of a pipe is not let in
            return None, stamp_now(path)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        tell_shortage(error, path)
        return None, stamp_now(path)
    except ValueError:
        return None, stamp_now(path)
    try:
        found = os.fstat(fd)  # it may be a directory by now, which open() would refuse
        is_small = stat.S_ISREG(found.st_mode) and found.st_size < most
        return os.fsdecode(os.read(fd, most)) if is_small else None, content_stamp(found)
    finally:
        os.close(fd)


def content_stamp(found: os.stat_result) -> Stamp:
    """What changes with a file's content, and when another takes its place."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def are_as_read(read: Iterable[tuple[str, Stamp]]) -> bool:
    return all(stamp_now(path) == was for path, was in read)


def stamp_now(path: str) -> Stamp:
    try:
        return content_stamp(os.lstat(path))
    except OSError:
        return ()
