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
NO_ROOM = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "remove some of what is yours there",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "",
}


@contextmanager
def opened_private(path: str, *, make: bool = False, elsewhere: str = ELSEWHERE) -> Iterator[int]:
    """A descriptor of it. Raises FileNotFoundError, PermissionError when it is not the caller's alone, OSError where it
    cannot be made."""
    advice = f"remove it, or {elsewhere}"
    try:
        fd = os.open(path, FOLDER)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EACCES):
            raise PermissionError(error.errno, f"not a directory of yours; {advice}", path) from None
        if not make or error.errno != errno.ENOENT:
            raise
        make_private(path, elsewhere)
        fd = os.open(path, FOLDER)
    try:
        check_private(fd, path, advice)
        yield fd
    finally:
        os.close(fd)


def make_private(path: str, elsewhere: str = ELSEWHERE) -> None:
    """With what is missing above it. What has its name already stays, whatever it is. Raises OSError."""
    from pysandbox.policy.user_home import make_own

    try:
        make_own(path)
    except FileExistsError:
        pass
    except OSError as error:  # a home that is not there, or may not be written to
        why = f"{error.strerror}; what is kept of cages belongs there: {elsewhere}"
        raise OSError(error.errno, why, path) from None


@contextmanager
def naming(directory: str, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """What there is no room for below it is told by its whole path, and with what to do: who writes by a descriptor of
    a directory names the last part alone."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError or error.errno not in NO_ROOM:
            raise
        name = os.fsdecode("" if isinstance(error.filename, int) else error.filename or "")  # a descriptor has no name
        if name.startswith("/"):
            raise
        advice = ", or ".join(filter(None, (NO_ROOM[error.errno], elsewhere)))
        raise OSError(error.errno, f"{error.strerror}; {advice}", os.path.join(directory, name).rstrip("/")) from None


def check_private(fd: int, path: str, advice: str = f"remove it, or {ELSEWHERE}") -> None:
    """Raises PermissionError."""
    if not is_private(os.fstat(fd)):
        raise PermissionError(errno.EPERM, f"others may use it; {advice}", path)


def is_private(found: os.stat_result) -> bool:
    """Whether it is the caller's, and others have no right to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
