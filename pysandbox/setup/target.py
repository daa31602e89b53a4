"""What a policy is about: the program that makes cages, and the program that every cage starts as.

A security module knows a program by the path it really has: a virtual environment's `python` is mostly a symlink, and
a policy for it would be one for the system's interpreter, that is, for every Python program of every user.
"""

from __future__ import annotations

import os
import sys

from pysandbox.shapes import dataclass

CAGE_INIT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "cage-init")
MEANINGFUL = frozenset('"\\*?[]{}()^$@,#|')  # in one of the two policy languages


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """Two absolute paths without symlinks."""

    interpreter: str
    init: str

    def __post_init__(self) -> None:
        for path in (self.interpreter, self.init):
            odd = sorted(
                {letter for letter in path if letter in MEANINGFUL or not letter.isprintable() or letter == " "}
            )
            if odd or not path.startswith("/"):
                raise ValueError(
                    f"a policy cannot name {path!r}: {''.join(odd)!r} would be read as something else; "
                    "install pysandbox in a directory with a plain name"
                )


def find_target(interpreter: str | None = None) -> InstallTarget:
    """The target for this installation; `interpreter` names another program than the running one."""
    return InstallTarget(os.path.realpath(interpreter or "/proc/self/exe"), os.path.realpath(CAGE_INIT))


def is_shared(target: InstallTarget, root: str = "") -> bool:
    """Whether the interpreter is the system's, or is that of another environment than the one we run in.

    An environment of its own (`python3 -m venv --copies`) has the interpreter below its prefix.
    """
    own = os.path.realpath(sys.prefix)
    system = any(target.interpreter.startswith(f"{root}/{place}/") for place in ("usr/bin", "bin", "usr/lib"))
    return system or not target.interpreter.startswith(f"{own}/")
