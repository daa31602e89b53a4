"""What the configuration of a repository leads git to below a writable grant (`policy.git_config`): its directory of
hooks by another name, the files that it includes, the programs that git starts by itself.

The repository may be that of the grant, one below it, or one around it; what the user's own configuration says holds in
each. Whatever it says may be a stranger's: every file is plain and bounded, and so is how many are read. All that comes
of it is that a cage does not write what is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pysandbox.policy.git_config import LedTo, named_in
from pysandbox.policy.guarded import GIT, Guard
from pysandbox.policy.match import covers
from pysandbox.probe.small_file import read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.probe.small_file import Stamp

LONGEST, LONGEST_LINK = 1 << 20, 8192  # bytes of a configuration, and of a `.git` file
MOST_BYTES = 4 << 20  # of all that are read for one grant: some tenths of a second
MOST_FILES = 16  # that one repository's configuration may include
MOST_NAMES = 64  # that it may name
HOOKS = frozenset((
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc",
    "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg", "proc-receive",
    "push-to-checkout", "reference-transaction", "sendemail-validate", "update",
))  # fmt: skip


class ConfiguredSearch:
    """One search in one grant. `read`: every file that was looked for, with what it was then; `ended_early`: not all
    was looked at."""

    def __init__(self, tree: str, home: str) -> None:
        self._tree, self._home, self._left = tree, home, MOST_BYTES
        self._texts: dict[str, LedTo] = {}
        self.read: list[tuple[str, Stamp]] = []
        self.ended_early = False

    def around(self) -> Iterator[Guard]:
        """What the repository that the grant is a part of leads to."""
        directory = os.path.dirname(self._tree)
        while len(directory) > 1:
            if os.path.lexists(f"{directory}/.git"):
                yield from self.of(f"{directory}/.git")
                return
            directory = os.path.dirname(directory)

    def of(self, git: str, *, bare: bool = False) -> Iterator[Guard]:
        """What one git directory leads to, or the one that a `.git` file names, which may lead anywhere."""
        files = [f"{git}/config", f"{git}/config.worktree"]
        if not bare and os.path.isfile(git):
            said, stamp = read_small(git, LONGEST_LINK)
            self.read.append((git, stamp))
            led = self._path((said or "").removeprefix("gitdir:").strip(), os.path.dirname(git))
            files = [f"{led}/config", f"{led}/config.worktree", f"{os.path.dirname(os.path.dirname(led))}/config"]
        top = git if bare else os.path.dirname(git)
        names = dict.fromkeys(each for each in self._named(files, top) if each)
        self.ended_early |= len(names) > MOST_NAMES
        for path in [*names][:MOST_NAMES]:
            if path != self._tree and covers(self._tree, path):
                yield Guard(path, GIT, self._tree)

    def _named(self, files: list[str], top: str) -> Iterator[str]:
        tree = self._path(self._names(files[0]).tree, os.path.dirname(files[0]))  # a submodule's is not beside it
        ahead, seen = [*files, *self._user_s()], dict.fromkeys(files)
        while ahead:
            file = ahead.pop(0)
            names = self._names(file)
            for said in names.included:
                included = self._path(said, os.path.dirname(file))
                yield included
                if included and included not in seen:
                    seen[included] = None
                    self.ended_early |= len(seen) > MOST_FILES
                    ahead += [included] if len(seen) <= MOST_FILES else []
            for said in names.hooks:
                yield from self._hooks(self._path(said, tree or top))
            for word in names.programs:
                path = self._path(word, tree or top)
                if not os.path.isdir(path) and ("/" in word or os.path.lexists(path)):
                    yield path

    def _hooks(self, directory: str) -> Iterator[str]:
        """All of it; where the grant itself lies in it, the hooks that are there."""
        if directory and covers(directory, self._tree):
            yield from (f"{directory}/{name}" for name in HOOKS if os.path.lexists(f"{directory}/{name}"))
        else:
            yield directory

    def _user_s(self) -> list[str]:
        config = os.environ.get("XDG_CONFIG_HOME", "")
        return [f"{self._home}/.gitconfig", f"{config or self._home + '/.config'}/git/config", "/etc/gitconfig"]

    def _names(self, file: str) -> LedTo:
        if file not in self._texts:
            text, stamp = read_small(file, min(LONGEST, self._left))
            self.read.append((file, stamp))
            self.ended_early |= text is None and os.path.isfile(file)
            self._left -= len(text or "")
            self._texts[file] = named_in(text or "")
        return self._texts[file]

    def _path(self, said: str, start: str) -> str:
        """ "" for none."""
        said = f"{self._home}/{said[2:]}" if said.startswith("~/") else said
        return os.path.normpath(os.path.join(start, said)) if said and "\0" not in said and "\n" not in said else ""
