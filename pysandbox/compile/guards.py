"""Guards: what a cage does not write, or not even read, inside the directories that it was granted (T27, T59, MAN-12).

Which files these are is in `policy.guarded`; the look has found them (`PathFacts.guards`). What is there is covered: a
policy file is shown empty, everything else read-only. A grant of a guarded file by its own path opens it, but for the
program that makes the cages: whoever writes that writes the next cage, so it takes `unguarded`. Over a name that is not
there nothing can be laid; a Note says which. Pure.
"""

from __future__ import annotations

from pysandbox.compile.notes import guarded, guards_absent, not_coverable
from pysandbox.compile.shown import Exclusion, ShownTree, ViewDraft, nearest
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.guarded import OURS, Guard
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFact, PathFacts


def lay_guards(view: ViewDraft, policy: Policy, paths: PathFacts) -> None:
    absent: dict[str, list[str]] = {}
    for guard in paths.guards:
        tree = view.trees.get(guard.tree)
        fact = paths[guard.path]
        if tree is None or tree.fact.kind != "dir":
            continue
        if fact.kind == "missing":
            if tree.access == "write" and nearest(fact.real, view.trees) is tree:
                absent.setdefault(guard.tree, []).append(fact.real.removeprefix(f"{guard.tree}/"))
        elif guard.hide:
            view.holes.setdefault(fact.real, Exclusion(fact, "mask", "filesystem.mask", implied=True))
            _note_a_detour(view, tree, guard, fact)
        elif guard.word == OURS:
            _guard_ours(view, policy, tree, fact)
        elif not guard.only_file or fact.kind == "file":
            _make_read_only(view, fact)
            _note_a_detour(view, tree, guard, fact)
    for real in paths.unsearched:
        _note_the_rest(view, real)
    for real, names in absent.items():
        tree, listed = view.trees[real], ", ".join(dict.fromkeys(names))
        view.notes.append(guards_absent(tree.key, tree.fact.path, listed))


def _make_read_only(view: ViewDraft, fact: PathFact) -> bool:
    above = view.enclosing(fact.real)
    if above is None or not above.writable:
        return False
    return view.trees.setdefault(fact.real, ShownTree(fact, False, above.key, False, implied=True)).implied


def _guard_ours(view: ViewDraft, policy: Policy, tree: ShownTree, fact: PathFact) -> None:
    """Read-only where it lies in a grant; a grant of it, or of something in it, is refused."""
    inside = nearest(tree.fact.real, {fact.real: True})
    if not inside and policy.isolation == "full":
        if _make_read_only(view, fact):
            view.notes.append(guarded(tree.key, f"{fact.path!r} is read-only: pysandbox itself runs from it"))
            return
        known = view.trees.get(fact.real)
        if known is None or not known.writable:
            return
        tree = known
    if tree.writable:
        message = f"{tree.fact.path!r} is writable, and pysandbox itself runs from {fact.path!r}"
        suggestion = f'install pysandbox elsewhere, grant less, or set filesystem.unguarded = ["{OURS}"]'
        raise SandboxCompileError(message, key=tree.key, suggestion=suggestion)


def _note_the_rest(view: ViewDraft, real: str) -> None:
    tree = view.trees.get(real)
    if tree is not None and tree.writable:
        message = (
            f"{tree.fact.path!r} holds more directories than are searched, or more of git's configuration, or links"
        )
        message = f"{message}: the rest of git's files is writable"
        view.notes.append(not_coverable(tree.key, message))


def _note_a_detour(view: ViewDraft, tree: ShownTree, guard: Guard, fact: PathFact) -> None:
    if tree.writable and fact.real != guard.path:
        view.notes.append(not_coverable(tree.key, f"{fact.path!r} is a symlink, which the cage may replace"))
    if tree.writable and fact.names > 1:
        message = f"{fact.path!r} has another name (hard link), by which the cage may write it"
        view.notes.append(not_coverable(tree.key, message))
