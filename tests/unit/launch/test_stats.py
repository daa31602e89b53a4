"""launch/stats.py: what a cgroup counts is taken from it, what it does not count is summed."""

from __future__ import annotations

from dataclasses import dataclass

from pysandbox.live.stats import Stats, _counted


@dataclass(frozen=True)
class Counted:
    memory: int | None = None
    cpu_usec: int | None = None
    io_bytes: int | None = None


SEEN = Stats(cpu_seconds=1.0, memory_bytes=100, io_bytes=10, processes=2, threads=3)


def test_a_cgroup_without_controllers_changes_nothing() -> None:
    assert _counted(SEEN, Counted()) == SEEN


def test_each_counter_of_a_cgroup_is_preferred() -> None:
    assert _counted(SEEN, Counted(0, 2_500_000, 7)) == Stats(2.5, 0, 7, 2, 3)
