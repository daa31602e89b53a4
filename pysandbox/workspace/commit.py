"""START HERE for a commit: the changes of a workspace are written to its trees, all of them or none.

    judge   what conflicts, what is refused       nothing was touched yet
    stage   new files beside their places         a kill is undone by `recover`
    apply   one rename for each name              a kill is finished by `recover`
    save    what was replaced, for an hour        `undo` puts it back

A tree is the host's and may change while this runs: each directory is held by its inode, each rename is checked for
what it displaced, and the first surprise takes all of them back, in every tree. A kill between the trees may leave one
written and the next not, each as a whole. Two commits to one tree wait for nobody: the second is refused while the
first runs, and conflicts with it afterwards.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

from pysandbox.errors import CommitConflict, CommitError, Conflict
from pysandbox.launch import native
from pysandbox.launch.ids import new_id
from pysandbox.launch.removal import remove_below
from pysandbox.shapes import Literal, NamedTuple
from pysandbox.workspace import plan as planning
from pysandbox.workspace import store
from pysandbox.workspace.changes import Change, State, before_of
from pysandbox.workspace.commit_lock import locked
from pysandbox.workspace.conflict import Stamp, changed_since, clock_trouble, stamp_of
from pysandbox.workspace.journal import CommitJournal, JournalRecord, Move
from pysandbox.workspace.moves import Moved, Places, inode, is_any_left, make_all, places, set_traits, undo_all
from pysandbox.workspace.plan import (
    Selection,
    Skipped,
    Step,
    by_directory,
    chosen,
    judged,
    steps,
)
from pysandbox.workspace.stage import Source, stage_all, trait_of, unstage
from pysandbox.workspace.upper import Tree, Upper, require_still

OnConflict = Literal["fail", "skip", "force"]
KEPT_FOR = 3600  # seconds that a commit can be undone
STAGED = ".pysandbox-"


class Committed(NamedTuple):
    """What a commit wrote, and what it left. `id` undoes it; empty where nothing was written. `stamps`: of what it
    left in the tree, so that the next commit of the same workspace does not take it for somebody else's."""

    id: str
    tree: str
    written: tuple[Change, ...]
    skipped: tuple[Skipped, ...]
    stamps: frozenset[Stamp] = frozenset()


class CommitPart(NamedTuple):
    """What is asked of one tree: its changes at and below `paths`. `contents`: other bytes for some of them."""

    upper: Upper
    found: Sequence[Change]
    paths: Sequence[str] | None = None
    contents: Mapping[str, bytes] = {}  # never written to


def commit(
    upper: Upper, found: Sequence[Change], *, paths: Sequence[str] | None = None, on_conflict: OnConflict = "fail",
    contents: Mapping[str, bytes] | None = None, own: frozenset[Stamp] = frozenset(),
) -> Committed:  # fmt: skip
    """To one tree. Raises as `commit_all`."""
    (done,) = commit_all([CommitPart(upper, found, paths, contents or {})], on_conflict=on_conflict, own=own)
    return done


def commit_all(parts: Sequence[CommitPart], *, on_conflict: OnConflict = "fail", own: frozenset[Stamp] = frozenset(),
               exactly: bool = False) -> list[Committed]:  # fmt: skip
    """To all of the trees, or to none. `exactly`: nothing that is only below one of the paths. Raises CommitConflict,
    CommitError; the trees are then as they were, but for what the error names."""
    with ExitStack() as held:
        for tree in {inode(os.fstat(each.upper.tree.fd)): each.upper.tree for each in parts}.values():
            held.enter_context(locked(tree.path, tree.fd))
        looked = _all_judged(parts, on_conflict, own, exactly=exactly)
        writings = [_Writing(part, each, own) for part, each in zip(parts, looked, strict=True)]
        _carry_out(_grouped([each for each in writings if each.renames or each.traits]), held)
        return [each.done() for each in writings]


def _all_judged(parts: Sequence[CommitPart], on_conflict: OnConflict, own: frozenset[Stamp], *,
                exactly: bool) -> list[Selection]:  # fmt: skip
    """Raises CommitConflict with the conflicts of all trees: those of the first that has some by relative paths, the
    others by absolute ones."""
    looked, raised = [], []
    for part in parts:
        try:
            looked.append(judge(part, on_conflict, own, exactly=exactly))
        except CommitConflict as conflict:
            raised.append(conflict)
    if not raised:
        return looked
    first, *others = raised
    more = (each._replace(path=f"{other.tree}/{each.path}") for other in others for each in other.conflicts)
    raise CommitConflict(first.tree, (*first.conflicts, *more))


def judge(part: CommitPart, on_conflict: OnConflict, own: frozenset[Stamp], *, exactly: bool = False) -> Selection:
    """Raises CommitConflict."""
    tree, paths = part.upper.tree, part.paths
    picked = chosen(part.found, paths, exactly=exactly)
    looked = judged(tree, picked, paths or (), own, owner=os.geteuid())
    trouble = clock_trouble(tree.opening, native.file_system(tree.fd))
    conflicts = tuple(Conflict(each.path, trouble) for each in looked.written) if trouble else looked.conflicts
    if on_conflict == "force" or not conflicts:
        return looked
    if on_conflict == "fail":
        raise CommitConflict(tree.path, conflicts)
    names = {each.path for each in conflicts}
    folders = [each.path for each in picked if each.path in names and planning.is_new_directory(each)]
    again = [
        each
        for each in picked
        if each.path not in names and not any(planning.covers(top, each.path) for top in folders)
    ]
    return Selection(
        tuple(each for each in judged(tree, again, paths or (), own, owner=os.geteuid()).written if not trouble),
        looked.skipped + tuple(Skipped(each.path, each.reason) for each in conflicts), (),
    )  # fmt: skip


class _Writing:
    """One tree's part of a commit under way."""

    def __init__(self, part: CommitPart, looked: Selection, own: frozenset[Stamp]) -> None:
        renames, self.traits = steps(looked.written)
        self.tree, self.renames, self._looked = part.upper.tree, by_directory(renames), looked
        self.upper, self._contents = part.upper, part.contents
        self._untouched = _untouched(self.tree, self.renames, self.traits, own)
        self.name, self._place, self._is_begun = new_id(), -1, False
        self._begun: list[Move] = []  # the renames that were begun
        moves = tuple(_move(self.name, number, step) for number, step in enumerate(self.renames))
        self.plan = JournalRecord(self.name, self.tree.path, inode(os.fstat(self.tree.fd)), moves, ())

    def stage(self, held: ExitStack) -> None:
        """Raises Moved, OSError."""
        self._place = held.enter_context(store.opened_one(self.name, make=True))
        with places(self.tree.fd) as where:
            moves: Sequence[Move] = [
                each._replace(place=inode(os.fstat(where.open(each.directory)))) for each in self.plan.moves
            ]
            traits = tuple(trait_of(each, where) for each in self.traits)
            self.plan = self.plan._replace(moves=tuple(moves), traits=traits)
            self.journal.begin(self.plan)
            self._is_begun = True
            moves = stage_all(Source(self.upper, self._contents), self.renames, moves, where)
        native.sync_file_system(self.tree.fd)
        _unchanged(self.renames, moves)
        self.plan = self.plan._replace(moves=tuple(moves))

    @property
    def journal(self) -> CommitJournal:
        return CommitJournal(self._place)

    def will_go_back(self) -> None:
        """A kill from here on is undone."""
        if self._is_begun:
            with suppress(OSError):
                self.journal.back()

    def back_out(self) -> bool:
        """Whether nothing of it is left in the tree, but for names that `recover` removes."""
        if not self._is_begun or back_out(self.journal, self.tree.fd, self.plan):
            store.remove(self.name)
            return True
        with places(self.tree.fd) as where:
            return not is_any_left(where, self._begun)

    def apply(self) -> None:
        """Raises Moved, OSError."""
        apply(self.tree.fd, self.plan, self._begun)

    def save(self) -> None:
        save(self._place, self.tree.fd, self.plan.moves)

    def done(self) -> Committed:
        if not self.renames and not self.traits:
            return Committed("", self.tree.path, (), self._looked.skipped)
        stamps = frozenset(_stamps(self.tree, self.renames, self._untouched))
        return Committed(self.name, self.tree.path, self._looked.written, self._looked.skipped, stamps)


def _grouped(writings: list[_Writing]) -> list[_Writing]:
    """A kill finds which belong together."""
    names = tuple(each.name for each in writings)
    for each in writings if len(names) > 1 else ():
        each.plan = each.plan._replace(group=names)
    return writings


def _carry_out(writings: Sequence[_Writing], held: ExitStack) -> None:
    """Nothing is in its place before everything is staged, of all trees, and the first surprise in one takes back the
    others. Raises CommitConflict, CommitError."""
    at = ""
    try:
        for step in (lambda each: each.stage(held), lambda each: require_still([each.upper]),
                     lambda each: each.journal.apply(each.plan.moves),
                     lambda each: each.apply(), lambda each: each.journal.done()):  # fmt: skip
            for each in writings:
                at = each.tree.path
                step(each)
    except BaseException as error:
        for each in reversed(writings):  # the last one first, which decides
            each.will_go_back()
        left = tuple((each.name, each.tree.path) for each in reversed(writings) if not each.back_out())
        if isinstance(error, CommitError) and not left:
            raise
        if isinstance(error, Moved):
            reason = "it was changed while it was written"
            if not left:
                raise CommitConflict(at, (Conflict(error.path, reason),)) from None
            error = OSError(errno.ESTALE, reason, error.path)
        if isinstance(error, OSError):
            raise CommitError(at, error, left) from error
        raise
    for each in writings:
        each.save()


def back_out(journal: CommitJournal, tree: int, plan: JournalRecord) -> bool:
    """Undoes what was made and staged; whether all of it was. What could not be reached is `recover`'s, later: the
    journal says first that it is to be undone. Under the staged name of what could not be undone lies what it has
    replaced."""
    with suppress(OSError):
        journal.back()
    with places(tree) as where:
        stuck = undo_all(where, plan.moves)
    try:
        set_traits(tree, plan.traits, back=True)
        is_back = not stuck
    except OSError:
        is_back = False
    return unstage(tree, [each for each in plan.moves if each not in stuck]) and is_back


def apply(tree: int, written: JournalRecord, begun: list[Move] | None = None) -> None:
    """All renames, then the modes of directories, and both on the disk; or none. `begun`: as of `make_all`. Raises
    Moved, OSError."""
    make_all(tree, written.moves, begun)
    try:
        set_traits(tree, written.traits)
        native.sync_file_system(tree)
    except BaseException:
        set_traits(tree, written.traits, back=True)
        with places(tree) as where:
            undo_all(where, written.moves)
        raise


def _move(name: str, number: int, step: Step) -> Move:
    directory, _, base = step.path.rpartition("/")
    kind = step.kind
    assert kind in ("put", "swap", "take")
    return Move(kind, directory, base, staged_name(name, number))  # type: ignore[arg-type]


def staged_name(commit_id: str, number: int) -> str:
    return f"{STAGED}{commit_id.lower()}-{number}"


def _unchanged(renames: Sequence[Step], moves: Sequence[Move]) -> None:
    """What is displaced is what was judged. Raises Moved."""
    for step, move in zip(renames, moves, strict=True):
        before = step.change.before
        is_other = move.old_id is None or (before is not None and move.old_id != before.identity)
        if move.kind != "put" and is_other:
            raise Moved(move)


def _untouched(tree: Tree, renames: Sequence[Step], traits: Sequence[Change], own: frozenset[Stamp]) -> list[str]:
    """The directories that change and that nobody else has changed since the opening. Of any other, a stamp made after
    the commit would hide that the host had removed a name from it."""
    directories = {"", *(each.path for each in traits), *(step.path.rpartition("/")[0] for step in renames)}
    looked = ((path, _look(tree, path)) for path in sorted(directories))
    return [path for path, state in looked if state is not None and not changed_since(state, tree.opening, own)]


def _stamps(tree: Tree, renames: Sequence[Step], untouched: Sequence[str]) -> Iterator[Stamp]:
    written = (path for step in renames for path in (step.path, *(each.path for each in step.inside)))
    for path in (*untouched, *written):
        state = _look(tree, path)
        if state is not None:
            yield stamp_of(state)


def _look(tree: Tree, path: str) -> State | None:
    return before_of(tree, os.fsencode(path)) if path else State.of(os.fstat(tree.fd))


# ---- what was replaced ---------------------------------------------------------------------------------------------


def save(place: int, tree: int, moves: Sequence[Move]) -> None:
    """What was replaced goes from the tree to the directory of the commit; where that lies on another file system it
    is removed, and the commit cannot be undone. The journal says when that is over; what could not be reached is
    `recover`'s, later."""
    reached = True
    with places(tree) as where:
        for move in moves:
            if move.kind != "put":
                try:
                    _save_one(place, where.place(move), move)
                except (Moved, OSError):
                    reached = False
    if reached:
        CommitJournal(place).saved()


def _save_one(place: int, directory: int, move: Move) -> None:
    try:
        os.rename(move.staged, saved(move), src_dir_fd=directory, dst_dir_fd=place)
    except FileNotFoundError:
        return
    except OSError:
        remove_below(directory, move.staged)


def give_back(where: Places, moves: Sequence[Move], place: int) -> None:
    """What an undo had staged, to the commit whose saved files these are."""
    for move in moves:
        with suppress(Moved, FileNotFoundError):
            os.rename(move.staged, saved(move), src_dir_fd=where.place(move), dst_dir_fd=place)


def saved(move: Move) -> str:
    return f"saved-{move.number}"


def is_old(place: int) -> bool:
    return time.time() > too_old_at(place)


def too_old_at(place: int) -> float:
    return os.stat(CommitJournal.NAME, dir_fd=place).st_mtime + KEPT_FOR
