"""The policy that one command of a program runs under: its own, the recipes that the command's place calls for, and
what its Python needs (`policy.toolchain`).

A session is opened before its commands are known, and is not asked here: it shows what its policy says. An answer is
kept while everything that it depends on is what it was, for a command is started in less time than it takes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from pysandbox.policy.paths_wanted import absolute
from pysandbox.policy.user_home import home
from pysandbox.probe.paths import stat_all, watch_these
from pysandbox.runtime.prepared import ShownPath
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.policy.compose import Dependencies
    from pysandbox.policy.found_by_name import UserPath
    from pysandbox.policy.model import Policy
    from pysandbox.policy.option import Grant
    from pysandbox.probe.facts import PathFacts
    from pysandbox.runtime.prepared import Prepared

ANSWERS_KEPT = 256  # the oldest goes first
SHELL = "/bin/sh"  # which calls for nothing of its own
NAMED = ("PATH", "HOME", "VIRTUAL_ENV", "XDG_CONFIG_HOME", "XDG_STATE_HOME")  # of the environment, all that counts


class _CommandPolicy(NamedTuple):
    policy: Policy
    holds: Callable[[], bool]


class _Directories(NamedTuple):
    """What of a PATH is the user's."""

    path: str
    users: UserPath | None
    holds: Callable[[], bool]


class CommandPolicies:
    """The answers of one Runtime."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, _CommandPolicy] = {}
        self._directories = _Directories("", None, lambda: False)
        self._lock = threading.Lock()

    def policy_for(self, policy: Policy, program: str, cwd: str, *, written: Sequence[str]) -> Policy:
        """`written`: what earlier cages of this program could write. Raises PolicyError."""
        variables = tuple(os.environ.get(name) for name in NAMED)
        key = (policy, program, cwd, variables)
        answer = self._answers.get(key)
        if answer is None or not answer.holds():
            answer = _find(policy, program, cwd, dict(os.environ), written)
            with self._lock:
                self._answers.pop(key, None)
                self._answers[key] = answer
                while len(self._answers) > ANSWERS_KEPT:
                    del self._answers[next(iter(self._answers))]
        return answer.policy

    def shown_path(self, prepared: Prepared) -> str:
        """What of the user's PATH a cage of this plan shows, in the PATH of a command that calls for nothing of its
        own."""
        variables = tuple(map(os.environ.get, NAMED))
        known = prepared.shown_path
        if known is None or known.variables != variables or not known.holds():
            prepared.shown_path = known = self._find_path(prepared, variables)
        return known.text

    def _find_path(self, prepared: Prepared, variables: tuple[str | None, ...]) -> ShownPath:
        """What the plan was made from says what it shows, so nothing of that is looked at again; and most plans show
        nothing of a PATH whose directories are known from the last one."""
        from pysandbox.policy.found_by_name import BASE, own_bins, with_path
        from pysandbox.policy.recipe import base_paths
        from pysandbox.policy.search import Search

        policy, paths, base = prepared.policy, prepared.paths, base_paths()
        here = (paths.cwd, paths[paths.cwd].real) if policy.workdir != "none" else ()
        written = (*_names(paths, (*policy.allow_write, *policy.cow)), *(here if policy.workdir != "read" else ()))
        asked = [grant for grant in policy.allow if grant.path not in base]
        shown = (*(BASE if policy.base else ()), *_names(paths, asked), *here, *written)
        if not self._of_the_user(os.environ.get("PATH") or os.defpath).meets(shown):
            return ShownPath("", variables, lambda: True)
        search = Search.here(paths.cwd, os.environ)
        found = with_path(policy, search, SHELL, shown=shown, written=written, bins=own_bins(search))
        return ShownPath(dict(found.env).get("PATH", ""), variables, _watch(search.looked, paths.cwd))

    def _of_the_user(self, path: str) -> UserPath:
        """From the last look, while they lead where they led."""
        from pysandbox.policy.found_by_name import UserPath

        known = self._directories
        if known.users is None or known.path != path or not known.holds():
            names = [each for each in path.split(":") if each.startswith("/")]
            facts = stat_all(names, cwd="/", home="/").facts
            users = UserPath.of(path)
            self._directories = _Directories(path, users, watch_these(facts.values()))
            return users
        return known.users

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = threading.Lock()


def _names(paths: PathFacts, grants: Sequence[Grant]) -> Iterator[str]:
    """The names that were granted, and where they lead."""
    for grant in grants:
        fact = paths[absolute(grant.path, paths.cwd)]
        yield fact.path
        if fact.kind != "missing":
            yield fact.real


def _find(policy: Policy, program: str, cwd: str, env: Mapping[str, str], written: Sequence[str]) -> _CommandPolicy:
    from pysandbox.policy.compose import Layer, compose
    from pysandbox.policy.found_by_name import for_command
    from pysandbox.policy.recipe import Recipe
    from pysandbox.policy.search import Search

    search = Search.here(cwd, env)
    # What the project brings along is for a command line to ask about, where a user can answer.
    search = replace(search, directories=search.directories[1:], written=tuple(written))
    detected = list(search.detected([program]))
    whole = compose([*detected, Layer("policy", "", "flags", Recipe(policy.explicit))]) if detected else policy
    found, _ = for_command(whole, search, program, home=home(), before=written)
    return _CommandPolicy(found if found != policy else policy, _watch(search.looked, cwd))


def _watch(looked: Dependencies, cwd: str) -> Callable[[], bool]:
    """Whether each program that was looked for is where it was, and each file that was read as it was."""
    names = dict.fromkeys((*looked.programs, *looked.paths))
    facts = stat_all(names, cwd=cwd, home="/").facts if names else {}
    there = watch_these([facts[name] for name in names])
    stamps = {path: _stamp(path) for path in looked.paths}
    variables = {name: os.environ.get(name) for name in looked.variables if name not in NAMED}

    def hold() -> bool:
        if not there() or any(_stamp(path) != was for path, was in stamps.items()):
            return False
        return all(os.environ.get(name) == was for name, was in variables.items())

    return hold


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns
