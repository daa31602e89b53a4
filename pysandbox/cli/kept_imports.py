"""Whether a Python that starts after the command of a kept plan has begun could run what that command wrote.

In a run without a kept plan all of our modules are there, or are kept from being shadowed (`runtime.imports`), before
the command is ordered. Beside the launcher, and after it, a new interpreter looks for its modules and libraries when
the cage has had its way with the directories that it may write. So where a cage may write to any of these, a plan that
needs such a Python is not kept, and after any other none is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from pysandbox.policy.match import covers
from pysandbox.policy.paths_wanted import writable_trees
from pysandbox.probe.guards import our_files
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.shapes.pattern import pattern

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy
    from pysandbox.probe.facts import PathFacts

# Variables that lead a start of Python to code, besides its own, which `sys` knows. With the same values the same plan
# is found (csrc/launcher/key.c).
SEARCHED = ("LD_LIBRARY_PATH", "GCONV_PATH", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES")
LOADED = ("LD_PRELOAD", "LD_AUDIT")  # where a name without a slash is searched for, and not here
SEPARATORS = pattern("[:; ]")


def starts_what_it_writes(policy: Policy, paths: PathFacts) -> bool:
    trees = [paths[path].real for path in writable_trees(policy, paths.cwd)]
    ours = our_files()
    places = {place for place in map(os.path.realpath, _places()) if not any(covers(each, place) for each in ours)}
    if "pysandbox" in policy.unguarded:
        places.update(ours)
    return any(covers(tree, place) or covers(place, tree) for tree in trees for place in places)


def _places() -> Iterator[str]:
    """Where modules and libraries are looked for."""
    yield from (place or "." for place in sys.path)
    if sys.pycache_prefix:
        yield sys.pycache_prefix
    for name in (*SEARCHED, *LOADED):
        if value := os.environ.get(name):
            named = (place or "." for place in SEPARATORS.split(value))
            yield from (place for place in named if name in SEARCHED or "/" in place)


def path_files() -> Iterator[str]:
    """What adds to the places where modules are looked for: with another of these, another plan (site, .pth files)."""
    for place in sys.path:
        if place.endswith(("/site-packages", "/dist-packages")):
            yield place
            with suppress(OSError):
                yield from (f"{place}/{name}" for name in sorted(os.listdir(place)) if name.endswith(".pth"))
