"""What the processes of a cage have written to storage, as the kernel counts it for each (/proc/PID/io)."""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.launch.proctext import read_below, table
from pysandbox.launch.unreadable import Unreadable


class Counters:
    """Of one cage. `proc` is an open /proc, not ours to close."""

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
        self._unreadable.demand("does not show what it writes")
        return found

    def _counted(self, pid: str) -> int | None:
        text = read_below(self._proc, f"{pid}/io")  # empty where it ended, or without CONFIG_TASK_IO_ACCOUNTING
        return table(text).get(b"write_bytes", 0) if text else None
