"""Which changes a commit writes, which it leaves and why, and by which renames. Pure but for a look below directories.

What lies below a new directory comes into the tree with it, by one rename of the whole; everything else has a rename of
its own. So what a reader of the tree sees is the old tree or the new one, name by name, and never half a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from pysandbox.errors import Conflict
from pysandbox.shapes import NamedTuple
from pysandbox.workspace.changes import Change, below, nearest_above
from pysandbox.workspace.conflict import Stamp, changed_since, conflict_of, is_without_its_own
from pysandbox.workspace.risk import NOBODY_COMMITS, by_name
from pysandbox.workspace.upper import Tree

SPARE = 1 << 30  # bytes that a file may claim beside what it holds
UNWRITTEN = {"fifo": "a FIFO", "socket": "a socket", "device": "a device"}


class Skipped(NamedTuple):
    """A change that was not written, and why."""

    path: str
    reason: str


class Selection(NamedTuple):
    """The changes that are written, those that are not, and those whose path of the tree is another by now."""

    written: tuple[Change, ...]
    skipped: tuple[Skipped, ...]
    conflicts: tuple[Conflict, ...]


def chosen(changes: Iterable[Change], paths: Sequence[str] | None) -> list[Change]:
    """Those at or below one of the paths, and the new directories on the way to them; by path."""
    changes = sorted(changes, key=lambda each: os.fsencode(each.path))
    if paths is None:
        return changes
    wanted = [os.path.normpath(each) for each in paths]
    found = [each for each in changes if any(covers(path, each.path) for path in wanted)]
    needed = {above for each in found for above in _above(each.path)}
    names = {each.path for each in found}
    return [each for each in changes if each.path in names or (each.path in needed and is_new_directory(each))]


def covers(above: str, path: str) -> bool:
    return above in (".", path) or path.startswith(f"{above}/")


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def is_new_directory(change: Change) -> bool:
    return change.after is not None and change.after.kind == "dir" and change.kind in ("added", "type")


def judged(
    tree: Tree, changes: Sequence[Change], named: Sequence[str], own: frozenset[Stamp], *, owner: int
) -> Selection:
    """Raises OSError for what cannot be looked at."""
    written: list[Change] = []
    skipped: dict[str, Skipped] = {}
    conflicts: list[Conflict] = []
    for each in changes:
        left = next((above for above in _above(each.path) if above in skipped), None)
        reason = "the directory that it lies in is not written" if left else _refused(tree, each, named, owner)
        found = None if reason else _found_below(tree, each, own)
        if isinstance(found, Conflict):
            conflicts.append(found)
        elif found is not None:
            reason = found
        if reason:
            skipped[each.path] = Skipped(each.path, reason)
            continue
        written.append(each)
        above = nearest_above(tree, os.fsencode(each.path)) if is_without_its_own(each) else None
        if found is None and (conflict := conflict_of(each, tree.opening, own, above)) is not None:
            conflicts.append(conflict)
    return Selection(tuple(written), tuple(skipped.values()), tuple(conflicts))


def _refused(tree: Tree, change: Change, named: Sequence[str], owner: int) -> str:
    """Why a change is not written; empty when it is."""
    for path in filter(None, (change.path, change.renamed_from)):
        if any(covers(denied, path) or (covers(path, denied) and not _is_kept(change))
               for denied in map(os.fsdecode, tree.denied)):  # fmt: skip
            return "the policy denies it"
    for word in NOBODY_COMMITS:
        if word in change.risk and change.path not in named:
            return "programs of the host obey it: it is written only where it is named"
    after, before = change.after, change.before
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
    """The renames, and the directories whose mode or attributes change in place; `written` by path."""
    found: dict[str, Step] = {}
    inside: dict[str, list[Change]] = {}
    traits: list[Change] = []
    for each in written:
        top = next((above for above in _above(each.path) if above in inside), None)
        if top is not None:
            inside[top].append(each)
        elif each.kind == "metadata" and each.after is not None and each.after.kind == "dir":
            traits.append(each)
        else:
            kind = {"added": "put", "renamed": "put", "deleted": "take"}.get(each.kind, "swap")
            found[each.path] = Step(each, each.path, kind)
            if is_new_directory(each):
                inside[each.path] = []
    taken = {path for path, step in found.items() if step.kind != "put"}
    for each in written:
        old = each.renamed_from
        if old and old not in found and not any(above in taken for above in _above(old)):
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
