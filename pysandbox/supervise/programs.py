"""Which program an execve names: looked up in the cage's root, as the kernel will, links followed."""

from __future__ import annotations

import os
import re
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR
from typing import NamedTuple

from pysandbox.launch import native
from pysandbox.launch.live import LiveInit
from pysandbox.supervise.files import absolute

# What leads through the caller's own /proc is for no walk to follow, but for the kernel to say.
_MAGIC = re.compile(r"/proc/(?:self|thread-self)/(exe|fd/[0-9]{1,10})|/dev/(fd/[0-9]{1,10})")

TOLD = frozenset({EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR})


class Program(NamedTuple):
    """`path` as the cage names it."""

    path: str
    device: int
    inode: int


class NoProgram(Exception):
    """`number` is the errno with which the kernel would refuse to run it."""

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


def find(live: LiveInit, tid: int, directory: int, path: str) -> Program:
    """Raises NoProgram where it leads to nothing that could be run, OSError when the caller is gone."""
    magic = _MAGIC.fullmatch(path)
    if magic is not None:
        return _looked_at(f"/proc/{tid}/{magic[1] or magic[2]}")
    if not path:
        return _looked_at(f"/proc/{tid}/fd/{directory}")
    plain = absolute(tid, directory, path)
    root = live.open_root()
    try:
        held = native.open_inside(root, plain, os.O_PATH, resolve=native.RESOLVE_IN_ROOT)
    except OSError as error:
        raise NoProgram(error.errno if error.errno in TOLD else EACCES) from None
    finally:
        os.close(root)
    try:
        return _looked_at(f"/proc/self/fd/{held}")
    finally:
        os.close(held)


def _looked_at(link: str) -> Program:
    try:
        found = os.stat(link)
        return Program(os.readlink(link), found.st_dev, found.st_ino)
    except FileNotFoundError:
        raise NoProgram(ENOENT) from None
