"""The directories that were searched for what the host obeys, and whether the same search would find the same now.

A directory is looked into again only where something in it was made, moved or removed since; what its files hold does
not count, nor what the search never heeds. A warm start asks this each time, so it imports next to nothing.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Searched = tuple[str, int, bool, tuple[str, ...]]

NOT_SEARCHED = frozenset(("node_modules", "__pycache__", "target", "dist", "build", "venv", ".venv", ".tox", ".cache",
                          "site-packages", "vendor", ".git"))  # fmt: skip
BARE = frozenset(("HEAD", "objects", "refs"))  # what a directory holds that git takes for a repository
RACY = 50_000_000  # ns: a change so shortly before the look may be followed by one with the same time
PAUSE = 0.2  # seconds in which one program does not ask again
NEVER, ABSENT = -2, -1  # instead of a time of change


def names(directory: str) -> dict[str, bool]:
    """What is in it, and whether each is a directory (not a link to one); nothing where that cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


def changed(directory: str) -> int:
    """When a name in it last came or went, or later (ns): a cage can set the time of modification back, not this."""
    try:
        return os.stat(directory).st_ctime_ns
    except OSError:
        return ABSENT


def telling(found: Mapping[str, bool], below: bool) -> tuple[str, ...]:
    """The names that a search heeds: all that begin with a dot, those of a bare repository, and, where the search
    goes on `below`, every directory."""
    return tuple(sorted(name for name, is_directory in found.items()
                        if name[0] == "." or name in BARE or (below and is_directory)))  # fmt: skip


def search(directory: str, *, below: bool, searched: list[Searched]) -> dict[str, bool]:
    """The names in it, and for later that this was looked at."""
    when = changed(directory)
    found = names(directory)
    safe = when if when == ABSENT or abs(time.time_ns() - when) > RACY else NEVER
    searched.append((directory, safe, below, telling(found, below)))
    return found


def as_searched(all_of_them: Iterable[Searched]) -> bool:
    return all(changed(directory) == when or telling(names(directory), below) == was
               for directory, when, below, was in all_of_them)  # fmt: skip


def now_and_then(all_of_them: tuple[Searched, ...]) -> Callable[[], bool]:
    """`as_searched` for those who ask often: the answer counts for PAUSE."""
    asked = 0.0

    def ask() -> bool:
        nonlocal asked
        now = time.monotonic()
        if now - asked < PAUSE:
            return True
        asked = now
        return as_searched(all_of_them)

    return ask
