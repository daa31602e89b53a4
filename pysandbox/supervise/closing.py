"""Closing a path of a cage that runs: found once, covered where it was found, and looked at again.

What is covered is the file that was found, by its descriptor: a program that moves it meanwhile, or puts another in its
place, moves the cover with it. A path that cannot be closed is an error; none is taken as closed.
"""

from __future__ import annotations

import os
import re
import stat

from pysandbox.errors import PolicyError
from pysandbox.handlers.fix import DELETED
from pysandbox.launch import native
from pysandbox.launch.live import LiveInit
from pysandbox.supervise.opening import PROC_SUPER_MAGIC

KEY = "deny_path"
_OF_THE_CALLER = re.compile(r"/+(?:proc/(?:self|thread-self)|dev/(?:fd|stdin|stdout|stderr))(?:/|$)")


def close_path(live: LiveInit, path: str | os.PathLike[str]) -> str:
    """What it really is, as the cage names it. Raises TypeError, ValueError, PolicyError, OSError, CageClosedError."""
    text = _absolute(path)
    held = _find(live, text)
    try:
        real, found = os.readlink(f"/proc/self/fd/{held}"), os.fstat(held)
        if found.st_nlink == 0 and not stat.S_IMODE(found.st_mode):
            return real.removesuffix(DELETED)  # a cover that lies there already: it was deleted when it was made
        _demand_closable(real, held)
        native.cover(live, held, directory=stat.S_ISDIR(found.st_mode), path=text)
        _demand_closed(live, held, text)
        return real
    finally:
        os.close(held)


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


def _find(live: LiveInit, path: str) -> int:
    root = live.open_root()
    try:
        return native.open_inside(root, path, os.O_PATH, resolve=native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(root)


def _demand_closable(real: str, held: int) -> None:
    """Raises PolicyError for what no mount can take away."""
    if real == "/":
        raise PolicyError("the root of a cage that runs cannot be closed", key=KEY,
                          suggestion="close what is in it, one by one, or close the cage")  # fmt: skip
    if native.file_system(held) == PROC_SUPER_MAGIC and real.split("/")[2:3] and real.split("/")[2].isdigit():
        raise PolicyError(f"{real!r} belongs to a process, and goes when it goes", key=KEY,
                          suggestion='close "/proc", or end the process')  # fmt: skip


def _demand_closed(live: LiveInit, held: int, path: str) -> None:
    """By its path as it is now, the file that was found is not reached any more. Raises PermissionError."""
    try:
        now = _find(live, os.readlink(f"/proc/self/fd/{held}"))
    except OSError:
        return  # nothing is
    try:
        if os.path.sameopenfile(now, held):
            raise PermissionError(f"{path!r} is covered by a mount that hides nothing; close the cage")
    finally:
        os.close(now)
