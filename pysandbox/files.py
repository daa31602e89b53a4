"""Files through the cage's own view: the host reads and writes what a command in the cage would see at a path.

A cage may put anything at any path while the host looks: a symlink to the host's secrets, a FIFO that never opens, a
device. So every path is resolved by the kernel inside the cage's root (openat2 with RESOLVE_IN_ROOT), magic links are
refused, nothing but a regular file or directory is touched, no open can block, and no terminal that lies there becomes
the host's own, whose cage could then signal it. What is found is then held against the rules that the cage's commands
live under: the cage's own root is the host's to write by the kernel, and by the policy it is nobody's.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from pysandbox.launch import native
from pysandbox.policy.match import covers
from pysandbox.supervise.rights import demand, rights

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.launch.live import LiveInit

READ_CAP = 256 * 1024 * 1024  # bytes; the host's memory is not the cage's to fill
WRITING = "WRITE_FILE"
READING = "READ_FILE"


class Files:
    """The files of an open cage. Paths are absolute, as a command in the cage would name them.

    Raises OSError as open(2) would, PermissionError for a path the plan does not grant, CageClosedError.
    """

    def __init__(self, live: LiveInit, plan: Plan) -> None:
        self._live = live
        self._plan = plan

    def read(self, path: str | os.PathLike[str], *, limit: int = READ_CAP) -> bytes:
        """The content of a regular file. Raises OSError (EFBIG) beyond `limit` bytes."""
        fd = self._open_regular(path, os.O_RDONLY)
        with open(fd, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"longer than {limit} bytes; pass limit=", os.fspath(path))
        return data

    def write(self, path: str | os.PathLike[str], data: bytes | str, *, mode: int = 0o644) -> None:
        """Replaces the content of a regular file, or makes it."""
        fd = self._open_regular(path, os.O_WRONLY | os.O_CREAT, mode & 0o777, writing=True)
        with open(fd, "wb") as file:
            file.truncate()
            file.write(data.encode() if isinstance(data, str) else data)

    def list(self, path: str | os.PathLike[str] = "/") -> list[str]:
        """The sorted names in a directory."""
        fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether a command in the cage would find something there."""
        try:
            os.close(self._open(path, os.O_PATH))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        return True

    def _open_regular(self, path: str | os.PathLike[str], flags: int, mode: int = 0, *, writing: bool = False) -> int:
        fd = self._open(path, flags | os.O_NONBLOCK, mode, writing=writing)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            return fd
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(number, os.strerror(number) + ": not a regular file", os.fspath(path))

    def _open(self, path: str | os.PathLike[str], flags: int, mode: int = 0, *, writing: bool = False) -> int:
        text = os.fspath(path)
        flags |= 0 if flags & os.O_PATH else os.O_NOCTTY
        if not text.startswith("/"):
            raise ValueError(f"{text!r} is not absolute: name it as a command in the cage would")
        if not self._plan.namespaces:
            return self._open_granted(text, flags, mode, writing=writing)
        root = self._live.open_root()
        try:
            return self._open_judged(root, text, flags, mode)
        finally:
            os.close(root)

    def _open_judged(self, root: int, path: str, flags: int, mode: int) -> int:
        """What is there, or a new file: nothing that Landlock would refuse a command of the cage."""
        resolve = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS
        try:
            fd = native.open_inside(root, path, flags & ~os.O_CREAT, resolve=resolve, user=self._live.user)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            return self._make(root, path, flags, mode)
        try:
            self._demand(fd, "", path, flags | (os.O_TRUNC if flags & os.O_CREAT else 0))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _make(self, root: int, path: str, flags: int, mode: int) -> int:
        parent, name = os.path.split(path)
        resolve = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS
        user = self._live.user
        directory = native.open_inside(root, parent, os.O_PATH | os.O_DIRECTORY, resolve=resolve, user=user)
        try:
            self._demand(directory, f"/{name}", path, flags, "MAKE_REG")
            below = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS
            return native.open_inside(directory, name, flags | os.O_EXCL, mode, resolve=below, user=user)
        except FileExistsError:
            why = "a link that leads to nothing, or made by the cage just now"
            raise FileExistsError(errno.EEXIST, why, path) from None
        finally:
            os.close(directory)

    def _demand(self, fd: int, below: str, path: str, flags: int, *more: str) -> None:
        if flags & os.O_PATH:
            return
        directory = not below and stat.S_ISDIR(os.fstat(fd).st_mode)
        real = os.readlink(f"/proc/self/fd/{fd}").rstrip("/") + below
        try:
            demand(self._plan.landlock, real or "/", {*more, *rights(flags, directory)})
        except PermissionError:
            word = "read" if flags & os.O_ACCMODE == os.O_RDONLY else "write"
            raise PermissionError(errno.EACCES, f"no command of this cage may {word} it", path) from None

    def _open_granted(self, path: str, flags: int, mode: int, *, writing: bool) -> int:
        """Without a mount namespace: below a path that Landlock grants the command the same right to, and never out
        of it."""
        path = os.path.normpath(path)
        right = WRITING if writing else READING
        for rule in self._plan.landlock.rules if self._plan.landlock else ():
            tree = rule.path or self._live.scratch
            if right in rule.access and covers(tree, path):
                base = _open_real(tree)
                try:
                    inner = os.path.relpath(path, tree)
                    resolve = native.RESOLVE_BENEATH | native.RESOLVE_NO_MAGICLINKS
                    if inner == "." and not stat.S_ISDIR(os.fstat(base).st_mode):
                        return os.open(f"/proc/self/fd/{base}", flags | os.O_CLOEXEC, mode)
                    return native.open_inside(base, inner, flags, mode, resolve=resolve)
                finally:
                    os.close(base)
        raise PermissionError(errno.EACCES, "not granted to this cage", path)


def _open_real(path: str) -> int:
    """A descriptor (O_PATH) of a path in which the Plan found no symlink, and in which there is none now."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        return native.open_inside(root, path, os.O_PATH, resolve=native.RESOLVE_NO_SYMLINKS)
    finally:
        os.close(root)
