"""Why a program is not found in a cage, from where it lies on the host, and what to type instead.

Only a run that can work is proposed: one that shows the program, what lies beside it and what runs it. The first lines
of a script are looked at, and nothing is executed. What a Python needs is found without being asked.
"""

from __future__ import annotations

import os
import shlex
from itertools import chain

from pysandbox.policy.toolchain.ground import SHARED
from pysandbox.policy.toolchain.shebang import interpreter as first_line
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy

LINE = (" ", ";", "|", "&", ">", "<", "$", "`", "*")
BUILTINS = frozenset({
    ".", ":", "alias", "bg", "cd", "command", "declare", "eval", "exec", "exit", "export", "fg", "for", "function",
    "if",
    "jobs", "local", "popd", "pushd", "read", "return", "set", "shift", "shopt", "source", "time", "trap", "type",
    "ulimit", "umask", "unset", "wait", "while",
})  # fmt: skip
BESIDE = ("lib", "lib64", "libexec", "share")  # what a program in PREFIX/bin may need of its own


def why(program: str, policy: Policy | None = None) -> str:
    """One line. `policy`: of the run; without it, the one of a command line without flags."""
    found = _on_the_host(program)
    if found is None:
        return f"{program!r} was not found in the cage, nor is it on this host; {_meant(program)}"
    line = first_line(found)
    interpreter = line[0] if line is not None else None
    if interpreter is not None and not os.path.exists(interpreter):
        return f"{program!r} is a script, and its interpreter {interpreter!r} does not exist"
    shown = _ShownPlaces(policy)
    needed = [found] if interpreter is None else [found, interpreter]
    if any(shown.is_denied(path) for path in needed):
        return f"{program!r} was not found in the cage: the policy denies {next(filter(shown.is_denied, needed))!r}"
    hidden = {path: places for path in needed if (places := _places(path, shown))}
    if not hidden:
        return f"{program!r} was not found in the cage{_by_its_path(program, found)}"
    flags = " ".join(f"--allow {shlex.quote(place)}" for place in dict.fromkeys(chain(*hidden.values())))
    what = " and ".join(repr(path) if path == found else f"its interpreter {path!r}" for path in hidden)
    return f"{program!r} was not found in the cage, which does not show {what} ({flags} -- {shlex.quote(found)})"


def _meant(program: str) -> str:
    """What to type, where it is a line for a shell, or a word that shells alone know."""
    if any(mark in program for mark in LINE):
        return f"to run it as a line of a shell: sh -c {shlex.quote(program)}"
    if program in BUILTINS:
        return f"it is a word of the shell: sh -c '{program} ...'"
    return "check the name"


def _by_its_path(program: str, found: str) -> str:
    """What is shown and yet not found by its name lies where the cage may write, or the PATH is the policy's own."""
    if "/" in program:
        return "; check what it needs: it, or what the kernel starts it with, is not there"
    return f", whose PATH does not lead to it (-- {shlex.quote(found)})"


class _ShownPlaces:
    """What the run shows."""

    def __init__(self, policy: Policy | None) -> None:
        from pysandbox.policy.expand import expand
        from pysandbox.policy.model import Policy as Made
        from pysandbox.policy.recipe import with_base
        from pysandbox.policy.user_home import home

        self.home, self.cwd = home(), os.path.realpath(".")
        asked = policy if policy is not None else Made(workdir="write")
        self._policy = with_base(expand(asked, env=os.environ, cwd=self.cwd, home=self.home))

    def is_denied(self, path: str) -> bool:
        from pysandbox.policy.match import access

        return any(access(self._policy, each)[0] in ("denied", "masked") for each in (path, os.path.realpath(path)))

    def holds(self, path: str) -> bool:
        from pysandbox.policy.match import access, covers

        if self._policy.workdir != "none" and covers(self.cwd, path):
            return True
        return access(self._policy, path)[0] in ("read", "write")


def _on_the_host(program: str) -> str | None:
    directories = [""] if "/" in program else (os.environ.get("PATH") or os.defpath).split(":")
    for directory in directories:
        path = os.path.abspath(os.path.join(directory, program))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _places(path: str, shown: _ShownPlaces) -> list[str]:
    """What has to be seen for this file to run, and is not: of its name, and of what that leads to."""
    places = dict.fromkeys(_place(each, shown.home) for each in (path, os.path.realpath(path)) if not shown.holds(each))
    return list(places)


def _place(path: str, home: str) -> str:
    """The tree it is part of, its directory, or the file alone: the least that can be enough."""
    directory = os.path.dirname(path)
    tree = os.path.dirname(directory)
    if _is_wide(directory, home):
        return path
    beside = any(os.path.isdir(os.path.join(tree, name)) for name in BESIDE)
    is_part = os.path.basename(directory) in ("bin", "sbin") and beside
    return tree if is_part and not _is_wide(tree, home) else directory


def _is_wide(directory: str, home: str) -> bool:
    """Whether too much lies there to be granted for one program."""
    from pysandbox.policy.match import covers

    real = os.path.realpath(directory)
    homes = {os.path.realpath(each) for each in (home, os.path.expanduser("~"))}
    return any(covers(real, each) or real in [f"{each}/{name}" for name in SHARED] for each in homes)
