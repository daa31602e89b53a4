"""Where the files are that a writable grant does not open (`policy.guarded`): by name, in the repositories below the
grant, and those of this very program.

The search is bounded: DEEPEST levels, MOST directories, and not in places that hold what is built or fetched; where it
ended before it was through, that is told. Submodules and worktrees are found by git's own directories, whatever their
depth. `probe.searched` knows when a search would find something else. Nothing is opened but directories.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from pysandbox.policy.below import covers
from pysandbox.policy.guarded import GIT, OURS, PROJECT, WORDS, Guard, hidden, named, of_repository
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.searched import BARE, MOST_NAMES, NOT_SEARCHED, search
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pysandbox.policy.model import Policy
    from pysandbox.probe.facts import PathFact
    from pysandbox.probe.searched import Searched
    from pysandbox.probe.small_file import Stamp

    Follow = Callable[[str], PathFact]

DEEPEST, MOST = 3, 512
MOST_MODULES = 256
MOST_REPOSITORIES = 1024  # and bare ones, modules, worktrees: each is some mounts
FIRST = frozenset(name.partition("/")[0] for names in PROJECT.values() for name in names)
WANTED = (GIT, *BARE, *FIRST)
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Found(NamedTuple):
    """Every guard of a policy, each path once; where was searched; the grants in which the search ended too early; the
    files that named some of them."""

    guards: tuple[Guard, ...]
    searched: tuple[Searched, ...]
    unsearched: tuple[str, ...]
    configured: tuple[tuple[str, Stamp], ...]


class _GuardSearch:
    """One search in one tree. `searched` and `configured` are added to; `ended_early` is known when it is over."""

    def __init__(self, searched: list[Searched], configured: list[tuple[str, Stamp]], follow: Follow) -> None:
        self._searched, self._configured, self._follow = searched, configured, follow
        self._names_left, self._repositories_left = MOST_NAMES, MOST_REPOSITORIES
        self.ended_early = False

    def _names(self, directory: str, *, below: bool = True) -> dict[str, bool]:
        found = search(directory, below=below, searched=self._searched, most=self._names_left, wanted=WANTED)
        self._names_left = max(0, self._names_left - len(found))
        self.ended_early |= not self._names_left
        return found

    def directories(self, tree: str) -> Iterator[tuple[str, dict[str, bool]]]:
        """Each that is searched, with the names in it. What lies in a bare repository comes last: whoever makes one
        around another repository does not hide that."""
        ahead: list[tuple[str, int]] = [(tree, 0)]
        later: list[tuple[str, int]] = []
        for _ in range(MOST):
            if not ahead and not later:
                return
            directory, depth = (ahead or later).pop(0)
            names = self._names(directory, below=depth < DEEPEST)
            yield directory, names
            if depth < DEEPEST:
                below = (name for name, is_directory in names.items() if is_directory and name not in NOT_SEARCHED)
                (later if names.keys() >= BARE else ahead).extend(
                    (f"{directory}/{name}", depth + 1) for name in sorted(below)
                )
        self.ended_early |= bool(ahead or later)

    def repositories(self, directory: str, names: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """(git directory or file, whether it is a bare repository or one of another's modules or worktrees)."""
        for each in self._repositories(directory, names):
            if not self._repositories_left:
                self.ended_early = True
                return
            self._repositories_left -= 1
            yield each

    def _repositories(self, directory: str, names: Iterable[str]) -> Iterator[tuple[str, bool]]:
        if BARE.issubset(names):
            yield directory, True
            yield from ((each, True) for each in self._inside(directory))
        if ".git" in names:
            yield f"{directory}/.git", False
            yield from ((each, True) for each in self._inside(f"{directory}/.git"))

    def configured(self, tree: str, home: str, found: list[tuple[str, bool]]) -> Iterator[Guard]:
        """What these repositories, and the one around, lead git to."""
        around = _repository_around(tree)
        if not found and not around:
            return
        from pysandbox.probe.configured import ConfiguredSearch

        look = ConfiguredSearch(tree, home, self._follow)
        for git, bare in (*((each, False) for each in around), *found):
            yield from look.of(git, bare=bare)
        self._configured += look.read
        self.ended_early |= look.ended_early

    def linked(self, tree: str, guards: Iterable[Guard], closed: list[str]) -> Iterator[Guard]:
        """What links in the directories of these lead to (not in a `.git`, of which the guards are known by name), and
        in the hooks of the repository around."""
        directories = [
            (guard.path, guard.word) for guard in guards if guard.word in (GIT, *PROJECT) and not guard.only_file
        ]
        if GIT in closed:
            directories += [(f"{git}/hooks", GIT) for git in _repository_around(tree)]
        there = [each for each in directories if os.path.isdir(each[0])]
        if not there:
            return
        from pysandbox.probe.linked import LinkedSearch

        look = LinkedSearch(tree, self._follow)
        yield from look.of(there)
        self._configured += look.read
        self.ended_early |= look.ended_early

    def _inside(self, git: str) -> Iterator[str]:
        """The git directories of the submodules, which may be nested, and of the linked worktrees."""
        worktrees = self._names(f"{git}/worktrees")
        yield from (f"{git}/worktrees/{name}" for name in sorted(worktrees))
        ahead = [f"{git}/modules"]
        for _ in range(MOST_MODULES):
            if not ahead:
                return
            directory = ahead.pop(0)
            names = self._names(directory)
            if "HEAD" in names:
                yield directory
                ahead += [f"{directory}/modules"] if "modules" in names else []
            else:
                ahead += [f"{directory}/{name}" for name in sorted(names) if names[name]]
        self.ended_early |= bool(ahead)


def find_guards(policy: Policy, seen: PathFacts, granted: Sequence[str], home: str, follow: Follow) -> Found:
    """`granted`: where policy files are hidden (`guarded_trees`); `seen` holds these, and the working directory.
    `follow`: what a path is, and its links."""
    from pysandbox.policy.paths_wanted import changed_trees

    closed = [word for word in WORDS if word not in policy.unguarded]
    found: dict[str, Guard] = {}
    searched: list[Searched] = []
    configured: list[tuple[str, Stamp]] = []
    unsearched = []
    for path in granted:
        if seen[path].kind == "dir":
            found |= {guard.path: guard for guard in hidden(seen[path].real)}
    for path in changed_trees(policy, seen.cwd):
        if seen[path].kind == "dir":
            looking = _GuardSearch(searched, configured, follow)
            by_name = list(_of_tree(seen[path].real, home, closed, looking))
            for guard in (*by_name, *looking.linked(seen[path].real, by_name, closed)):
                found.setdefault(guard.path, guard)
            unsearched += [seen[path].real] if looking.ended_early else []
    return Found(tuple(found.values()), tuple(dict.fromkeys(searched)), tuple(dict.fromkeys(unsearched)),
                 tuple(dict.fromkeys(configured)))  # fmt: skip


def _of_tree(tree: str, home: str, closed: list[str], looking: _GuardSearch) -> Iterator[Guard]:
    yield from named(tree, home, closed)
    if GIT in closed:
        yield from of_repository(f"{tree}/.git", tree)
    found: list[tuple[str, bool]] = []
    for directory, names in looking.directories(tree):
        yield from _below(directory, names, tree, closed)
        if GIT in closed:
            found += looking.repositories(directory, names)
    yield from (guard for git, bare in found for guard in of_repository(git, tree, bare=bare))
    if GIT in closed:
        yield from looking.configured(tree, home, found)
    if OURS in closed:
        yield from (Guard(path, OURS, tree) for path in our_files() if covers(tree, path) or covers(path, tree))
        yield from (Guard(path, OURS, tree) for path in _customs() if covers(tree, path))


def _below(directory: str, names: Iterable[str], tree: str, closed: list[str]) -> Iterator[Guard]:
    """What is there of a project's files that are known by their name: a grant may hold many projects."""
    for name in names:
        if name in FIRST:
            for word in closed:
                yield from (Guard(f"{directory}/{each}", word, tree) for each in PROJECT.get(word, ())
                            if each.partition("/")[0] == name)  # fmt: skip


def _repository_around(tree: str) -> list[str]:
    """The `.git` of the repository that a grant is a part of, if it is of one."""
    above = os.path.dirname(tree)
    while len(above) > 1 and not os.path.lexists(f"{above}/.git"):
        above = os.path.dirname(above)
    return [f"{above}/.git"] if len(above) > 1 else []


def _customs() -> Iterator[str]:
    """What every start of this interpreter runs, wherever it imports from (site): also where it is not there yet."""
    for place in dict.fromkeys(map(real_place, sys.path)):
        if not any(covers(ours, place) for ours in our_files()):
            yield from (f"{place}/{name}.py" for name in ("sitecustomize", "usercustomize"))


def real_place(place: str) -> str:
    """Where a directory that is imported from really lies, by the kernel: a cage may have moved it, and have made a
    link to it in its place, so that nothing of it is another."""
    try:
        fd = os.open(place or ".", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(place or ".")
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return os.path.realpath(place or ".")
    finally:
        os.close(fd)


@cache
def our_files() -> tuple[str, ...]:
    """What the next run of this program executes or imports, by real paths: the package with cage-init, its virtual
    environment, the interpreter, the standard library, and what site-packages it has."""
    executable = os.path.realpath(sys.executable) if sys.executable else ""
    packages = (path for path in sys.path if path.endswith(("/site-packages", "/dist-packages")))
    environment = (sys.prefix,) if sys.prefix != sys.base_prefix else ()
    user = (_user_site(),) if environment == () and not sys.flags.no_user_site else ()
    places = (PACKAGE, *environment, *user, os.path.dirname(executable), os.path.dirname(os.__file__), *packages)
    real = dict.fromkeys(os.path.realpath(place) for place in places if place)
    return tuple(path for path in real if not any(path != other and covers(other, path) for other in real))


def _user_site() -> str:
    """The user's site-packages, which count from the moment on that they are there; "" where they never do."""
    import site

    return site.getusersitepackages() if site.check_enableusersite() else ""
