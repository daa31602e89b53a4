"""The C half's reports of calls that are answered already, carried out in the order in which the calls were made.

Any follower may receive one. They are numbered without gaps; the thread that brings the next number carries it out, and
then those that arrived too early. So a ledger that is written from here is in order, and `wait_idle` knows when every
earlier report is in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

Note = Callable[[], None]

PATIENCE = 2.0  # seconds that `wait_idle` waits for a sink of the user's that does not return


class Notes:
    """The reports of one cage. `complain` is called with what carrying one out raised; it raises nothing itself."""

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
        """The next report, if it is there; the one that was returned before has been carried out."""
        with self._changed:
            if self._done + 1 in self._early:
                self._done += 1
                return self._early.pop(self._done)
            self._writer = None
            self._changed.notify_all()
            return None

    def wait_idle(self, number: int) -> None:
        """Waits until all up to `number` are carried out; not in a note itself, and not longer than PATIENCE."""
        with self._changed:
            if self._writer == threading.get_ident():
                return
            self._changed.wait_for(lambda: self._has_settled(number), PATIENCE)

    def _has_settled(self, number: int) -> bool:
        return self._done > number or (self._done == number and self._writer is None)
