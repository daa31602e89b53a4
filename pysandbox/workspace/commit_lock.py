"""One commit at a time to one directory: a lock on a file of ours, which bears the device and the inode of that.

It lies with the user's own state, $XDG_STATE_HOME/pysandbox/commits (`launch.own_lock`). Commits of two users, or of
two such states, know nothing of each other: whichever is second finds that a name is not what it was, and takes itself
back.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pysandbox.errors import CommitError
from pysandbox.launch.own_lock import given_up, taken
from pysandbox.launch.private import naming, opened_private
from pysandbox.probe.state import own_directory


@contextmanager
def locked(path: str, tree: int) -> Iterator[None]:
    """No other commit of this user to the open directory `tree` meanwhile. Raises CommitError when one runs, and where
    there is no place for the lock."""
    found = os.fstat(tree)
    name = f"{found.st_dev}-{found.st_ino}"
    with ExitStack() as undo:
        try:
            with naming(own_directory("commits")):
                above = undo.enter_context(opened_private(own_directory("commits"), make=True))
                fd = taken(above, name)
        except OSError as error:
            raise CommitError(path, error) from None
        if fd < 0:
            busy = OSError(errno.EBUSY, "another commit to it is under way")
            raise CommitError(path, busy)
        try:
            yield
        finally:
            given_up(above, name, fd)
