"""Room for the bodies of one cage that wait here to be looked at as a whole: all that one needs is taken at once, and
waited for in order, so that bodies which are all half here never wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST = 64 << 20  # bytes of one cage
FREE = 1 << 16  # bytes of a body that needs none: a cage has so many of its connections at most


class Room:
    def __init__(self, most: int = MOST) -> None:
        self._most = self._left = most
        self._taken: dict[object, int] = {}
        self._queue: deque[tuple[object, int, Callable[[], object]]] = deque()

    def ask(self, whose: object, size: int, goes_on: Callable[[], object]) -> None:
        """Takes so much, or all that there is, now or later; then, and only if it is later, `goes_on` is called."""
        size = min(size, self._most)
        if not self._queue and size <= self._left:
            self._take(whose, size)
        else:
            self._queue.append((whose, size, goes_on))

    def has(self, whose: object) -> bool:
        return whose in self._taken

    def leave(self, whose: object) -> None:
        """Idempotent; also while it waits."""
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
