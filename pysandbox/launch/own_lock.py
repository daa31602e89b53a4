"""A lock on a file of the user's own state, which no cage reaches: what is locked is not the thing itself.

A lock on the thing (flock(2)) can be held by any program that may read it, a cage to which it was granted among them.
The kernel gives a lock up with whoever held it, and the file goes with its last use. Two users, or two states, know
nothing of each other here.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 100  # each meets a file that another one has removed since it was opened


def taken(above: int, name: str, how: int = fcntl.LOCK_EX) -> int:
    """A descriptor of the file with that lock, which nobody waits for; -1 where somebody else's is in the way. Raises
    OSError."""
    for _ in range(TRIES):
        fd = os.open(name, FILE, 0o600, dir_fd=above)
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
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


def given_up(above: int, name: str, fd: int) -> None:
    """By who has it alone: while it is locked the name goes, so that who has it open sees that it is the file no
    more."""
    with suppress(OSError):  # a name that stays is the next one's file
        os.unlink(name, dir_fd=above)
    os.close(fd)
