"""The CPU time of children that nobody waits for, estimated: the kernel adds it to no parent's when they end.

A process that ignores SIGCHLD can have any number of short children whose time is in no count. What can be seen is that
at each look one of them runs that was not there before. So each of those stands for the time since the last look, by
the part of it for which whoever wants a CPU has one, less what the parents that do wait have been told. Over seconds
that is the time that got lost; what is owed is booked in steps of SURE seconds, so that chance evens out before. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.shapes import NamedTuple

SURE = 0.2  # CPU seconds
DOUBT = 1.5  # an estimate this much over what parents were told is no sign yet


class Used(NamedTuple):
    """CPU seconds of one process: its own, its waited-for children's, and whether it runs now."""

    own: float
    waited: float
    runs: bool


Seen = Mapping[str, Used]


def newcomers(before: Seen, now: Seen) -> list[str]:
    """The processes that run and were not there at the last look."""
    return [pid for pid, used in now.items() if used.runs and pid not in before]


def explain_unwaited(before: Seen, now: Seen) -> float:
    """What parents have learned since of children that came and went between two looks."""
    stayed = sum(used.waited - (before[pid].waited if pid in before else 0.0) for pid, used in now.items())
    known = sum(used.own + used.waited for pid, used in before.items() if pid not in now)
    return max(0.0, stayed - known)


def share(runnable: int, processors: int) -> float:
    """For what part of the time one of so many has a CPU; the watchdog, who asks, is one of them."""
    return min(1.0, processors / max(1, runnable - 1))


class Unwaited:
    """One cage's account."""

    def __init__(self) -> None:
        self._surplus = 0.0

    def owed(self, seen_running: float, told: float) -> float:
        """CPU seconds to be booked now, having seen newcomers run for that many."""
        self._surplus = max(self._surplus + seen_running - DOUBT * told, -SURE)
        if self._surplus <= SURE:
            return 0.0
        owed, self._surplus = self._surplus, 0.0
        return owed
