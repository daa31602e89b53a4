"""One open stream on disk: takes its turn among all writers, appends whole records, rotates, syncs.

Writers may be many processes. Whoever holds the lock on the head file reads there what the last record was, appends
one and writes the head anew, so that all share one chain. Where the head does not fit the file, a writer died or the
file was shortened: what is there decides, and a record says so (audit.resumed).
"""

from __future__ import annotations

import errno
import fcntl
import os
from _thread import allocate_lock  # threading's Lock, without its imports

from pysandbox.audit import files
from pysandbox.audit.chain import START, Link, link_of, seal
from pysandbox.errors import AuditError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROTATED, RESUMED = "audit.rotated", "audit.resumed"  # as in events.py, which is too much to import here
ELSEWHERE = "choose another place with PYSANDBOX_AUDIT or AuditLog(path)"
ROOM = f"free some space, or {ELSEWHERE}"
ADVICE = {errno.ENOSPC: ROOM, errno.EDQUOT: ROOM, errno.EFBIG: "raise the limit on the size of files (ulimit -f)"}


class AuditStream:
    """Not for use by several threads at once, but for `sync`; AuditLog sees to that."""

    def __init__(self, path: str, rotate_bytes: int, clock: Callable[[], str]) -> None:
        self.path = path
        self.directory = os.path.dirname(path)
        self._rotate_bytes = rotate_bytes
        self._clock = clock
        self._pid = os.getpid()
        self._file = self._head = -1
        self._appended = self._synced = 0  # records of ours
        self._syncing = allocate_lock()
        files.make_directory(self.directory)
        self._open()

    def close(self) -> None:
        for fd in (self._file, self._head):
            if fd >= 0:
                os.close(fd)
        self._file = self._head = -1

    # ---- appending ----------------------------------------------------------------------------------------------

    def append(self, type: str, data: Mapping[str, object]) -> int:
        """Appends one record; its position for `sync`. Raises AuditError, and then nothing of it is in the stream."""
        if self._file < 0:
            raise AuditError("is closed", None, self.path, "make another AuditLog")
        if self._pid != os.getpid():  # a forked copy shares the descriptors, and with them the lock
            self._after_fork()
        try:
            fcntl.flock(self._head, fcntl.LOCK_EX)
            try:
                self._append(type, data)
            finally:
                fcntl.flock(self._head, fcntl.LOCK_UN)
        except OSError as error:
            if isinstance(error, AuditError):
                raise
            raise _failed("cannot be written", error, self.path) from None
        self._appended += 1
        return self._appended

    def _append(self, type: str, data: Mapping[str, object]) -> None:
        self._follow()
        last, size = self._position()
        line, link = seal(last, self._clock(), self._pid, type, data)
        if size and size + len(line) > self._rotate_bytes:
            last, size = self._rotate(last)
            line, link = seal(last, self._clock(), self._pid, type, data)
        self._write(line, link, size)

    def _write(self, line: bytes, link: Link, size: int) -> int:
        written = os.write(self._file, line)
        if written != len(line):
            os.ftruncate(self._file, size)
            raise AuditError("has no room for a record", None, self.path, ROOM)
        os.pwrite(self._head, files.head_text(link, size + written), 0)
        return size + written

    def _position(self) -> tuple[Link, int]:
        """What the next record follows, and the size of the file."""
        head = files.read_head(os.pread(self._head, files.HEAD_SIZE + 1, 0))
        size = os.fstat(self._file).st_size
        if head is not None and head[1] == size:
            return head
        if head is None and size == 0 and not files.all_files(self.path)[:-1]:
            return START, 0
        return self._resume(head[0] if head else None, size)

    def _resume(self, promised: Link | None, size: int) -> tuple[Link, int]:
        """The head does not fit: goes on after the last whole record, and says what was found instead."""
        found, torn = last_record(self.path)
        lost = max(0, promised.seq - found.seq) if promised else 0
        if not torn and not lost:
            return found, size  # the writer died between the record and the head
        if torn:
            size += os.write(self._file, b"\n")
        after = Link(found.seq + lost, found.hash)
        line, link = seal(after, self._clock(), self._pid, RESUMED, {"torn_bytes": torn, "lost": lost})
        return link, self._write(line, link, size)

    # ---- files --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        flags = os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for its reader
        try:
            self._head = os.open(files.head_path(self.path), flags | os.O_RDWR, 0o600)
            self._file = os.open(self.path, flags | os.O_WRONLY | os.O_APPEND, 0o600)
            files.require_file(os.fstat(self._head), files.head_path(self.path))
            files.require_file(os.fstat(self._file), self.path)
        except AuditError:
            self.close()
            raise
        except OSError as error:
            self.close()
            self._require_file()
            raise _failed("cannot be opened", error, self.path) from None

    def _require_file(self) -> None:
        """Raises AuditError where it is there, and is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return
        files.require_file(found, self.path)

    def _follow(self) -> None:
        """Another writer may have rotated since; with the lock held, nobody does so now."""
        ours = os.fstat(self._file)
        try:
            named = os.stat(self.path, follow_symlinks=False)
            if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
                return
        except FileNotFoundError:
            pass
        self._renew()

    def _renew(self) -> None:
        flags = os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_WRONLY | os.O_APPEND
        fresh = os.open(self.path, flags, 0o600)
        os.dup2(fresh, self._file, inheritable=False)  # one number for its whole life: another thread may sync it
        os.close(fresh)

    def _rotate(self, last: Link) -> tuple[Link, int]:
        full = files.full_path(self.path, last)
        if os.path.lexists(full):
            raise AuditError("exists already", None, full, "move it away: the stream is full and needs that name")
        os.fdatasync(self._file)
        os.rename(self.path, full)
        self._renew()
        line, link = seal(last, self._clock(), self._pid, ROTATED, {"before": os.path.basename(full)})
        return link, self._write(line, link, 0)

    def _after_fork(self) -> None:
        self._pid = os.getpid()
        self._syncing = allocate_lock()
        self.close()
        self._open()

    # ---- to the disk --------------------------------------------------------------------------------------------

    def sync(self, position: int) -> None:
        """Returns when the record of that position, and all before it, are on the disk. Threads that wait share one
        fdatasync(2). Raises AuditError."""
        with self._syncing:
            if self._synced >= position:
                return
            covers = self._appended
            try:
                os.fdatasync(self._file)
            except OSError as error:
                raise _failed("cannot be brought to the disk", error, self.path) from None
            self._synced = covers


def last_record(path: str) -> tuple[Link, int]:
    """The last whole record of a stream and how many bytes of its current file follow it."""
    after = -1
    for file in reversed(files.all_files(path)):
        with files.open_stream(file) as stream:
            lines = stream.read().split(b"\n")
        for line in reversed(lines):
            found = link_of(line)
            if found is not None:
                return found, max(after, 0)
            if file == path:
                after += len(line) + 1
    return START, max(after, 0)


def _failed(what: str, error: OSError, path: str) -> AuditError:
    return AuditError(what, error.errno, path, ADVICE.get(error.errno or 0, ELSEWHERE))
