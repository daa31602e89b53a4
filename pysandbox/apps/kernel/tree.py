"""One workspace of the host, held by a descriptor. Every name is resolved by the kernel below it (openat2(2)): no link
is followed, no other mount entered, nothing but regular files and directories opened, and no open waits. What programs
of the host obey by themselves is not written (`obeyed.py`).

A link in a workspace, whoever made it, leads where no scope was checked, so that meeting one is `denied_scope`. So is
what pysandbox keeps for itself, where a workspace holds it: an app that read the key of the grants could sign its own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pysandbox.apps.denials import SCOPE
from pysandbox.apps.kernel.obeyed import is_obeyed, is_of_policies, obeyed_places
from pysandbox.apps.kernel.owned import WrapperDenied
from pysandbox.errors import PolicyError
from pysandbox.launch import native
from pysandbox.policy.below import covers
from pysandbox.policy.refusal import shown

RESOLVE = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_XDEV
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
WORKSPACE, DEBUGGED = "files", "debugged-files"  # below an app's directory of the store
LEAVES = (errno.ELOOP, errno.EXDEV)


class WorkspaceTree:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = os.open(path, DIRECTORY)
        self._kept: frozenset[str] = frozenset()
        self._obeyed = obeyed_places(os.readlink(f"/proc/self/fd/{self._root}"))

    def keep_out(self, directories: Iterable[str], store: str) -> None:
        """No path leads into these, real paths of the host, from now on. Raises PolicyError for a workspace that is in
        one of them, but for an app's own files in the store."""
        root = os.readlink(f"/proc/self/fd/{self._root}")
        if covers(store, root) and root[len(store) :].split("/")[2:3] in ([WORKSPACE], [DEBUGGED]):
            return
        for each in directories:
            if covers(each, root):
                raise PolicyError(f"{shown(root)} is pysandbox's own, which no app reaches", key="workspace",
                                  suggestion="name another directory")  # fmt: skip
            if covers(root, each):
                self._kept |= {each[len(root.rstrip("/")) + 1 :]}

    def require_free(self, path: str) -> None:
        """Raises WrapperDenied for what is kept, and for a directory that holds it: moved, it would be elsewhere."""
        if any(covers(each, path) or covers(path, each) for each in self._kept):
            raise WrapperDenied(SCOPE)

    def require_unobeyed(self, path: str, *, moved: bool = False) -> None:
        """Raises WrapperDenied for what programs of the host obey by themselves."""
        by_place = any(each == "." or covers(each, path) or (moved and covers(path, each)) for each in self._obeyed)
        if by_place or is_of_policies(path) or is_obeyed(path, moved=moved):
            raise WrapperDenied(SCOPE)

    def close(self) -> None:
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """Raises OSError, WrapperDenied for what a link or a mount leads out of."""
        made = mode if flags & os.O_CREAT else 0
        if any(covers(each, path) for each in self._kept) or is_of_policies(path):
            raise WrapperDenied(SCOPE)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self.require_unobeyed(path)
        try:
            return native.open_inside(self._root, path, flags | os.O_CLOEXEC | os.O_NOCTTY, made, resolve=RESOLVE)
        except OSError as error:
            if error.errno in LEAVES:
                raise WrapperDenied(SCOPE) from None
            raise

    def open_regular(self, path: str, flags: int) -> int:
        """A FIFO, a device, a socket or a file with another name is none of an app's files (EINVAL)."""
        fd = self.open(path, flags | os.O_NONBLOCK)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return fd
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that holds a name, open, and the name."""
        above, _, name = path.rpartition("/")
        fd = self.open(above or ".", DIRECTORY)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Replaces nothing: EEXIST. What is moved is a regular file or a directory, never a link (WrapperDenied)."""
        for path in (old, new):
            self.require_free(path)
            self.require_unobeyed(path, moved=True)
        with self.parent(old) as (source, name), self.parent(new) as (target, other):
            require_plain(source, name)
            rename_to_new(source, name, target, other)

    def make_directory(self, path: str, mode: int) -> None:
        with self.parent(path) as (parent, name):
            os.mkdir(name, mode, dir_fd=parent)


def require_plain(parent: int, name: str) -> None:
    kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise WrapperDenied(SCOPE)


def rename_to_new(source: int, name: str, target: int, other: str) -> None:
    """The kernel sees to it that nothing is replaced; a file system that cannot (EINVAL, renameat2(2)) is asked."""
    try:
        native.rename_name(source, name, target, other, native.NOREPLACE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        require_absent(target, other)
        os.rename(name, other, src_dir_fd=source, dst_dir_fd=target)


def require_absent(parent: int, name: str) -> None:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
