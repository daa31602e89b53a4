"""The look at the host's paths: what each path that a policy names really is, link by link.

`look` walks every path component by component (lstat, readlink), as the kernel would, and records what it met.
Nothing is opened (but the executables that a policy lists, see `executables`) and nothing decided: a path that cannot
be walked (absent, a loop of links, below a file, below a directory the caller may not search) is "missing", and
`compile` knows what to do with that. The result goes stale the moment it is taken: `watch` tells whether a kept one
still holds, and the mounts themselves verify (dev, ino).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pysandbox.probe.accounts import own_accounts
from pysandbox.probe.facts import STAGING_CANDIDATES, Kept, PathFact, PathFacts

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy
    from pysandbox.probe.kernel import Row

LINK_LIMIT = 40  # as the kernel's own (MAXSYMLINKS)


class _Entry(NamedTuple):
    """One name in one real directory."""

    kind: str  # as PathFact.kind, or "link"
    target: str = ""  # of a link
    dev: int = 0
    ino: int = 0
    names: int = 1
    loose: bool = False  # of a link: whether the caller may write the directory it lies in


_MISSING = _Entry("missing")


def look(policy: Policy, *, cwd: str, kept: Sequence[Kept] = (), written: Sequence[str] = ()) -> PathFacts:
    """What every path named by the policy is, with `cwd`, the home directory, the staging candidates and `kept`.
    `written` is handed on."""
    from pysandbox.policy.paths_wanted import wanted_paths

    seen = look_at(wanted_paths(policy, cwd), cwd=cwd, home=home(), kept=kept)
    accounts = own_accounts() if policy.run_as == "self" and policy.isolation == "full" else {}
    seen = _with_guards(policy, replace(seen, written=tuple(written), accounts=accounts))
    if not policy.allow_execve:
        return seen
    from pysandbox.probe.executables import look_into, needed

    executables = look_into(policy, seen)
    more = look_at(needed(policy, seen, executables), cwd=cwd, home=seen.home)
    return replace(seen, facts={**more.facts, **seen.facts}, executables=executables)


def _with_guards(policy: Policy, seen: PathFacts) -> PathFacts:
    if policy.workdir == "none" and not policy.allow_write:
        return seen
    from pysandbox.probe.guards import find_guards

    found = find_guards(policy, seen, seen[seen.home].real)
    more = look_at((guard.path for guard in found.guards), cwd=seen.cwd, home=seen.home)
    return replace(seen, facts={**more.facts, **seen.facts}, **found._asdict())


def look_at(paths: Iterable[str], *, cwd: str, home: str, kept: Sequence[Kept] = ()) -> PathFacts:
    """The same for any absolute paths."""
    entries: dict[str, _Entry] = {}
    wanted = dict.fromkeys((*paths, *(each.path for each in kept), cwd, home, *STAGING_CANDIDATES))
    return PathFacts(cwd, home, {path: _walk(path, entries) for path in wanted}, kept=tuple(kept))


def home() -> str:
    """The caller's home directory by the user database (never $HOME); /tmp for users that have none."""
    return _home_of(os.geteuid())


@cache  # the database costs a tenth of a millisecond, and a user's home does not move while a program runs
def _home_of(uid: int) -> str:
    import pwd

    try:
        directory = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/tmp"
    return "/tmp" if directory in ("", "/", "/nonexistent") else directory


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


def watch(paths: PathFacts) -> Callable[[], bool]:
    """A check, to be called often: whether every path still leads to the inode that it led to (or still to none), and
    a search for guards still leads to the same ones."""
    from pysandbox.probe.searched import now_and_then

    there = watch_these(paths.facts.values())
    if not paths.searched:
        return there
    found = now_and_then(paths.searched)
    return lambda: there() and found()


def watch_these(facts: Iterable[PathFact]) -> Callable[[], bool]:
    """The same for some of them."""
    from pysandbox.probe.kernel import still_there

    return still_there(rows(tuple(facts)))


def rows(facts: Collection[PathFact]) -> list[Row]:
    """What `kernel.still_there` takes: what is absent in a directory of these, reached without a link, follows it."""
    within: dict[str, list[Row]] = {fact.path: [] for fact in facts if fact.kind == "dir" and not fact.links}
    others = []
    for fact in facts:
        absent = fact.kind == "missing" and not fact.links
        directory = within.get(fact.real.rpartition("/")[0]) if absent else None
        if directory is None:
            others.append(fact)
        else:
            directory.append((fact.path, 0, 0, True))
    return [row for fact in others for row in ((fact.path, fact.dev, fact.ino, False), *within.get(fact.path, ()))]


def _walk(path: str, entries: dict[str, _Entry]) -> PathFact:
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
            return PathFact(path, here, "missing", tuple(links), loose=tuple(loose))
        elif ahead:  # a name below something that is no directory
            return PathFact(path, f"{here}/{ahead[-1]}", "missing", tuple(links), loose=tuple(loose))
        else:
            return PathFact(path, here, entry.kind, tuple(links), entry.dev, entry.ino, entry.names, tuple(loose))
    entry = entries.get(real) or _enter(real or "/", entries)
    return PathFact(path, real or "/", "dir", tuple(links), entry.dev, entry.ino, loose=tuple(loose))


_KINDS = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFSOCK: "socket"}


def _enter(here: str, entries: dict[str, _Entry]) -> _Entry:
    entries[here] = entry = _examine(here)
    return entry


def _examine(here: str) -> _Entry:
    try:
        found = os.lstat(here)
        if stat.S_ISLNK(found.st_mode):
            return _Entry("link", os.readlink(here), loose=os.access(here.rpartition("/")[0] or "/", os.W_OK))
    except OSError:
        return _MISSING
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return _Entry(kind, "", found.st_dev, found.st_ino, found.st_nlink if kind == "file" else 1)
