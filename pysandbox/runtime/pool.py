"""The warm pool: single-use cages, opened ahead, waiting for their first order (POOL-01).

One parked cage is one process of some 30 KiB. Each is used once and by one caller, so nothing is ever shared between
two cages. A policy gets its first parked cage after its first use; a miss on a warm policy doubles how many are kept,
up to the pool's size; what was not used for a while is closed, and so is the least recently used beyond a limit for
all: a host whose policies are all different must not gather cages. A pool that follows demand has a larger size, and
keeps fewer again of what was never needed since it last looked.

`keep` has some parked whether or not anybody takes them (`Runtime.prewarm`): these neither expire nor give way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress

from pysandbox.errors import CageError
from pysandbox.launch.worker import Worker
from pysandbox.live.init import CageInit
from pysandbox.shapes import Literal

MOST = 4  # parked cages per plan
MOST_OF_ALL = 16  # parked cages of all plans
MOST_FOLLOWING = 32  # per plan, in a pool that follows demand; and twice as many of all plans
EXPIRY = 30.0  # seconds a parked cage may wait

CALM = 0.003  # seconds between a take and its refill: the caller's command starts undisturbed first

Opener = Callable[[], CageInit]


class Slot:
    """The parked cages of one plan."""

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.parked: list[CageInit] = []
        self.wanted = 1
        self.kept = 0  # so many whatever happens
        self.spare = MOST_FOLLOWING  # the fewest that were left when one was taken, since the last look
        self.filling = 0
        self.missed = False  # the last take found it empty
        self.used = 0.0  # time.monotonic() of the last take
        self.dropped = False  # taken down: what is still on its way to it is not opened, or closed again


class Pool:
    """All shelves of a runtime, by compiled plan. `size` 0 switches it off but for what is to be kept; "auto" follows
    demand."""

    def __init__(self, worker: Worker, size: int | Literal["auto"]) -> None:
        self._worker = worker
        self._follows = size == "auto"
        self._size = MOST_FOLLOWING if size == "auto" else min(size, MOST)
        self._most_of_all = 2 * MOST_FOLLOWING if size == "auto" else MOST_OF_ALL
        self._shelves: dict[Hashable, Slot] = {}
        self._lock = threading.Lock()

    def take(self, key: Hashable, opener: Opener) -> CageInit:
        """A waiting cage of this plan, or a new one; `replenish` then refills its place."""
        with self._lock:
            shelf = self._shelves.pop(key, None)
            if shelf is None and self._size:
                shelf = Slot(opener)
            elif shelf is not None and not shelf.parked:
                shelf.wanted = max(min(shelf.wanted * 2, self._size), shelf.kept)
            if shelf is not None:
                shelf.spare = min(shelf.spare, max(0, len(shelf.parked) - 1))
                shelf.missed = not shelf.parked
                self._shelves[key] = shelf  # the last is the most recently used
            ready = shelf.parked.pop() if shelf is not None and shelf.parked else None
        if ready is not None and not ready.is_dead():
            return ready
        return opener()  # what cannot be opened raises here, not in the worker

    def replenish(self, key: Hashable) -> None:
        """Refills a shelf in the background; to be called when the taken cage has its order, since waking the worker
        costs the caller time."""
        with self._lock:
            shelf = self._shelves.get(key)
            if shelf is None:
                return
            shelf.used = time.monotonic()
            missing = max(0, shelf.wanted - len(shelf.parked) - shelf.filling)
            shelf.filling += missing
            calm = 0.0 if shelf.missed else CALM  # one that was found empty is in a hurry
            surplus = self._surplus() if missing and len(self._shelves) * MOST > MOST_OF_ALL else []
        for _ in range(missing):
            self._worker.submit(lambda: None if shelf.dropped else self._fill(shelf, calm))
        for live in surplus:
            self._worker.submit(live.close)

    def _surplus(self) -> list[CageInit]:
        """Takes down the least recently used shelves until the rest is few enough; returns their cages."""
        given = [key for key, shelf in self._shelves.items() if not shelf.kept]
        count = sum(len(self._shelves[key].parked) + self._shelves[key].filling for key in given)
        doomed: list[CageInit] = []
        for key in given:
            if count <= self._most_of_all:
                break
            shelf = self._shelves.pop(key)
            shelf.dropped = True
            doomed += shelf.parked
            count -= len(shelf.parked) + shelf.filling
        return doomed

    def ready(self, key: Hashable) -> bool:
        """Whether the next `take` of this plan finds a waiting cage."""
        with self._lock:
            shelf = self._shelves.get(key)
            return shelf is not None and bool(shelf.parked)

    def _fill(self, shelf: Slot, calm: float) -> None:
        time.sleep(calm)
        live = None
        with suppress(CageError, OSError):  # whoever needs a cage of this plan next opens it and sees the error
            live = shelf.opener()
        self._park(shelf, live, filled=1)

    def _park(self, shelf: Slot, live: CageInit | None, filled: int = 0) -> None:
        with self._lock:
            shelf.filling -= filled
            if live is not None and not shelf.dropped:
                shelf.parked.append(live)
                return
        if live is not None:
            live.close()

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._shelves

    def keep(self, key: Hashable, opener: Opener, count: int) -> None:
        """Has `count` cages of this plan wait from now on, and returns when they do; 0 lets go. Raises what opening
        does; those that were opened wait all the same."""
        with self._lock:
            shelf = self._shelves.setdefault(key, Slot(opener)) if count else self._shelves.get(key)
            if shelf is None:
                return
            shelf.kept, shelf.wanted, shelf.used = count, max(count, min(1, self._size)), time.monotonic()
            doomed, shelf.parked = shelf.parked[count:], shelf.parked[:count]
        for live in doomed:
            live.close()
        for _ in range(count - len(shelf.parked)):
            self._park(shelf, opener())

    def expire(self, older_than: float = EXPIRY) -> None:
        """Closes what nobody has taken for a while."""
        limit = time.monotonic() - older_than
        with self._lock:
            old = [key for key, shelf in self._shelves.items()
                   if shelf.used <= limit and not shelf.filling and not shelf.kept]  # fmt: skip
            doomed = [live for key in old for live in self._shelves.pop(key).parked]
            if self._follows:
                doomed += [live for shelf in self._shelves.values() for live in _spare(shelf)]
        for live in doomed:
            live.close()

    def clear(self) -> None:
        """Closes every cage that waits, and keeps none."""
        with self._lock:
            for shelf in self._shelves.values():
                shelf.kept = 0
        self.expire(older_than=-1.0)

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: the parked cages belong to the original."""
        self._lock = threading.Lock()
        for shelf in self._shelves.values():
            for live in shelf.parked:
                live.abandon()
        self._shelves.clear()


def _spare(shelf: Slot) -> list[CageInit]:
    """What was not needed since the last look, but for one; it is wanted no more."""
    unused, shelf.spare = min(shelf.spare, max(0, len(shelf.parked) - 1)), MOST_FOLLOWING
    fewest = max(shelf.kept, 1)
    unused = max(0, min(unused, shelf.wanted - fewest))
    shelf.wanted -= unused
    doomed, shelf.parked = shelf.parked[:unused], shelf.parked[unused:]
    return doomed
