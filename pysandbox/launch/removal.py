"""START HERE to remove what a cage could write: the only place of this package that removes or opens up a tree.

A cage may have left anything, and something of it may still run: names that turn into links, directories without any
right, a hundred thousand levels. So no path is ever looked up here: each name is one component below a directory that
is already open, a link is never followed, modes are changed through the descriptor of what was looked at. A directory
inside another is first moved up to the root of the tree: the work takes three descriptors and no recursion, however
deep it is.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pysandbox.launch import native

SLICE = 4096  # names of one look at a directory
MOST_LOCKED = 64  # directories without rights on the way to one that is read
ROUNDS = 3  # over the root, for names that came while it was emptied
RESOLVE = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_XDEV
PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Removes a directory with all that is in it. What has gone is no error; what cannot be removed stays."""
    parent, name = os.path.split(os.path.abspath(path))
    with suppress(FileNotFoundError):
        parent_fd = os.open(parent, PLACE & ~os.O_NOFOLLOW)
        try:
            remove_below(parent_fd, name)
        finally:
            os.close(parent_fd)


def remove_below(parent_fd: int, name: str) -> None:
    """Removes one name in an open directory, with everything below it."""
    with _inside(parent_fd, name) as root:
        for _ in range(ROUNDS if root >= 0 else 0):
            if not _emptied(root):
                break
    _remove_name(parent_fd, name)


def _emptied(root: int) -> bool:
    """Removes what is in it now; whether there was anything."""
    stuck: set[str] = set()
    moved = itertools.count()
    seen = False
    for ahead in _slices(root, stuck):
        seen = True
        while ahead:
            name = ahead.pop()
            if not _remove_name(root, name):
                ahead += _dissolve(root, name, moved)
                if not _remove_name(root, name):
                    stuck.add(name)
    return seen


def _dissolve(root: int, name: str, moved: Iterator[int]) -> list[str]:
    """Empties a directory below the root; the directories that were in it are in the root then, by these names."""
    above: list[str] = []
    stuck: set[str] = set()
    with _inside(root, name) as fd:
        for names in _slices(fd, stuck) if fd >= 0 else ():
            for each in names:
                if _remove_name(fd, each):
                    continue
                new = _move_up(fd, each, root, moved)
                above.append(new) if new else stuck.add(each)
    return above


def _move_up(fd: int, name: str, root: int, moved: Iterator[int]) -> str:
    """The new name, "" when it stays. The kernel asks for the right to write in the directory that is moved."""
    with _inside(fd, name) as found:
        while found >= 0:
            new = f".removed-{next(moved)}"
            try:
                os.stat(new, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                break
        else:
            return ""
    try:
        os.rename(name, new, src_dir_fd=fd, dst_dir_fd=root)
    except OSError:
        return ""
    return new


def _remove_name(fd: int, name: str) -> bool:
    """Whether nothing of that name is left."""
    for remove in (os.unlink, os.rmdir):
        try:
            remove(name, dir_fd=fd)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            continue
    return False


def _slices(fd: int, stuck: set[str]) -> Iterator[list[str]]:
    """The names in a directory, so many at a time: the reader removes them, or adds them to `stuck`."""
    while True:
        with os.scandir(fd) as entries:
            names = [each.name for each in itertools.islice(entries, SLICE + len(stuck)) if each.name not in stuck]
        if not names:
            return
        yield names


@contextmanager
def _inside(fd: int, name: str) -> Iterator[int]:
    """A directory, readable and writable for us from now on; -1 for what is none, or lies on another file system."""
    inside = _open_up(fd, name)
    try:
        yield inside
    finally:
        if inside >= 0:
            os.close(inside)


def _open_up(fd: int, name: str) -> int:
    try:
        place = native.open_inside(fd, name, PLACE, resolve=RESOLVE)
    except OSError:
        return -1
    try:
        itself = f"/proc/self/fd/{place}"  # whatever the name leads to by now
        if stat.S_IMODE(os.fstat(place).st_mode) & 0o700 != 0o700:
            os.chmod(itself, 0o700)
        return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    finally:
        os.close(place)


# ---- to read what its owner has locked -----------------------------------------------------------------------------


@contextmanager
def unlocked(root: int, path: str) -> Iterator[int]:
    """A directory or a file below the open directory `root`, readable while this lasts, and all on the way to it
    searchable; afterwards every mode is what it was. For what is the caller's own. Raises OSError."""
    changed: list[tuple[int, int]] = []
    here = os.dup(root)
    try:
        for name in path.split("/"):
            above, here = here, native.open_inside(here, name, os.O_PATH | os.O_NOFOLLOW, resolve=RESOLVE)
            os.close(above)
            found = os.fstat(here)
            wanted = 0o500 if stat.S_ISDIR(found.st_mode) else 0o400
            if found.st_mode & wanted != wanted:
                if len(changed) == MOST_LOCKED:
                    raise PermissionError(errno.EACCES, "too many directories without rights inside each other", path)
                os.chmod(f"/proc/self/fd/{here}", stat.S_IMODE(found.st_mode) | wanted)
                changed.append((os.dup(here), stat.S_IMODE(found.st_mode)))
        yield here
    finally:
        os.close(here)
        for held, mode in reversed(changed):
            os.chmod(f"/proc/self/fd/{held}", mode)
            os.close(held)
