"""Renaming a directory of a copy-on-write tree, which an overlay leaves to its user (EXDEV) unless all of it was new.

The supervisor does what its user would do, inside the cage's view and with no power that the caller lacks: a hidden
directory is made beside the new name, everything is renamed into it, one by one, and it takes the name. Files are
renamed, never opened: their content, times and attributes are the kernel's to keep. Whatever fails, all goes back, and
the caller gets the error that it would have got without us.

A cage may change all of this while it is done. So every name is one component below an open directory, no link is
followed and no mount is crossed: what is renamed is the caller's own, and in the same overlay. The kernel refuses to
rename or remove what something is mounted on (EBUSY) in the mount namespace of who asks, which here is the host's: it
would take the cover off a denied file. So each name is looked at first; what is mounted on in a cage, the cage cannot
move.
"""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from pysandbox.compile.cow import cow_steps
from pysandbox.handlers.call import Call
from pysandbox.launch import native
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.supervise import files, wire
from pysandbox.supervise.rights import require_rights

if TYPE_CHECKING:
    from pysandbox.compile.plan import LandlockPlan, Plan

MOST = 200_000  # names; what is larger is left to who asked for it
DEEPEST = 100  # directories inside each other, each held open
ROUNDS = 4  # over a directory that is filled while it is emptied
MOST_LEFT = 256  # directories that were not moved, after which no other is tried
LOOK = 256  # names between two looks whether the caller still waits
PLACE = os.O_PATH | os.O_DIRECTORY
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
IN_ROOT = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_MAGICLINKS
BENEATH = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_XDEV
# The places of (directory, path) of the old name and the new one among the arguments, and of the flags.
ARGUMENTS: dict[str, tuple[int | None, int, int | None, int, int | None]] = {
    "rename": (None, 0, None, 1, None),
    "renameat": (0, 1, 2, 3, None),
    "renameat2": (0, 1, 2, 3, 4),
}


class NotMoved(OSError):
    """A rename that is left to the kernel, which says why."""


def move(
    call: Call, args: Sequence[int], plan: Plan, user: int, caller: wire.WaitingCaller, left: set[tuple[int, int]]
) -> None:
    """What rename(2) of these arguments asks for, done. `user`: whom the cage is outside, where that is not us. `left`:
    directories of this cage that could not be moved once, whose next try costs the host nothing. Raises NotMoved where
    the kernel is to answer; any other OSError is the answer."""
    trees = [step.target for step in cow_steps(plan)]
    old_at, old, new_at, new, flags_at = ARGUMENTS[call.syscall]
    if flags_at is not None and files.register_int(args[flags_at]):
        raise NotMoved(errno.EXDEV, "only the plain rename is done on behalf")
    with ExitStack() as held:
        try:
            root = os.open(f"/proc/{call.pid}/root", PLACE)
        except OSError as error:
            raise NotMoved(error.errno, error.strerror) from None
        held.callback(os.close, root)
        source = _named(held, root, call.pid, old_at, args, old, user, caller)
        target = _named(held, root, call.pid, new_at, args, new, user, caller)
        if not caller.waits():  # what was read may be of whoever has its number now
            raise NotMoved(errno.ESRCH, "the caller is gone")
        devices = {os.fstat(directory).st_dev for directory, _ in (source, target)}
        if len(devices) > 1 or not devices & _devices(root, trees):
            raise NotMoved(errno.EXDEV, "not in one copy-on-write tree")
        _require(plan.landlock, source, target)
        which = _inode(source)
        if which in left or len(left) > MOST_LEFT:
            raise NotMoved(errno.EXDEV, "it was not moved before")
        try:
            _DirectoryRename(user, caller.waits).done(source, target)
        except NotMoved:
            left.add(which)
            raise


def _inode(place: Name) -> tuple[int, int]:
    found = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise NotMoved(errno.ENOTDIR, "the kernel renames it")
    return found.st_dev, found.st_ino


def _devices(root: int, trees: Sequence[str]) -> set[int]:
    """The numbers of the overlays of a cage: every directory in one has its number."""
    found = set()
    for path in trees:
        with suppress(OSError):
            fd = native.open_inside(root, path, PLACE, resolve=IN_ROOT)
            found.add(os.fstat(fd).st_dev)
            os.close(fd)
    return found


Name = tuple[int, str]  # in an open directory


def _named(
    held: ExitStack, root: int, tid: int, directory_at: int | None, args: Sequence[int], at: int, user: int,
    caller: wire.WaitingCaller,
) -> Name:  # fmt: skip
    """A path among the arguments: the directory above it, and its last component."""
    directory = files.AT_FDCWD if directory_at is None else files.register_int(args[directory_at])
    text = os.fsdecode(caller.read_text(args[at], files.LONGEST_PATH))
    path = files.absolute(tid, directory, text) if text else ""
    above, name = posixpath.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        raise NotMoved(errno.EINVAL, "no name")
    fd = native.open_inside(root, above, PLACE, resolve=IN_ROOT, powerless=True, user=user)
    held.callback(os.close, fd)
    return fd, name


def _require(landlock: LandlockPlan | None, source: Name, target: Name) -> None:
    """What Landlock would ask for (security/landlock/fs.c: hook_path_rename)."""
    real = [os.readlink(f"/proc/self/fd/{directory}").rstrip("/") for directory, _ in (source, target)]
    between = {"REFER"} if real[0] != real[1] else set()
    require_rights(landlock, real[0], {"REMOVE_DIR", *between})
    require_rights(landlock, real[1], {"MAKE_DIR", "REMOVE_DIR", *between})


class _DirectoryRename:
    """One rename, and what undoes it. `_chain`: the directories that are being poured, as they were, from the top."""

    def __init__(self, user: int, waits: Callable[[], bool]) -> None:
        self._user, self._waits = user, waits
        self._seen = 0
        self._chain: list[os.stat_result] = []

    def done(self, source: Name, target: Name) -> None:
        if self._renamed(source, target):
            return
        self._check(target)
        hidden = target[0], f".pysandbox-{secrets.token_hex(8)}"
        try:
            self._pour(source, hidden)
            if not self._renamed(hidden, target):
                raise NotMoved(errno.EXDEV, "the new directory is not of one layer")
        except OSError as error:
            with suppress(OSError):
                self._pour_back(hidden, source, 0)
            raise NotMoved(error.errno, error.strerror) from error

    def _check(self, target: Name) -> None:
        """What would only be found out at the end. Raises OSError, as rename(2) would."""
        try:
            fd = self._open(target)
        except FileNotFoundError:
            return
        try:
            if os.listdir(fd):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        finally:
            os.close(fd)

    def _open(self, place: Name) -> int:
        return native.open_inside(*place, OPEN, resolve=BENEATH, powerless=True, user=self._user)

    def _require_bare(self, place: Name) -> None:
        """Raises OSError (EBUSY) where something is mounted on a name, or it is one that leads further."""
        try:
            fd = native.open_inside(*place, os.O_PATH | os.O_NOFOLLOW, resolve=BENEATH, powerless=True, user=self._user)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), place[1]) from error
        os.close(fd)

    def _renamed(self, source: Name, target: Name) -> bool:
        """Whether the kernel does it by itself. Raises OSError for all but EXDEV."""
        self._require_bare(source)
        self._require_bare(target)
        try:
            native.change_name(native.RENAME, *source, 0, *target, user=self._user)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        return True

    def _renamed_whole(self, source: Name, target: Name) -> bool:
        """As `_renamed`; a directory that its owner may not write does not change its parent, and is poured."""
        try:
            return self._renamed(source, target)
        except PermissionError:
            if not _is_directory(*source):
                raise
            return False

    def _pour(self, source: Name, target: Name) -> None:
        """Everything of a directory into a new one, which looks like it; the old one is removed."""
        with ExitStack() as held:
            old = self._open(source)
            held.callback(os.close, old)
            facts = os.fstat(old)
            self._chain.append(facts)
            native.change_name(native.MKDIR, *target, 0o700, user=self._user)
            new = self._open(target)
            held.callback(os.close, new)
            if facts.st_mode & 0o300 != 0o300:
                os.fchmod(old, stat.S_IMODE(facts.st_mode) | 0o300)
            _take_attributes(new, old)
            self._empty(old, new, source)
            _look_like(new, facts)
            self._chain.pop()

    def _empty(self, old: int, new: int, source: Name) -> None:
        for _ in range(ROUNDS):
            for name in os.listdir(old):
                self._count()
                if not self._renamed_whole((old, name), (new, name)):
                    self._pour((old, name), (new, name))
            try:
                native.change_name(native.RMDIR, *source, user=self._user)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # somebody fills it
                    raise
            else:
                return
        raise NotMoved(errno.EXDEV, "it is being filled")

    def _count(self) -> None:
        self._seen += 1
        if self._seen > MOST or len(self._chain) > DEEPEST:
            raise NotMoved(errno.EXDEV, "more than is moved on behalf")
        if self._seen % LOOK == 0 and not self._waits():
            raise NotMoved(errno.ESRCH, "the caller is gone")

    def _pour_back(self, hidden: Name, source: Name, depth: int) -> None:
        """What has been poured, into what is left of where it was; a directory that was removed is made again."""
        with ExitStack() as held:
            new = self._open(hidden)
            held.callback(os.close, new)
            facts = self._chain[depth] if depth < len(self._chain) else os.fstat(new)
            with suppress(FileExistsError):
                native.change_name(native.MKDIR, *source, 0o700, user=self._user)
            old = self._open(source)
            held.callback(os.close, old)
            for name in os.listdir(new):
                if _is_directory(old, name) or not self._renamed_whole((new, name), (old, name)):
                    self._pour_back((new, name), (old, name), depth + 1)
            _take_attributes(old, new)
            _look_like(old, facts)
            native.change_name(native.RMDIR, *hidden, user=self._user)


def _is_directory(directory: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _take_attributes(new: int, old: int) -> None:
    with suppress(OSError):
        for name in os.listxattr(old):
            if name.startswith("user."):
                os.setxattr(new, name, os.getxattr(old, name))


def _look_like(new: int, facts: os.stat_result) -> None:
    """The mode and the times, last of all, since each entry changes them."""
    os.fchmod(new, stat.S_IMODE(facts.st_mode))
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
