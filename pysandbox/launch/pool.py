"""The warm pool: single-use cages, opened ahead, waiting for their first order (POOL-01).

One parked cage is one process of some 30 KiB. Each is used once and by one caller, so nothing is ever shared between
two cages. A policy gets its first parked cage after its first use; a miss on a warm policy doubles how many are kept,
up to MOST; what was not used for a while is closed, and so is the least recently used beyond MOST_OF_ALL: a host whose
policies are all different must not gather cages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress

from pysandbox.errors import CageError
from pysandbox.launch.live import LiveInit
from pysandbox.launch.worker import Worker

MOST = 4  # parked cages per plan
MOST_OF_ALL = 16  # parked cages of all plans
EXPIRY = 30.0  # seconds a parked cage may wait

CALM = 0.003  # seconds between a take and its refill: the caller's command starts undisturbed first

Opener = Callable[[], LiveInit]


class Shelf:
    """The parked cages of one plan."""

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.parked: list[LiveInit] = []
        self.wanted = 1
        self.filling = 0
        self.missed = False  # the last take found it empty
        self.used = 0.0  # time.monotonic() of the last take
        self.dropped = False  # taken down: what is still on its way to it is not opened, or closed again


class Pool:
    """All shelves of a runtime, by compiled plan. `size` 0 switches it off."""

    def __init__(self, worker: Worker, size: int) -> None:
        self._worker = worker
        self._size = min(size, MOST)
        self._shelves: dict[Hashable, Shelf] = {}
        self._lock = threading.Lock()

    def take(self, key: Hashable, opener: Opener) -> LiveInit:
        """A waiting cage of this plan, or a new one; `replenish` then refills its place."""
        with self._lock:
            shelf = self._shelves.pop(key, None)
            if shelf is None and self._size:
                shelf = Shelf(opener)
            elif shelf is not None and not shelf.parked:
                shelf.wanted = min(shelf.wanted * 2, self._size)
            if shelf is not None:
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
            surplus = self._surplus() if missing else []
        for _ in range(missing):
            self._worker.submit(lambda: None if shelf.dropped else self._fill(shelf, calm))
        for live in surplus:
            self._worker.submit(live.close)

    def _surplus(self) -> list[LiveInit]:
        """Takes down the least recently used shelves until the rest is few enough; returns their cages."""
        count = sum(len(shelf.parked) + shelf.filling for shelf in self._shelves.values())
        doomed: list[LiveInit] = []
        for key in list(self._shelves):
            if count <= MOST_OF_ALL:
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

    def _fill(self, shelf: Shelf, calm: float) -> None:
        time.sleep(calm)
        live = None
        with suppress(CageError, OSError):  # whoever needs a cage of this plan next opens it and sees the error
            live = shelf.opener()
        with self._lock:
            shelf.filling -= 1
            if live is not None and not shelf.dropped:
                shelf.parked.append(live)
                return
        if live is not None:
            live.close()

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._shelves

    def expire(self, older_than: float = EXPIRY) -> None:
        """Closes what nobody has taken for a while."""
        limit = time.monotonic() - older_than
        with self._lock:
            old = [key for key, shelf in self._shelves.items() if shelf.used <= limit and not shelf.filling]
            doomed = [live for key in old for live in self._shelves.pop(key).parked]
        for live in doomed:
            live.close()

    def forget(self) -> None:
        """In a forked copy of the host: the parked cages belong to the original."""
        self._lock = threading.Lock()
        for shelf in self._shelves.values():
            for live in shelf.parked:
                live.abandon()
        self._shelves.clear()
