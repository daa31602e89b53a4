"""Files of a workspace. What is deleted goes to a trash in the workspace that no app can name, and comes back by
FS_RESTORE; nothing that exists is replaced but by an FS_OPEN that says so.

Paths come checked (`scope.py`), and are checked again here by what they lead to (`tree.py`).
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence

from pysandbox.apps.kernel.owned import OwnedHandles
from pysandbox.apps.kernel.tree import DIRECTORY, WorkspaceTree
from pysandbox.apps.scope import TRASH, is_path
from pysandbox.shapes import cast

KIND = "file"
MODES = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
LARGEST_READ = 32 << 10  # bytes of one FS_READ
LARGEST_LIST = 48 << 10  # bytes of one FS_LIST, which is a record of the port
MOST_LISTED = 24_576  # names of a directory that is listed: more than a list holds
MOST_KEPT = 65_536  # names in the trash, which is looked through at each FS_DELETE
WRITTEN = 64 << 20  # bytes that one run of an app may write
MADE = 16_384  # names that one run makes, in its directories and in the trash
CHUNK = 1 << 16


class OpenFile:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        os.close(self.fd)


class FileWrappers:
    def __init__(self, owned: OwnedHandles, tree: WorkspaceTree | None, written: int = WRITTEN) -> None:
        self._owned, self._held, self._most = owned, tree, written
        self._written: dict[str, int] = {}
        self._names: dict[str, int] = {}

    def begin(self, owner: str) -> None:
        self._written[owner] = self._names[owner] = 0

    def list(self, owner: str, path: str) -> str:
        """The names an app could say itself, a name a line, directories with a slash. Raises OSError (E2BIG)."""
        fd = self._tree.open(path, DIRECTORY)
        try:
            names = sorted(each.name + "/" * each.is_dir(follow_symlinks=False) for each in _entries(fd, MOST_LISTED)
                           if is_path(each.name) and not each.is_symlink())  # fmt: skip
        finally:
            os.close(fd)
        text = "\n".join(names)
        if len(text.encode()) > LARGEST_LIST:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        return text

    def open(self, owner: str, path: str, mode: object) -> int:
        """`mode` r, w, a or x, as Python's; a directory that is missing is not made."""
        if mode not in MODES:
            raise OSError(errno.EINVAL, f"a file is opened with {', '.join(MODES)}")
        flags = MODES[mode]
        fd = self._opened(owner, path, flags & ~os.O_TRUNC)
        try:
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
            return self._owned.issue(owner, KIND, OpenFile(fd))
        except BaseException:
            os.close(fd)
            raise

    def read(self, owner: str, handle: int, count: object) -> bytes:
        """At most so many bytes, and no more than LARGEST_READ; none at the end."""
        if type(count) is not int or count < 0:
            raise OSError(errno.EINVAL, "read so many bytes")
        return os.read(self._file(owner, handle), min(count, LARGEST_READ))

    def write(self, owner: str, handle: int, value: object) -> int:
        data = value.encode() if isinstance(value, str) else value
        if not isinstance(data, bytes):
            raise OSError(errno.EINVAL, "write a text or bytes")
        fd = self._file(owner, handle)
        self._charge(owner, len(data))
        return os.write(fd, data)

    def close(self, owner: str, handle: int) -> None:
        self._owned.close(owner, handle, KIND)

    def rename(self, owner: str, old: str, new: str) -> None:
        """Another name in the same directory (EXDEV: FS_MOVE)."""
        if old.rpartition("/")[0] != new.rpartition("/")[0]:
            raise OSError(errno.EXDEV, "another directory: use FS_MOVE")
        self._tree.rename(old, new)

    def move(self, owner: str, old: str, new: str) -> None:
        self._tree.rename(old, new)

    def copy(self, owner: str, old: str, new: str) -> None:
        """A regular file; nothing is left of a copy that failed."""
        source = self._tree.open_regular(old, os.O_RDONLY)
        try:
            found = os.fstat(source)
            size = found.st_size
            self._charge(owner, size)
            target = self._opened(owner, new, MODES["x"])
            try:
                os.fchmod(target, os.fstat(target).st_mode & found.st_mode & 0o777)  # for no more eyes than it was
                while size > 0 and (piece := os.read(source, min(size, CHUNK))):
                    os.write(target, piece)
                    size -= len(piece)
            except OSError:
                with self._tree.parent(new) as (parent, name):
                    os.unlink(name, dir_fd=parent)
                raise
            finally:
                os.close(target)
        finally:
            os.close(source)

    def delete(self, owner: str, path: str) -> None:
        """Into the trash, under a name made of the path and a number: the latest is what FS_RESTORE brings back."""
        self._count_name(owner)
        self._make_trash()
        kept = self._kept(path)
        self._tree.rename(path, f"{TRASH}/{_digest(path)}.{max(kept, default=0) + 1:06}")

    def restore(self, owner: str, path: str, new: str) -> None:
        """What was deleted last as `path` becomes `new`."""
        kept = self._kept(path)
        if not kept:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._tree.rename(f"{TRASH}/{_digest(path)}.{max(kept):06}", new)

    # ---- the two hidden places ----------------------------------------------------------------------------------

    @property
    def _tree(self) -> WorkspaceTree:
        if self._held is None:
            raise OSError(errno.ENODEV, "this kernel has no workspace")
        return self._held

    def _file(self, owner: str, handle: int) -> int:
        return cast(OpenFile, self._owned.find(owner, handle, KIND)).fd

    def _opened(self, owner: str, path: str, flags: int) -> int:
        """A file, which is counted where it is a new one."""
        if not flags & os.O_EXCL:
            try:
                return self._tree.open_regular(path, flags & ~os.O_CREAT)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
        self._count_name(owner)
        return self._tree.open_regular(path, flags)

    def _count_name(self, owner: str) -> None:
        if self._names.get(owner, 0) >= MADE:
            raise OSError(errno.EDQUOT, f"a run makes {MADE} files at most")
        self._names[owner] = self._names.get(owner, 0) + 1

    def _charge(self, owner: str, size: int) -> None:
        written = self._written.get(owner, 0) + size
        if written > self._most:
            raise OSError(errno.EDQUOT, f"a run writes {self._most} bytes at most")
        self._written[owner] = written

    def _make_trash(self) -> None:
        try:
            self._tree.make_directory(TRASH, 0o700)
        except FileExistsError:
            os.close(self._tree.open(TRASH, DIRECTORY))  # a link, or a file, is none

    def _kept(self, path: str) -> Sequence[int]:
        """The numbers under which the trash has something of that path."""
        try:
            fd = self._tree.open(TRASH, DIRECTORY)
        except FileNotFoundError:
            return []
        try:
            names = [each.name for each in _entries(fd, MOST_KEPT)]
        finally:
            os.close(fd)
        begin = f"{_digest(path)}."
        return [int(name[len(begin) :]) for name in names if name.startswith(begin) and name[len(begin) :].isdecimal()]


def _entries(fd: int, most: int) -> Iterator[os.DirEntry[str]]:
    """All the kernel waits for whoever looks through a directory. Raises OSError (E2BIG) where it has more names."""
    with os.scandir(fd) as found:
        for count, each in enumerate(found):
            if count >= most:
                raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
            yield each


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:32]
