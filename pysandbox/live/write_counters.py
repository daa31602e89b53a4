"""What the processes of a cage have written to storage, as the kernel counts it for each (/proc/PID/io)."""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.launch.proctext import read_below, table
from pysandbox.live.unreadable import Unreadable


class Counters:
    """What the processes of one cage have written, by /proc/PID/io. `proc` is an open /proc; the caller closes it."""

    def __init__(self, proc: int, unreadable: Unreadable) -> None:
        self._proc, self._unreadable = proc, unreadable

    def look(self, pids: Iterable[str]) -> dict[str, int | None]:
        """Bytes; None of who cannot say. Raises PermissionError."""
        found = {}
        self._unreadable.begin()
        for pid in pids:
            found[pid] = self._counted(pid)
            if found[pid] is None:
                self._unreadable.saw(pid)
        self._unreadable.check("does not show what it writes")
        return found

    def _counted(self, pid: str) -> int | None:
        text = read_below(self._proc, f"{pid}/io")  # empty where it ended, or without CONFIG_TASK_IO_ACCOUNTING
        return table(text).get(b"write_bytes", 0) if text else None
