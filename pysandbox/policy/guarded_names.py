"""Which of the guarded names (`policy.guarded`) a path has, however it is spelled: for whoever has no mount over them,
and knows them by their names alone. Pure.

A name counts in any directory: a nested repository is one, and what is not there yet is closed, too. The commit of a
workspace and the files of apps ask here; the directory that a path ends up in may fold names (`policy.folding`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.policy.folding import as_short_name, caseless, short_name
from pysandbox.policy.guarded import GIT, GIT_FILES, HOME, OURS, POLICY_FILES, PROJECT

Parts = tuple[str, ...]

# The words by the names: ("pysandbox.toml",) is OURS. `bin` in a home is known by its place alone.
NAMES: dict[Parts, str] = {
    tuple(caseless(name).split("/")): word
    for table in (HOME, PROJECT) for word, names in table.items() if names != ("bin",) for name in names
} | {(caseless(name),): OURS for name in POLICY_FILES}  # fmt: skip
ABOVE = frozenset(each[:end] for each in NAMES for end in range(1, len(each)))  # directories on the way to one
LONGEST = max(map(len, NAMES))
OF_GIT = frozenset((*map(caseless, GIT_FILES), "modules", "worktrees", "info"))
DATA_OF_GIT = frozenset(("objects", "refs", "logs"))  # nothing in them leads git anywhere, whatever its name
_FIRST = frozenset(each[0] for each in NAMES) | {GIT}
_SHORT = {short_name(part): part for each in (*NAMES, (GIT,), *((name,) for name in GIT_FILES)) for part in each}


def parts_of(path: str) -> Parts:
    """The components of a path as they are compared."""
    text = caseless(path)
    parts = tuple(text.split("/"))
    return tuple(map(_long, parts)) if "~" in text else parts


def _long(part: str) -> str:
    short = as_short_name(part)
    return part if short is None else _SHORT.get(short, part)


def words_of(parts: Parts) -> Iterator[str]:
    """What opens them in `filesystem.unguarded`, one for each name that is met; OURS for what is of the policies."""
    if _FIRST.isdisjoint(parts) or is_data_of_git(parts):
        return
    if steers_git(parts):
        yield GIT
    for at, first in enumerate(parts):
        if first in _FIRST:
            for size in range(1, LONGEST + 1):
                word = NAMES.get(parts[at : at + size])
                if word is not None:
                    yield word
                if at + size >= len(parts):
                    break


def is_data_of_git(parts: Parts) -> bool:
    """Whether it lies below `.git/{objects,refs,logs}`: what is there has the names of branches, and is run by nobody.
    In a repository inside of that it may be anything."""
    if GIT not in parts:
        return False
    after = parts[parts.index(GIT) + 1 :]
    return len(after) > 1 and after[0] in DATA_OF_GIT and GIT not in after


def steers_git(parts: Parts) -> bool:
    """`.git` itself, its directory of hooks, what names commands, and what leads git to another configuration."""
    if GIT not in parts:
        return False
    after = parts[parts.index(GIT) + 1 :]
    if after and after[0] in DATA_OF_GIT:
        return GIT in after and steers_git(after)
    return not after or after[-1] == GIT or not OF_GIT.isdisjoint(after)
