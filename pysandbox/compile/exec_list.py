"""`allow_execve` held by the kernel, for every exec of every process of a cage: two walls for two ways to run a file.

    execve          Landlock. The right to execute lies on the listed files and trees and on their dynamic linkers, and
                    nowhere else: by inode, whatever the path, descriptor or link that leads there.
    ld.so FILE      noexec. The dynamic linker must be executable, and given a file it maps and runs it; from a noexec
                    mount nothing is mapped executable. So all of a full cage is noexec but the places named here.

The places are the listed files and trees, the dynamic linkers, and the library directories, as long as the cage cannot
write to those. A listed file inside a writable tree becomes read-only and immovable, as a guard of `view` does it: what
is executed is what was listed. A listed tree that is writable stays so, with a Note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from pysandbox.compile.notes import grant_skipped, not_coverable, wide_grant
from pysandbox.compile.plan import LandlockRule
from pysandbox.compile.programs import ALLOW_EXECVE, OWN_PLACES, Programs
from pysandbox.compile.shown import ShownTree, View, nearest, parent
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFact
from pysandbox.shapes import replace


def visible(policy: Policy, view: View) -> View:
    """The view with its programs cut down to what it shows, and with notes on what of the list is in vain or wide."""
    if view.programs is None:
        return view
    return replace(
        view, programs=_shown(view.programs, view), notes=(*view.notes, *_judge(policy, view.programs, view))
    )


def _shown(listed: Programs, view: View) -> Programs:
    def only(table: Mapping[str, PathFact], shows: Callable[[str], bool]) -> Mapping[str, PathFact]:
        return MappingProxyType({real: fact for real, fact in table.items() if shows(real)})

    return replace(
        listed,
        files=only(listed.files, view.shows),
        interpreters=only(listed.interpreters, view.shows),
        libraries=only(listed.libraries, lambda real: _is_read_only(real, view)),
    )


def _judge(policy: Policy, listed: Programs, view: View) -> Iterator[Note]:
    yield from listed.notes
    yield from (_judge_absent(fact, view) for fact in listed.absent)
    for real, fact in listed.files.items():
        if not view.shows(real):
            yield grant_skipped(ALLOW_EXECVE, fact.path, "the cage does not see it")
    own = own_places(policy, listed)
    for real, fact in listed.roots.items():
        is_own = any(nearest(place, {real: True}) for place in own)
        yield from _judge_root(fact, list(_trees_of(real, view)), is_own)


def _judge_absent(fact: PathFact, view: View) -> Note:
    tree = nearest(fact.real, view.trees)
    if tree is not None and tree.writable:
        return not_coverable(ALLOW_EXECVE, f"{fact.path!r} does not exist: what the cage creates there, the next cage "
                                           "may execute")  # fmt: skip
    return grant_skipped(ALLOW_EXECVE, fact.path, "it does not exist")


def _judge_root(fact: PathFact, trees: list[ShownTree], is_own: bool) -> Iterator[Note]:
    if not trees and not is_own:
        yield grant_skipped(ALLOW_EXECVE, f"{fact.path}/*", "the cage does not see it")
    if any(tree.writable for tree in trees):
        yield wide_grant(ALLOW_EXECVE, f"'{fact.path}/*' is writable: the cage can execute what it puts there")


def _is_read_only(real: str, view: View) -> bool:
    tree = nearest(real, view.trees)
    return view.shows(real) and tree is not None and not tree.writable


def _trees_of(root: str, view: View) -> Iterator[ShownTree]:
    """The trees of the view that lie in a listed `/dir/*`: the one that shows it, or those below it."""
    tree = nearest(root, view.trees)
    if tree is not None and view.shows(root):
        yield tree
    yield from (each for real, each in view.trees.items() if real.startswith(f"{root}/"))


def own_places(policy: Policy, programs: Programs | None) -> tuple[str, ...]:
    """The cage's own directories in which everything may be executed; all of them when there is no list."""
    if policy.isolation != "full":
        return ()
    return tuple(place for place in OWN_PLACES if programs is None or nearest(place, programs.roots) is not None)


# ---- Landlock ---------------------------------------------------------------------------------------------------


def restricted(rules: Iterable[LandlockRule], policy: Policy, view: View) -> Iterator[LandlockRule]:
    """The rules without the right to execute, then that right for the list alone."""
    programs = view.programs
    if programs is None:
        yield from rules
        return
    for rule in rules:
        access = tuple(right for right in rule.access if right != "EXECUTE")
        if access:
            yield LandlockRule(rule.path, access, rule.optional, rule.dev, rule.ino)
    for fact in programs.single.values():
        yield _execute(fact)
    for root, fact in programs.roots.items():
        if view.shows(root):
            yield _execute(fact)
        else:
            yield from (_execute(tree.fact, tree.optional) for tree in _trees_of(root, view))
    yield from (LandlockRule(place, ("EXECUTE",)) for place in own_places(policy, programs))


def _execute(fact: PathFact, optional: bool = False) -> LandlockRule:
    return LandlockRule(fact.real, ("EXECUTE",), optional, fact.dev, fact.ino)


# ---- noexec -----------------------------------------------------------------------------------------------------


def is_open(real: str, writable: bool, view: View) -> bool:
    """Whether all of one place may be mapped executable, so that its mount needs no noexec."""
    programs = view.programs
    if programs is None or real in programs.single or nearest(real, programs.roots) is not None:
        return True
    return not writable and nearest(real, programs.libraries) is not None


def places_inside(real: str, view: View) -> Iterator[PathFact]:
    """What needs an executable mount of its own in the noexec tree `real`, parents first."""
    programs = view.programs
    if programs is None or is_open(real, view.trees[real].writable, view):
        return
    open_directories = {**programs.libraries, **programs.roots}
    places = {**programs.single, **open_directories}
    for place in sorted(places):
        tree = nearest(place, view.trees)
        if place != real and tree is view.trees[real] and view.shows(place):
            around = nearest(parent(place), open_directories)
            if around is None or not around.real.startswith(f"{real}/"):
                yield places[place]
