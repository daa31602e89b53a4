"""What a kill has left of a commit is finished or undone.

A journal that was staging is undone, one that was applying is finished, or undone where the tree has changed under it
since; those of a commit to several trees are all finished, or all undone, unless one was finished already when another
tree turns out to have changed. Whoever opens or commits a workspace, or starts a cage that has one, calls `recover`
first; it costs two stat(2) where nothing has changed since there was nothing to do, and one listing otherwise, however
many commits and workspaces are kept: those in which this process has seen that nothing is left to be done are not
opened again. `interrupted` only looks.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from pysandbox.errors import CommitError
from pysandbox.events import WORKSPACE_RECOVERED, Event
from pysandbox.launch import native
from pysandbox.live.layers import remove_left
from pysandbox.probe.state import own_directories
from pysandbox.probe.unchanged import is_unchanged, remember_unchanged, stamp_of
from pysandbox.shapes import NamedTuple
from pysandbox.workspace import store
from pysandbox.workspace.bundle import INDEX
from pysandbox.workspace.commit import KEPT_FOR, apply, back_out, give_back, is_old, save, too_old_at
from pysandbox.workspace.commit_lock import locked
from pysandbox.workspace.journal import CommitJournal, JournalRecord
from pysandbox.workspace.moves import Moved, inode, places, undo_all

AT_FDCWD = -100  # openat(2)
UNREADABLE = (ValueError, KeyError, TypeError, IndexError)  # of a journal
FOR_EVER = float("inf")

# Directories, as they are named in the store, in which nothing is left to be done, and until when: a commit that is
# over stays so until it is too old to be undone, a bundle for as long as it is there. No name is given twice.
_OVER: dict[str, float] = {}


class Recovered(NamedTuple):
    """One commit that a kill had interrupted. `outcome`: finished, undone, or left, with the reason."""

    id: str
    tree: str
    outcome: str


def recover(tell: Callable[[Event], None] | None = None) -> list[Recovered]:
    """Every journal of the user's that is open; what can no longer be undone is removed, and so are layers on disk that
    a kill has left. Raises PermissionError."""
    if _nothing_new():
        return []
    remove_left()
    found = list(_recovered())
    for each in found if tell is not None else ():
        said = {"commit": each.id, "tree": each.tree, "outcome": each.outcome}
        tell(Event(WORKSPACE_RECOVERED.name, said))  # type: ignore[misc]
    return found


def _nothing_new() -> bool:
    """Whether the directories of both were looked through and have not changed since, or are not there."""
    for place in own_directories("layers", "workspaces"):  # noqa: SIM110 - at every start: a generator costs as much
        if not is_unchanged(place, stamp_of(place)):
            return False
    return True


def interrupted() -> list[Recovered]:
    """The commits that a kill has interrupted and nobody has finished or undone yet. `outcome`: what will be done.
    Reads only. Raises PermissionError."""
    found = []
    for name in store.names():
        with suppress(OSError, *UNREADABLE), store.opened_one(name) as place:
            written = _decided(CommitJournal(place).read())
            if written is not None and written.phase != "done" and not _under_way(written):
                found.append(
                    Recovered(name, written.tree, "to be finished" if written.phase == "apply" else "to be undone")
                )
    return found


def give_up(name: str) -> None:
    """Finishes or undoes one, and forgets it where its tree is no longer there. Raises OSError where it is."""
    left = next((each for each in recover() if each.id == name and each.outcome.startswith("left")), None)
    if left is not None and _has_tree(name):
        raise OSError(errno.EBUSY, left.outcome, left.tree)
    if left is not None:
        store.remove(name)


def _has_tree(name: str) -> bool:
    with store.opened_one(name) as place:
        written = CommitJournal(place).read()
    try:
        with tree_of(written) if written is not None else nullcontext():
            return written is not None
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ELOOP)


def _under_way(written: JournalRecord) -> bool:
    try:
        with tree_of(written) as tree, locked(written.tree, tree):
            return False
    except CommitError:
        return True
    except OSError:  # its tree is not where it was
        return False


def _open_names() -> list[str]:
    """The names in the store that are to be looked at. Raises PermissionError."""
    above, now = store.directory(), time.time()
    stamp = stamp_of(above)
    if stamp is None or is_unchanged(above, stamp):
        return []
    names = {f"{above}/{name}": name for name in store.names()}
    for gone in [each for each in list(_OVER) if each not in names]:
        _OVER.pop(gone, None)
    left = [name for path, name in names.items() if _OVER.get(path, 0) <= now]
    if not left:
        remember_unchanged(above, stamp, min((_OVER.get(path, 0) for path in names), default=FOR_EVER))
    return left


def _remember_over(name: str, until: float) -> None:
    _OVER[f"{store.directory()}/{name}"] = until


def _recovered() -> Iterator[Recovered]:
    for name in _open_names():
        with suppress(FileNotFoundError, NotADirectoryError), store.opened_one(name) as place:
            journal = CommitJournal(place)
            if journal.is_over():
                if is_old(place):
                    store.remove(name)
                else:
                    _remember_over(name, too_old_at(place))
                continue
            try:
                written = journal.read()
            except UNREADABLE:
                yield Recovered(name, "", "left: its journal cannot be read")
                continue
            outcome = _recover_one(place, written) if written is not None else _without_journal(place, name)
            if outcome:
                yield Recovered(name, written.tree if written is not None else "", outcome)
            if written is not None and not outcome.startswith("left") and (outcome == "undone" or is_old(place)):
                store.remove(name)


def _without_journal(place: int, name: str) -> str:
    """A bundle; or what was begun and never became one, once it is old enough to be nobody's work."""
    if INDEX in os.listdir(place):
        _remember_over(name, FOR_EVER)
    elif time.time() - os.fstat(place).st_mtime > KEPT_FOR:
        store.remove(name)
    return ""


def _recover_one(place: int, written: JournalRecord) -> str:
    if written.phase == "done":
        return _cleared(place, written)
    try:
        with tree_of(written) as tree, locked(written.tree, tree):
            written = _decided(written) or written
            if written.phase == "apply":
                with suppress(Moved, OSError):
                    apply(tree, written)
                    CommitJournal(place).done()
                    save(place, tree, written.moves)
                    if written.origin:
                        store.remove(written.origin)
                    return "finished"
            _take_back_others(written)
            if not _unstage(place, tree, written) and not is_old(place):
                return "left: a directory of it is not where it was"
    except CommitError as error:
        return "" if error.errno == errno.EBUSY else f"left: {error}"
    except OSError as error:
        return f"left: {error}"
    except UNREADABLE:
        return "left: the journal of another of its trees cannot be read"
    return "undone"


def _decided(written: JournalRecord | None) -> JournalRecord | None:
    """A commit to several trees is applied once the last of its journals says so; nothing is in its place before. Where
    that one is gone, it was applied: it goes after the others were told that they are undone. Raises OSError, and what
    is UNREADABLE."""
    if written is None or written.phase != "apply" or written.id in written.group[-1:]:
        return written
    with suppress(FileNotFoundError):
        for last in written.group[-1:]:
            with store.opened_one(last) as place:
                found = CommitJournal(place).read()
            if found is None or found.phase == "stage":
                return written._replace(phase="stage")
    return written


def _take_back_others(written: JournalRecord) -> None:
    """What is undone in one tree is undone in the others, too; their trees may be out of reach for now."""
    for name in written.group:
        with suppress(OSError, *UNREADABLE), store.opened_one(name) as place:
            journal = CommitJournal(place)
            found = journal.read()
            if name != written.id and found is not None and found.phase == "apply":
                journal.back()


def _cleared(place: int, written: JournalRecord) -> str:
    """A kill may have come after the last rename and before what was replaced had left the tree."""
    with suppress(OSError, CommitError), tree_of(written) as tree, locked(written.tree, tree):
        save(place, tree, written.moves)
    return ""


def _unstage(place: int, tree: int, written: JournalRecord) -> bool:
    if written.origin:
        with places(tree) as where:
            undo_all(where, written.moves)
            with suppress(FileNotFoundError), store.opened_one(written.origin) as origin:
                give_back(where, written.moves, origin)
    return back_out(CommitJournal(place), tree, written)


@contextmanager
def tree_of(written: JournalRecord) -> Iterator[int]:
    """The tree of a journal, if it is still the same directory. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    fd = native.open_inside(AT_FDCWD, written.tree, flags, resolve=native.RESOLVE_NO_SYMLINKS)
    try:
        if inode(os.fstat(fd)) != written.tree_id:
            raise OSError(errno.ESTALE, "the tree has moved, or was replaced", written.tree)
        yield fd
    finally:
        os.close(fd)
