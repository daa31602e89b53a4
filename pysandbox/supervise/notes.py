"""What the C half tells of calls that nobody waits for any more, in the order in which they were made.

They come by any follower. Each has a number, without gaps; whoever brings the next one carries it out, and then those
that were there too early. So a ledger that is written from here is in order, and `settle` can tell when everything that
was told before it is in there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

Note = Callable[[], None]

PATIENCE = 2.0  # seconds that `settle` waits for a sink of the user's that does not come back


class Notes:
    """`complain` is told what a note raised; it raises nothing itself."""

    def __init__(self, complain: Callable[[BaseException], None]) -> None:
        self._complain = complain
        self._changed = threading.Condition()
        self._early: dict[int, Note] = {}
        self._done = 0  # the number of the last one that was carried out
        self._writer: int | None = None  # the thread that carries them out

    def bring(self, number: int, note: Note) -> None:
        with self._changed:
            self._early[number] = note
            if self._writer is not None:
                return
            self._writer = threading.get_ident()
        while (following := self._following()) is not None:
            try:
                following()
            except BaseException as error:  # of the user's sink; the next ones are written all the same
                self._complain(error)

    def _following(self) -> Note | None:
        """The next one; what was returned before has been carried out."""
        with self._changed:
            if self._done + 1 in self._early:
                self._done += 1
                return self._early.pop(self._done)
            self._writer = None
            self._changed.notify_all()
            return None

    def settle(self, number: int) -> None:
        """Waits until all up to `number` are carried out; not in a note itself, and not longer than PATIENCE."""
        with self._changed:
            if self._writer == threading.get_ident():
                return
            self._changed.wait_for(lambda: self._has_settled(number), PATIENCE)

    def _has_settled(self, number: int) -> bool:
        return self._done > number or (self._done == number and self._writer is None)
