"""The look at the host's paths: what each path that a policy names really is, link by link.

`stat_paths` walks every path component by component (lstat, readlink), as the kernel would, and records what it met.
Nothing is opened (but the executables that a policy lists, see `executables`) and nothing decided: a path that cannot
be walked (absent, a loop of links, below a file, below a directory the caller may not search) is "missing", and
`compile` knows what to do with that. The result goes stale the moment it is taken: `watch` tells whether a kept one
still holds, and the mounts themselves verify (dev, ino).
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from pysandbox.policy.below import covers
from pysandbox.policy.user_home import home
from pysandbox.probe.accounts import own_accounts
from pysandbox.probe.facts import STAGING_CANDIDATES, PathFact, PathFacts, ProtectedDirectory
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy

    Row = tuple[str, int, int, bool, bool]

ENCODING, ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
LINK_LIMIT = 40  # as the kernel's own (MAXSYMLINKS)
PAUSE = 0.2  # seconds in which one program does not search again


class PathEntry(NamedTuple):
    """One name in one real directory."""

    kind: str  # as PathFact.kind, or "link"
    target: str = ""  # of a link
    dev: int = 0
    ino: int = 0
    names: int = 1
    loose: bool = False  # of a link: whether the caller may write the directory it lies in
    unseen: bool = False  # of what is missing: whether the caller may not look there


_MISSING, _UNSEEN = PathEntry("missing"), PathEntry("missing", unseen=True)


class KnownPaths(NamedTuple):
    """What an earlier look has met, and the rows that tell whether it is that still."""

    facts: Mapping[str, PathFact]
    seen: Seen | None
    kept: tuple[ProtectedDirectory, ...] | None = None  # None: which they are is to be asked


NONE_KNOWN = KnownPaths(MappingProxyType({}), None)


def stat_paths(
    policy: Policy, *, cwd: str, kept: Sequence[ProtectedDirectory] = (), written: Sequence[str] = (),
    known: KnownPaths = NONE_KNOWN,
) -> PathFacts:  # fmt: skip
    """What every path named by the policy is, with `cwd`, the home directory, the staging candidates and `kept`.
    `written` is handed on; what is `known` is what it was a moment ago."""
    from pysandbox.policy.paths_wanted import wanted_paths

    entries: dict[str, PathEntry] = {}
    seen = _look(wanted_paths(policy, cwd), cwd, home(), kept, entries, known)
    seen = _with_patterns(policy, seen, entries)
    accounts = own_accounts() if policy.run_as == "self" and policy.isolation == "full" else {}
    seen = _with_guards(policy, replace(seen, written=tuple(written), accounts=accounts), entries)
    seen = _with_repository(policy, seen, entries)
    seen = _with_mounts(policy, seen)
    if not policy.allow_execve:
        return seen
    from pysandbox.probe.executables import needed, read_executables

    executables = read_executables(policy, seen)
    more = stat_all(needed(policy, seen, executables), cwd=cwd, home=seen.home)
    return replace(seen, facts={**more.facts, **seen.facts}, executables=executables)


def _with_patterns(policy: Policy, seen: PathFacts, entries: dict[str, PathEntry]) -> PathFacts:
    """Raises PolicyError for a pattern that cannot be searched for."""
    from pysandbox.policy.paths_wanted import granted_paths, hidden_patterns

    wanted = list(hidden_patterns(policy, seen.cwd))
    if not wanted:
        return seen
    from pysandbox.probe.matching import find_matches

    trees = dict.fromkeys(each for path in granted_paths(policy, seen.cwd) for each in (path, seen[path].real))
    found = {pattern: find_matches(pattern, key, trees) for key, _, pattern in wanted}
    more = {path: follow(path, entries) for each in found.values() for path in each.paths if path not in seen.facts}
    return replace(seen, facts={**more, **seen.facts}, patterns=found)


def _with_guards(policy: Policy, seen: PathFacts, entries: dict[str, PathEntry]) -> PathFacts:
    from pysandbox.policy.paths_wanted import guarded_trees

    granted = guarded_trees(policy, seen.cwd)
    if not granted:
        return seen
    from pysandbox.probe.guards import find_guards

    found = find_guards(policy, seen, granted, seen[seen.home].real, partial(follow, entries=entries))
    more = {}
    for guard in found.guards:
        tree, path = guard.tree, guard.path
        if path in seen.facts:
            continue
        first = f"{tree}/{path[len(tree) + 1 :].partition('/')[0]}"  # the tree is real, and most names are not there
        if path.startswith(first) and (entries.get(first) or _enter(first, entries)).kind == "missing":
            more[path] = PathFact(path, first, "missing")
        else:
            more[path] = follow(path, entries)
    return replace(seen, facts={**more, **seen.facts}, **found._asdict())


def _with_mounts(policy: Policy, seen: PathFacts) -> PathFacts:
    if policy.workdir != "cow" and not policy.cow:
        return seen
    from pysandbox.policy.paths_wanted import cow_trees
    from pysandbox.probe.mounted import find_mounts_below, find_not_overlaid

    trees = [seen[path].real for path in cow_trees(policy, seen.cwd)]
    return replace(seen, mounted=find_mounts_below(trees), not_overlaid=find_not_overlaid(trees))


def _with_repository(policy: Policy, seen: PathFacts, entries: dict[str, PathEntry]) -> PathFacts:
    """Where the working directory is shown. The policy files beside what is shown with it are as hidden as its own."""
    if policy.workdir == "none" or seen[seen.cwd].kind != "dir":
        return seen
    from pysandbox.policy.guarded import hidden
    from pysandbox.probe.repository import find_repository, git_alone

    found = find_repository(seen[seen.cwd].real, seen[seen.home].real, seen.written)
    if found.shown and _hides_some_of(policy, seen.cwd):
        found = git_alone(found)
    guards = [guard for path in found.shown for guard in hidden(path)]
    wanted = (*found.asked, *found.shown, *(guard.path for guard in guards))
    more = {path: follow(path, entries) for path in wanted if path not in seen.facts}
    return replace(seen, facts={**more, **seen.facts}, guards=(*seen.guards, *guards), repository=found)


def _hides_some_of(policy: Policy, cwd: str) -> bool:
    """Whoever hides a file here does not mean that the one beside the directory is shown instead."""
    return any(not grant.path.startswith("/") or covers(cwd, grant.path) for grant in (*policy.deny, *policy.mask))


def stat_all(paths: Iterable[str], *, cwd: str, home: str) -> PathFacts:
    """What the given absolute paths are, whoever asks for them."""
    return _look(paths, cwd, home, (), {})


def _look(
    paths: Iterable[str], cwd: str, home: str, kept: Sequence[ProtectedDirectory], entries: dict[str, PathEntry],
    known: KnownPaths = NONE_KNOWN,
) -> PathFacts:  # fmt: skip
    """`entries` gets every name that was met."""
    wanted = dict.fromkeys((*paths, *(each.path for each in kept), cwd, home, *STAGING_CANDIDATES))
    facts = {path: known.facts.get(path) or follow(path, entries) for path in wanted}
    return PathFacts(cwd, home, facts, kept=tuple(kept))


def stamp(paths: PathFacts) -> tuple[object, ...]:
    """A hashable fingerprint: equal exactly when two looks saw the same paths as the same things."""
    facts = sorted(paths.facts.items())
    return (
        paths.cwd,
        paths.home,
        paths.kept,
        tuple((path, fact.real, fact.kind, fact.links, fact.dev, fact.ino) for path, fact in facts),
        tuple(sorted((path, each.format, each.interpreter) for path, each in paths.executables.items())),
    )


def watch(paths: PathFacts, known: KnownPaths = NONE_KNOWN) -> Callable[[], bool]:
    """A check, to be called often: whether every path still leads to the inode that it led to (or still to none), and
    a search for guards still leads to the same ones. What was `known` has a check already."""
    mine = [fact for path, fact in paths.facts.items() if known.facts.get(path) is not fact]
    there = watch_these(mine, known.seen)
    others: list[Callable[[], bool]] = []
    if paths.searched:
        from pysandbox.probe.searched import as_searched

        others.append(_now_and_then(lambda: as_searched(paths.searched)))
    if paths.patterns:
        from pysandbox.probe.matching import still_matches

        others.append(lambda: all(still_matches(*each) for each in paths.patterns.items()))
    if paths.configured:
        from pysandbox.probe.small_file import are_as_read

        others.append(_now_and_then(lambda: are_as_read(paths.configured)))
    if paths.repository.read:
        from pysandbox.probe.repository import as_found

        others.append(lambda: as_found(paths.repository))
    if not others:
        return there

    def check() -> bool:
        if not there():
            return False
        for other in others:  # noqa: SIM110 - asked at every start: a generator would cost as much as what it asks
            if not other():
                return False
        return True

    return check


def _now_and_then(check: Callable[[], bool]) -> Callable[[], bool]:
    """The check, for those who ask often: that it holds counts for PAUSE."""
    asked = 0.0

    def ask() -> bool:
        nonlocal asked
        now = time.monotonic()
        if now - asked >= PAUSE:
            if not check():
                return False
            asked = now
        return True

    return ask


def watch_these(facts: Iterable[PathFact], also: Seen | None = None) -> Callable[[], bool]:
    """A test that is true as long as the given paths are what they were when looked at, and those of `also`."""
    return still_there(rows(tuple(facts)), also)


def still_there(seen: Sequence[Row], also: Seen | None = None) -> Callable[[], bool]:
    """A check of rows (path, st_dev, st_ino, within, direct): ino 0 for a path that must lead nowhere, `within` for one
    in the directory of the nearest row before that is not `within`, `direct` where no link was met. One call; 40 paths
    take 25 us."""
    from pysandbox._native import lib

    own, other = seen_table(seen), also or seen_table(())

    def check() -> bool:
        return bool(lib.psb_still_there(own.table, own.size) and lib.psb_still_there(other.table, other.size))

    return check


class Seen(NamedTuple):
    """Rows of paths, as C has them. `texts` is what they point to."""

    table: Any
    size: int
    texts: Any


def seen_table(seen: Sequence[Row]) -> Seen:
    from pysandbox._native import ffi

    names, texts = c_texts([path for path, *_ in seen])
    table = ffi.new("struct psb_seen[]", [(names[path], dev, ino, 0, *how) for path, dev, ino, *how in seen])
    return Seen(table, len(seen), texts)


def c_texts(texts: Iterable[str]) -> tuple[Mapping[str, Any], Any]:
    """A `char *` for each text, as the file system spells it, and the memory of all, which has to live as long as they
    do: one for each would cost a start more than all that is done with them."""
    from pysandbox._native import ffi

    once = list(dict.fromkeys(texts))
    spelled = [text.encode(ENCODING, ERRORS) for text in once]
    memory = ffi.new("char[]", b"\0".join(spelled))
    places, at = {}, 0
    for text, each in zip(once, spelled, strict=True):
        places[text] = memory + at
        at += len(each) + 1
    return places, memory


def rows(facts: Collection[PathFact]) -> list[Row]:
    """What `still_there` takes: what is absent in a directory, reached without a link, follows the directory;
    one that is none of these has a row of its own, where that spares some."""
    directories = {fact.path: (fact.dev, fact.ino) for fact in facts if fact.kind == "dir" and not fact.links}
    absent: dict[str, list[str]] = {}
    for fact in facts:
        if fact.kind == "missing" and not fact.links:
            absent.setdefault(fact.real.rpartition("/")[0] or "/", []).append(fact.path)
    for path, names in absent.items():
        if len(names) > 1 and path not in directories and (entry := _examine(path)).kind == "dir":
            directories[path] = entry.dev, entry.ino
    within = {path: absent.get(path, []) for path in directories}
    placed = set(within).union(*within.values())
    found = [(fact.path, fact.dev, fact.ino, False, not fact.links) for fact in facts if fact.path not in placed]
    for path, (dev, ino) in directories.items():
        found += [(path, dev, ino, False, True), *[(name, 0, 0, True, True) for name in within[path]]]
    return found


def follow(path: str, entries: dict[str, PathEntry]) -> PathFact:
    """Follow one absolute path; `entries` remembers the names met so far in this look."""
    real, entry = "", _MISSING  # "" is the root, so that real + "/" + name always holds
    links: list[tuple[str, str]] = []
    loose: list[str] = []
    ahead = path.split("/")[::-1]
    while ahead:
        name = ahead.pop()
        if not name or name == ".":
            continue
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{name}"
        entry = entries.get(here) or _enter(here, entries)
        if entry.kind == "dir":
            real = here
        elif entry.kind == "link" and len(links) < LINK_LIMIT:
            links.append((here, entry.target))
            if entry.loose:
                loose.append(here)
            ahead.extend(entry.target.split("/")[::-1])
            if entry.target.startswith("/"):
                real = ""
        elif entry.kind in ("link", "missing"):
            return PathFact(path, here, "missing", tuple(links), loose=tuple(loose), unseen=entry.unseen)
        elif ahead:  # a name below something that is no directory
            return PathFact(path, f"{here}/{ahead[-1]}", "missing", tuple(links), loose=tuple(loose))
        else:
            return PathFact(path, here, entry.kind, tuple(links), entry.dev, entry.ino, entry.names, tuple(loose))
    entry = entries.get(real) or _enter(real or "/", entries)
    return PathFact(path, real or "/", "dir", tuple(links), entry.dev, entry.ino, loose=tuple(loose))


_KINDS = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFSOCK: "socket"}


def _enter(here: str, entries: dict[str, PathEntry]) -> PathEntry:
    entries[here] = entry = _examine(here)
    return entry


def _examine(here: str) -> PathEntry:
    try:
        found = os.lstat(here)
        if stat.S_ISLNK(found.st_mode):
            return PathEntry("link", os.readlink(here), loose=os.access(here.rpartition("/")[0] or "/", os.W_OK))
    except PermissionError:
        return _UNSEEN
    except OSError:
        return _MISSING
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return PathEntry(kind, "", found.st_dev, found.st_ino, found.st_nlink if kind == "file" else 1)
