"""What every new policy asks of the host's paths: those of the base, the home directory, and what is this package's.

They are looked at once, for as long as they still lead where they led. So holds a plan that is used again
(`paths.watch`); here it is the next policy's plan that comes from the same look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping

from pysandbox.policy.below import from_root
from pysandbox.policy.user_home import home
from pysandbox.probe.facts import STAGING_CANDIDATES, ProtectedDirectory
from pysandbox.probe.paths import NONE_KNOWN, KnownPaths, PathEntry, follow, rows, seen_table, still_there
from pysandbox.shapes import NamedTuple

VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")  # by which the package's own are found


class OwnDirectories(NamedTuple):
    """The directories that this package keeps from every cage, and the names by which they were found."""

    kept: tuple[ProtectedDirectory, ...] = ()
    names: tuple[str, ...] = ()


class BasePaths:
    """`find_own` says which directories are the package's own now."""

    def __init__(self, find_own: Callable[[], OwnDirectories] = OwnDirectories) -> None:
        self._find_own = find_own
        self._known = NONE_KNOWN
        self._led_through: Mapping[str, Collection[str]] = {}  # by directory: the paths that lie or lead below it
        self._own: frozenset[str] = frozenset()
        self._hold: Callable[[], bool] = lambda: False
        self._asked_by: tuple[object, ...] = ()

    def known(self, written: Collection[str] = ()) -> KnownPaths:
        """They hold. What a policy names beside them is looked at anew, and so is what lies in `written`, the
        directories (real paths) that cages have changed: a name there may have become a link to the very same file."""
        known = self._known
        if self._asked_by != _asking() or not self._hold() or known is not self._known:
            known = self._look_again()
        again = {path for tree in written for path in self._led_through.get(tree, ())}
        if not again:
            return known
        facts = {path: fact for path, fact in known.facts.items() if path not in again}
        return KnownPaths(facts, known.seen, known.kept if again.isdisjoint(self._own) else None)

    def _look_again(self) -> KnownPaths:
        from pysandbox.policy.recipe import base_paths

        asking, own, entries = _asking(), self._find_own(), dict[str, PathEntry]()
        wanted = dict.fromkeys((*base_paths(), *STAGING_CANDIDATES, home(), *(each.path for each in own.kept)))
        facts = {path: follow(path, entries) for path in wanted}
        names = {path: follow(path, entries) for path in own.names if path not in facts}
        known, led = KnownPaths(facts, seen_table(rows(facts.values())), own.kept), dict[str, set[str]]()
        for path, fact in (*facts.items(), *names.items()):
            for place in {path, fact.real, *dict(fact.links)}:
                for directory in from_root(place):
                    led.setdefault(directory, set()).add(path)
        self._asked_by, self._known, self._led_through = asking, known, led
        self._own = frozenset((*own.names, *(each.path for each in own.kept)))
        self._hold = still_there(rows(names.values()), known.seen)
        if self._find_own() != own:  # a name was led elsewhere before it was followed: nothing tells where it led
            self._asked_by, known = (), known._replace(kept=None)
        return known


def _asking() -> tuple[object, ...]:
    """Another user may not see the same, and another environment has other places."""
    return os.geteuid(), os.getegid(), *map(os.environ.get, VARIABLES)
