"""The git repository that a working directory belongs to, where git's files lie outside of it: of a subdirectory, a
linked worktree, a submodule. What git has to read there is shown read-only (`compile.view`), and nothing else.

What leads to a git directory may have been written by an earlier cage: a `.git` file that says `gitdir: ~/.ssh`, a
`commondir` that names a stranger's repository. So nothing is believed that only one side says. A linked worktree is
named by its git directory, which lies in the `worktrees` of the repository; a submodule is named by the `core.worktree`
of its git directory, which lies in the `modules` of the repository around it. Every part is the caller's own, and no
link leads to it. A repository that holds the home directory is not shown, nor one in a hidden directory of it where the
working directory is elsewhere. Files are only opened when they are plain and small.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence

from pysandbox.policy.match import covers
from pysandbox.probe.facts import Repository
from pysandbox.probe.small_file import are_as_read, read_small
from pysandbox.shapes import replace

LONGEST = 8192  # bytes of a file that names a directory, or of a submodule's configuration
MODULES = "/.git/modules/"

Kind = Callable[[int], bool]
PARTS: tuple[tuple[str, Kind], ...] = (("HEAD", stat.S_ISREG), ("objects", stat.S_ISDIR), ("refs", stat.S_ISDIR))


def find_repository(cwd: str, home: str, written: Sequence[str] = ()) -> Repository:
    """By real paths. `written`: what earlier cages of this program may have written; a repository further down in one
    may be of their making."""
    look = _RepositoryLook(home, written)
    shown, git = look.find(cwd)
    return Repository(shown, git, tuple(look.asked), tuple(look.read))


def git_alone(found: Repository) -> Repository:
    """The git directory without the files around it: git knows its history, and takes what is not shown for deleted."""
    return replace(found, shown=(found.git,))


def as_found(repository: Repository) -> bool:
    """Whether the files that were believed are the same, and say the same."""
    return are_as_read(repository.read)


class _RepositoryLook:
    """One look. `asked`: every name that was looked for on the way up; `read`: what was read, and what it was then."""

    def __init__(self, home: str, written: Sequence[str]) -> None:
        self._home, self._written, self._uid = home, written, os.geteuid()
        self.asked: list[str] = []
        self.read: list[tuple[str, tuple[int, ...]]] = []

    def find(self, cwd: str) -> tuple[tuple[str, ...], str]:
        """What is to be shown, and the directory that a commit writes; nothing where the view has it all."""
        for directory in _upwards(cwd):
            if covers(directory, self._home):
                break
            entry = f"{directory}/.git"
            self.asked.append(entry)
            above = () if directory == cwd else (directory,)
            if os.path.lexists(entry):
                return self._found_at(entry, above, cwd) if self._is_private(directory) else ((), "")
        return (), ""

    def _found_at(self, entry: str, above: tuple[str, ...], cwd: str) -> tuple[tuple[str, ...], str]:
        if self._is_repository(entry):
            return (above, entry) if above and not self._may_be_made(entry) else ((), "")
        git = self._led_to(entry)
        return ((*above, git), git) if git and self._may_be_shown(git, cwd) else ((), "")

    # ---- what two sides agree on ------------------------------------------------------------------------------

    def _led_to(self, entry: str) -> str:
        """The git directory that a `.git` file names and that names it; of a worktree the repository's. "" for none."""
        said = self._text(entry)
        if not said.startswith("gitdir:"):
            return ""
        git = _from(os.path.dirname(entry), said.removeprefix("gitdir:"))
        return self._common_of(git, entry) or self._module_of(git, entry) if self._is_own(git, stat.S_ISDIR) else ""

    def _common_of(self, git: str, entry: str) -> str:
        common = os.path.dirname(os.path.dirname(git))
        if os.path.dirname(git) != f"{common}/worktrees" or not self._is_real_repository(common):
            return ""
        back = _from(git, self._text(f"{git}/gitdir"))
        return common if back == entry and _from(git, self._text(f"{git}/commondir")) == common else ""

    def _module_of(self, git: str, entry: str) -> str:
        owner, tree = git.partition(MODULES)[0], os.path.dirname(entry)
        if owner in (git, tree) or not covers(owner, tree) or not self._is_real_repository(f"{owner}/.git"):
            return ""
        return git if self._is_real_repository(git) and _from(git, self._configured_tree(git)) == tree else ""

    def _configured_tree(self, git: str) -> str:
        section, found = "", ""
        for line in map(str.strip, self._text(f"{git}/config").splitlines()):
            key, equals, value = line.partition("=")
            if line.startswith("["):
                section = line.lower()
            elif section == "[core]" and equals and key.strip().lower() == "worktree":
                found = value.strip().strip('"')
        return found

    # ---- what may be believed ---------------------------------------------------------------------------------

    def _may_be_shown(self, git: str, cwd: str) -> bool:
        """Not around the home directory or in a hidden one of it, unless the working directory is there as well."""
        below = git.removeprefix(f"{self._home}/") if covers(self._home, git) else ""
        hidden = below.startswith(".") and not covers(f"{self._home}/{below.partition('/')[0]}", cwd)
        return not (hidden or covers(git, self._home) or self._may_be_made(git.partition(MODULES)[0] + "/.git"
                                                                          if MODULES in git else git))  # fmt: skip

    def _may_be_made(self, git: str) -> bool:
        """By an earlier cage: in what it could write, and not the repository of the very directory it was given."""
        return any(covers(tree, git) and os.path.dirname(git) != tree for tree in self._written)

    def _is_real_repository(self, git: str) -> bool:
        return os.path.realpath(git) == git and self._is_repository(git)

    def _is_repository(self, git: str) -> bool:
        return self._is_own(git, stat.S_ISDIR) and all(self._is_own(f"{git}/{name}", kind) for name, kind in PARTS)

    def _is_private(self, directory: str) -> bool:
        """Nobody else puts a `.git` there."""
        found = os.lstat(directory)
        return found.st_uid == self._uid and not found.st_mode & stat.S_IWOTH

    def _is_own(self, path: str, kind: Kind) -> bool:
        """Whether it is the caller's, and of this kind; a link is of none."""
        try:
            found = os.lstat(path)
        except (OSError, ValueError):
            return False
        return found.st_uid == self._uid and kind(found.st_mode)

    def _text(self, path: str) -> str:
        """What a plain, small file of the caller's says; "" for any other."""
        if not self._is_own(path, stat.S_ISREG):
            return ""
        text, stamp = read_small(path, LONGEST)
        if stamp:
            self.read.append((path, stamp))
        return text or ""


def _upwards(directory: str) -> Iterator[str]:
    while len(directory) > 1:
        yield directory
        directory = directory.rpartition("/")[0]


def _from(directory: str, said: str) -> str:
    """The path that a file in `directory` means, without dots; "" for none."""
    path = said.strip()
    return os.path.normpath(os.path.join(directory, path)) if path and "\0" not in path and "\n" not in path else ""
