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
from pysandbox.probe.paths import KnownPaths, PathEntry, follow, rows, seen_table, still_there
from pysandbox.shapes import NamedTuple

VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")  # by which the package's own are found


class OwnDirectories(NamedTuple):
    """The directories that this package keeps from every cage, and the names by which they were found."""

    kept: tuple[ProtectedDirectory, ...] = ()
    names: tuple[str, ...] = ()


class _BaseLook(NamedTuple):
    known: KnownPaths
    led_through: Mapping[str, Collection[str]]  # by directory: the paths that lie or lead below it
    own: frozenset[str]
    names: tuple[str, ...]  # by which the package's own were found
    asked_by: tuple[object, ...]
    holds: Callable[[], bool]


class BasePaths:
    """`find_own` says which directories are the package's own now. Any thread may ask."""

    def __init__(self, find_own: Callable[[], OwnDirectories] = OwnDirectories) -> None:
        self._find_own = find_own
        self._last: _BaseLook | None = None

    def known(self, written: Collection[str] = ()) -> KnownPaths:
        """The facts that still hold. What a policy names beside them is looked at anew, and so is what lies in
        `written`, the directories (real paths) that cages have changed: a name there may have become a link to the very
        same file."""
        last = self._last
        if last is None or last.asked_by != _asking(last.names) or not last.holds():
            last = self._look_again()
        again = {path for tree in written for path in last.led_through.get(tree, ())}
        if not again:
            return last.known
        facts = {path: fact for path, fact in last.known.facts.items() if path not in again}
        return KnownPaths(facts, last.known.seen, last.known.kept if again.isdisjoint(last.own) else None)

    def _look_again(self) -> _BaseLook:
        from pysandbox.policy.recipe import base_paths

        own, entries = self._find_own(), dict[str, PathEntry]()
        asking = _asking(own.names)
        wanted = dict.fromkeys((*base_paths(), *STAGING_CANDIDATES, home(), *(each.path for each in own.kept)))
        facts = {path: follow(path, entries) for path in wanted}
        names = {path: follow(path, entries) for path in own.names if path not in facts}
        known, led = KnownPaths(facts, seen_table(rows(facts.values())), own.kept), dict[str, set[str]]()
        for path, fact in (*facts.items(), *names.items()):
            for place in {path, fact.real, *dict(fact.links)}:
                for directory in from_root(place):
                    led.setdefault(directory, set()).add(path)
        keeps = frozenset((*own.names, *(each.path for each in own.kept)))
        holds = still_there(rows(names.values()), known.seen)
        if self._find_own() == own:
            self._last = _BaseLook(known, led, keeps, own.names, asking, holds)
            return self._last
        # a name was led elsewhere before it was followed: nothing tells where it led
        self._last = None
        return _BaseLook(known._replace(kept=None), led, keeps, own.names, asking, holds)


def _asking(names: Collection[str]) -> tuple[object, ...]:
    """Another user may not see the same, and another environment has other places. The package's own are found by what
    is at their names, whose it is, and who may enter it."""
    directory = os.environ.get("HOME", "")
    return (os.geteuid(), os.getegid(), *map(os.environ.get, VARIABLES), _whose(directory, os.stat),
            *(_whose(name, os.lstat) for name in names))  # fmt: skip


def _whose(path: str, look: Callable[[str], os.stat_result]) -> tuple[int, ...]:
    try:
        found = look(path)
    except (OSError, ValueError):
        return ()
    return found.st_mode, found.st_uid, found.st_dev, found.st_ino
