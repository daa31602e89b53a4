"""The warm pool: single-use cages, opened ahead, waiting for their first order (POOL-01).

One idle cage is one process of some 30 KiB. Each is used once and by one caller, so nothing is ever shared between
two cages. A policy gets its first idle cage after its first use; a miss on a warm policy doubles how many are kept,
up to the pool's size; what was not used for a while is closed, and so is the least recently used beyond a limit for
all: a host whose policies are all different must not gather cages. A pool that follows demand has a larger size, and
keeps fewer again of what was never needed since it last looked.

`keep` has some idle whether or not anybody takes them (`Runtime.prewarm`): these neither expire nor give way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial

from pysandbox.errors import CageError
from pysandbox.launch.worker import Worker
from pysandbox.live.init import CageInit
from pysandbox.shapes import Literal

MOST = 4  # idle cages per plan
MOST_OF_ALL = 16  # idle cages of all plans
MOST_FOLLOWING = 32  # per plan, in a pool that follows demand; and twice as many of all plans
EXPIRY = 30.0  # seconds an idle cage may wait

REFILL_DELAY = 0.003  # seconds between a take and its refill: the caller's command starts undisturbed first

Opener = Callable[[], CageInit]


class Slot:
    """The idle cages of one plan."""

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.idle: list[CageInit] = []
        self.wanted = 1
        self.kept = 0  # so many whatever happens
        self.spare = MOST_FOLLOWING  # the fewest that were left when one was taken, since the last look
        self.filling = 0
        self.missed = False  # the last take found it empty
        self.used = 0.0  # time.monotonic() of the last take
        self.dropped = False  # taken down: what is still on its way to it is not opened, or closed again


class Pool:
    """All slots of a runtime, by compiled plan. `size` 0 switches it off but for what is to be kept; "auto" follows
    demand."""

    def __init__(self, worker: Worker, size: int | Literal["auto"]) -> None:
        self._worker = worker
        self._follows = size == "auto"
        self._size = MOST_FOLLOWING if size == "auto" else min(size, MOST)
        self._most_of_all = 2 * MOST_FOLLOWING if size == "auto" else MOST_OF_ALL
        self._slots: dict[Hashable, Slot] = {}
        self._lock = threading.Lock()

    def take(self, key: Hashable, opener: Opener) -> CageInit:
        """A waiting cage of this plan, or a new one; `replenish` then refills its place."""
        with self._lock:
            slot = self._slots.pop(key, None)
            if slot is None and self._size:
                slot = Slot(opener)
            elif slot is not None and not slot.idle:
                slot.wanted = max(min(slot.wanted * 2, self._size), slot.kept)
            if slot is not None:
                if self._follows:
                    slot.spare = min(slot.spare, max(0, len(slot.idle) - 1))
                slot.missed = not slot.idle
                self._slots[key] = slot  # the last is the most recently used
            ready = slot.idle.pop() if slot is not None and slot.idle else None
        if ready is not None and not ready.is_dead():
            if ready.services.cover:
                return ready
            self._worker.submit(ready.close)  # what it covered was replaced on the host while it waited
        return opener()  # what cannot be opened raises here, not in the worker

    def replenish(self, key: Hashable, spent: CageInit | None = None) -> None:
        """Refills a slot in the background; to be called when the taken cage has its order, since waking the worker
        costs the caller time. Nothing looks any more at what `spent` covers: the worker lets go of it first."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                return
            slot.used = time.monotonic()
            missing = max(0, slot.wanted - len(slot.idle) - slot.filling)
            slot.filling += missing
            delay = 0.0 if slot.missed else REFILL_DELAY  # one that was found empty is in a hurry
            surplus = self._surplus() if missing and len(self._slots) * MOST > MOST_OF_ALL else []
        for each in range(missing):
            self._worker.submit(partial(self._fill, slot, delay, spent if each == 0 else None))
        for live in surplus:
            self._worker.submit(live.close)

    def _surplus(self) -> list[CageInit]:
        """Takes down the least recently used slots until the rest is few enough; returns their cages."""
        given = [key for key, slot in self._slots.items() if not slot.kept]
        count = sum(len(self._slots[key].idle) + self._slots[key].filling for key in given)
        doomed: list[CageInit] = []
        for key in given:
            if count <= self._most_of_all:
                break
            slot = self._slots.pop(key)
            slot.dropped = True
            doomed += slot.idle
            count -= len(slot.idle) + slot.filling
        return doomed

    def ready(self, key: Hashable) -> bool:
        """Whether the next `take` of this plan finds a waiting cage."""
        with self._lock:
            slot = self._slots.get(key)
            return slot is not None and bool(slot.idle)

    def _fill(self, slot: Slot, delay: float, spent: CageInit | None) -> None:
        if spent is not None:
            spent.services.let_go()
        if slot.dropped:
            return
        time.sleep(delay)
        live = None
        with suppress(CageError, OSError):  # whoever needs a cage of this plan next opens it and sees the error
            live = self._covered(slot.opener())
        self._add(slot, live, filled=1)

    def _covered(self, live: CageInit) -> CageInit | None:
        """The cage, if all that it covers still is. Asked here for the first time, which costs the most. Raises
        StartError."""
        try:
            covers = live.services.cover
        except BaseException:
            live.close()
            raise
        if covers:
            return live
        live.close()
        return None

    def _add(self, slot: Slot, live: CageInit | None, filled: int = 0) -> None:
        with self._lock:
            slot.filling -= filled
            if live is not None and not slot.dropped:
                slot.idle.append(live)
                return
        if live is not None:
            live.close()

    @property
    def empty(self) -> bool:
        with self._lock:
            return not self._slots

    def keep(self, key: Hashable, opener: Opener, count: int) -> None:
        """Has `count` cages of this plan wait from now on, and returns when they do; 0 lets go. Raises what opening
        does; those that were opened wait all the same."""
        with self._lock:
            slot = self._slots.setdefault(key, Slot(opener)) if count else self._slots.get(key)
            if slot is None:
                return
            slot.kept, slot.wanted, slot.used = count, max(count, min(1, self._size)), time.monotonic()
            doomed, slot.idle = slot.idle[count:], slot.idle[:count]
        for live in doomed:
            live.close()
        for _ in range(count - len(slot.idle)):
            self._add(slot, opener())

    def expire(self, older_than: float = EXPIRY) -> None:
        """Closes what nobody has taken for a while."""
        limit = time.monotonic() - older_than
        with self._lock:
            old = [key for key, slot in self._slots.items()
                   if slot.used <= limit and not slot.filling and not slot.kept]  # fmt: skip
            doomed = [live for key in old for live in self._slots.pop(key).idle]
            if self._follows:
                doomed += [live for slot in self._slots.values() for live in _spare(slot)]
        for live in doomed:
            live.close()

    def clear(self) -> None:
        """Closes every cage that waits, and keeps none."""
        with self._lock:
            for slot in self._slots.values():
                slot.kept = 0
        self.expire(older_than=-1.0)

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: the idle cages belong to the original."""
        self._lock = threading.Lock()
        for slot in self._slots.values():
            for live in slot.idle:
                live.abandon()
        self._slots.clear()


def _spare(slot: Slot) -> list[CageInit]:
    """What was not needed since the last look, but for one; it is wanted no more."""
    unused, slot.spare = min(slot.spare, max(0, len(slot.idle) - 1)), MOST_FOLLOWING
    fewest = max(slot.kept, 1)
    unused = max(0, min(unused, slot.wanted - fewest))
    slot.wanted -= unused
    doomed, slot.idle = slot.idle[:unused], slot.idle[unused:]
    return doomed
