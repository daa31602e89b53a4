"""Whether a directory of a tree takes names that differ in case for one: asked of the few paths that it matters for."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from pysandbox.launch import native
from pysandbox.launch.below import opened_below
from pysandbox.probe.file_systems import of_magic

FS_IOC_GETFLAGS, FS_CASEFOLD_FL = 0x80086601, 0x40000000
FLAGS = struct.Struct("=I4x")
NONE = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)  # it has no such flags


class Folds:
    """Asked of the paths of one tree. `tree`: a descriptor of it. What cannot be looked at folds."""

    def __init__(self, tree: int) -> None:
        self._tree = tree
        self._known: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Whether a directory on the way to a path folds the next name of it; one that is not there yet does as the one
        that it is made in."""
        names = path.split("/")[:-1]
        return any(self._folds("/".join(names[:count])) for count in range(len(names) + 1))

    def _folds(self, directory: str) -> bool:
        if directory not in self._known:
            self._known[directory] = self._look(directory)
        return self._known[directory]

    def _look(self, directory: str) -> bool:
        try:
            with opened_below(self._tree, os.fsencode(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as fd:
                return not of_magic(native.file_system(fd)).keeps_case or _has_flag(fd)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            return error.errno != errno.ELOOP  # a link is replaced, and nothing is written by it


def _has_flag(fd: int) -> bool:
    try:
        (flags,) = FLAGS.unpack(fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(FLAGS.size)))
    except OSError as error:
        if error.errno in NONE:
            return False
        raise
    return bool(flags & FS_CASEFOLD_FL)
