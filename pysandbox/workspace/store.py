"""Where workspaces are kept, and the journals of commits: $XDG_STATE_HOME/pysandbox/workspaces, one directory each.

It is one of the user's own places (`policy.places`), which no cage is shown whatever it was granted; its owner and mode
are checked at every use all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pysandbox.launch.private import FOLDER, check_private, opened_private
from pysandbox.launch.removal import remove_below
from pysandbox.probe.state import own_directory


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
            os.mkdir(name, 0o700, dir_fd=above)
        fd = os.open(name, FOLDER, dir_fd=above)
        try:
            check_private(fd, f"{directory()}/{name}")
            yield fd
        finally:
            os.close(fd)


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
