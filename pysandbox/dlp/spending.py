"""How many opaque bytes one destination was sent in one session: a budget, of which only what is new there is taken.

What is seen again, as the history of a chat is with each of its requests, is told by its pieces of 64 bytes. Digests
and UUIDs have a budget of their own, EIGHT times as large: a client signs each of its requests with one. Pure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from pysandbox.dlp.opaque import Stretch

PIECE = 64
EIGHT = 8
MOST_SEEN = 1 << 15  # pieces that are remembered; what comes later is taken again each time it is sent


class Spending:
    """`spent` are bytes of what is no name, `taken` of all. `is_told` is its user's."""

    def __init__(self, most: int, *, names_alone: bool = False) -> None:
        """`names_alone`: of all else nothing."""
        self.most, self.spent = 0 if names_alone else most, 0
        self._most_named = EIGHT * most
        self.is_told = False  # that half of it is used
        self._named = 0
        self._seen: set[int] = set()

    @property
    def taken(self) -> int:
        return self.spent + self._named

    def take(self, said: Iterable[Stretch]) -> bool:
        """Takes what is new of all of it; nothing, and says no, where that is more than is left."""
        steps = self.steps(said)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                return bool(ended.value)

    def steps(self, said: Iterable[Stretch]) -> Generator[int, None, bool]:
        """As `take`, and stops after each stretch to say of how many bytes it was. What others have taken meanwhile is
        gone; so of two that fit one by one, only the first to end may."""
        new: set[int] = set()
        spent = named = 0
        for stretch in said:
            size = self._unseen(stretch.said, new)
            if stretch.is_named:
                named += size
            else:
                spent += size
            if not self._has(spent, named):
                return False
            yield len(stretch.said)
        if not self._has(spent, named):
            return False
        self.spent, self._named = self.spent + spent, self._named + named
        if len(self._seen) + len(new) <= MOST_SEEN:
            self._seen |= new
        return True

    def _has(self, spent: int, named: int) -> bool:
        return self.spent + spent <= self.most and self._named + named <= self._most_named

    def _unseen(self, said: bytes, new: set[int]) -> int:
        """Bytes of the pieces that were not here before; adds these to `new`. A hash has the key of its process."""
        size = 0
        for at in range(0, len(said), PIECE):
            piece = said[at : at + PIECE]
            if (known := hash(piece)) not in self._seen and known not in new:
                size += len(piece)
                if len(new) < MOST_SEEN:
                    new.add(known)
        return size
