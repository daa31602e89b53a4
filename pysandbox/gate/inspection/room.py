"""Room for the bodies of one cage that wait here to be looked at as a whole: all that one needs is taken at once, and
waited for in order, so that bodies which are all half here never wait for each other. Small ones need none, as long as
those of the cage are not many: each stream of a connection in HTTP/2 has one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST = 64 << 20  # bytes of one cage
FREE = 1 << 16  # bytes of a body that needs none
SPARED = 16 << 20  # and of all such bodies of a cage


class Room:
    def __init__(self, most: int = MOST) -> None:
        self._most = self._left = most
        self._taken: dict[object, int] = {}
        self._spared: dict[object, int] = {}  # what small bodies have here
        self._all_spared = 0
        self._queue: deque[tuple[object, int, Callable[[], object]]] = deque()

    def ask(self, whose: object, size: int, goes_on: Callable[[], object]) -> None:
        """Takes so much, or all that there is, now or later; then, and only if it is later, `goes_on` is called."""
        size = min(size, self._most)
        if not self._queue and size <= self._left:
            self._take(whose, size)
        else:
            self._queue.append((whose, size, goes_on))

    def keeps(self, whose: object, size: int) -> None:
        """How much a body keeps, until it says otherwise or leaves. One that has taken room keeps it in that, which is
        counted in `_left`, and so nothing among the spared."""
        size = 0 if whose in self._taken else size
        self._all_spared += size - self._spared.get(whose, 0)
        self._spared[whose] = size

    def spares(self, size: int) -> bool:
        """Whether a body that keeps so much needs no room to go on."""
        return size < FREE and self._all_spared <= SPARED

    def has(self, whose: object) -> bool:
        return whose in self._taken

    def leave(self, whose: object) -> None:
        """Idempotent; also while it waits."""
        self._all_spared -= self._spared.pop(whose, 0)
        self._left += self._taken.pop(whose, 0)
        if any(each[0] is whose for each in self._queue):
            self._queue = deque(each for each in self._queue if each[0] is not whose)
        while self._queue and self._queue[0][1] <= self._left:
            waiting, size, goes_on = self._queue.popleft()
            self._take(waiting, size)
            goes_on()

    def _take(self, whose: object, size: int) -> None:
        self._left -= size
        self._taken[whose] = size
