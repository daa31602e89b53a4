"""Where the layers of copy-on-write trees lie on disk (`workspace.storage = "disk"`), or copies of them ("copy"): a
directory for each cage, in $XDG_STATE_HOME/pysandbox/layers. No cage is shown that, but the copies that it works in.

It is there for as long as somebody holds it: the cage, and then each workspace of it. A lock on the directory
(flock(2)) says so to other programs, which the kernel gives up with whoever held it, however that ended; what nobody
has locked was left by a kill, and goes with the next look (`remove_left`). All of it is found by descriptors that are
held from its making on, so that no path that was changed meanwhile is followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock

from pysandbox.errors import StartError
from pysandbox.launch.ids import new_id
from pysandbox.launch.native import file_system
from pysandbox.launch.private import FOLDER, check_private, opened_private
from pysandbox.launch.removal import remove_below
from pysandbox.live.disk_use import KEPT_FREE, LAYERS, DiskUse, room
from pysandbox.live.services import CageService
from pysandbox.policy.match import covers
from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.state import own_directory
from pysandbox.probe.unchanged import is_unchanged, remember_unchanged, stamp_of
from pysandbox.shapes import NamedTuple

MIB = 1 << 20
ELSEWHERE = (
    'what a cage writes on disk lies below $XDG_STATE_HOME: set that to another directory, or storage to "memory"'
)
TRIES = 8  # of other names, where another program has taken a new directory for a leftover


class Left(NamedTuple):
    """The layers of a cage whose host was killed."""

    name: str
    path: str


def directory() -> str:
    return own_directory("layers")


class DiskLayers(CageService):
    """The layers of one cage, held by it and by each `hold`; gone with the last `let_go`. `most`: the bytes that may
    be written to them; `trees`: the copy-on-write directories; `overlaid`: they are layers over these, and no copies.
    Raises StartError."""

    def __init__(self, most: int, trees: Sequence[str], *, overlaid: bool = True) -> None:
        self.most = most
        self._place = _Place.make(most, trees, overlaid=overlaid)
        self.path = self._place.path
        self._trees = tuple(trees) if overlaid else (*trees, self.path)  # without mounts a cage works where they lie
        self._copied = self._copied_names = 0
        self._lock = Lock()
        self._holders = 1
        self._ended = False
        self._finalizer = weakref.finalize(self, self._place.forget)

    @property
    def leaves_files(self) -> bool:
        return True

    def use(self) -> DiskUse:
        """A look at how much lies in them, the caller's to close."""
        place, most = f"/proc/self/fd/{self._place.fd}", self.most + self._copied
        return DiskUse(place, most, self._trees, LAYERS, self._copied_names)

    def room_left(self) -> None:
        """Raises StartError where the disk has not got what a cage may still write."""
        _check_room(self._place.fd, self.path, self.most)

    def hold_copies(self) -> None:
        """What lies in them now is not the cage's: it may write as much beside that, and in place of it. Raises
        StartError."""
        self.room_left()
        use = self.use()
        try:
            self._copied, self._copied_names = use.total()
        finally:
            use.close()

    def quota(self) -> tuple[int, int, int, int]:
        """Bytes used and allowed, names used and allowed. Raises OSError."""
        use = self.use()
        try:
            used, names = use.total()
            copied, more = self._copied, self._copied_names
            return max(0, used - copied), self.most, max(0, names - more), use.most_names - more
        finally:
            use.close()

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def let_go(self) -> None:
        with self._lock:
            self._holders -= 1
            gone = self._holders == 0
        if gone:
            self._place.remove()
            self._finalizer.detach()

    def end(self) -> None:
        ended, self._ended = self._ended, True
        if not ended:
            self._place.cage_ended()
            self.let_go()

    def after_fork_in_child(self) -> None:
        self._lock = Lock()
        self._place.remove()  # in a copy of the host: lets go of its descriptors


class _Place:
    """One directory, with the descriptors that it is known by."""

    def __init__(self, above: int, name: str, fd: int) -> None:
        self._above, self._name, self.fd = above, name, fd
        self.path = os.readlink(f"/proc/self/fd/{fd}")
        self._owner = os.getpid()
        self._lock = Lock()
        self._has_ended = self._is_forgotten = False

    @classmethod
    def make(cls, most: int, trees: Sequence[str], *, overlaid: bool) -> _Place:
        try:
            with opened_private(directory(), make=True) as above:
                _check(above, most, trees, overlaid=overlaid)
                for _ in range(TRIES):
                    made = cls._made(above)
                    if made is not None:
                        return made
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), directory())
        except StartError:
            raise
        except OSError as error:
            raise StartError("upper", error.errno or 0, error.filename or directory(), ELSEWHERE) from None

    @classmethod
    def _made(cls, above: int) -> _Place | None:
        """None where it was removed as a leftover between its making and its lock."""
        name = new_id()
        os.mkdir(name, 0o700, dir_fd=above)
        try:
            fd = _locked(above, name)
        except FileNotFoundError:
            return None
        if fd < 0:
            return None
        if os.fstat(fd).st_nlink == 0:
            os.close(fd)
            return None
        return cls(os.dup(above), name, fd)

    def cage_ended(self) -> None:
        self._has_ended = True
        if self._is_forgotten:
            self.remove()

    def forget(self) -> None:
        """Nobody can ask for it any more, or the interpreter ends: it goes with its cage."""
        self._is_forgotten = True
        if self._has_ended:
            self.remove()

    def remove(self) -> None:
        """Idempotent."""
        with self._lock:
            above, self._above = self._above, -1
        if above < 0:
            return
        try:
            if os.getpid() == self._owner:
                remove_below(above, self._name)
        finally:
            os.close(self.fd)
            os.close(above)


def _check(above: int, most: int, trees: Sequence[str], *, overlaid: bool) -> None:
    """Whether layers can lie there. Raises StartError."""
    path = os.readlink(f"/proc/self/fd/{above}")
    kind = of_magic(file_system(above))
    if overlaid and not kind.takes_layer:
        raise StartError("upper", errno.EOPNOTSUPP, path, f'{kind.name} takes no layer of copy-on-write directories: '
                         'set XDG_STATE_HOME to a directory on ext4, xfs or btrfs, or storage to "memory" or "copy"'
                         )  # fmt: skip
    around = next((tree for tree in trees if covers(tree, path)), None)
    if around is not None:
        raise StartError("upper", errno.ELOOP, path, f"what is written to {around!r} cannot be kept inside of it: set "
                         'XDG_STATE_HOME to a directory elsewhere, or storage to "memory"')  # fmt: skip
    _check_room(above, path, most)


def _check_room(fd: int, path: str, most: int) -> None:
    free, _ = room(fd)
    if free < most + KEPT_FREE:
        raise StartError("upper", errno.ENOSPC, path, f"cow_mb is {most // MIB}, {KEPT_FREE // MIB} MiB are left free, "
                         f"and there are {free // MIB}: make room, or set a smaller cow_mb")  # fmt: skip


def _locked(above: int, name: str) -> int:
    """A descriptor of the directory of that name with its lock, -1 where somebody else has that. Raises OSError."""
    fd = os.open(name, FOLDER, dir_fd=above)
    try:
        check_private(fd, name)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return -1
    except BaseException:
        os.close(fd)
        raise
    return fd


def find_left() -> tuple[Left, ...]:
    """What killed hosts have left. Raises PermissionError."""
    found = []
    with suppress(FileNotFoundError), opened_private(directory()) as above:
        for name, fd in _unheld(above, os.listdir(above)):
            os.close(fd)
            found.append(Left(name, f"{directory()}/{name}"))
    return tuple(found)


def remove_left(only: str | None = None) -> None:
    """Removes all that was left, or what was left under one name. Raises PermissionError."""
    place = directory()
    stamp = stamp_of(place)
    if stamp is None or is_unchanged(place, stamp):
        return
    with suppress(FileNotFoundError), opened_private(place) as above:
        names = os.listdir(above)
        if not names:
            remember_unchanged(place, stamp)
        for name, fd in _unheld(above, names):
            try:
                if only in (None, name):
                    remove_below(above, name)
            finally:
                os.close(fd)


def _unheld(above: int, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    for name in sorted(names):
        with suppress(OSError):
            fd = _locked(above, name)
            if fd >= 0:
                yield name, fd
