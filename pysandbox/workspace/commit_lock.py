"""One commit at a time to one directory: a lock on a file of ours, which bears the device and the inode of that.

It lies with the user's own state, $XDG_STATE_HOME/pysandbox/commits, where no cage reaches. A lock on the directory
itself (flock(2)) could be held by any program that may read it, a cage to which it was granted among them. So commits
of two users, or of two such states, know nothing of each other: whichever is second finds that a name is not what it
was, and takes itself back. The kernel gives a lock up with whoever held it, and the file goes with its last use.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pysandbox.errors import CommitError
from pysandbox.launch.private import opened_private
from pysandbox.probe.state import own_directory

FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 100  # each meets a file that another commit has removed since it was opened


@contextmanager
def locked(path: str, tree: int) -> Iterator[None]:
    """No other commit of this user to the open directory `tree` meanwhile. Raises CommitError when one runs."""
    found = os.fstat(tree)
    name = f"{found.st_dev}-{found.st_ino}"
    with opened_private(own_directory("commits"), make=True) as above:
        fd = _taken(above, name)
        if fd < 0:
            busy = OSError(errno.EBUSY, "another commit to it is under way")
            raise CommitError(path, busy)
        try:
            yield
        finally:
            with suppress(OSError):  # while it is locked: who has it open sees that it is the file no more
                os.unlink(name, dir_fd=above)  # one that stays is the next commit's file
            os.close(fd)


def _taken(above: int, name: str) -> int:
    """The file with its lock; -1 where somebody else has that. Raises OSError."""
    for _ in range(TRIES):
        fd = os.open(name, FILE, 0o600, dir_fd=above)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=above, follow_symlinks=False)):
                return fd
        except BlockingIOError:
            os.close(fd)
            return -1
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    return -1
