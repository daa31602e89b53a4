"""How many bytes a cage has written to storage, from what its processes' counters say at each look. Pure.

The counter of a process (`write_bytes` of /proc/PID/io) has what it wrote, and what those wrote that it waited for;
cage-init tells the same of all that it has reaped. So when a process goes, what it had written shows in another's
counter: in that of one above it, and nowhere else. Where it does not, nobody has waited: then at least what was seen of
it is not forgotten. What such processes wrote unseen is many times that, so there may be little of it before the cage's
writes count as uncountable.

A sibling that writes as much as the one that went was not told of it, and neither was a parent whose own threads wrote
that: what each of them wrote is counted besides (`Wrote.threads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pysandbox.shapes import NamedTuple

MIB = 1 << 20
LOOKS = 4  # with news from cage-init, after which nobody will tell any more of one that has ended
UNSEEN = 64  # times what was seen of it may have been written by what nobody waits for


class Wrote(NamedTuple):
    """Bytes of one process, its waited-for children's among them, None where it could not say. `threads`: those of each
    thread that lives, for a process that is a parent, else {}."""

    total: int | None
    parent: str
    threads: Mapping[str, int]

    @property
    def least(self) -> int:
        return self.total or 0


class Debt(NamedTuple):
    """Bytes of a process that went, of which somebody `above` it is to tell, or cage-init. `is_new`: those above were
    looked at before it went. `looks`: that it is open."""

    amount: int
    parent: str
    above: frozenset[str]
    is_new: bool
    looks: int


def most_lost(limit: int) -> int:
    """Bytes that may be seen to get lost."""
    return max(MIB, limit // UNSEEN)


def _own(before: Wrote, now: Wrote) -> int:
    """What its living threads have added."""
    return sum(max(0, wrote - before.threads.get(each, 0)) for each, wrote in now.threads.items())


class Written:
    """One cage's account."""

    def __init__(self) -> None:
        self.lost = 0
        self._total = 0
        self._reaped = 0
        self._each: Mapping[str, Wrote] = {}
        self._above: dict[str, frozenset[str]] = {}  # of each that lives: its parent, and all above that one
        self._owed: list[Debt] = []

    def account(self, seen: Mapping[str, Wrote], reaped: int | None) -> int:
        """All that was written until now. `seen`: by the processes that live; `reaped`: by those that cage-init has
        reaped, None when it has said nothing new."""
        each = {pid: self._each.get(pid, wrote) if wrote.total is None else wrote for pid, wrote in seen.items()}
        before, news = self._each, max(0, (reaped or 0) - self._reaped)
        stayed = {pid: (wrote, before[pid]) for pid, wrote in seen.items() if pid in before and wrote.total is not None}
        own = {pid: _own(old, wrote) for pid, (wrote, old) in stayed.items()}
        told = {pid: max(0, wrote.least - old.least - own[pid]) for pid, (wrote, old) in stayed.items()}
        silent = {pid for pid, wrote in own.items() if not wrote}
        went = [
            Debt(wrote.least, wrote.parent, self._above[pid], is_new=True, looks=0)
            for pid, wrote in before.items()
            if pid not in each
        ]
        self._pay(told, news, went)
        self._forget(silent, was_reaped=reaped is not None)
        self._above = self._lineage(each)
        self._each, self._reaped = each, self._reaped + news
        self._total = max(self._total, sum(wrote.least for wrote in each.values()) + self._reaped + self.lost)
        return self._total

    def _lineage(self, each: Mapping[str, Wrote]) -> dict[str, frozenset[str]]:
        """As it was first seen: whom a process is given to later is above it already, or cage-init."""
        above = {pid: self._above[pid] for pid in each if pid in self._above}
        for pid in each:
            new = [pid]
            while new[-1] in each and new[-1] not in above and new[-1] not in new[:-1]:
                new.append(each[new[-1]].parent)
            for parent, below in pairwise(reversed(new)):
                above[below] = above.get(parent, frozenset()) | {parent}
        return above

    def _pay(self, told: dict[str, int], news: int, went: list[Debt]) -> None:
        """Whoever has more than before may have been told of those below that went."""
        owed, self._owed = [*self._owed, *went], []
        payers = {pid for pid, grown in told.items() if grown}
        for debt in owed:
            rest = debt.amount
            for pid in debt.above & payers:
                paid = min(rest, told[pid])
                told[pid], rest = told[pid] - paid, rest - paid
            paid = min(rest, news)
            news, rest = news - paid, rest - paid
            if rest:
                self._owed.append(debt._replace(amount=rest))

    def _forget(self, silent: set[str], *, was_reaped: bool) -> None:
        """Nobody will tell of these any more. A parent has been told before the last sign of its child is gone: what it
        does not say at the next look, it never will. Where it has gone as well, or has written itself, that takes
        longer."""
        owed, self._owed = self._owed, []
        for debt in owed:
            looks = debt.looks + was_reaped
            if looks > LOOKS or (debt.parent in silent and not debt.is_new):
                self.lost += debt.amount
            else:
                self._owed.append(debt._replace(is_new=False, looks=looks))
