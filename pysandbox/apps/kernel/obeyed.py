"""What no app writes, makes, moves or replaces, wherever its workspace and its prefixes are: the names that programs of
the host obey by themselves (`policy.guarded`), and pysandbox with its interpreter. A cage has mounts over them; an app
of the machine has no cage, and its files are opened by the host, so that they are told by their names.

A name counts in any directory of the workspace, however it is spelled (`policy.guarded_names`). Where a guarded file
lies in a directory (`.claude/settings.json`), no directory becomes that one. What is of the policies is not read
either.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pysandbox.policy.below import covers
from pysandbox.policy.guarded import GIT, OURS, WORDS, named
from pysandbox.policy.guarded_names import ABOVE, LONGEST, parts_of, words_of
from pysandbox.policy.user_home import home
from pysandbox.probe.guards import our_files


def is_of_policies(path: str) -> bool:
    return OURS in words_of(parts_of(path))


@lru_cache(maxsize=1024)
def is_obeyed(path: str, *, moved: bool = False) -> bool:
    """`moved`: as the place of a directory that is moved with all that it holds."""
    parts = parts_of(path)
    if any(word != OURS for word in words_of(parts)):
        return True
    return moved and (GIT in parts or any(parts[-size:] in ABOVE for size in range(1, LONGEST)))


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
