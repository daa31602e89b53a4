"""Where workspaces are kept, and the journals of commits: $XDG_STATE_HOME/pysandbox/workspaces, one directory each.

It is one of the user's own places (`policy.places`), which no cage is shown whatever it was granted; its owner and mode
are checked at every use all the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pysandbox.errors import StartError
from pysandbox.launch.private import ELSEWHERE, FOLDER, check_private, naming, opened_private
from pysandbox.launch.removal import remove_below
from pysandbox.probe.state import own_directory

PAGE = 4096  # bytes: no file system gives a file less


def directory() -> str:
    return own_directory("workspaces")


def opened(*, make: bool = False) -> AbstractContextManager[int]:
    """A descriptor of it. Raises FileNotFoundError, PermissionError when it is not the caller's alone."""
    return opened_private(directory(), make=make)


@contextmanager
def opened_one(name: str, *, make: bool = False) -> Iterator[int]:
    """The directory of one workspace or one commit. Raises OSError."""
    with opened(make=make) as above:
        if make:
            with naming(directory()):
                os.mkdir(name, 0o700, dir_fd=above)
        fd = os.open(name, FOLDER, dir_fd=above)
        try:
            check_private(fd, f"{directory()}/{name}")
            yield fd
        finally:
            os.close(fd)


def require_room() -> None:
    """Before a cage writes what is to be kept: where nothing can be kept, all that it does would be lost. Raises
    StartError."""
    try:
        with naming(directory()), opened(make=True) as above:
            try:
                fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=above)
            except OSError as error:
                if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
                    return  # a file system without files that have no name
                raise
            try:
                os.write(fd, bytes(PAGE))
            finally:
                os.close(fd)
    except OSError as error:
        plain = os.strerror(error.errno or 0)
        advice = ELSEWHERE if error.strerror in (None, plain) else error.strerror.removeprefix(f"{plain}; ")
        why = f"what it writes apart could not be kept there, and would be lost: {advice}"
        raise StartError("upper", error.errno or 0, directory(), why) from None


def names() -> list[str]:
    """By age. Raises PermissionError."""
    try:
        with opened() as fd:
            return sorted(os.listdir(fd))
    except FileNotFoundError:
        return []


def remove(name: str) -> None:
    """Idempotent. Raises PermissionError."""
    try:
        with opened() as fd:
            remove_below(fd, name)
    except FileNotFoundError:
        pass
