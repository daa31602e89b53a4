"""The View: what a cage sees of the host's files, settled once for the mounts and for Landlock.

    trees   what is visible, each read-only or writable, by real path; the nearest tree above a path decides
    holes   what is denied or masked inside a tree; deny wins over every grant at or below it
    links   the symlinks on the way to a grant, made anew so that it is found under the name it was granted by

`build_view` reads top to bottom: collect what was granted, guard the files that steer the host, let denials win, prune
what a wider tree already shows, and of the programs keep what can be seen. What it returns is frozen. A path is always
its real path here; the nearest ancestor is found by walking up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from pysandbox.compile.absent_names import HIDES, is_absent, weigh_what_is_absent
from pysandbox.compile.copies import copy_places
from pysandbox.compile.cow import COW, apart_and_written, is_copied, not_a_directory
from pysandbox.compile.exec_list import visible
from pysandbox.compile.guards import lay_guards
from pysandbox.compile.links import leads_through, refused, replaceable, replaceable_places
from pysandbox.compile.network import NSSWITCH, RESOLV, own_files
from pysandbox.compile.notes import (
    WORKDIR,
    grant_skipped,
    grants_absent,
    not_coverable,
    repository_read_only,
    wide_grant,
)
from pysandbox.compile.plan import DEVICES
from pysandbox.compile.programs import ALLOW_EXECVE, Programs, programs
from pysandbox.compile.shown import ROOT, Exclusion, ShownTree, View, ViewDraft, nearest, parent
from pysandbox.errors import SandboxCompileError, SandboxPathMissing
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import absolute, hidden_paths, hidden_patterns
from pysandbox.policy.way_out import reaches_names
from pysandbox.probe.facts import PathFact, PathFacts
from pysandbox.shapes import replace

__all__ = ["DEVICES", "Exclusion", "ShownTree", "View", "build_view", "nearest", "parent", "why_own"]

UNIX_SOCKETS = "network.unix_sockets"
ACCESS = ("read", "cow", "write")  # to a tree, each wider than the one before
SOCKETS = "/run"
OF_THE_DOORS = (RESOLV, NSSWITCH)  # made in every cage with a way out, granted or not

# Places that a full cage has of its own: a grant of the host's is left out (T30, COMP-08, COMP-09).
OWN_PLACES: Mapping[str, str] = {
    "/tmp": "the cage has a /tmp of its own; grant a directory below it",
    "/scratch": "the cage has a /scratch of its own; grant a directory below it",
}
OWN_TREES: Mapping[str, str] = {
    "/proc": "the cage has a /proc of its own, which shows its own processes",
    "/dev": "the cage has a /dev of its own; no other device can be granted",
}

LOST = dict.fromkeys((*OWN_PLACES, "/dev"), True)  # of these, where a cage may write on memory of its own


def build_view(policy: Policy, paths: PathFacts) -> View:
    """The steps, in an order that counts: each looks at what those before it have left."""
    view, listed, places = ViewDraft(), programs(policy, paths), replaceable_places(policy, paths)
    _collect_trees(view, policy, paths, places)
    _note_repository(view, paths)
    _collect_holes(view, policy, paths, places)
    lay_guards(view, policy, paths)
    _deny_private(view, paths)
    _guard_programs(view, listed)
    _let_denials_win(view)
    if policy.isolation != "full":
        _leave_out_what_is_pierced(view)
    weigh_what_is_absent(view, policy, paths)
    _prune(view, policy)
    if is_copied(policy):
        view.copies = copy_places(view.trees)
    return visible(policy, view.finished(listed))


def _asked(policy: Policy, paths: PathFacts) -> Iterator[tuple[str, str, str, bool]]:
    """Every grant as (path, key, access, optional); what is in ACCESS."""
    cwd = paths.cwd
    for grant in policy.allow:
        yield absolute(grant.path, cwd), "filesystem.allow", "read", grant.optional
    for grant in policy.allow_write:
        yield absolute(grant.path, cwd), "filesystem.allow_write", "write", grant.optional
    for grant in policy.cow:
        yield absolute(grant.path, cwd), COW, "cow", grant.optional
    if policy.workdir != "none":
        yield cwd, WORKDIR, policy.workdir, False
    yield from ((path, WORKDIR, "read", True) for path in paths.repository.shown)
    for grant in policy.unix_sockets:
        yield absolute(grant.path, cwd), UNIX_SOCKETS, "read", grant.optional


NO_PATTERN = "a grant is of one path, with all below it, and of no pattern: name the directory"


def missing(path: str, fact: PathFact, key: str) -> SandboxPathMissing:
    if fact.unseen:
        return SandboxPathMissing(
            f"{path!r} cannot be looked at: you may not search {parent(fact.real)!r}", key=key,
            suggestion="grant what you may see yourself, run as a user who may, or mark it optional",
        )  # fmt: skip
    hint = NO_PATTERN if set(path) & set("*?[") else "create it, or mark it optional"
    return SandboxPathMissing(f"{path!r} does not exist", key=key, suggestion=hint)


def _collect_trees(view: ViewDraft, policy: Policy, paths: PathFacts, places: Mapping[str, bool]) -> None:
    full, own = policy.isolation == "full", {**paths.accounts, **own_files(policy)}
    view.own = {path: text for path, text in own.items() if path in OF_THE_DOORS}
    absent = []
    for path, key, access, optional in _asked(policy, paths):
        if optional and path in own:
            view.own[path] = own[path]
            continue
        fact = paths[path]
        if fact.kind == "missing":
            if not optional:
                raise missing(path, fact, key)
            absent.append(path)
            continue
        if (link := replaceable(fact, places)) is not None:
            if not optional:
                raise refused(fact, link, key)
            view.notes.append(grant_skipped(key, path, leads_through(fact, link)))
            continue
        if key == UNIX_SOCKETS and fact.kind != "socket":
            raise SandboxCompileError(f"{path!r} is not a unix socket", key=key,
                                      suggestion="name the socket; files are granted by filesystem.allow")  # fmt: skip
        if fact.real == ROOT and key != "filesystem.workdir":
            raise SandboxCompileError("the whole root cannot be granted", key=key,
                                      suggestion="name the directories that are needed")  # fmt: skip
        if key == UNIX_SOCKETS and not full:
            view.sockets[fact.real] = fact
            continue
        if full:
            _remember_links(view, fact)
        reason = why_own(fact.real) if full or fact.real == ROOT else None
        if reason is not None and key == "filesystem.workdir" and nearest(fact.real, LOST) is not None:
            raise _lost(path, reason)
        if reason is not None and access == "cow" and key == COW and not optional:
            raise _not_apart(path, reason)
        if reason is None:
            _add_tree(view, ShownTree(fact, access != "read", key, optional, cow=access == "cow"), paths)
        elif fact.real not in DEVICES:
            view.notes.append(grant_skipped(key, path, reason))
    if absent:
        view.notes.append(grants_absent(absent))
    if full and policy.run_as != "nobody":
        _remember_links(view, paths[paths.home])


def _lost(path: str, reason: str) -> SandboxCompileError:
    message = f"the working directory {path!r} cannot be shown, and what is written there would be lost: {reason}"
    suggestion = 'change into a directory of your own, or set workdir to "none"'
    return SandboxCompileError(message, key="filesystem.workdir", suggestion=suggestion)


def _not_apart(path: str, reason: str) -> SandboxCompileError:
    message = f"what is written to {path!r} cannot be kept apart: {reason}"
    return SandboxCompileError(message, key=COW, suggestion="leave it out: it is the cage's own, and ends with it")


def _add_tree(view: ViewDraft, tree: ShownTree, paths: PathFacts) -> None:
    """Granted twice, a path has the wider access of the two, and is explicit if either is. Raises SandboxCompileError
    for what is to be written and kept apart."""
    if tree.cow and tree.fact.kind != "dir":
        raise not_a_directory(tree.fact.path, tree.key)
    real = tree.fact.real
    known = view.trees.get(real)
    if known is not None:
        if {tree.access, known.access} == {"cow", "write"}:
            raise apart_and_written(tree.fact.path, *((known.key, tree.key) if known.cow else (tree.key, known.key)))
        wider = max(tree, known, key=lambda each: ACCESS.index(each.access))
        optional = tree.optional and known.optional
        tree = replace(tree, writable=wider.writable, cow=wider.cow, optional=optional)
    view.trees[real] = tree
    view.notes.extend(wide_grant(tree.key, f"{tree.fact.path!r} {reason}") for reason in _wide(tree, paths))


def _note_repository(view: ViewDraft, paths: PathFacts) -> None:
    git = paths.repository.git
    tree = nearest(git, view.trees) if git else None
    if tree is not None and not tree.writable:
        view.notes.append(repository_read_only(WORKDIR, git))


def _wide(tree: ShownTree, paths: PathFacts) -> Iterator[str]:
    if covers(tree.fact.real, paths[paths.home].real):
        yield f"is {'writable' if tree.writable else 'shown'} and holds the home directory with all its secrets"
    if tree.fact.kind == "dir" and covers(SOCKETS, tree.fact.real):
        yield ("is where programs of the host listen: a unix socket that a cage sees can be connected to, read-only or "
               f"not; {UNIX_SOCKETS} grants a single one")  # fmt: skip


@lru_cache(maxsize=1024)  # each policy asks it of the base's trees and links
def why_own(real: str) -> str | None:
    """Why a full cage is not granted the host's `real`, or None."""
    if real == ROOT:
        return "the root of the cage is its own"
    return OWN_PLACES.get(real) or nearest(real, OWN_TREES)


def _remember_links(view: ViewDraft, fact: PathFact) -> None:
    for link, target in fact.links:
        if why_own(link) is None:  # /proc/self, say, is there already
            view.links[link] = target


def _collect_holes(view: ViewDraft, policy: Policy, paths: PathFacts, places: Mapping[str, bool]) -> None:
    matched = [
        (key, path, True)
        for key, _, pattern in hidden_patterns(policy, paths.cwd)
        for path in paths.patterns[pattern].paths
    ]
    named = [(key, path, False) for key, _, path in hidden_paths(policy, paths.cwd)]
    for key, path, by_pattern in sorted((*named, *matched), key=lambda each: each[0]):  # what is denied is not masked
        fact = paths[path]
        link = replaceable(fact, places)
        if link is not None and nearest(fact.real if not is_absent(fact) else link, view.trees) is not None:
            raise refused(fact, link, key)
        if is_absent(fact):
            continue  # weigh_what_is_absent
        if _takes_what_a_cage_needs(fact.real):
            raise SandboxCompileError(f"{path!r} is the cage's own and cannot be taken from it", key=key,
                                      suggestion="the host's is not visible anyway")  # fmt: skip
        view.holes.setdefault(fact.real, Exclusion(fact, HIDES[key], key, by_pattern=by_pattern))


def _takes_what_a_cage_needs(real: str) -> bool:
    """The root, /dev and its nodes, /proc and the processes in it. An entry such as /proc/meminfo may be denied."""
    if real.startswith("/proc/"):
        return real.split("/", 3)[2].isdigit()  # what /proc/self led to is a process of the host
    return real in (ROOT, "/proc", "/dev", *DEVICES)


def _deny_private(view: ViewDraft, paths: PathFacts) -> None:
    """The directories of this package (`compile.kept`): a cage that wrote them would choose its next policy, or forge
    what is told of it."""
    for kept in paths.kept:
        fact = paths[kept.path]
        tree = nearest(fact.real, view.trees)
        if kept.closed:
            if fact.kind != "missing":
                view.holes[fact.real] = Exclusion(fact, "deny", "filesystem.deny")
        elif tree is None:
            continue
        elif fact.kind != "missing":
            view.holes.setdefault(fact.real, Exclusion(fact, "mask", "filesystem.mask", implied=True))
        elif tree.writable:
            message = f"{kept.path!r} does not exist: what the cage creates there counts"
            view.notes.append(not_coverable(tree.key, message))


def _guard_programs(view: ViewDraft, listed: Programs | None) -> None:
    """A listed file, or the dynamic linker of one, is neither rewritten nor replaced by the cage, now or for the next
    cage: a link on the way to it would be chosen anew when that one is compiled."""
    if listed is None:
        return
    single = listed.single
    for fact in (*single.values(), *listed.roots.values()):
        for link, _ in fact.links:
            tree = nearest(link, view.trees)
            if tree is not None and tree.writable:
                raise _not_guarded(f"{fact.path!r} leads through {link!r}, a link that the cage may replace", tree)
    for real, fact in single.items():
        tree = nearest(real, view.trees)
        if tree is not None and tree.writable:
            if tree.fact.real == real:
                raise _not_guarded(f"{fact.path!r} is writable: the cage could make any program of it", tree)
            if fact.names > 1:
                raise _not_guarded(f"{fact.path!r} has another name (hard link), by which the cage may write it", tree)
            view.trees[real] = ShownTree(fact, False, ALLOW_EXECVE, False)


def _not_guarded(message: str, tree: ShownTree) -> SandboxCompileError:
    suggestion = f"list where it leads to, or a copy, outside of what {tree.key} grants"
    return SandboxCompileError(message, key=ALLOW_EXECVE, suggestion=suggestion)


def _let_denials_win(view: ViewDraft) -> None:
    for real, tree in list(view.trees.items()):
        hole = nearest(real, view.holes)
        if hole is not None:
            del view.trees[real]
            if not tree.implied:
                view.notes.append(grant_skipped(tree.key, tree.fact.path, f"{hole.kind} {hole.fact.path!r} wins"))
    for real, fact in list(view.sockets.items()):
        hole = nearest(real, view.holes)
        if hole is not None:
            del view.sockets[real]
            view.notes.append(grant_skipped(UNIX_SOCKETS, fact.path, f"{hole.kind} {hole.fact.path!r} wins"))


def _leave_out_what_is_pierced(view: ViewDraft) -> None:
    """Without mounts nothing inside a tree can be covered: an optional tree goes, any other is refused elsewhere."""
    for real, hole in view.holes.items():
        tree = None if hole.implied else view.enclosing(real)
        while tree is not None and tree.optional and not tree.cow:
            del view.trees[tree.fact.real]
            view.notes.append(grant_skipped(tree.key, tree.fact.path, f"it holds {real!r}, which is not to be seen"))
            tree = view.enclosing(real)


def _prune(view: ViewDraft, policy: Policy) -> None:
    """Drop what shows nothing new, and order by path: parents before children. Unless a guard covers what it stands
    for (landlock isolation only tells of it), a denial in it stands by itself."""
    covers = policy.isolation == "full"
    taken = (view.trees, view.holes, view.links)
    hidden = [path for path in view.own if any(nearest(path, table) is not None for table in taken)]
    for path in hidden:
        del view.own[path]
        hole = nearest(path, view.holes)
        if hole is not None and not (path in OF_THE_DOORS and reaches_names(policy)):
            view.notes.append(grant_skipped("filesystem.allow", path, f"{hole.kind} {hole.fact.path!r} wins"))
        elif hole is not None:
            view.notes.append(not_coverable("filesystem.allow", f"{path!r} is hidden: names may not be found"))
        elif path in OF_THE_DOORS:
            view.notes.append(not_coverable("filesystem.allow", f"{path!r} is the host's: names may not be found"))
    kept = {}
    for real in sorted(view.trees):
        tree, above = view.trees[real], view.enclosing(real)
        if above is None or above.access != tree.access:
            kept[real] = tree
    holes = {}
    for real in sorted(view.holes):
        wider = nearest(parent(real), view.holes)
        stands = wider is None or (wider.implied and not covers and not view.holes[real].implied)
        if stands and (view.enclosing(real) is not None or real.startswith("/proc/")):
            holes[real] = view.holes[real]
    _note_hidden_links(view)
    over = (view.trees, view.holes)  # a link in what is denied is not to be seen, nor where it leads
    shown = [link for link in sorted(view.links) if all(nearest(link, table) is None for table in over)]
    links = {link: view.links[link] for link in shown}
    view.trees, view.holes, view.links = kept, holes, links


def _note_hidden_links(view: ViewDraft) -> None:
    """A grant that leads through a link in what is denied is found by its real path alone."""
    for tree in view.trees.values():
        for link, _ in () if tree.optional else tree.fact.links:
            hole = nearest(link, view.holes) if link in view.links else None
            if hole is not None:
                view.notes.append(grant_skipped(tree.key, link, f"{hole.kind} {hole.fact.path!r} wins"))
