"""The View: what a cage sees of the host's files, settled once for the mounts and for Landlock.

    trees   what is visible, each read-only or writable, by real path; the nearest tree above a path decides
    holes   what is denied or masked inside a tree; deny wins over every grant at or below it
    links   the symlinks on the way to a grant, made anew so that it is found under the name it was granted by

`see` reads top to bottom: collect what was granted, guard the files that steer the host, let denials win, prune what
a wider tree already shows. A path is always its real path here; the nearest ancestor is found by walking up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pysandbox.compile.guards import lay_guards
from pysandbox.compile.links import leads_through, refused, replaceable, replaceable_places
from pysandbox.compile.network import NSSWITCH, RESOLV, own_files
from pysandbox.compile.notes import grant_skipped, grants_absent, not_coverable, wide_grant
from pysandbox.compile.plan import DEVICES
from pysandbox.compile.programs import ALLOW_EXECVE, programs
from pysandbox.compile.shown import ROOT, Hole, Tree, View, nearest, parent
from pysandbox.errors import SandboxCompileError, SandboxPathMissing
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import absolute
from pysandbox.probe.facts import PathFact, PathFacts

__all__ = ["DEVICES", "Hole", "Tree", "View", "nearest", "parent", "see"]

UNIX_SOCKETS = "network.unix_sockets"
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
PATTERN = "*?["  # nobody expands these


def see(policy: Policy, paths: PathFacts) -> View:
    view = View(programs=programs(policy, paths))
    _collect_trees(view, policy, paths)
    _collect_holes(view, policy, paths)
    lay_guards(view, policy, paths)
    _keep_out(view, paths)
    _guard_programs(view)
    _let_denials_win(view)
    if policy.isolation != "full":
        _leave_out_what_is_pierced(view)
    _weigh_what_is_absent(view, policy, paths)
    _prune(view, covers=policy.isolation == "full")
    return view


def _asked(policy: Policy, cwd: str) -> Iterator[tuple[str, str, bool, bool]]:
    """Every grant as (path, key, writable, optional)."""
    for grant in policy.allow:
        yield absolute(grant.path, cwd), "filesystem.allow", False, grant.optional
    for grant in policy.allow_write:
        yield absolute(grant.path, cwd), "filesystem.allow_write", True, grant.optional
    if policy.workdir != "none":
        yield cwd, "filesystem.workdir", policy.workdir == "write", False
    for grant in policy.unix_sockets:
        yield absolute(grant.path, cwd), UNIX_SOCKETS, False, grant.optional


def _collect_trees(view: View, policy: Policy, paths: PathFacts) -> None:
    full, own = policy.isolation == "full", {**paths.accounts, **own_files(policy)}
    view.own = {path: text for path, text in own.items() if path in OF_THE_DOORS}
    absent = []
    places = replaceable_places(policy, paths)
    for path, key, writable, optional in _asked(policy, paths.cwd):
        if optional and path in own:
            view.own[path] = own[path]
            continue
        fact = paths[path]
        if fact.kind == "missing":
            if not optional:
                raise SandboxPathMissing(f"{path!r} does not exist", key=key,
                                         suggestion="create it, or mark it optional")  # fmt: skip
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
        reason = _own(fact.real) if full or fact.real == ROOT else None
        if reason is not None and key == "filesystem.workdir" and nearest(fact.real, LOST) is not None:
            raise _lost(path, reason)
        if reason is None:
            _add_tree(view, Tree(fact, writable, key, optional), paths)
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


def _add_tree(view: View, tree: Tree, paths: PathFacts) -> None:
    """Granted twice, a path is writable if either says so, and explicit if either is."""
    real = tree.fact.real
    known = view.trees.get(real)
    if known is not None:
        tree = replace(tree, writable=tree.writable or known.writable, optional=tree.optional and known.optional)
    view.trees[real] = tree
    view.notes.extend(wide_grant(tree.key, f"{tree.fact.path!r} {reason}") for reason in _wide(tree, paths))


def _wide(tree: Tree, paths: PathFacts) -> Iterator[str]:
    if nearest(paths[paths.home].real, {tree.fact.real: True}):
        yield f"is {'writable' if tree.writable else 'shown'} and holds the home directory with all its secrets"
    if tree.fact.kind == "dir" and nearest(tree.fact.real, {SOCKETS: True}):
        yield ("is where programs of the host listen: a unix socket that a cage sees can be connected to, read-only or "
               f"not; {UNIX_SOCKETS} grants a single one")  # fmt: skip


def _own(real: str) -> str | None:
    """Why the host's `real` is not granted, or None."""
    if real == ROOT:
        return "the root of the cage is its own"
    return OWN_PLACES.get(real) or nearest(real, OWN_TREES)


def _remember_links(view: View, fact: PathFact) -> None:
    for link, target in fact.links:
        if _own(link) is None:  # /proc/self, say, is there already
            view.links[link] = target


def _collect_holes(view: View, policy: Policy, paths: PathFacts) -> None:
    places = replaceable_places(policy, paths)
    for kind, key, grants in (("deny", "filesystem.deny", policy.deny), ("mask", "filesystem.mask", policy.mask)):
        for grant in grants:
            fact = paths[absolute(grant.path, paths.cwd)]
            link = replaceable(fact, places)
            if link is not None and nearest(fact.real if fact.kind != "missing" else link, view.trees) is not None:
                raise refused(fact, link, key)
            if fact.kind == "missing":
                continue  # _weigh_what_is_absent
            if _takes_what_a_cage_needs(fact.real):
                raise SandboxCompileError(f"{grant.path!r} is the cage's own and cannot be taken from it", key=key,
                                          suggestion="the host's is not visible anyway")  # fmt: skip
            view.holes.setdefault(fact.real, Hole(fact, kind, key))


def _takes_what_a_cage_needs(real: str) -> bool:
    """The root, /dev and its nodes, /proc and the processes in it. An entry such as /proc/meminfo may be denied."""
    if real.startswith("/proc/"):
        return real.split("/", 3)[2].isdigit()  # what /proc/self led to is a process of the host
    return real in (ROOT, "/proc", "/dev", *DEVICES)


def _keep_out(view: View, paths: PathFacts) -> None:
    """The directories of this package (`compile.kept`): a cage that wrote them would choose its next policy, or forge
    what is told of it."""
    for kept in paths.kept:
        fact = paths[kept.path]
        tree = nearest(fact.real, view.trees)
        if kept.closed:
            if fact.kind != "missing":
                view.holes[fact.real] = Hole(fact, "deny", "filesystem.deny")
        elif tree is None:
            continue
        elif fact.kind != "missing":
            view.holes.setdefault(fact.real, Hole(fact, "mask", "filesystem.mask", implied=True))
        elif tree.writable:
            message = f"{kept.path!r} does not exist: what the cage creates there counts"
            view.notes.append(not_coverable(tree.key, message))


def _guard_programs(view: View) -> None:
    """A listed file, or the dynamic linker of one, is neither rewritten nor replaced by the cage, now or for the next
    cage: a link on the way to it would be chosen anew when that one is compiled."""
    if view.programs is None:
        return
    single = view.programs.single
    for fact in (*single.values(), *view.programs.roots.values()):
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
            view.trees[real] = Tree(fact, False, ALLOW_EXECVE, False)


def _not_guarded(message: str, tree: Tree) -> SandboxCompileError:
    suggestion = f"list where it leads to, or a copy, outside of what {tree.key} grants"
    return SandboxCompileError(message, key=ALLOW_EXECVE, suggestion=suggestion)


def _let_denials_win(view: View) -> None:
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


def _leave_out_what_is_pierced(view: View) -> None:
    """Without mounts nothing inside a tree can be covered: an optional tree goes, any other is refused elsewhere."""
    for real, hole in view.holes.items():
        tree = None if hole.implied else view.over(real)
        while tree is not None and tree.optional:
            del view.trees[tree.fact.real]
            view.notes.append(grant_skipped(tree.key, tree.fact.path, f"it holds {real!r}, which is not to be seen"))
            tree = view.over(real)


def _weigh_what_is_absent(view: View, policy: Policy, paths: PathFacts) -> None:
    """T28: nothing can be laid over a name that is not there; below a read-only tree the cage cannot make it either.
    A denial that cannot be made is an error, unless it was called optional."""
    for key, grants in (("filesystem.deny", policy.deny), ("filesystem.mask", policy.mask)):
        for grant in grants:
            fact = paths[absolute(grant.path, paths.cwd)]
            if fact.kind != "missing":
                continue
            if any(sign in grant.path for sign in PATTERN):
                message = f"{grant.path!r} is a pattern, and no file is called that"
                suggestion = "list the files; a denied directory covers all that is in it"
                raise SandboxCompileError(message, key=key, suggestion=suggestion)
            tree = nearest(fact.real, view.trees)
            if tree is not None and tree.writable and nearest(fact.real, view.holes) is None:
                _refuse_or_note(view, key, grant, tree, strict=policy.strict)


def _refuse_or_note(view: View, key: str, grant: Grant, tree: Tree, *, strict: bool) -> None:
    message = f"{grant.path!r} does not exist, and the cage may create it in {tree.fact.path!r}"
    if strict or not grant.optional:
        raise SandboxCompileError(f"{message}: only what is there can be covered", key=key,
                                  suggestion="create it first, or say optional = true where it need not hold"
                                  if not strict else "create it first, or leave strict out")  # fmt: skip
    view.notes.append(not_coverable(key, message))


def _prune(view: View, *, covers: bool) -> None:
    """Drop what shows nothing new, and order by path: parents before children. Unless a guard `covers` what it stands
    for (landlock isolation only tells of it), a denial in it stands by itself."""
    taken = (view.trees, view.holes, view.links)
    hidden = [path for path in view.own if any(nearest(path, table) is not None for table in taken)]
    for path in hidden:
        del view.own[path]
        if path in OF_THE_DOORS:
            view.notes.append(not_coverable("filesystem.allow", f"{path!r} is the host's: names may not be found"))
    kept = {}
    for real in sorted(view.trees):
        tree, above = view.trees[real], view.over(real)
        if above is None or above.writable != tree.writable:
            kept[real] = tree
    holes = {}
    for real in sorted(view.holes):
        wider = nearest(parent(real), view.holes)
        stands = wider is None or (wider.implied and not covers and not view.holes[real].implied)
        if stands and (view.over(real) is not None or real.startswith("/proc/")):
            holes[real] = view.holes[real]
    links = {link: view.links[link] for link in sorted(view.links) if nearest(link, view.trees) is None}
    view.trees, view.holes, view.links = kept, holes, links
