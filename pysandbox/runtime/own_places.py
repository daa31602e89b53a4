"""The user's own directories of recipes and of trust, made before a cage that could make them (T59).

What lies there counts as the user's own word, and over a name that is absent nothing can be mounted. So where a grant
of writing holds such a name, the directory is made first, empty and for its user alone; then it is hidden like one that
was there. A link is followed at no place of the way, since a cage may have left it. Where it cannot be made, the note
of `compile.view` says that what the cage creates there counts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pysandbox.launch import native
from pysandbox.policy.match import covers
from pysandbox.probe.facts import PathFact, PathFacts

AT_FDCWD = -100
FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_own_places(seen: PathFacts, writable: Sequence[str]) -> bool:
    """Whether any was made, and the paths are to be looked at again. `writable`: real paths."""
    absent = [seen[kept.path] for kept in seen.kept if not kept.closed and seen[kept.path].kind == "missing"]
    made = [_make(fact) for fact in absent if any(covers(tree, fact.real) for tree in writable)]
    return any(made)


def _make(fact: PathFact) -> bool:
    """`fact.real` is the first name on the way that is missing."""
    above, _, first = fact.real.rpartition("/")
    if fact.path != fact.real and not fact.path.startswith(f"{fact.real}/"):
        return False  # the way leads through a link
    rest = fact.path.removeprefix(fact.real).split("/")[1:]
    try:
        here = native.open_inside(AT_FDCWD, above or "/", FLAGS, resolve=native.RESOLVE_NO_SYMLINKS)
    except OSError:
        return False
    try:
        for name in (first, *rest):
            here = _enter(here, name)
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def _enter(directory: int, name: str) -> int:
    """A descriptor of the directory of that name, made if it is not there; the one above is closed."""
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:
        pass  # another run was faster; what is no directory is found out by opening it
    inner = os.open(name, FLAGS, dir_fd=directory)
    os.close(directory)
    return inner
