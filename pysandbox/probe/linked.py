"""What links in a guarded directory lead to, below the same writable grant: with `.git/hooks/pre-commit` a link to
`../../scripts/check`, whoever writes that script writes the hook.

One level of each directory is read, and a bounded number of names. A link to a directory is left alone: what a hook
calls, or a plugin of an editor imports, is code like any other of the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pysandbox.policy.below import covers
from pysandbox.policy.guarded import Guard
from pysandbox.probe.kernel import tell_shortage
from pysandbox.probe.small_file import stamp_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.probe.facts import PathFact
    from pysandbox.probe.small_file import Stamp

MOST_LINKS, MOST_NAMES = 256, 4096  # of one directory: a cage that fills one does not use up another's


class LinkedSearch:
    """One search in one grant. `read`: the directories, with what each was then; `ended_early`: not all was looked
    at."""

    def __init__(self, tree: str, follow: Callable[[str], PathFact]) -> None:
        self._tree, self._follow = tree, follow
        self.read: list[tuple[str, Stamp]] = []
        self.ended_early = False

    def of(self, directories: Iterable[tuple[str, str]]) -> Iterator[Guard]:
        """The guards for these (a directory or any other path, the word that opens it)."""
        for directory, word in directories:
            links = self._links(directory)
            if links:
                above = self._follow(directory).real
                led_to = (self._led_to(f"{above}/{name}") for name in links)
                yield from (Guard(path, word, self._tree) for path in led_to if path)

    def _links(self, directory: str) -> list[str]:
        stamp = stamp_now(directory)
        try:
            with os.scandir(directory) as entries:
                names = list(islice(entries, MOST_NAMES + 1))
        except OSError as error:
            tell_shortage(error, directory)
            return []
        self.read.append((directory, stamp))
        found = [entry.name for entry in names if entry.is_symlink()]
        if len(names) > MOST_NAMES or len(found) > MOST_LINKS:
            self.ended_early = True
            return []
        return sorted(found)

    def _led_to(self, link: str) -> str:
        """What is to be guarded: a second link on the way, which the cage could replace, or where it ends; or ""."""
        fact = self._follow(link)
        if fact.kind == "dir" or fact.real == self._tree or not covers(self._tree, fact.real):
            return ""
        return next((each for each, _ in fact.links[1:] if covers(self._tree, each)), fact.real)
