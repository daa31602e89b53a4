"""An upper directory of overlayfs, read entry by entry: what the kernel's marks in it mean.

By descriptors, one component at a time, following nothing: a cage chose every name. A cage that sets an attribute of
the overlay's itself gets it with a doubled prefix (user.overlay.overlay.opaque), which is never read as one. What the
cage has taken the rights of (a directory of mode 000) has them while it is read, and not longer.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping

from pysandbox.launch.below import open_below
from pysandbox.launch.removal import unlocked
from pysandbox.shapes import TypeVar
from pysandbox.workspace.upper import Kind, UpperEntry

T = TypeVar("T")

OVERLAY = "user.overlay."
OPAQUE, ORIGIN, WHITEOUT = f"{OVERLAY}opaque", f"{OVERLAY}origin", f"{OVERLAY}whiteout"
LONGEST_PATH = 16384  # bytes of a path that is read: four times what a program can name
DEEPEST = 2048  # directories on the way to one that is read: as many as a program can name
MOST_SPELLED = 512 << 20  # bytes of all paths of an upper
MOST_ATTRIBUTES = 64 << 20  # and of all attributes: they are in memory until it was decided, each with every name
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a file; a FIFO or a device blocks nobody

KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFBLK: "device", stat.S_IFCHR: "device",
}  # fmt: skip


def walk_upper(root: int) -> Iterator[UpperEntry]:
    """Everything below the open directory `root`, which stays open. However deep it is: one descriptor at a time, and
    no recursion. Raises OSError."""
    ahead: list[bytes] = [b""]
    bounds = WalkBounds()
    while ahead:
        above = ahead.pop()
        found = list(map(bounded, _directory(root, above, bounds)))
        yield from found
        ahead += [each.path for each in reversed(found) if each.kind == "dir"]


def bounded(entry: UpperEntry) -> UpperEntry:
    """A directory so deep that nobody looks into it is told as one, and is none to go on with."""
    deep = entry.kind == "dir" and (len(entry.path) > LONGEST_PATH or entry.path.count(b"/") >= DEEPEST)
    return entry._replace(kind="deep", opaque=False, xattrs={}) if deep else entry


class WalkBounds:
    """How much of one upper was read so far. It ends with an OSError where that is more than anybody reads and holds:
    paths, spelled from its root, grow with the square of its depth, and what one file has of attributes counts once
    more for each of its names; neither costs a cage much."""

    def __init__(self) -> None:
        self._spelled = self._attributes = 0

    def take(self, path: bytes, attributes: Mapping[str, bytes]) -> None:
        """An entry and what it has set of attributes."""
        self._spelled += len(path)
        if self._spelled > MOST_SPELLED:
            raise _too_much(errno.ENAMETOOLONG, "directories lie too deep in each other", path)
        if attributes:
            self._attributes += sum(len(name) + len(value) for name, value in attributes.items())
            if self._attributes > MOST_ATTRIBUTES:
                raise _too_much(errno.E2BIG, "its files have more extended attributes than are read", path)


def _too_much(number: int, what: str, path: bytes) -> OSError:
    return OSError(number, f"{what} to be looked at: remove them in the cage, or forget this workspace",
                   os.fsdecode(path[:200]))  # fmt: skip


def open_file(root: int, path: bytes) -> int:
    """A regular file below `root`, for reading; a FIFO or a device blocks nobody. Raises OSError."""
    return _unlocking(root, path, READ)


def read_link(root: int, path: bytes) -> bytes:
    """Raises OSError."""
    fd = open_below(root, path, os.O_PATH | os.O_NOFOLLOW)
    try:
        return os.fsencode(os.readlink("", dir_fd=fd))
    finally:
        os.close(fd)


def _directory(root: int, path: bytes, bounds: WalkBounds) -> list[UpperEntry]:
    return read_directory(root, path, lambda fd: list(_entries(fd, path, bounds)))


def read_directory(root: int, path: bytes, read: Callable[[int], T]) -> T:
    """What `read` makes of one directory below `root`, unlocked for that if need be. Raises OSError."""
    try:
        fd = open_below(root, path, DIRECTORY)
        try:
            return read(fd)
        finally:
            os.close(fd)
    except PermissionError:
        with unlocked(root, os.fsdecode(path)) as held:
            fd = os.open(f"/proc/self/fd/{held}", os.O_RDONLY | os.O_DIRECTORY)
            try:
                return read(fd)
            finally:
                os.close(fd)


def _unlocking(root: int, path: bytes, flags: int) -> int:
    try:
        return open_below(root, path, flags)
    except PermissionError:
        with unlocked(root, os.fsdecode(path)) as held:
            return os.open(f"/proc/self/fd/{held}", flags & ~os.O_NOFOLLOW)


def _entries(fd: int, above: bytes, bounds: WalkBounds) -> Iterator[UpperEntry]:
    prefix = above + b"/" if above else b""
    for text in sorted(os.listdir(fd)):
        found = os.stat(text, dir_fd=fd, follow_symlinks=False)
        kind = KINDS[stat.S_IFMT(found.st_mode)]
        if kind == "device" and found.st_rdev == 0 and stat.S_ISCHR(found.st_mode):
            kind = "whiteout"
        marks = marks_of(fd, text) if kind in ("file", "dir") else {}
        if kind == "file" and found.st_size == 0 and WHITEOUT in marks:  # Linux 6.7
            kind = "whiteout"
        path, attributes = prefix + os.fsencode(text), user_attributes_of(marks) if marks else {}
        bounds.take(path, attributes)
        yield UpperEntry(
            path, kind, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_size,
            found.st_blocks, found.st_mtime_ns, found.st_dev, found.st_ino, found.st_nlink,
            marks.get(OPAQUE) == b"y", ORIGIN in marks, attributes,
        )  # fmt: skip


def marks_of(directory: int, name: str) -> dict[str, bytes]:
    """Whoever may not read a file or a directory (mode 000) may not read its attributes either: without them a
    directory that replaces another would look like one that does not."""
    try:
        return _attributes(f"/proc/self/fd/{directory}/{name}")
    except PermissionError:
        with unlocked(directory, name) as held:
            return _attributes(f"/proc/self/fd/{held}", follow=True)


def attributes_of(path: str) -> dict[str, bytes]:
    """The extended attributes of users, but for the overlay's own; a link at the end of `path` is followed. Raises
    OSError."""
    return user_attributes_of(_attributes(path, follow=True))


def _attributes(path: str, *, follow: bool = False) -> dict[str, bytes]:
    try:
        names = os.listxattr(path, follow_symlinks=follow)
        return {name: os.getxattr(path, name, follow_symlinks=follow) for name in names if name.startswith("user.")}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENODATA):
            return {}
        raise


def user_attributes_of(marks: dict[str, bytes]) -> dict[str, bytes]:
    """Without the overlay's, and none of those that a cage has set as if they were."""
    return {name: value for name, value in marks.items() if not name.startswith(OVERLAY)}
