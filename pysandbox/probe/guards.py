"""Where the files are that a writable grant does not open (`policy.guarded`): by name, in the repositories below the
grant, and those of this very program.

The search for repositories is bounded: DEEPEST levels, MOST directories, and not in places that hold what is built or
fetched. Submodules and worktrees are found by git's own directories, whatever their depth. A repository that comes
into the tree after the look is guarded from the next look on. Nothing is opened but directories.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from pysandbox.policy.guarded import GIT, OURS, WORDS, Guard, hidden, named, of_repository
from pysandbox.policy.match import covers
from pysandbox.probe.facts import PathFacts

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy

DEEPEST, MOST = 3, 128
MOST_MODULES = 256
NOT_SEARCHED = frozenset(("node_modules", "__pycache__", "target", "dist", "build", "venv", ".venv", ".tox", ".cache",
                          "site-packages", "vendor", ".git"))  # fmt: skip
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_guards(policy: Policy, seen: PathFacts, home: str) -> tuple[Guard, ...]:
    """Every guard of a policy, each path once. `seen` holds its grants and the working directory."""
    from pysandbox.policy.paths_wanted import guarded_trees, writable_trees

    closed = [word for word in WORDS if word not in policy.unguarded]
    found: dict[str, Guard] = {}
    for path in guarded_trees(policy, seen.cwd):
        if seen[path].kind == "dir":
            found |= {guard.path: guard for guard in hidden(seen[path].real)}
    for path in writable_trees(policy, seen.cwd):
        if seen[path].kind == "dir":
            for guard in _of_tree(seen[path].real, home, closed):
                found.setdefault(guard.path, guard)
    return tuple(found.values())


def _of_tree(tree: str, home: str, closed: Iterable[str]) -> Iterator[Guard]:
    yield from named(tree, home, closed)
    if GIT in closed:
        yield from of_repository(f"{tree}/.git", tree)
        for git, bare in repositories(tree):
            yield from of_repository(git, tree, bare=bare)
    if OURS in closed:
        yield from (Guard(path, OURS, tree) for path in our_files() if covers(tree, path) or covers(path, tree))


def repositories(tree: str) -> Iterator[tuple[str, bool]]:
    """(git directory or file, whether it is a bare repository or one of another's modules or worktrees)."""
    ahead, looked = [(tree, 0)], 0
    while ahead and looked < MOST:
        directory, depth = ahead.pop(0)
        looked += 1
        names = _names(directory)
        if {"HEAD", "objects", "refs"} <= names.keys():
            yield directory, True
            yield from ((each, True) for each in _inside(directory))
            continue
        if ".git" in names:
            yield f"{directory}/.git", False
            yield from ((each, True) for each in _inside(f"{directory}/.git"))
        if depth < DEEPEST:
            below = (name for name, is_directory in names.items() if is_directory and name not in NOT_SEARCHED)
            ahead += [(f"{directory}/{name}", depth + 1) for name in sorted(below)]


def _inside(git: str) -> Iterator[str]:
    """The git directories of the submodules, which may be nested, and of the linked worktrees."""
    yield from (f"{git}/worktrees/{name}" for name in sorted(_names(f"{git}/worktrees")))
    ahead, looked = [f"{git}/modules"], 0
    while ahead and looked < MOST_MODULES:
        directory = ahead.pop(0)
        looked += 1
        names = _names(directory)
        if "HEAD" in names:
            yield directory
            ahead += [f"{directory}/modules"] if "modules" in names else []
        else:
            ahead += [f"{directory}/{name}" for name in sorted(names) if names[name]]


def _names(directory: str) -> dict[str, bool]:
    """What is in it, and whether each is a directory (not a link to one); nothing where that cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


@cache
def our_files() -> tuple[str, ...]:
    """What the next run of this program executes or imports, by real paths: the package with cage-init, its virtual
    environment, the interpreter, the standard library, and what site-packages it has."""
    executable = os.path.realpath(sys.executable) if sys.executable else ""
    packages = (path for path in sys.path if path.endswith(("/site-packages", "/dist-packages")))
    environment = (sys.prefix,) if sys.prefix != sys.base_prefix else ()
    places = (PACKAGE, *environment, os.path.dirname(executable), os.path.dirname(os.__file__), *packages)
    real = dict.fromkeys(os.path.realpath(place) for place in places if place)
    return tuple(path for path in real if not any(path != other and covers(other, path) for other in real))
