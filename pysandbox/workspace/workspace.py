"""What a cage wrote to its copy-on-write trees, for whoever decides about it: look, then commit, keep or forget."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from pysandbox.events import WORKSPACE_ABORTED, WORKSPACE_COMMITTED, WORKSPACE_KEPT, Event
from pysandbox.shapes import Literal, NamedTuple
from pysandbox.workspace import bundle, diff, store
from pysandbox.workspace.changes import Change, changes_of, counted
from pysandbox.workspace.commit import CommitPart, Committed, OnConflict, commit_all
from pysandbox.workspace.conflict import Stamp
from pysandbox.workspace.diff import Format, Pair, lines_of
from pysandbox.workspace.plan import Skipped, chosen, covers, files_of
from pysandbox.workspace.recovery import recover
from pysandbox.workspace.undo import undo
from pysandbox.workspace.upper import Quota, Upper, require_still

BY_ITS_PATH = "name a changed file as `changes()` has it, relative to the first tree, or by its absolute path"
TOLD = 200  # paths of a commit that the audit has by name; the digest is of all


class Commit(NamedTuple):
    """What was written to the trees, and what was left and why. Each of `ids` undoes one tree's part."""

    ids: tuple[str, ...]
    written: tuple[Change, ...]
    skipped: tuple[Skipped, ...]


class WorkspaceOutcome(NamedTuple):
    """What became of a workspace at the end of its cage, as `workspace.on_exit` or `on_error` has it.

    `action`: "committed", "kept", "aborted", "nothing" (there was no change), or "failed": it could neither be written
    nor kept, and is there for as long as it is held. `reason`: why it is not what the policy asks. `changes`: all of
    it, as it was then. `kept`: the id of what is kept; `commits`: those that can be undone; `left_out`: what was not
    written and is not kept either, as it is made again.
    """

    action: Literal["committed", "kept", "aborted", "nothing", "failed"]
    changes: tuple[Change, ...] = ()
    reason: str = ""
    kept: str = ""
    commits: tuple[str, ...] = ()
    left_out: tuple[Skipped, ...] = ()


class Workspace:
    """The writes of one cage, apart from the trees of the host; of a running cage (`Cage.workspace`), or kept ones
    (`Workspace.open`). A path is relative to the first tree, or absolute."""

    def __init__(self, uppers: Sequence[Upper], *, command: str = "", cage: str = "", kept: str = "",
                 own: frozenset[Stamp] = frozenset(), tell: Callable[[Event], None] | None = None) -> None:  # fmt: skip
        self._uppers = tuple(uppers)
        self.trees = tuple(each.tree.path for each in self._uppers)
        self._command, self._cage, self._kept, self._own, self._tell = command, cage, kept, own, tell
        self.outcome: WorkspaceOutcome | None = None  # what became of it by itself, when its cage had ended

    @classmethod
    def open(cls, workspace_id: str, *, tell: Callable[[Event], None] | None = None) -> Workspace:
        """A kept one, also in another process than the one that kept it. Raises OSError, ValueError."""
        recover(tell)
        cage = bundle.cage_of(workspace_id)
        uppers, own = bundle.open_bundle(workspace_id)
        return cls(uppers, cage=cage, kept=workspace_id, own=own, tell=tell)

    @staticmethod
    def kept() -> list[bundle.Kept]:
        """All that are kept, the oldest first. Raises PermissionError."""
        return bundle.bundles()

    @staticmethod
    def undo(commit_id: str) -> str:
        """Takes back a commit of the last hour, if nothing of what it wrote was changed since; the tree. Raises
        CommitConflict, CommitError."""
        recover()
        return undo(commit_id)

    @property
    def is_told(self) -> bool:
        """Whether somebody is told what becomes of it."""
        return self._tell is not None

    def quota(self) -> Quota:
        """What it holds, and how much it may. Raises OSError."""
        return self._uppers[0].quota() if self._uppers else Quota(0)

    def changes(self, paths: Sequence[str] | None = None, *, digests: bool = False) -> list[Change]:
        """What differs from the trees as they are now; what may run on the host first. Raises OSError."""
        found = []
        for number, upper in enumerate(self._uppers):
            wanted = ["."] if paths is None else self._of_tree(number, paths)
            here = changes_of(upper, digests=digests)
            found += [each for each in here if any(covers(path, each.path) for path in wanted)]
        return sorted(found, key=lambda each: not each.risk)

    def diff(self, format: Format = "unified", paths: Sequence[str] | None = None) -> str:
        """The changes as a patch (`unified`), as JSON with digests, or one line for each (`stat`). The text is as the
        cage wrote it: escape it before a terminal shows it. Raises OSError."""
        return "".join(self.diff_lines(format, paths))

    def diff_lines(self, format: Format = "unified", paths: Sequence[str] | None = None) -> Iterator[str]:
        """As `diff`, a line or a few at a time, each with its end: a cage may have changed more than anybody wants to
        have in memory. Raises OSError."""
        if format == "json":
            yield diff.in_json(self.changes(paths, digests=True))
            return
        found, several = self.changes(paths), len(self._uppers) > 1
        shown = diff.stat if format == "stat" else diff.unified
        for upper in self._uppers:
            here = (each for each in found if each.tree == upper.tree.path)
            yield from shown(upper, here, several=several)

    def lines(self, change: Change) -> Pair | None:
        """The lines of one change before and after; None for what is no text or too large. Raises OSError."""
        upper = next(each for each in self._uppers if each.tree.path == change.tree)
        return lines_of(upper, change)

    def commit(self, paths: Sequence[str] | None = None, *, on_conflict: OnConflict = "fail",
               contents: Mapping[str, bytes] | None = None, exactly: bool = False) -> Commit:  # fmt: skip
        """Writes the changes at and below `paths` to the trees, or only those at one of them (`exactly`): all or none.

        A path of a tree that was changed there meanwhile is a conflict: `fail` writes nothing, `skip` leaves these
        paths out, `force` writes over them. What the host obeys (`risk` has "guarded" or "policy") is written only
        where its very path is in `paths`. `contents`: other bytes for some files, such as chosen hunks, by their paths;
        a relative one means the first tree, and one that is no file of what is asked for is a ValueError. A cage that
        runs is paused first (`Cage.pause`), and has to stand still from then on. A path that was left (`skipped`) is
        absolute where it is not of the first tree. Raises CommitConflict, CommitError, ValueError: nothing is written.
        """
        require_still(self._uppers)
        recover(self._tell)
        parts, meant = [], set[str]()
        for number, upper in enumerate(self._uppers):
            picked = None if paths is None else self._of_tree(number, paths)
            found = changes_of(upper, digests=self._tell is not None)
            others, said = self._others(number, contents or {}, files_of(chosen(found, picked, exactly=exactly)))
            meant |= said
            parts.append(CommitPart(upper, found, picked, others))
        if astray := sorted(set(contents or {}) - meant):
            raise ValueError(f"contents: {astray[0]!r} is no file that this commit is to write: {BY_ITS_PATH}")
        done = commit_all(parts, on_conflict=on_conflict, own=self._own, exactly=exactly)
        self._remember(done)
        written = tuple(each for one in done for each in one.written)
        return Commit(tuple(one.id for one in done if one.id), written, tuple(self._left(done)))

    def abort(self) -> None:
        """Forgets all of it; the trees stay as they are. Idempotent."""
        if self._uppers and self._tell is not None:
            self._tell(Event(WORKSPACE_ABORTED.name, {**self._which(), "trees": list(self.trees)}))
        self._drop()
        if self._kept:
            store.remove(self._kept)

    def keep(self, reason: str = "") -> str:
        """Copies it to disk, where it outlives the cage and this program; its id, for `Workspace.open` and `pysandbox
        commit`. `reason` is for the audit. Raises OSError."""
        if self._kept:
            return self._kept
        require_still(self._uppers)
        self._kept = bundle.write_bundle(self._uppers, command=self._command, cage=self._cage, own=self._own)
        if self._tell is not None:
            found = self.changes(digests=True)
            why = {"reason": reason} if reason else {}
            self._tell(Event(WORKSPACE_KEPT.name, {**self._which(), **_told(self.trees, found), **why}))
        return self._kept

    def close(self) -> None:
        """Lets go of it without a word: what was kept stays kept, what was not is forgotten. Idempotent."""
        self._drop()

    def _drop(self) -> None:
        uppers, self._uppers = self._uppers, ()
        slow = [upper for upper in uppers if upper.is_slow_to_drop()]
        for upper in uppers:
            if upper not in slow:
                upper.drop()
        if slow:
            _drop_beside(slow)

    def _remember(self, done: Sequence[Committed]) -> None:
        self._own = self._own.union(*(each.stamps for each in done))
        for each in done:
            if self._tell is not None and each.id:
                told = _told((each.tree,), each.written)
                self._tell(Event(WORKSPACE_COMMITTED.name, {**self._which(), "commit": each.id, **told}))
        if self._kept:
            with store.opened_one(self._kept) as place:
                bundle.write_own(place, self._own)

    def _left(self, done: Sequence[Committed]) -> Iterator[Skipped]:
        """What was not written, each by a path that means its own tree."""
        for each in done:
            first = each.tree == self.trees[0]
            yield from (one if first else one._replace(path=f"{each.tree}/{one.path}") for one in each.skipped)

    def _others(
        self, number: int, contents: Mapping[str, bytes], files: frozenset[str]
    ) -> tuple[dict[str, bytes], set[str]]:
        """The contents that are of this tree, by its own paths, and by which paths they were given."""
        found = {said: path for said in contents for path in self._of_tree(number, [said]) if path in files}
        return {path: contents[said] for said, path in found.items()}, set(found)

    def _which(self) -> dict[str, object]:
        return {"invocation_id": self._cage, "workspace": self._kept}

    def _of_tree(self, number: int, paths: Sequence[str]) -> list[str]:
        """The paths that are of this tree, relative to it."""
        tree = self._uppers[number].tree.path
        found = []
        for path in map(os.path.normpath, paths):
            if path.startswith("/"):
                found += [os.path.relpath(path, tree)] if covers(tree, path) else []
            elif number == 0:
                found.append(path)
        return found


def _drop_beside(uppers: Sequence[Upper]) -> None:
    """By a thread, for which the interpreter waits at its end; at once where none can be started."""

    def drop() -> None:
        for upper in uppers:
            upper.drop()

    try:
        threading.Thread(target=drop, name="pysandbox-drop").start()
    except RuntimeError:
        drop()


def _told(trees: Sequence[str], found: Sequence[Change]) -> dict[str, object]:
    """What the audit has of a set of changes."""
    hashed = hashlib.sha256(diff.in_json(found).encode()).hexdigest()
    paths = [f"{each.kind} {each.path}" for each in found[:TOLD]]
    return {"trees": list(trees), "counts": dict(counted(found)), "paths": paths, "digest": hashed}
