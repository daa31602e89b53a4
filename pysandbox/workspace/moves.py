"""One rename of a commit, made and unmade: by the descriptor of its directory, never through a link.

A move that finds another file than it was planned for is taken back at once (`Moved`). Whether a move was made is seen
from the inodes, so that whoever finishes a journal after a kill needs nothing else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pysandbox.launch import native
from pysandbox.launch.below import open_below
from pysandbox.workspace.changes import PLACE, State
from pysandbox.workspace.journal import Identity, Move, Trait

# FUSE, NFS, 9p: a name could be lost there between two plain renames.
NO_EXCHANGE = (
    "its file system cannot exchange names (renameat2(2)), so no commit is all or nothing there: take the changes as a "
    "patch (diff), or keep them"
)


class Moved(Exception):
    """What lies there is not what the move was planned for."""

    def __init__(self, move: Move) -> None:
        self.path = joined(move.directory, move.name)
        super().__init__(self.path)


def joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


@contextmanager
def naming(path: str) -> Iterator[None]:
    """What is done by a descriptor fails with the number of it for a name, or with none."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, (str, bytes)):
            raise
        raise OSError(error.errno, error.strerror, path) from error


class Places:
    """The directories of a tree by their paths; the last one stays open for the next move."""

    def __init__(self, tree: int) -> None:
        self._tree, self._path, self._fd = tree, "", -1

    def open(self, path: str) -> int:
        """A descriptor for as long as no other directory is asked for. Raises OSError."""
        if self._fd < 0 or path != self._path:
            self.close()
            self._fd, self._path = open_below(self._tree, os.fsencode(path), PLACE & ~os.O_PATH | os.O_RDONLY), path
        return self._fd

    def place(self, move: Move) -> int:
        """The directory of a move. Raises Moved when it is another than the one that was planned for, OSError."""
        try:
            fd = self.open(move.directory)
        except (FileNotFoundError, NotADirectoryError):
            raise Moved(move) from None
        if inode(os.fstat(fd)) != move.place:
            raise Moved(move)
        return fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@contextmanager
def places(tree: int) -> Iterator[Places]:
    made = Places(tree)
    try:
        yield made
    finally:
        made.close()


def inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def identity(fd: int, name: str) -> Identity | None:
    try:
        return State.of(os.stat(name, dir_fd=fd, follow_symlinks=False)).identity
    except FileNotFoundError:
        return None


def make(where: Places, move: Move) -> None:
    """Raises Moved, with the move taken back; OSError."""
    fd = where.place(move)
    try:
        if move.kind == "put":
            native.rename_name(fd, move.staged, fd, move.name, native.NOREPLACE)
            return
        if move.kind == "swap":
            native.rename_name(fd, move.staged, fd, move.name, native.EXCHANGE)
        else:
            native.rename_name(fd, move.name, fd, move.staged, native.NOREPLACE)
    except (FileExistsError, FileNotFoundError):
        raise Moved(move) from None
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        raise OSError(errno.EOPNOTSUPP, NO_EXCHANGE, joined(move.directory, move.name)) from None
    if identity(fd, move.staged) != move.old_id or (
        move.below is not None and look_below(fd, move.staged) != move.below
    ):
        unmake(where, move)
        raise Moved(move)


def unmake(where: Places, move: Move) -> None:
    """Raises OSError."""
    fd = where.place(move)
    if move.kind == "put":
        native.rename_name(fd, move.name, fd, move.staged, native.NOREPLACE)
    elif move.kind == "swap":
        native.rename_name(fd, move.staged, fd, move.name, native.EXCHANGE)
    else:
        native.rename_name(fd, move.staged, fd, move.name, native.NOREPLACE)


def is_made(where: Places, move: Move) -> bool:
    """Raises Moved when its directory is gone, OSError."""
    fd = where.place(move)
    if move.kind == "take":
        return _same(identity(fd, move.staged), move.old_id)
    return _same(identity(fd, move.name), move.staged_id)


def _same(one: Identity | None, other: Identity | None) -> bool:
    return one is not None and other is not None and one[:2] == other[:2]


def make_all(tree: int, moves: Sequence[Move], begun: list[Move] | None = None) -> None:
    """All of them, or none: raises Moved, OSError with those that were made taken back. `begun` gets each before it is
    made."""
    with places(tree) as where:
        tried: list[Move] = []
        try:
            for move in moves:
                tried.append(move)
                if not is_made(where, move):
                    if begun is not None:
                        begun.append(move)
                    make(where, move)
        except BaseException:
            undo_all(where, tried)
            raise


def undo_all(where: Places, moves: Sequence[Move]) -> list[Move]:
    """Takes back the moves that were made, the last first. One that cannot be undone holds up no other; these are
    returned."""
    stuck = []
    for move in reversed(moves):
        try:
            if is_made(where, move):
                unmake(where, move)
        except (Moved, OSError):
            stuck.append(move)
    return stuck


def is_any_left(where: Places, begun: Sequence[Move]) -> bool:
    """Whether a name may be as a move leaves it, of those that were begun: also one that cannot be looked at."""
    for move in begun:
        try:
            if is_made(where, move):
                return True
        except (Moved, OSError):
            return True
    return False


def look_below(directory: int, name: str) -> tuple[int, int]:
    """How many names are below a directory, and the latest ctime of them: what is changed there changes one of both.
    Raises OSError."""
    count = latest = 0
    ahead = [os.fsencode(name)]
    while ahead:
        path = ahead.pop()
        fd = open_below(directory, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for each in os.listdir(fd):
                state = State.of(os.stat(each, dir_fd=fd, follow_symlinks=False))
                count, latest = count + 1, max(latest, state.ctime_ns)
                if state.kind == "dir":
                    ahead.append(path + b"/" + os.fsencode(each))
        finally:
            os.close(fd)
    return count, latest


def set_traits(tree: int, traits: Sequence[Trait], *, back: bool = False) -> None:
    """Changes directories, the deepest first; those that are other ones by now are left alone. Raises OSError."""
    for trait in sorted(traits, key=lambda each: -each.path.count("/")):
        try:
            fd = open_below(tree, os.fsencode(trait.path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            if inode(os.fstat(fd)) == trait.identity:
                with naming(trait.path):
                    _set_trait(fd, trait, back=back)
        finally:
            os.close(fd)


def _set_trait(fd: int, trait: Trait, *, back: bool) -> None:
    old, new = (trait.new, trait.old) if back else (trait.old, trait.new)
    for name in old.keys() - new.keys():
        with suppress(OSError):
            os.removexattr(fd, name)
    for name, value in new.items():
        os.setxattr(fd, name, bytes.fromhex(value))
    os.fchmod(fd, trait.old_mode if back else trait.new_mode)
