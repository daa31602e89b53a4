"""Closing a path of a cage that runs: the file is found once, covered by a mount, and checked afterwards.

The cover is mounted on the descriptor of the file that was found: a program that moves the file meanwhile moves the
cover with it. A path that cannot be closed is an error, never a success.
"""

from __future__ import annotations

import os
import re
import stat

from pysandbox.compile.plan import MountKind, Plan
from pysandbox.errors import PolicyError
from pysandbox.handlers.fix import DELETED
from pysandbox.launch import native
from pysandbox.live.init import CageInit
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.patterns import covers_path
from pysandbox.supervise.opening import PROC_SUPER_MAGIC

KEY = "deny_path"
OF_THE_CAGE = frozenset({MountKind.DIR, MountKind.TMPFS})  # nothing of the host's is in it
_OF_THE_CALLER = re.compile(r"/+(?:proc/(?:self|thread-self)|dev/(?:fd|stdin|stdout|stderr))(?:/|$)")


def close_path(live: CageInit, path: str | os.PathLike[str]) -> str:
    """Closes a path; returns its real path in the cage. Raises TypeError, ValueError, PolicyError, OSError,
    CageClosedError."""
    text = _absolute(path)
    held = _find(live, text)
    try:
        real, found = os.readlink(f"/proc/self/fd/{held}"), os.fstat(held)
        if found.st_nlink == 0 and not stat.S_IMODE(found.st_mode):
            return real.removesuffix(DELETED)  # a cover that lies there already: it was deleted when it was made
        _check_closable(real, held)
        native.cover(live.pidfd, held, user=live.user, directory=stat.S_ISDIR(found.st_mode), path=text)
        _check_closed(live, held, text)
        return real
    finally:
        os.close(held)


def is_denied_and_absent(plan: Plan, policy: Policy, path: str) -> bool:
    """Whether the policy denies a path that the cage has not got and cannot have: it is in no tree of the host's, where
    it may appear, and Landlock lets nobody make it in the directory of the cage's own that it would be in."""
    denied = any(each.path.startswith("/") and covers_path(each.path, path) for each in policy.deny)
    if not denied or plan.landlock is None or path != os.path.normpath(path):
        return False
    makeable = any("MAKE_REG" in rule.access and covers(rule.path, path) for rule in plan.landlock.rules if rule.path)
    over = max((each for each in plan.mounts if covers(each.target, path)), key=lambda each: len(each.target))
    return not makeable and over.kind in OF_THE_CAGE


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fsdecode(path)
    if "\0" in text:
        raise ValueError(f"{text!r} holds a NUL byte, as no path does")
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not absolute: name it as a command in the cage would")
    if _OF_THE_CALLER.match(os.path.normpath(text)):
        raise PolicyError(f"{text!r} is another file for each process that names it", key=KEY,
                          suggestion="close what it stands for, or /proc")  # fmt: skip
    return text


def _find(live: CageInit, path: str) -> int:
    root = live.open_root()
    try:
        return native.open_inside(root, path, os.O_PATH, resolve=native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(root)


def _check_closable(real: str, held: int) -> None:
    """Raises PolicyError for what no mount can take away."""
    if real == "/":
        raise PolicyError("the root of a cage that runs cannot be closed", key=KEY,
                          suggestion="close what is in it, one by one, or close the cage")  # fmt: skip
    if native.file_system(held) == PROC_SUPER_MAGIC and real.split("/")[2:3] and real.split("/")[2].isdigit():
        raise PolicyError(f"{real!r} belongs to a process, and goes when it goes", key=KEY,
                          suggestion='close "/proc", or end the process')  # fmt: skip


def _check_closed(live: CageInit, held: int, path: str) -> None:
    """Checks that the path leads to the covered file no more. Raises PermissionError."""
    try:
        now = _find(live, os.readlink(f"/proc/self/fd/{held}"))
    except OSError:
        return  # nothing is
    try:
        if os.path.sameopenfile(now, held):
            raise PermissionError(f"{path!r} is covered by a mount that hides nothing; close the cage")
    finally:
        os.close(now)
