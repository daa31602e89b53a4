"""The directories that were searched for what the host obeys, and whether the same search would find the same now.

A directory is looked into again only where something in it was made, moved or removed since; what its files hold does
not count, nor what the search never heeds. A cage may have left any number of names: no more than MOST_NAMES are read.
The launcher asks the same in C (csrc/launcher/searched.c).
"""

from __future__ import annotations

import os
import time

from pysandbox.probe.kernel import tell_shortage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Searched = tuple[str, int, bool, tuple[str, ...]]

NOT_SEARCHED = frozenset(("node_modules", "__pycache__", "target", "dist", "build", "venv", ".venv", ".tox", ".cache",
                          "site-packages", "vendor", ".git"))  # fmt: skip
BARE = frozenset(("HEAD", "objects", "refs"))  # what a directory holds that git takes for a repository
RACY = 50_000_000  # ns: a change so shortly before the look may be followed by one with the same time
MOST_NAMES = 50_000  # of one search, in all directories together: some hundredths of a second
NEVER, ABSENT = -2, -1  # instead of a time of change


def names(directory: str, most: int) -> dict[str, bool]:
    """What is in it, and whether each is a directory (not a link to one); nothing where that cannot be read. Raises
    StartError where the host is short of something."""
    try:
        with os.scandir(directory) as entries:
            return {
                entry.name: entry.is_dir(follow_symlinks=False) for _, entry in zip(range(most), entries, strict=False)
            }
    except OSError as error:
        tell_shortage(error, directory)
        return {}


def stat_names(directory: str, wanted: Iterable[str]) -> dict[str, bool]:
    """The wanted names that the directory holds, and whether each is a directory."""
    found = {}
    for name in wanted:
        try:
            found[name] = os.lstat(f"{directory}/{name}").st_mode & 0o170000 == 0o040000
        except OSError:
            continue
    return found


def changed(directory: str) -> int:
    """When a name in it last came or went, or later (ns): a cage can set the time of modification back, not this."""
    try:
        return os.stat(directory).st_ctime_ns
    except OSError:
        return ABSENT


def settled(when: int) -> int:
    """`when` something was changed, or NEVER where another change may follow with the same time."""
    return when if when == ABSENT or abs(time.time_ns() - when) > RACY else NEVER


def relevant_names(found: Mapping[str, bool], below: bool) -> tuple[str, ...]:
    """The names that a search heeds: all that begin with a dot, those of a bare repository, and, where the search
    goes on `below`, every directory."""
    return tuple(sorted(name for name, is_directory in found.items()
                        if name[0] == "." or name in BARE or (below and is_directory)))  # fmt: skip


def search(
    directory: str, *, below: bool, searched: list[Searched], most: int = MOST_NAMES, wanted: Iterable[str] = ()
) -> dict[str, bool]:
    """The names in it, and for later that this was looked at. Of more than `most` the wanted ones are not missed."""
    when = changed(directory)
    found = names(directory, most)
    if len(found) >= most:
        found |= stat_names(directory, wanted)
    searched.append((directory, settled(when), below, relevant_names(found, below)))
    return found


def as_searched(all_of_them: Iterable[Searched]) -> bool:
    left = MOST_NAMES
    for directory, when, below, was in all_of_them:
        if changed(directory) == when:
            continue
        try:
            found = names(directory, left)
        except OSError:  # who searches anew is told
            return False
        left -= len(found)
        if left <= 0 or relevant_names(found, below) != was:
            return False
    return True
