"""A policy for one command: with what the command's Python needs (`toolchain`), and a PATH by which it is found.

What is added to see is read-only and optional, so that what the policy denies stays denied; a command of the system's
own adds nothing. `compose` asks this for a command line, `runtime.commanded` for a command of a program.

The PATH of a cage holds the system's directories. Those of the user's PATH that a grant shows (toolchains in the home
directory, an active environment) stand with them, in the user's order, before the system's or after. But not one that
the cage may write: what runs by a name must not be what the last command left. Of these, the programs of the Python
environment that runs the command come after the system's; first only where the command itself is of the environment,
and is an interpreter, or a name that the system does not have, or has as a script of Python: the pip of an active
environment is meant, and never its ls. A policy that says a PATH of its own keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from pysandbox.errors import PolicyError
from pysandbox.policy.below import from_root
from pysandbox.policy.expand import Surroundings, quote
from pysandbox.policy.fields import P, PolicyFields
from pysandbox.policy.match import covers
from pysandbox.policy.merge import union_grants
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import CommandRefused
from pysandbox.policy.search import SYSTEM_PROGRAMS, Search
from pysandbox.policy.toolchain.installation import is_python
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.policy.toolchain.program import Toolchain

INSIDE = "/usr/local/bin:/usr/bin:/bin"  # as `launch.orders.DEFAULT_PATH`
SYSTEM = (*INSIDE.split(":"), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games", "/usr/local/games")
BASE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # of the recipe `base`


def for_command(
    policy: P, search: Search, name: str, *, home: str, before: Sequence[str] = ()
) -> tuple[P, Toolchain | None]:
    """`before`: the directories that earlier cages of this program could write. Raises PolicyError for an environment
    that leads where it must not."""
    if not policy.caged:
        return policy, None
    shown, written = _shown(policy, search, home)
    toolchain = None
    if not is_of_the_system(search, name):
        from pysandbox.policy.toolchain.ground import Ground
        from pysandbox.policy.toolchain.program import LedAstray, Look

        ground = Ground.of(shown, written, search.env, search.cwd, home, before=before)
        search.looked.variables.update(("VIRTUAL_ENV", "HOME"))
        try:
            toolchain = Look(search, ground).of(name)
        except LedAstray as led:
            raise PolicyError(led.args[0], key="filesystem.allow", suggestion=led.args[1]) from None
    if toolchain is not None:
        grants = tuple(Grant(quote(path), optional=True) for path in toolchain.paths)
        policy = replace(policy, allow=union_grants((*policy.allow, *grants)))
        shown = (*shown, *_paths(grants, search, home))
    bins = (*(toolchain.bins if toolchain is not None else ()), *own_bins(search))
    return with_path(policy, search, name, shown=shown, written=written, bins=bins), toolchain


def own_bins(search: Search) -> tuple[str, ...]:
    """Where the programs of an active environment lie."""
    active = search.env.get("VIRTUAL_ENV")
    return (os.path.join(active, "bin"),) if active else ()


def is_of_the_system(search: Search, name: str) -> bool:
    """Whether a command is found where the system's programs are, or nowhere."""
    found = search.found(name)
    if found is None:
        return True
    names = (found, os.path.realpath(found))
    return all(any(covers(directory, name) for directory in SYSTEM_PROGRAMS) for name in names)


def _shown(policy: PolicyFields, search: Search, home: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what the policy shows, what of it a cage may write), by the names that were granted and by real ones."""
    here = (search.cwd, os.path.realpath(search.cwd))
    written = _paths((*policy.allow_write, *policy.cow), search, home) + (
        here if policy.workdir in ("write", "cow") else ()
    )
    shown = (BASE if policy.base else ()) + _paths(policy.allow, search, home)
    return (*shown, *written, *(here if policy.workdir == "read" else ())), written


def _paths(grants: Sequence[Grant], search: Search, home: str) -> tuple[str, ...]:
    around = Surroundings(search.env, search.cwd, home)
    found: list[str] = []
    for grant in grants:
        try:
            path = around.absolute(grant.path)
        except CommandRefused:
            continue  # told where the policy is expanded
        found += [path, os.path.realpath(path)]
    return tuple(dict.fromkeys(found))


# ---- the PATH of the cage --------------------------------------------------------------------------------------


def with_path(
    policy: P, search: Search, name: str, *, shown: Sequence[str], written: Sequence[str], bins: Sequence[str] = ()
) -> P:  # fmt: skip
    """The policy, with what of the user's PATH it shows. `shown` and `written` are the real paths of its grants; `bins`
    the directories of the command's own environment."""
    if "PATH" in (*dict(policy.env), *policy.env_passthrough):
        return policy
    search.looked.variables.add("PATH")
    before: list[str] = []
    after: list[str] = []
    first = list(before)
    found = before
    for directory in (search.env.get("PATH") or os.defpath).split(":"):
        if directory in SYSTEM:
            found = after
        elif (place := _as_shown(directory, shown)) is None:
            continue
        elif not any(covers(each, name) for each in written for name in (place, os.path.realpath(place))):
            found.append(place)
            search.looked.paths.add(directory)
        elif directory in bins:
            search.looked.paths.add(directory)
            (first if _comes_first(search, name, directory) else after).append(place)
    if not (first or before or after):
        return policy
    path = ":".join(dict.fromkeys((*first, *before, INSIDE, *after)))
    changed: P = replace(policy, env=(*policy.env, ("PATH", path)))
    return changed


class UserPath(NamedTuple):
    """The directories of a PATH that are not the system's. `above`: all that lead to them, by either name."""

    named: frozenset[str]
    above: frozenset[str]

    @classmethod
    def of(cls, path: str) -> UserPath:
        named = [each for each in dict.fromkeys(path.split(":")) if each not in SYSTEM and os.path.isabs(each)]
        real = {each: os.path.realpath(each) for each in named}
        users = [each for each in named if real[each] not in SYSTEM]
        above = (over for each in users for name in (each, real[each]) for over in from_root(name))
        return cls(frozenset(users), frozenset(above))

    def meets(self, shown: Iterable[str]) -> bool:
        """Whether `with_path` has anything to add of them."""
        names = [each.rstrip("/") or "/" for each in shown]
        return not self.above.isdisjoint(names) or any(os.path.dirname(each) in self.named for each in names)


def _as_shown(directory: str, shown: Sequence[str]) -> str | None:
    """The directory by a name that is found in the cage."""
    if not os.path.isabs(directory):
        return None
    real = os.path.realpath(directory)
    if real in SYSTEM:
        return None
    if any(covers(each, directory) or os.path.dirname(each) == directory for each in shown):
        return directory
    return real if any(covers(each, real) for each in shown) else None


def _comes_first(search: Search, name: str, directory: str) -> bool:
    """Whether a directory that a cage may write finds this command before the system's do."""
    if "/" in name or search.found(name) != os.path.join(directory, name):
        return False
    theirs = [f"{system}/{name}" for system in SYSTEM]
    search.looked.paths.update(theirs)  # what the system gains later comes first then
    return is_python(name) or all(map(_is_of_python, filter(os.path.exists, theirs)))


def _is_of_python(program: str) -> bool:
    """Whether a program of the system's is a script of Python (pip, pytest), in place of which an active environment
    has its own."""
    from pysandbox.policy.toolchain.shebang import interpreter

    return any(map(is_python, interpreter(program) or ()))
