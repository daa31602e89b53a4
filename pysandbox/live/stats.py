"""What a cage uses at this moment: from its cgroup where it has one, else summed over /proc.

Summed over /proc, CPU time includes what has ended and was waited for; pages that processes share are counted for each
of them; the bytes of input and output are those of the processes that still run (proc_pid_io(5)).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from pysandbox.launch.owner import stat_fields
from pysandbox.launch.proctext import field, table
from pysandbox.live import processes
from pysandbox.shapes import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from pysandbox.live.cgroup import CgroupStats
    from pysandbox.live.init import CageInit

UTIME, STIME, CUTIME, CSTIME, THREADS, RSS = 11, 12, 13, 14, 17, 21  # proc_pid_stat(5), counted from the state


@dataclass(frozen=True, slots=True)
class Stats:
    """What all processes of the cage but its init use together."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    io_bytes: int = 0  # read from and written to storage
    processes: int = 0
    threads: int = 0


def stats(live: CageInit) -> Stats:
    """Raises CageClosedError."""
    pidfd = live.pin()
    try:
        seen = of_tree(live.pid)
    finally:
        os.close(pidfd)
    return seen if live.cgroup is None else _counted(seen, live.cgroup.stats())


def _counted(seen: Stats, by_kernel: CgroupStats) -> Stats:
    """What the cgroup counts is exact, also for what has ended; the rest stays as it was seen."""
    cpu, memory, io = by_kernel.cpu_usec, by_kernel.memory, by_kernel.io_bytes
    return replace(
        seen,
        cpu_seconds=seen.cpu_seconds if cpu is None else cpu / 1e6,
        memory_bytes=seen.memory_bytes if memory is None else memory,
        io_bytes=seen.io_bytes if io is None else io,
    )


def of_tree(init: int) -> Stats:
    """The processes below cage-init; all zero when there are none, or it is gone."""
    pids = processes.descendants(init)
    every = [fields for pid in pids if (fields := stat_fields(pid)) is not None and fields[0] not in (b"Z", b"X")]
    own = stat_fields(init) or []
    ticks = sum(_sum(fields, (UTIME, STIME, CUTIME, CSTIME)) for fields in every)
    ticks += _sum(own, (CUTIME, CSTIME)) if own else 0
    return Stats(
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        memory_bytes=sum(field(fields, RSS) for fields in every) * os.sysconf("SC_PAGESIZE"),
        io_bytes=sum(map(_io, pids)),
        processes=len(every),
        threads=sum(field(fields, THREADS) for fields in every),
    )


def _sum(fields: list[bytes], wanted: Iterable[int]) -> int:
    return sum(field(fields, each) for each in wanted)


def _io(pid: int) -> int:
    """0 for a process whose numbers are not ours to read."""
    with suppress(OSError), open(f"/proc/{pid}/io", "rb") as file:
        counted = table(file.read())
        return counted.get(b"read_bytes", 0) + counted.get(b"write_bytes", 0)
    return 0
