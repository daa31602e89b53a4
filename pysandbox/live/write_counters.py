"""What the processes of a cage have written to storage, as the kernel counts it for each (/proc/PID/io)."""

from __future__ import annotations

from collections.abc import Sequence

from pysandbox.launch.proctext import after_name, field, names_below, read_below, table
from pysandbox.live.unreadable import Unreadable
from pysandbox.live.written import Wrote

PARENT = 1  # of /proc/PID/stat, counted from the state


class Counters:
    """What the processes of one cage have written. `proc` is an open /proc; the caller closes it."""

    def __init__(self, proc: int, unreadable: Unreadable) -> None:
        self._proc, self._unreadable = proc, unreadable
        self._parents: dict[str, str] = {}  # of each that lives, as it was first seen
        self._heads: set[str] = set()  # that are or were somebody's parent, and live

    def look(self, pids: Sequence[str]) -> dict[str, Wrote]:
        """What each has that lives. A parent is read before its children, so nothing is counted at both; one that ends
        in between shows at its parent at the next look. Raises PermissionError."""
        found = {}
        self._know(pids)
        self._unreadable.begin()
        for pid in self._from_above(pids):
            wrote = self._counted(pid)
            if wrote.total is None:
                self._unreadable.saw(pid)
            if wrote.total is not None or self._lives(pid):
                found[pid] = wrote
        self._unreadable.check("does not show what it writes")
        return found

    def _know(self, pids: Sequence[str]) -> None:
        known = self._parents
        self._parents = {pid: known[pid] if pid in known else self._parent_of(pid) for pid in pids}
        self._heads = {*self._heads, *self._parents.values()} & self._parents.keys()

    def _from_above(self, pids: Sequence[str]) -> dict[str, None]:
        """Each behind its parent. Numbers do not say who came first: they begin again."""
        order = dict[str, None]()
        for pid in pids:
            line = dict[str, None]()
            while pid in self._parents and pid not in order and pid not in line:
                line[pid] = None
                pid = self._parents[pid]
            order.update(dict.fromkeys(reversed(line)))
        return order

    def _lives(self, pid: str) -> bool:
        return read_below(self._proc, f"{pid}/stat") != b""

    def _parent_of(self, pid: str) -> str:
        return str(field(after_name(read_below(self._proc, f"{pid}/stat") or b""), PARENT))

    def _counted(self, pid: str) -> Wrote:
        total, threads = self._bytes(pid), dict[str, int]()
        if pid in self._heads:
            for each in names_below(self._proc, f"{pid}/task") or ():
                threads[each] = self._bytes(f"{pid}/task/{each}") or 0
        return Wrote(total, self._parents[pid], threads)

    def _bytes(self, place: str) -> int | None:
        text = read_below(self._proc, f"{place}/io")  # empty where it ended, or without CONFIG_TASK_IO_ACCOUNTING
        return table(text).get(b"write_bytes", 0) if text else None
