"""What no app writes, makes, moves or replaces, wherever its workspace and its prefixes are: the names that programs of
the host obey by themselves (`policy.guarded`), and pysandbox with its interpreter. A cage has mounts over them; an app
of the machine has no cage, and its files are opened by the host, so that they are told by their names.

A name counts in any directory of the workspace: a nested repository is one, and what is not there yet is closed, too.
Where a guarded file lies in a directory (`.claude/settings.json`), no directory becomes that one. What is of the
policies is not read either.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pysandbox.apps.scope import folded
from pysandbox.policy.below import covers
from pysandbox.policy.guarded import GIT, GIT_FILES, HOME, POLICY_FILES, PROJECT, WORDS, named
from pysandbox.policy.user_home import home
from pysandbox.probe.guards import our_files

_TABLES = (*PROJECT.values(), *(names for names in HOME.values() if names != ("bin",)), (GIT,))
_ANYWHERE = frozenset(tuple(folded(name).split("/")) for names in _TABLES for name in names)
_ABOVE = frozenset(each[:end] for each in _ANYWHERE for end in range(1, len(each)))
_LONGEST = max(map(len, _ANYWHERE))
_OF_GIT = frozenset(folded(each) for each in (*GIT_FILES, "modules", "worktrees", "info"))


def is_of_policies(path: str) -> bool:
    return any(folded(part) in POLICY_FILES for part in path.split("/"))


@lru_cache(maxsize=1024)
def is_obeyed(path: str, *, moved: bool = False) -> bool:
    """`moved`: as the place of a directory that is moved with all that it holds."""
    parts = tuple(map(folded, path.split("/")))
    if GIT in parts:
        after = parts[parts.index(GIT) + 1 :]
        return moved or not after or not _OF_GIT.isdisjoint(after)
    if any(parts[at : at + size] in _ANYWHERE for at in range(len(parts)) for size in range(1, _LONGEST + 1)):
        return True
    return moved and any(parts[-size:] in _ABOVE for size in range(1, _LONGEST))


def obeyed_places(root: str) -> Mapping[str, None]:
    """What besides is known by its place: paths in the workspace, `.` for one that lies in such a place. Where $HOME
    is another home than that of the user database, programs go by either."""
    homes = {os.path.realpath(each) for each in (home(), os.path.expanduser("~"))}
    guards = [guard.path for each in homes for guard in named(root, each, WORDS)]
    return dict.fromkeys(_inside(root, (*guards, *our_files())))


def _inside(root: str, places: Iterable[str]) -> Iterable[str]:
    for each in places:
        if covers(each, root):
            yield "."
        elif covers(root, each):
            yield each[len(root.rstrip("/")) + 1 :]
