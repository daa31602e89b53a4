"""What the processes of a cage have written to storage, as the kernel counts it for each (/proc/PID/io).

Not every process can be asked at every moment. One that ends says nothing any more until it is reaped, and writes
nothing; a command that has not got to its execve shares cage-init's memory, which nobody may look into. Whoever cannot
be asked and is neither of these may be writing: some of that is chance (an execve, threads that end one by one), and
more of it is an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from pysandbox.launch.proctext import after_name, field, read_below, table

FLAGS, THREADS = 6, 17  # of /proc/PID/stat, counted from the state
PF_EXITING, PF_FORKNOEXEC = 0x4, 0x40  # <linux/sched.h>
HIDDEN_MOST, FORGIVEN = 5, 0.01  # sightings of processes that cannot be asked, and how many are forgotten at each look
LONGEST_START = 5.0  # seconds until a command that starts counts as hidden
LONGEST_END = 0.5  # seconds that the threads of a process may outlive its first


class Counters:
    """Of one cage. `proc` is an open /proc, not ours to close."""

    def __init__(self, proc: int, init: str) -> None:
        self._proc, self._init = proc, init
        self._hidden = 0.0
        self._since: dict[str, float] = {}  # when each was first seen that could not be asked, and need not yet

    def look(self, pids: Iterable[str]) -> dict[str, int | None]:
        """Bytes; None of who cannot say. Raises PermissionError."""
        found, hidden, since = {}, 0, self._since
        self._since = {}
        for pid in pids:
            found[pid] = self._counted(pid)
            hidden += found[pid] is None and not self._is_excused(pid, since)
        self._hidden = max(0.0, self._hidden + hidden - FORGIVEN)
        if self._hidden > HIDDEN_MOST:
            raise PermissionError("a process of the cage does not show what it writes")
        return found

    def _counted(self, pid: str) -> int | None:
        text = read_below(self._proc, f"{pid}/io")  # empty where it ended, or without CONFIG_TASK_IO_ACCOUNTING
        return table(text).get(b"write_bytes", 0) if text else None

    def _is_excused(self, pid: str, since: dict[str, float]) -> bool:
        fields = after_name(self._text(f"{pid}/stat"))
        flags, threads = field(fields, FLAGS), field(fields, THREADS)
        if not fields or (flags & PF_EXITING and threads < 2):
            return True
        if flags & PF_EXITING:
            return self._lasts(pid, since) < LONGEST_END
        return bool(flags & PF_FORKNOEXEC) and self._shares_init(pid) and self._lasts(pid, since) < LONGEST_START

    def _shares_init(self, pid: str) -> bool:
        """Whether its memory has cage-init's size, and no other process looks like that yet."""
        size, own = (field(self._text(f"{name}/statm").split(), 0) for name in (pid, self._init))
        return size == own and not self._since

    def _lasts(self, pid: str, since: dict[str, float]) -> float:
        now = time.monotonic()
        self._since[pid] = since.get(pid, now)
        return now - self._since[pid]

    def _text(self, path: str) -> bytes:
        return read_below(self._proc, path) or b""
