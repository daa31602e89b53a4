"""What the patterns of a policy match at this moment (`policy.patterns`), in the directories that it grants.

The search is bounded by MOST_NAMES and MOST_MATCHES, and fails instead of missing something: a directory of the
caller's own that cannot be read may become readable to the cage, which runs as the same user. No link is followed on
the way down, but in the part of a pattern that has no signs. Nothing is opened but directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from pysandbox.errors import PolicyError
from pysandbox.policy.match import covers
from pysandbox.policy.patterns import ANY_DEPTH, escape, fixed_part, literal, match_name
from pysandbox.probe.facts import Matched
from pysandbox.probe.searched import ABSENT, changed, settled

MOST_NAMES = 200_000  # a second
MOST_MATCHES = 1_000  # each is a mount, and more with the directories above it
FIX = "name a directory that holds less before the first sign, or deny the directory"


class _PatternSearch:
    """One pattern. `searched` is complete when the paths have been taken."""

    def __init__(self, pattern: str, key: str, trees: tuple[str, ...]) -> None:
        self._pattern, self._key, self.trees = pattern, key, trees
        self._read: dict[str, dict[str, bool]] = {}
        self._names_left = MOST_NAMES
        self.searched: dict[str, int] = {}

    def paths(self) -> Iterator[str]:
        ahead = [fixed_part(self._pattern)]
        done = set()
        while ahead:
            directory, parts = ahead.pop()
            if not self._is_shown(directory) or (directory, parts) in done:
                continue
            done.add((directory, parts))
            part, rest = parts[0], parts[1:]
            prefix = directory.rstrip("/")
            if part == ANY_DEPTH:
                ahead.append((directory, rest))
                ahead += [(f"{prefix}/{name}", parts) for name, below in self._names(directory).items() if below]
            elif rest:
                ahead += [(f"{prefix}/{name}", rest) for name in self._directories(directory, part)]
            else:
                yield from filter(self._is_shown, (f"{prefix}/{name}" for name in self._named(directory, part)))

    def _is_shown(self, path: str) -> bool:
        """Whether it is granted, or something in it is."""
        return any(covers(tree, path) or covers(path, tree) for tree in self.trees)

    def _directories(self, directory: str, part: str) -> list[str]:
        one = literal(part)
        return (
            [one] if one is not None else [name for name in self._named(directory, part) if self._read[directory][name]]
        )

    def _named(self, directory: str, part: str) -> list[str]:
        return [name for name in self._names(directory) if match_name(part, name)]

    def _names(self, directory: str) -> dict[str, bool]:
        """What is in it, and whether each is a directory, not a link to one."""
        if directory not in self._read:
            when = changed(directory)
            self._read[directory] = self._listed(directory) if when != ABSENT else {}
            self.searched[directory] = settled(when)
        return self._read[directory]

    def _listed(self, directory: str) -> dict[str, bool]:
        found = {}
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    found[entry.name] = entry.is_dir(follow_symlinks=False)
                    self._names_left -= 1
                    if self._names_left < 0:
                        raise self._refused(f"there are more than {MOST_NAMES} names to be looked at")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            if isinstance(error, PermissionError) and _is_of_another_user(directory):
                return {}
            raise self._refused(f"{directory!r} cannot be searched: {error.strerror}") from None
        return found

    def _refused(self, reason: str) -> PolicyError:
        return PolicyError(f"{self._pattern!r} cannot be matched: {reason}", key=self._key, suggestion=FIX)


def _is_of_another_user(directory: str) -> bool:
    try:
        return os.lstat(directory).st_uid != os.geteuid()
    except OSError:  # a directory above it lets nobody through: it was looked at before this one
        return True


def find_matches(pattern: str, key: str, trees: Iterable[str]) -> Matched:
    """What an absolute pattern matches in the granted `trees`. Raises PolicyError, naming the option `key`."""
    search = _PatternSearch(pattern, key, tuple(trees))
    found = []
    for path in search.paths():
        found.append(path)
        if len(found) > MOST_MATCHES:
            raise PolicyError(f"{pattern!r} matches more than {MOST_MATCHES} names", key=key, suggestion=FIX)
    return Matched(key, search.trees, tuple(sorted(set(found))), tuple(search.searched.items()))


def with_real_beginning(pattern: str) -> str:
    """An absolute pattern below the real path of the directory in which it begins to have signs."""
    directory, parts = fixed_part(pattern)
    return "/".join((escape(os.path.realpath(directory)).rstrip("/"), *parts))


def still_matches(pattern: str, was: Matched) -> bool:
    """Whether the same search would find the same; a directory is read again only where a name in one has changed."""
    if all(changed(directory) == when for directory, when in was.searched):
        return True
    try:
        return find_matches(pattern, was.key, was.trees).paths == was.paths
    except PolicyError:
        return False
