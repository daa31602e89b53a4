"""Which changes a commit writes, which it leaves and why, and by which renames. Pure but for a look below directories.

What lies below a new directory comes into the tree with it, by one rename of the whole; everything else has a rename of
its own. So what a reader of the tree sees is the old tree or the new one, name by name, and never half a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from pysandbox.errors import Conflict
from pysandbox.shapes import NamedTuple
from pysandbox.workspace.changes import Change, below, nearest_above
from pysandbox.workspace.conflict import Stamp, changed_since, conflict_of, is_without_its_own
from pysandbox.workspace.denied import DeniedInTree
from pysandbox.workspace.path_sets import PathSet, TopmostMarked, walk_order
from pysandbox.workspace.risk import NOBODY_COMMITS, by_name
from pysandbox.workspace.upper import Tree

SPARE = 1 << 30  # bytes that a file may claim beside what it holds
NOT_WRITTEN_ABOVE = "the directory that it lies in is not written"
UNWRITTEN = {"fifo": "a FIFO", "socket": "a socket", "device": "a device",
             "deep": "a directory so deep in others"}  # fmt: skip


class Skipped(NamedTuple):
    """A change that was not written, and why."""

    path: str
    reason: str


class Selection(NamedTuple):
    """The changes that are written, those that are not, and those whose path of the tree is another by now."""

    written: tuple[Change, ...]
    skipped: tuple[Skipped, ...]
    conflicts: tuple[Conflict, ...]


def chosen(changes: Iterable[Change], paths: Sequence[str] | None, *, exactly: bool = False) -> list[Change]:
    """The changes at or below one of the paths, or just at one, and new directories on the way to them; a directory
    right before what lies in it."""
    changes = sorted(changes, key=lambda each: walk_order(each.path))
    if paths is None:
        return changes
    named = {os.path.normpath(each) for each in paths}
    wanted = PathSet(named)
    found: list[Change] = []
    last = ""  # the one that was taken last: from the end, it lies in each directory on its way
    for each in reversed(changes):
        is_wanted = each.path in named or (not exactly and wanted.covers(each.path))
        if is_wanted or (is_new_directory(each) and last.startswith(f"{each.path}/")):
            found.append(each)
            last = each.path
    return found[::-1]


def covers(above: str, path: str) -> bool:
    return above in (".", path) or path.startswith(f"{above}/")


def files_of(changes: Iterable[Change]) -> frozenset[str]:
    """The paths of those that write a file."""
    return frozenset(each.path for each in changes if each.after is not None and each.after.kind == "file")


def is_new_directory(change: Change) -> bool:
    return change.after is not None and change.after.kind == "dir" and change.kind in ("added", "type")


def judged(
    tree: Tree, changes: Sequence[Change], named: Sequence[str], own: frozenset[Stamp], *, owner: int
) -> Selection:
    """`changes` in the order of `chosen`. Raises OSError for what cannot be looked at."""
    written: list[Change] = []
    skipped: list[Skipped] = []
    conflicts: list[Conflict] = []
    rules, left = _Rules(DeniedInTree(tree), frozenset(named), owner), TopmostMarked()
    for each in changes:
        reason = NOT_WRITTEN_ABOVE if left.above(each.path) else _refused(each, rules)
        found = None if reason else _found_below(tree, each, own)
        if isinstance(found, Conflict):
            conflicts.append(found)
        elif found is not None:
            reason = found
        if reason:
            skipped.append(Skipped(each.path, reason))
            left.mark(each.path)
            continue
        written.append(each)
        above = nearest_above(tree, os.fsencode(each.path)) if is_without_its_own(each) else None
        if found is None and (conflict := conflict_of(each, tree.opening, own, above)) is not None:
            conflicts.append(conflict)
    return Selection(tuple(written), tuple(skipped), tuple(conflicts))


class _Rules(NamedTuple):
    """`named`: the paths that somebody has named; `owner`: the user whose files are written."""

    denied: DeniedInTree
    named: frozenset[str]
    owner: int


def _refused(change: Change, rules: _Rules) -> str:
    """Why a change is not written; empty when it is."""
    for path in filter(None, (change.path, change.renamed_from)):
        if rules.denied.covers(path) or (not _is_kept(change) and rules.denied.is_around(path)):
            return "the policy denies it"
    for word in NOBODY_COMMITS:
        if word in change.risk and change.path not in rules.named:
            return "programs of the host obey it: it is written only where it is named"
    after, before, owner = change.after, change.before, rules.owner
    if after is not None and after.kind in UNWRITTEN:
        return f"{UNWRITTEN[after.kind]} is never written to a tree"
    if after is not None and after.uid != owner:
        return f"it belongs to the user {after.uid}"
    if before is not None and before.uid != owner and owner != 0:
        return f"the tree's own belongs to the user {before.uid}"
    if after is not None and after.kind == "file" and after.size > after.blocks * 512 + SPARE:
        return f"it claims to be {after.size} bytes long"
    return ""


def _is_kept(change: Change) -> bool:
    """A directory that stays: what is denied below it stays, too."""
    return change.kind == "metadata" or (change.kind == "added")


def _found_below(tree: Tree, change: Change, own: frozenset[Stamp]) -> Conflict | str | None:
    """What below a directory that goes keeps it: something newer than the workspace, or what the host obeys."""
    if change.before is None or change.before.kind != "dir" or change.kind not in ("deleted", "type"):
        return None
    for path, state in below(tree, os.fsencode(change.path)):
        if "policy" in by_name(path, tree.unguarded):
            return f"{os.fsdecode(path)!r} is in it, which pysandbox reads at the next run"
        if changed_since(state, tree.opening, own):
            return Conflict(change.path, f"{os.fsdecode(path)!r} was changed in the tree meanwhile")
    return None


class Step(NamedTuple):
    """One name of the tree that changes by one rename. `inside`: what comes along in a new directory."""

    change: Change
    path: str
    kind: str  # of `journal.Move`
    inside: tuple[Change, ...] = ()


def steps(written: Sequence[Change]) -> tuple[list[Step], list[Change]]:
    """The renames, and the directories whose mode or attributes change in place; `written` in the order of
    `chosen`."""
    found: dict[str, Step] = {}
    inside: dict[str, list[Change]] = {}
    traits: list[Change] = []
    new = TopmostMarked()
    for each in written:
        top = new.above(each.path)
        if top:
            inside[top].append(each)
        elif each.kind == "metadata" and each.after is not None and each.after.kind == "dir":
            traits.append(each)
        else:
            kind = {"added": "put", "renamed": "put", "deleted": "take"}.get(each.kind, "swap")
            found[each.path] = Step(each, each.path, kind)
            if is_new_directory(each):
                inside[each.path] = []
                new.mark(each.path)
    taken = PathSet(path for path, step in found.items() if step.kind != "put")
    for each in written:
        old = each.renamed_from
        if old and old not in found and not taken.covers(old):
            found[old] = Step(each, old, "take")
    return [step._replace(inside=tuple(inside.get(path, ()))) for path, step in found.items()], traits


def mode_of(change: Change, inherited: int = 0) -> int:
    """Permissions as they are written: set-id bits are not carried, and a directory keeps what its own directory
    gives it."""
    after = change.after
    mode = after.mode & ~(stat.S_ISUID | stat.S_ISGID) if after is not None else 0
    if after is not None and after.kind == "dir":
        return mode | (inherited & stat.S_ISGID)
    return mode & 0o777


def by_directory(found: Iterable[Step]) -> list[Step]:
    """What lies in one directory in a row, so that each is opened once."""
    return sorted(found, key=lambda each: (os.fsencode(each.path.rpartition("/")[0]), os.fsencode(each.path)))
