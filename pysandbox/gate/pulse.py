"""Whether a process still answers: what it was asked, and what it has answered.

Patience is counted in rounds, each at most one for every `every` seconds: a host program that was stopped itself, with
its terminal or by a debugger, comes back to one round, and ends nobody for its own absence. A process that says much
and answers nothing is silent all the same.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress

from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.inspection.channel import ChannelRecord


class Pulse:
    """`fileno` is readable from the first unanswered question on, until `rest`."""

    def __init__(self, every: float, rounds: int) -> None:
        self.every, self._most = every, rounds
        self.asked = self.replied = 0
        self.owed: deque[ChannelRecord] = deque()  # what it is told with a question, once it reads again
        self._rounds, self._last = 0, 0.0
        self._wakes = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def seconds(self) -> float:
        """How long it may be silent."""
        return self.every * self._most

    @property
    def is_owed(self) -> bool:
        return self.replied < self.asked

    @property
    def is_late(self) -> bool:
        """Whether a whole round went by without an answer."""
        return self.is_owed and self._rounds > 1

    def ask(self) -> int:
        """The number of a question that is about to be put."""
        was_owed = self.is_owed
        self.asked += 1
        if not was_owed:
            self._rounds = 0
            self._wake()
        return self.asked

    def answered(self, number: int) -> None:
        """The process has answered up to this number."""
        if self.replied < number <= self.asked:
            self.replied, self._rounds = number, 0

    def asks_again(self, now: float) -> bool | None:
        """Whether a round begins, at which it is to be asked; None when it was silent for too many."""
        if now - self._last < self.every:
            return False
        self._last = now
        self._rounds += self.is_owed
        return None if self._rounds > self._most else True

    # ---- what wakes the thread that listens to it ---------------------------------------------------------------

    def fileno(self) -> int:
        return self._wakes

    def _wake(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._wakes, 1)

    def rest(self) -> None:
        with suppress(OSError):
            os.eventfd_read(self._wakes)

    def close(self) -> None:
        wakes, self._wakes = self._wakes, -1
        if wakes >= 0:
            os.close(wakes)
