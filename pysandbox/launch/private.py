"""A directory that is its user's alone, made where it is not there: its owner and mode are checked at every use.

The launcher has the same question in C (csrc/launcher/private.h).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ELSEWHERE = "set XDG_STATE_HOME to a directory that is yours alone"
ADVICE = f"remove it, or {ELSEWHERE}"


@contextmanager
def opened_private(path: str, *, make: bool = False, advice: str = ADVICE) -> Iterator[int]:
    """A descriptor of it. Raises FileNotFoundError, PermissionError when it is not the caller's alone."""
    try:
        fd = _opened(path, make)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EACCES):
            raise PermissionError(error.errno, f"not a directory of yours; {advice}", path) from None
        raise
    try:
        check_private(fd, path, advice)
        yield fd
    finally:
        os.close(fd)


def _opened(path: str, make: bool) -> int:
    try:
        return os.open(path, FOLDER)
    except FileNotFoundError:
        if not make:
            raise
    make_private(path)
    return os.open(path, FOLDER)


def make_private(path: str) -> None:
    """What has its name already stays, whatever it is. Raises OSError."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:  # a home that is not there, or may not be written to
        why = f"{error.strerror}; what is kept of cages belongs there: {ELSEWHERE}"
        raise OSError(error.errno, why, path) from None


def check_private(fd: int, path: str, advice: str = ADVICE) -> None:
    """Raises PermissionError."""
    if not is_private(os.fstat(fd)):
        raise PermissionError(errno.EPERM, f"others may use it; {advice}", path)


def is_private(found: os.stat_result) -> bool:
    """Whether it is the caller's, and others have no right to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
