"""A directory that is its user's alone, made where it is not there: its owner and mode are checked at every use."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_private(path: str, *, make: bool = False) -> Iterator[int]:
    """A descriptor of it. Raises FileNotFoundError, PermissionError when it is not the caller's alone."""
    if make:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    fd = os.open(path, FOLDER)
    try:
        check_private(fd, path)
        yield fd
    finally:
        os.close(fd)


def check_private(fd: int, path: str) -> None:
    """Raises PermissionError."""
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "others may use it; remove it, or set XDG_STATE_HOME to a directory that is "
                              "yours alone", path)  # fmt: skip
