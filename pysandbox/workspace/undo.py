"""A commit taken back: what it replaced is put into its place again, as one more commit with a journal of its own.

For an hour, and for as long as nobody has changed since what the commit wrote.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from pysandbox.errors import CommitConflict, CommitError, Conflict
from pysandbox.launch import native
from pysandbox.launch.ids import new_id
from pysandbox.shapes import Literal
from pysandbox.workspace import store
from pysandbox.workspace.commit import apply, back_out, give_back, is_old, save, saved, staged_name
from pysandbox.workspace.commit_lock import locked
from pysandbox.workspace.journal import CommitJournal, JournalRecord, Move
from pysandbox.workspace.moves import Moved, Places, identity, joined, look_below, places, undo_all
from pysandbox.workspace.recovery import UNREADABLE, tree_of

INVERSE: Mapping[str, Literal["put", "swap", "take"]] = {"put": "take", "swap": "swap", "take": "put"}


def undo(name: str) -> str:
    """Takes back the commit of that id; the tree it was made to. Raises CommitConflict, CommitError."""
    try:
        with store.opened_one(name) as origin:
            written = CommitJournal(origin).read()
            if written is None or written.phase != "done" or is_old(origin):
                raise FileNotFoundError(errno.ENOENT, "no commit that can be undone", name)
            done_ns = os.stat(CommitJournal.NAME, dir_fd=origin).st_mtime_ns
            with tree_of(written) as tree, locked(written.tree, tree):
                _take_back(tree, origin, written, done_ns)
    except OSError as error:
        raise error if isinstance(error, CommitError) else CommitError(name, error) from error
    store.remove(name)
    return written.tree


def last() -> str:
    """The newest commit that can be undone, empty where there is none. Raises PermissionError."""
    return next(_undoable(), "")


def undoable() -> list[str]:
    """The commits that can be undone, the oldest first. Raises PermissionError."""
    return list(_undoable())[::-1]


def _undoable() -> Iterator[str]:
    for name in reversed(store.names()):
        with suppress(OSError, *UNREADABLE), store.opened_one(name) as place:
            written = CommitJournal(place).read()
            if written is not None and written.phase == "done" and not written.origin and not is_old(place):
                yield name


def _take_back(tree: int, origin: int, written: JournalRecord, done_ns: int) -> None:
    new = new_id()
    traits = tuple(each._replace(old=each.new, new=each.old, old_mode=each.new_mode, new_mode=each.old_mode)
                   for each in written.traits)  # fmt: skip
    with places(tree) as where:
        _check(where, written, origin, done_ns)
        moves: Sequence[Move] = [
            move._replace(
                kind=INVERSE[move.kind],
                staged=staged_name(new, move.number),
                staged_id=move.old_id,
                old_id=move.staged_id,
                below=None,
            )
            for move in reversed(written.moves)
        ]
        inverse = JournalRecord(new, written.tree, written.tree_id, tuple(moves), traits, origin=written.id)
        with store.opened_one(new, make=True) as place:
            journal = CommitJournal(place)
            try:
                journal.begin(inverse)
                for move in moves:
                    if move.kind != "take":
                        os.rename(saved(move), move.staged, src_dir_fd=origin, dst_dir_fd=where.open(move.directory))
                native.sync_file_system(tree)
                journal.apply(moves)
                apply(tree, inverse)
                journal.done()
            except BaseException as error:
                with suppress(OSError):
                    journal.back()
                undo_all(where, moves)
                give_back(where, moves, origin)
                if back_out(journal, tree, inverse):
                    store.remove(new)
                if isinstance(error, Moved):
                    raise CommitConflict(written.tree, (Conflict(error.path, "it was changed since"),)) from None
                raise
            save(place, tree, moves)


def _check(where: Places, written: JournalRecord, origin: int, done_ns: int) -> None:
    """Everything is as the commit left it, and all that it replaced is there. Raises CommitConflict, OSError."""
    changed = []
    kept = set(os.listdir(origin))
    for move in written.moves:
        if move.kind != "put" and saved(move) not in kept:
            raise FileNotFoundError(errno.ENOENT, "what was replaced was not kept: the tree is on another file system",
                                    joined(move.directory, move.name))  # fmt: skip
        fd = where.open(move.directory)
        now = identity(fd, move.name)
        if now != move.staged_id or (now is not None and now[2:] == (0, 0) and _newer(fd, move.name, done_ns)):
            changed.append(Conflict(joined(move.directory, move.name), "it was changed since"))
    if changed:
        raise CommitConflict(written.tree, tuple(changed))


def _newer(directory: int, name: str, done_ns: int) -> bool:
    try:
        return look_below(directory, name)[1] > done_ns
    except NotADirectoryError:  # an empty file of the year 1970
        return False
