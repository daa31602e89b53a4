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
from collections.abc import Iterator
from contextlib import contextmanager

from pysandbox.launch import native
from pysandbox.launch.located import located
from pysandbox.policy.match import covers
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.supervise.rights import require_rights, rights

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.live.init import CageInit

READ_CAP = 256 * 1024 * 1024  # bytes; the host's memory is not the cage's to fill
WRITING = "WRITE_FILE"
READING = "READ_FILE"
ONE_MOUNT = native.RESOLVE_BENEATH | native.RESOLVE_NO_XDEV
BELOW = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS
# The rights in a directory that a change of its names needs, of whatever kind they are: what is there may be another
# thing in a moment.
MAKE_DIR, REMOVE_FILE, REMOVE_DIR = (frozenset((each,)) for each in ("MAKE_DIR", "REMOVE_FILE", "REMOVE_DIR"))
TAKEN = REMOVE_FILE | REMOVE_DIR
PUT = TAKEN | MAKE_DIR | {"MAKE_REG", "MAKE_SYM"}
EVERY = PUT | {"EXECUTE", "READ_FILE", "READ_DIR", "WRITE_FILE", "TRUNCATE", "REFER", "IOCTL_DEV", "MAKE_CHAR",
               "MAKE_BLOCK", "MAKE_SOCK", "MAKE_FIFO"}  # fmt: skip


class Files:
    """The files of an open cage. Paths are as a command in the cage would name them: relative ones begin in the cage's
    working directory.

    Raises OSError as the system call would, PermissionError for a path the plan does not grant, CageClosedError,
    ValueError (NUL).
    """

    def __init__(self, live: CageInit, plan: Plan) -> None:
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

    def read_text(
        self, path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict", *, limit: int = READ_CAP
    ) -> str:
        return self.read(path, limit=limit).decode(encoding, errors)

    def write_text(
        self, path: str | os.PathLike[str], text: str, encoding: str = "utf-8", errors: str = "strict",
        *, mode: int = 0o644,
    ) -> None:  # fmt: skip
        self.write(path, text.encode(encoding, errors), mode=mode)

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

    def stat(self, path: str | os.PathLike[str], *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.stat; owner and device are the host's numbers."""
        fd = self._open(path, os.O_PATH | (0 if follow_symlinks else os.O_NOFOLLOW))
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def mkdir(
        self, path: str | os.PathLike[str], mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False
    ) -> None:
        """As pathlib's: with `parents`, also the directories above it."""
        text = self._absolute(path)
        found = self._kind(text)
        if found is not None:
            if exist_ok and stat.S_ISDIR(found):
                return
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), text)
        missing = [text]
        while parents and (above := os.path.dirname(missing[-1].rstrip("/"))) and self._kind(above) is None:
            missing.append(above)
        for directory in reversed(missing):
            with self._changing(directory, MAKE_DIR) as (parent, name):
                native.change_name(native.MKDIR, parent, name, mode & 0o777, user=self._live.user)

    def _kind(self, path: str) -> int | None:
        """The type and rights of what a command would find there, None for nothing."""
        try:
            return self.stat(path).st_mode
        except FileNotFoundError:
            return None

    def remove(self, path: str | os.PathLike[str]) -> None:
        """A file, or a link itself; a directory: `rmdir`."""
        with self._changing(self._absolute(path), REMOVE_FILE) as (parent, name):
            native.change_name(native.UNLINK, parent, name, user=self._live.user)

    def rmdir(self, path: str | os.PathLike[str]) -> None:
        """An empty directory."""
        with self._changing(self._absolute(path), REMOVE_DIR) as (parent, name):
            native.change_name(native.RMDIR, parent, name, user=self._live.user)

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """As os.rename: what was at `new` is replaced."""
        source, target = self._absolute(old), self._absolute(new)
        with self._changing(source, TAKEN) as (parent, name), self._changing(target, PUT) as (other, new_name):
            if not os.path.sameopenfile(parent, other):
                require_no_more(self._granted(parent), self._granted(other), target)
            native.change_name(native.RENAME, parent, name, 0, other, new_name, user=self._live.user)

    @contextmanager
    def _changing(self, path: str, wanted: frozenset[str]) -> Iterator[tuple[int, str]]:
        """The directory of a name, open, in which the cage's commands have these rights, and the name. What the policy
        covers is no name that anybody changes: from outside of the cage the kernel would not know it for a mount."""
        above, name = os.path.split(path.rstrip("/"))
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, f"{name or '/'!r} is no name in a directory", path)
        parent = self._open_parent(above or "/", wanted)
        try:
            if not wanted <= self._granted(parent):
                raise PermissionError(errno.EACCES, "no command of this cage may change it", path)
            refuse_a_mount(parent, name, path)
            yield parent, name
        except OSError as error:
            if error.filename is None or not os.fsdecode(error.filename).startswith("/"):
                error.filename = path
            raise
        finally:
            os.close(parent)

    def _open_parent(self, path: str, wanted: frozenset[str]) -> int:
        flags = os.O_PATH | os.O_DIRECTORY
        if self._plan.namespaces:
            return self._open(path, flags)
        for tree, access in self._rules():
            if wanted <= access and covers(tree, os.path.normpath(path)):
                base = _open_real(tree)
                try:
                    inner = os.path.relpath(os.path.normpath(path), tree)
                    return native.open_inside(base, inner, flags, resolve=BELOW)
                finally:
                    os.close(base)
        raise PermissionError(errno.EACCES, "not granted to this cage", path)

    def _granted(self, parent: int) -> frozenset[str]:
        """What Landlock lets a command do with the names of a directory."""
        plan = self._plan.landlock
        if plan is None:
            return EVERY
        real = os.readlink(f"/proc/self/fd/{parent}")
        granted = {right for tree, access in self._rules() if covers(tree, real) for right in access}
        return frozenset(granted) | (EVERY - set(plan.handled_fs))

    def _rules(self) -> Iterator[tuple[str, frozenset[str]]]:
        for rule in self._plan.landlock.rules if self._plan.landlock else ():
            yield self._located(rule.path) or self._live.scratch, frozenset(rule.access)

    def _located(self, path: str) -> str:
        return located(path, self._plan, self._live.layers)

    def _absolute(self, path: str | os.PathLike[str]) -> str:
        text = os.fsdecode(path)
        if "\0" in text:
            raise ValueError(f"{text!r} holds a NUL byte, which no path can")
        if not text:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        return self._located(os.path.join(self._plan.cwd or "/", text))

    def _open_regular(self, path: str | os.PathLike[str], flags: int, mode: int = 0, *, writing: bool = False) -> int:
        fd = self._open(path, flags | os.O_NONBLOCK, mode, writing=writing)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            return fd
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(number, os.strerror(number) + ": not a regular file", os.fspath(path))

    def _open(self, path: str | os.PathLike[str], flags: int, mode: int = 0, *, writing: bool = False) -> int:
        text = self._absolute(path)
        flags |= 0 if flags & os.O_PATH else os.O_NOCTTY
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
            self._check(fd, "", path, flags | (os.O_TRUNC if flags & os.O_CREAT else 0))
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
            self._check(directory, f"/{name}", path, flags, "MAKE_REG")
            below = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS
            return native.open_inside(directory, name, flags | os.O_EXCL, mode, resolve=below, user=user)
        except FileExistsError:
            why = "a link that leads to nothing, or made by the cage just now"
            raise FileExistsError(errno.EEXIST, why, path) from None
        finally:
            os.close(directory)

    def _check(self, fd: int, below: str, path: str, flags: int, *more: str) -> None:
        if flags & os.O_PATH:
            return
        directory = not below and stat.S_ISDIR(os.fstat(fd).st_mode)
        real = os.readlink(f"/proc/self/fd/{fd}").rstrip("/") + below
        try:
            require_rights(self._plan.landlock, real or "/", {*more, *rights(flags, directory)})
        except PermissionError:
            word = "read" if flags & os.O_ACCMODE == os.O_RDONLY else "write"
            raise PermissionError(errno.EACCES, f"no command of this cage may {word} it", path) from None

    def _open_granted(self, path: str, flags: int, mode: int, *, writing: bool) -> int:
        """Without a mount namespace: below a path that Landlock grants the command the same right to, and never out
        of it."""
        path = os.path.normpath(path)
        right = WRITING if writing else READING
        for tree, access in self._rules():
            if right in access and covers(tree, path):
                base = _open_real(tree)
                try:
                    inner = os.path.relpath(path, tree)
                    resolve = native.RESOLVE_BENEATH | native.RESOLVE_NO_MAGICLINKS
                    if inner == "." and not stat.S_ISDIR(os.fstat(base).st_mode):
                        return os.open(f"/proc/self/fd/{base}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC, mode)
                    return native.open_inside(base, inner, flags, mode, resolve=resolve)
                finally:
                    os.close(base)
        raise PermissionError(errno.EACCES, "not granted to this cage", path)


def refuse_a_mount(parent: int, name: str, path: str) -> None:
    """What is mounted at a name covers it: nobody in the cage takes it away (EBUSY). The kernel asks that of the mounts
    of whoever calls, and we are outside."""
    try:
        os.close(native.open_inside(parent, name, os.O_PATH | os.O_NOFOLLOW, resolve=ONE_MOUNT))
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise OSError(errno.EBUSY, "the policy covers it: no command of this cage may change it", path) from None


def require_no_more(before: frozenset[str], after: frozenset[str], path: str) -> None:
    """A file must not gain a right by being moved, as Landlock has it (LANDLOCK_ACCESS_FS_REFER)."""
    if "REFER" not in before & after or not after <= before:
        raise OSError(errno.EXDEV, "no command of this cage may move it there; write it anew", path)


def _open_real(path: str) -> int:
    """A descriptor (O_PATH) of a path in which the Plan found no symlink, and in which there is none now."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        return native.open_inside(root, path, os.O_PATH, resolve=native.RESOLVE_NO_SYMLINKS)
    finally:
        os.close(root)
