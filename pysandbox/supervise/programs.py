"""Which program an execve names: looked up in the cage's root, as the kernel will, links followed."""

from __future__ import annotations

import os
import re
import stat
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR

from pysandbox.launch import native
from pysandbox.live.init import CageInit
from pysandbox.shapes import NamedTuple
from pysandbox.supervise.files import absolute, inner

# Paths through the caller's own /proc are not followed by name here; only the kernel knows where they lead.
_MAGIC = re.compile(r"/proc/(?:self|thread-self)/(exe|fd/[0-9]{1,10})|/dev/(fd/[0-9]{1,10})")

OWN = ("self", "thread-self")  # below /proc
MOST_LINKS = 40  # as the kernel's own
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


def find(live: CageInit, tid: int, directory: int, path: str) -> Program:
    """Raises NoProgram where it leads to nothing that could be run, OSError when the caller is gone."""
    magic = _MAGIC.fullmatch(path)
    if magic is not None:
        return _program_at(f"/proc/{tid}/{magic[1] or magic[2]}")
    if not path:
        return _program_at(f"/proc/{tid}/fd/{directory}")
    plain = absolute(tid, directory, path)
    root = live.open_root()
    try:
        held = native.open_inside(root, plain, os.O_PATH, resolve=native.RESOLVE_IN_ROOT)
    except OSError as error:
        raise NoProgram(error.errno if error.errno in TOLD else EACCES) from None
    finally:
        os.close(root)
    try:
        return _program_at(f"/proc/self/fd/{held}")
    finally:
        os.close(held)


def trace(live: CageInit, tid: int, directory: int, path: str) -> str:
    """The real path of what an execve names. Unlike `find` it follows what /proc shows of a process (its root,
    directory and descriptors). Good for reports only, never for a decision: the cage may change any of it meanwhile.
    Raises NoProgram, and OSError when the caller is gone."""
    root = live.open_root()
    try:
        return _traced(root, tid, absolute(tid, directory, path)) or "/"
    finally:
        os.close(root)


def _traced(root: int, tid: int, path: str) -> str:
    """The path with every symbolic link resolved, by readlink below the descriptor of the root: the kernel follows
    none for us."""
    rest, real, links = path.split("/"), "", 0
    while rest:
        name = rest.pop(0)
        if name == "..":
            real = os.path.dirname(real).rstrip("/")
        elif name not in ("", "."):
            target = f"/proc/{inner(tid, name)}" if real == "/proc" and name in OWN else _link(root, f"{real}/{name}")
            links += target is not None
            if links > MOST_LINKS:
                raise NoProgram(ELOOP)
            if target is None:
                real = f"{real}/{name}"
            else:
                rest[:0] = target.split("/")
                real = "" if target.startswith("/") else real
    return real


def _link(root: int, path: str) -> str | None:
    """The target of a symbolic link; None for what is no link."""
    flags = os.O_PATH | os.O_NOFOLLOW
    try:
        held = native.open_inside(root, path, flags, resolve=native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS)
    except OSError as error:
        raise NoProgram(error.errno if error.errno in TOLD else EACCES) from None
    try:
        return os.readlink("", dir_fd=held) if stat.S_ISLNK(os.fstat(held).st_mode) else None
    finally:
        os.close(held)


def _program_at(link: str) -> Program:
    try:
        found = os.stat(link)
        return Program(os.readlink(link), found.st_dev, found.st_ino)
    except FileNotFoundError:
        raise NoProgram(ENOENT) from None
