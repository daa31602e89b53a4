"""A file of ours under a name that a policy denies and that is not there (`compile.absent_names`).

Something can only be mounted over a name that exists. Removing the name takes that mount away in every cage that has
one, so the cages of all programs that need it share one file: each holds a shared lock for it, and whoever can have
that alone removes it. It holds TEXT, mode 0400, and nothing else is ever removed. A killed host leaves it behind, until
the next cage of such a policy ends. The way to it is walked by descriptors, through no link.

The lock is on a file of the user's own state (`own_lock`): one on the placeholder itself would be for any cage to hold
that may read the directory, and no cage with the denial could be made any more. The placeholder is locked besides
(flock(2)), where nobody is in the way, for programs that have another state; who has none has that lock alone.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from errno import ESTALE

from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.launch.private import opened_private
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import hidden_paths
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.state import own_directory
from pysandbox.shapes import Self, replace

TEXT = (
    b"# pysandbox made this file because a policy denies its name: a sandbox cannot create it while this is here.\n"
    b"# It is removed when the sandbox ends. If none runs, you can delete it.\n"
)
MODE = 0o400
TRIES, PAUSE = 200, 0.01  # s: each is lost to another cage that begins or ends at that moment
AT_FDCWD = -100
STEP = "deny"
HINT = "a denied name that does not exist is covered by a file of ours: create it first, or say optional = true"


class Placeholder:
    """One name, held until `release`."""

    def __init__(self, path: str, directory: int, held: int, share: _NameLock) -> None:
        self.path, self._directory, self._held, self._share = path, directory, held, share

    @classmethod
    def hold(cls, path: str) -> Self:
        """Makes it, or joins those who hold it. Raises StartError, also where something else has come to that name."""
        above, _, name = path.rpartition("/")
        directory = -1
        try:
            directory = native.open_inside(
                AT_FDCWD, above or "/", os.O_PATH | os.O_DIRECTORY, resolve=native.RESOLVE_NO_SYMLINKS
            )
            share = _NameLock.open(directory, name)
            try:
                return cls(path, directory, _hold(directory, name, share), share)
            except BaseException:
                share.give_up()
                raise
        except OSError as error:
            if directory >= 0:
                os.close(directory)
            raise StartError(STEP, error.errno or ESTALE, path, HINT) from None

    def is_there(self) -> bool:
        """Whether the name is still that of this file."""
        return _names(self._directory, os.path.basename(self.path), self._held)

    def release(self) -> None:
        """Removes it, where no other cage needs it. Idempotent."""
        held, self._held = self._held, -1
        if held < 0:
            return
        try:
            self._share.take(fcntl.LOCK_EX)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name = os.path.basename(self.path)
            if _names(self._directory, name, held) and _is_ours(held):
                os.unlink(name, dir_fd=self._directory)
        except OSError:
            pass  # somebody needs it; or the directory lets nobody remove anything any more
        finally:
            self._share.give_up()
            self.abandon(held)

    def abandon(self, held: int | None = None) -> None:
        """Closes what this has open, and leaves the file."""
        self._share.close()
        held, self._held = self._held if held is None else held, -1
        for fd in (held, self._directory):
            if fd >= 0:
                os.close(fd)
        self._directory = -1


def with_placeholders(policy: Policy, seen: PathFacts) -> PathFacts:
    """What was seen, but with each placeholder as the absence that it stands for."""
    found = {}
    for _, _, path in hidden_paths(policy, seen.cwd):
        fact = seen[path]
        if fact.kind == "file" and fact.names == 1 and _is_placeholder(fact.real):
            found[path] = replace(fact, kind="placeholder")
    return replace(seen, facts={**seen.facts, **found}) if found else seen


def _is_placeholder(real: str) -> bool:
    try:
        if stat.S_IMODE(os.lstat(real).st_mode) != MODE:
            return False
        fd = native.open_inside(AT_FDCWD, real, os.O_RDONLY | os.O_NONBLOCK, resolve=native.RESOLVE_NO_SYMLINKS)
    except OSError:
        return False
    try:
        return _is_ours(fd)
    finally:
        os.close(fd)


class _NameLock:
    """The lock of one name in one directory; `fd` -1 where this user has no state."""

    def __init__(self, above: int, name: str, fd: int) -> None:
        self._above, self._name, self.fd = above, name, fd

    @classmethod
    def open(cls, directory: int, name: str) -> Self:
        """Shared with who has it. Raises OSError where one who is about to remove the file keeps it."""
        import hashlib  # these two by who has such a name alone: this file is part of every first run

        from pysandbox.launch.own_lock import taken

        found = os.fstat(directory)
        name = f"{found.st_dev}-{found.st_ino}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"
        try:
            with opened_private(own_directory("placeholders"), make=True) as folder:
                above = os.dup(folder)
        except OSError:
            return cls(-1, name, -1)
        for _ in range(TRIES):
            fd = taken(above, name, fcntl.LOCK_SH)
            if fd >= 0:
                return cls(above, name, fd)
            time.sleep(PAUSE)
        os.close(above)
        raise OSError(ESTALE, os.strerror(ESTALE))

    def take(self, how: int) -> None:
        """Raises BlockingIOError where others have it."""
        if self.fd >= 0:
            fcntl.flock(self.fd, how | fcntl.LOCK_NB)

    def give_up(self) -> None:
        """The last one removes the file of it. Not in a forked copy, which has the very same lock. Idempotent."""
        from pysandbox.launch.own_lock import given_up

        try:
            self.take(fcntl.LOCK_EX)
        except OSError:
            pass
        else:
            if self.fd >= 0:
                given_up(self._above, self._name, self.fd)
                self.fd = -1
        self.close()

    def close(self) -> None:
        for fd in (self.fd, self._above):
            if fd >= 0:
                os.close(fd)
        self.fd = self._above = -1


def _hold(directory: int, name: str, share: _NameLock) -> int:
    """A descriptor of the file with a shared lock on it. Raises OSError."""
    for _ in range(TRIES):
        fd = _open(directory, name)
        try:
            _lock(fd, share)
            if _names(directory, name, fd) and _is_ours(fd):
                return fd
            if os.fstat(fd).st_size:
                raise OSError(ESTALE, os.strerror(ESTALE))
        except BlockingIOError:
            pass  # a cage that ends is about to remove it, or one that begins to fill it
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(PAUSE)
    raise OSError(ESTALE, os.strerror(ESTALE))


def _lock(fd: int, share: _NameLock) -> None:
    """Raises BlockingIOError, where there is no other lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        if share.fd < 0:
            raise


def _open(directory: int, name: str) -> int:
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(name, os.O_RDONLY | flags, dir_fd=directory)
    except FileNotFoundError:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, MODE, dir_fd=directory)
    try:
        with suppress(BlockingIOError):  # who has met it empty comes back
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(fd, MODE)
        os.write(fd, TEXT)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _names(directory: int, name: str, fd: int) -> bool:
    try:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    held = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _is_ours(fd: int) -> bool:
    found = os.fstat(fd)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and os.pread(fd, len(TEXT) + 1, 0) == TEXT
