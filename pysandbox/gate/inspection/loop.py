"""Waiting for sockets and for moments: epoll(7) and a heap, in one thread, since this process may start no other.

Whoever has something to do takes a turn, and turns go round by cage: a cage with a thousand connections that are all
ready holds up another one by one turn of its, not by a thousand.
"""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable

IN, OUT, GONE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR | select.EPOLLHUP
LOOK_SECONDS = 0.001  # between two looks for more, while turns wait
HOST = -1  # the share of the host program's own records


class Timer:
    """What is called once, unless it is cancelled before. What it would have called is let go of then: a heap keeps
    each of its entries until it is due."""

    __slots__ = ("_called",)

    def __init__(self, called: Callable[[], object]) -> None:
        self._called: Callable[[], object] | None = called

    def cancel(self) -> None:
        self._called = None

    def ring(self) -> None:
        called, self._called = self._called, None
        if called is not None:
            called()


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._called: dict[int, Callable[[int], object]] = {}
        self._masks: dict[int, tuple[int, int]] = {}  # what is waited for, and for whom
        self._turns: dict[int, dict[int, int]] = {}  # of each share, what is ready: descriptors, or those of `soon`
        self._due: list[tuple[float, int, Timer]] = []
        self._number = itertools.count(1)
        self._looks = 0.0

    def wait_for(self, fd: int, mask: int, called: Callable[[int], object], share: int = HOST) -> None:
        """From now on `called` is told of these events at `fd`, when it is the turn of `share`."""
        known = self._masks.get(fd)
        if known is None:
            self._epoll.register(fd, mask)
        elif known[0] != mask:
            self._epoll.modify(fd, mask)
        self._masks[fd], self._called[fd] = (mask, share), called

    def forget(self, fd: int) -> None:
        """To be called before `fd` is closed."""
        known = self._masks.pop(fd, None)
        if known is not None:
            del self._called[fd]
            self._turns.get(known[1], {}).pop(fd, None)
            self._epoll.unregister(fd)

    def soon(self, called: Callable[[], object], share: int) -> None:
        """Calls it once, at a turn of `share`."""
        number = -next(self._number)
        self._called[number] = lambda _: called()
        self._turns.setdefault(share, {})[number] = 0

    def at(self, moment: float, called: Callable[[], object]) -> Timer:
        """Calls it once, at a moment of time.monotonic()."""
        timer = Timer(called)
        heapq.heappush(self._due, (moment, next(self._number), timer))
        return timer

    def run(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            self.once()

    def once(self, patience: float | None = None) -> None:
        """A look at what has come, and one turn of each share that has something to do."""
        now = time.monotonic()
        if not self._turns or now >= self._looks:
            self._look(0.0 if self._turns else self._patience(now, patience))
        for share in list(self._turns):
            self._take_turn(share)
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2].ring()

    def _patience(self, now: float, patience: float | None) -> float | None:
        if not self._due:
            return patience
        left = max(0.0, self._due[0][0] - now)
        return left if patience is None else min(patience, left)

    def _look(self, patience: float | None) -> None:
        for fd, event in self._epoll.poll(patience):
            self._turns.setdefault(self._masks[fd][1], {})[fd] = event
        self._looks = time.monotonic() + LOOK_SECONDS

    def _take_turn(self, share: int) -> None:
        turns = self._turns[share]
        if turns:
            key = next(iter(turns))
            event = turns.pop(key)
            called = self._called.pop(key) if key < 0 else self._called[key]
            called(event)
        if not turns:
            del self._turns[share]
