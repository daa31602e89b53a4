"""What the configuration of a repository leads git to below a writable grant (`policy.git_config`): its directory of
hooks by another name, the files that it includes, the programs that git starts by itself.

The repository may be that of the grant, one below it, or one around it; what the user's own configuration says holds in
each. Whatever it says may be a stranger's: every file is plain and bounded, and so is how many are read. All that comes
of it is that a cage does not write what is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pysandbox.policy.git_config import LedTo, named_in
from pysandbox.policy.guarded import GIT, Guard
from pysandbox.policy.match import covers
from pysandbox.probe.small_file import read_small, stamp_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.probe.facts import PathFact
    from pysandbox.probe.small_file import Stamp

LONGEST, LONGEST_LINK = 1 << 20, 8192  # bytes of a configuration, and of a `.git` file
MOST_BYTES = 4 << 20  # of all that are read for one grant: some tenths of a second
MOST_FILES = 16  # that one repository's configuration may include
MOST_NAMES = 64  # that it may name
MOST_WORDS = 4096  # that are examined for one grant: words, files, links
LONGEST_PATH = 4096  # PATH_MAX
HOOKS = frozenset((
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc",
    "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg", "proc-receive",
    "push-to-checkout", "reference-transaction", "sendemail-validate", "update",
))  # fmt: skip


class ConfiguredSearch:
    """One search in one grant. `follow` says what a path is and where its links lead. `read`: every file that was
    looked for, with what it was then; `ended_early`: not all was looked at."""

    def __init__(self, tree: str, home: str, follow: Callable[[str], PathFact]) -> None:
        self._tree, self._home, self._follow = tree, home, follow
        self._bytes_left, self._words_left = MOST_BYTES, MOST_WORDS
        self._texts: dict[str, LedTo] = {}
        self._facts: dict[str, PathFact] = {}
        self._known_by_name = (f"{home}/.gitconfig", f"{home}/.config/git/config")  # `guarded.HOME`
        self.read: list[tuple[str, Stamp]] = []
        self.ended_early = False

    def of(self, git: str, *, bare: bool = False) -> Iterator[Guard]:
        """What one git directory leads to, or the one that a `.git` file names, which may lead anywhere."""
        if not self._may_examine():
            return
        files = [f"{git}/config", f"{git}/config.worktree"]
        if not bare and os.path.isfile(git):
            said, stamp = read_small(git, LONGEST_LINK)
            self.read.append((git, stamp))
            led = self._path((said or "").removeprefix("gitdir:").strip(), os.path.dirname(git))
            led = self._fact(led).real if led else ""
            files = [f"{led}/config", f"{led}/config.worktree", f"{os.path.dirname(os.path.dirname(led))}/config"]
        names: dict[str, None] = {}
        for path in self._named(files, git if bare else os.path.dirname(git)):
            if path not in names and len(names) == MOST_NAMES:
                self.ended_early = True
                break
            names[path] = None
        yield from (Guard(path, GIT, self._tree) for path in names)

    def _named(self, files: list[str], top: str) -> Iterator[str]:
        """Paths in the grant. Who writes in it has nothing read outside of it."""
        users = self._user_s()
        for file in users:
            if file not in self._known_by_name or not covers(self._tree, file):
                yield from self._spelt(file)
        tops, ahead, included = self._tops(files[:2], top), [*files, *users], 0
        seen = {self._fact(file).real for file in ahead}
        while ahead and self._may_examine():
            file = ahead.pop(0)
            names = self._names(file)
            for said in names.included:
                path = self._path(said, os.path.dirname(file))
                yield from self._spelt(path)
                if path and (real := self._fact(path).real) not in seen:
                    seen.add(real)
                    included += 1
                    leads_out = covers(self._tree, self._fact(file).real) and not covers(self._tree, real)
                    self.ended_early |= leads_out or included > MOST_FILES
                    ahead += [path] if included <= MOST_FILES and not leads_out else []
            for start in tops:
                yield from self._obeyed(names, start)

    def _tops(self, files: list[str], top: str) -> list[str]:
        """The working tree: a submodule's is not beside its git directory. What config.worktree says counts only with
        an extension, so it is one more."""
        own, more = (self._path(self._names(file).tree, os.path.dirname(file)) for file in files)
        return [*dict.fromkeys((own or top, more or own or top))]

    def _obeyed(self, names: LedTo, top: str) -> Iterator[str]:
        """Hooks and programs."""
        for said in names.hooks:
            yield from self._hooks(self._path(said, top))
        for word in names.programs:
            path = self._path(word, top)
            if "/" in word:
                yield from (each for each in self._spelt(path) if not os.path.isdir(each))
            elif not self._may_examine():
                return
            elif path and covers(self._tree, os.path.normpath(path)) and os.path.lexists(path):
                yield from (each for each in self._spelt(path) if not os.path.isdir(each))

    def _hooks(self, directory: str) -> Iterator[str]:
        """All of it; where the grant itself lies in it, each hook that git knows."""
        if directory and covers(real := self._fact(directory).real, self._tree):
            yield from (f"{real.rstrip('/')}/{name}" for name in HOOKS if covers(self._tree, f"{real}/{name}"))
        else:
            yield from self._spelt(directory)

    def _spelt(self, path: str) -> Iterator[str]:
        """As it is written and as it really lies, where that is in the grant."""
        if path and self._may_examine():
            for each in dict.fromkeys((os.path.normpath(path), self._fact(path).real)):
                if each != self._tree and covers(self._tree, each):
                    yield each

    def _fact(self, path: str) -> PathFact:
        """What it is and where its links lead, of which a long path may have many."""
        if path not in self._facts:
            self._facts[path] = fact = self._follow(path)
            self._words_left -= sum(len(target) for _, target in fact.links) // 256 + len(path) // 256
        return self._facts[path]

    def _may_examine(self) -> bool:
        """Whether one more name may be: each counts."""
        self._words_left -= 1
        self.ended_early |= self._words_left < 0
        return self._words_left >= 0

    def _user_s(self) -> list[str]:
        """The files of the home directory, by the user database and by $HOME, which git goes by."""
        said = os.environ.get("GIT_CONFIG_GLOBAL", "")
        homes = dict.fromkeys((self._home, os.environ.get("HOME", "")))
        configs = (os.environ.get("XDG_CONFIG_HOME", ""), *(f"{home}/.config" for home in homes))
        files = (said, *(f"{home}/.gitconfig" for home in homes), *(f"{each}/git/config" for each in configs))
        return [*dict.fromkeys(file for file in (*files, "/etc/gitconfig") if self._path(file, "/") == file)]

    def _names(self, file: str) -> LedTo:
        if file not in self._texts:
            self._texts[file] = named_in(self._text(file))
        return self._texts[file]

    def _text(self, file: str) -> str:
        """A link in the grant that leads out of it is not followed."""
        fact = self._fact(file)
        links = [link for link, _ in fact.links]
        if not covers(self._tree, fact.real) and any(covers(self._tree, each) for each in (file, *links)):
            self.ended_early = True
            return ""
        path = fact.real if links else file
        text, stamp = read_small(path, min(LONGEST, self._bytes_left))
        self.read += [(path, stamp), *((link, stamp_now(link)) for link in links if not os.path.isdir(link))]
        self.ended_early |= text is None and os.path.isfile(path)
        self._bytes_left -= len(text or "")
        return text or ""

    def _path(self, said: str, start: str) -> str:
        """With its `..`, which a link before it makes another; "" for none."""
        said = f"{self._home}/{said[2:]}" if said.startswith("~/") else said
        path = os.path.join(start, said) if said and "\0" not in said and "\n" not in said else ""
        return path if path.startswith("/") and len(path) < LONGEST_PATH else ""
