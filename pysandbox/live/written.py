"""How many bytes a cage has written to storage, from what its processes' counters say at each look. Pure.

The counter of a process (`write_bytes` of /proc/PID/io) has what it wrote, and what those wrote that it waited for;
cage-init tells the same of all that it has reaped. So when a process goes, what it had written shows in another's
counter. Where it does not, nobody has waited: then at least what was seen of it is not forgotten. What such processes
wrote unseen is many times that, so there may be little of it before the cage's writes count as uncountable.
"""

from __future__ import annotations

from collections.abc import Mapping

MIB = 1 << 20
LOOKS = 4  # with news from cage-init, after which nobody will tell any more of one that has ended
UNSEEN = 64  # times what was seen of it may have been written by what nobody waits for


def most_lost(limit: int) -> int:
    """Bytes that may be seen to get lost."""
    return max(MIB, limit // UNSEEN)


class Written:
    """One cage's account."""

    def __init__(self) -> None:
        self.lost = 0
        self._total = 0
        self._reaped = 0
        self._each: Mapping[str, int] = {}
        self._owed: list[tuple[int, int]] = []  # (bytes of those that went, looks since): somebody is to tell of them

    def account(self, seen: Mapping[str, int | None], reaped: int | None) -> int:
        """All that was written until now. `seen`: by the processes that live, None of one that could not say;
        `reaped`: by those that cage-init has reaped, None when it has said nothing new."""
        each = {pid: self._each.get(pid, 0) if wrote is None else wrote for pid, wrote in seen.items()}
        before, news = self._each, max(0, (reaped or 0) - self._reaped)
        told = news + sum(max(0, wrote - before[pid]) for pid, wrote in each.items() if pid in before)
        went = sum(wrote for pid, wrote in before.items() if pid not in each)
        self._book(told, went, was_reaped=reaped is not None)
        self._each, self._reaped = each, self._reaped + news
        self._total = max(self._total, sum(each.values()) + self._reaped + self.lost)
        return self._total

    def _book(self, told: int, went: int, *, was_reaped: bool) -> None:
        """Whoever stayed and has more than before may have been told of those that went; else nobody was."""
        owed = [*self._owed, (went, 0)] if went else self._owed
        self._owed = []
        for amount, looks in owed:
            rest = max(0, amount - told)
            told -= amount - rest
            if rest and looks + was_reaped > LOOKS:
                self.lost += rest
            elif rest:
                self._owed.append((rest, looks + was_reaped))
