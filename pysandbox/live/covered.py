"""What a cage covers inside its grants, for as long as it lives: whether that is still covered.

The kernel takes a mount away when the name that it lies on is removed on the host, or another file is renamed over it
(mount_namespaces(7)), and the cage then sees what comes next under that name. The device and inode of the new file
prove nothing: a file system gives the number of the removed one to the next that is made. So it is the mounts that are
asked for, again only when the kernel says that the cage's table of them has changed, which no process in a cage can
bring about by itself. Each path says by itself whether something is mounted on it (statx(2)); where one does not, the
table is read, which costs ten times as much and says which is lost. Any thread may ask.
"""

from __future__ import annotations

import errno
import os
import select
from _thread import allocate_lock  # threading's Lock, without its imports
from collections.abc import Collection
from functools import lru_cache

from pysandbox._native import lib
from pysandbox.errors import StartError
from pysandbox.greenlets import patched_by
from pysandbox.launch.proctext import lines
from pysandbox.live.services import CageService
from pysandbox.probe.mounted import unescaped

STEP = "covered_paths"
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
ALL_OF_IT = 1 << 22  # bytes: more than a table of the most mounts that a namespace may have by default


class CoveredPaths(CageService):
    """`pid`: of a process in the cage, whose mounts are made. `paths`: by the names that they have in it. The table is
    opened when it is first asked: most cages run one command at once, and nobody asks."""

    def __init__(self, pid: int, paths: Collection[str]) -> None:
        self._pid = pid
        self._paths, self._listed = _spelled(frozenset(paths))
        self._holds, self._lost = True, ""
        self._fd = -1
        self._changes: select.poll | None = None
        self._lock = allocate_lock()  # a poll object serves one thread at a time

    @property
    def covers(self) -> bool:
        with self._lock:
            if not self._holds:
                return False
            # what was lost before the table was opened is no change of it
            asked = self._fd < 0 or self._changes is None or self._changes.poll(0)
            if asked and (lost := self._uncovered_now()):
                self._holds, self._lost = False, os.fsdecode(min(lost))
            return self._holds

    def _open(self) -> None:
        """Raises OSError."""
        self._fd = os.open(f"/proc/{self._pid}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._changes = None if patched_by() else select.poll()  # another's poll may know nothing of POLLPRI
        if self._changes is not None:
            self._changes.register(self._fd, select.POLLPRI)

    @property
    def uncovered(self) -> str:
        return self._lost

    def _uncovered_now(self) -> frozenset[bytes]:
        """All of it where the table cannot be read: the cage is ending. Raises StartError where this process is short
        of something; the whole is looked at the next time then, for the table tells of a change only once."""
        try:
            if self._fd < 0:
                self._open()  # first: what is lost from now on is told
            if lib.psb_all_mounted(self._pid, self._listed):
                return frozenset()
            text = self._read()
        except (OSError, MemoryError) as error:
            self._close()
            number = error.errno or 0 if isinstance(error, OSError) else errno.ENOMEM
            if number in SHORTAGES:
                raise StartError(STEP, number, getattr(error, "filename", None), "try again") from None
            return self._paths
        except BaseException:  # Ctrl-C
            self._close()
            raise
        rows = [line.split(b" ", 5) for line in lines(text)]
        points = [row[4] for row in rows if len(row) == 6]
        return self._paths.difference(points if b"\\" not in text else map(unescaped, points))

    def _read(self) -> bytes:
        text = b""
        while part := os.pread(self._fd, ALL_OF_IT, len(text)):
            text += part
        return text

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def let_go(self) -> None:
        """An open table keeps its namespace, and whoever lets go of that last takes all its mounts down: a fifth of a
        millisecond, which is for the cage's last process."""
        with self._lock:
            self._close()

    def end(self) -> None:
        self._holds = False
        self.let_go()

    def after_fork_in_child(self) -> None:
        self._lock = allocate_lock()  # another thread may have held it
        self.end()


@lru_cache(maxsize=64)
def _spelled(paths: frozenset[str]) -> tuple[frozenset[bytes], bytes]:
    """As the kernel has them, and one after the other for C. All cages of a plan cover the same."""
    spelled = frozenset(map(os.fsencode, paths))
    return spelled, b"".join([path + b"\0" for path in spelled]) + b"\0"
