"""A cage's share of the gatekeeper's loop, which serves all cages.

Whatever is done because a cage, or somebody that it speaks to, has said something is a turn: one read, one event of a
conversation, a few datagrams, one accept. A cage has TURNS of them, and SLICE of time, in each round of the loop; what
is more waits in a queue of the cage's own. So five hundred connections of one cage hold up one of another cage no
longer than a single one that never runs dry does: for a round.

A task that reads without taking a turn reads for as long as there is something to read: `sock_recv` and its kind return
without giving way while the socket has more. tests/meta looks for such readers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

TURNS = 8  # of one cage in one round
FREE = 4  # of them for which no end of the round is waited for: it would be one more round of the loop
WOKEN = 4  # of those who wait, in one round
SLICE = 0.001  # seconds of a round, after which a cage waits for the next one


class LoopTurns:
    """The turns of one cage in each round of the event loop. Used by the loop's thread alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loop, self._clock = loop, clock
        self._left, self._until = TURNS, -1.0
        self._is_round = False  # its end is on its way
        self._waiting: deque[Callable[[], object]] = deque()

    def now(self) -> bool:
        """Takes a turn at once if there is one and nobody waits; whether it did."""
        if self._waiting:
            return False
        now = self._clock()
        if not self._is_round:
            if now > self._until:
                self._begin()
            elif self._left <= TURNS - FREE:
                self._end_later()
        elif self._left <= 0 or now > self._until:
            return False
        self._left -= 1
        return True

    async def take(self) -> None:
        """Waits for a turn and takes it."""
        if not self.now():
            turn: asyncio.Future[None] = self._loop.create_future()
            self.later(partial(_give, turn))
            await turn

    def later(self, work: Callable[[], object]) -> None:
        """Calls `work` when its turn comes."""
        self._waiting.append(work)
        if not self._is_round:
            self._begin()

    def _begin(self) -> None:
        self._left, self._until = TURNS, self._clock() + SLICE
        self._end_later()

    def _end_later(self) -> None:
        self._is_round = True
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._is_round = False
        self._left, self._until = TURNS, self._clock() + SLICE
        if not self._waiting:
            return
        self._begin()
        for _ in range(min(WOKEN, len(self._waiting))):
            self._left -= 1
            self._waiting.popleft()()


def _give(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
