"""The caller's home directory, by the user database: where `~` leads in a policy, whatever $HOME says. And how what is
the user's alone is made there.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import cache

NOWHERE = ("", "/", "/nonexistent")  # what the database says of users that have none


def make_own(path: str) -> None:
    """A directory that is its user's alone, with what is missing above it, whatever the umask is: where others could
    write above it, they could put another one in its place. Raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        above = os.path.dirname(path.rstrip("/"))
        if above in ("", path):
            raise
        with suppress(FileExistsError):
            make_own(above)
        os.mkdir(path, 0o700)
    if os.lstat(path).st_mode & 0o700 != 0o700:
        os.rmdir(path)
        raise PermissionError(errno.EACCES, "the umask takes your own rights to what you make (umask 022)", path)


def home() -> str:
    """/tmp for users that have none."""
    return _home_of(os.geteuid())


@cache  # the database costs a tenth of a millisecond, and a user's home does not move while a program runs
def _home_of(uid: int) -> str:
    import pwd

    try:
        directory = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/tmp"
    return "/tmp" if directory in NOWHERE else directory
