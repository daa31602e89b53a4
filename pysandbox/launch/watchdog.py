"""The watchdog: one thread of a Runtime that holds the limits of cages for which the kernel has no controller.

It looks at each cage as often as its limits need and acts by itself: no sink and no callback of a user runs on it, and
it never waits for a lock that others hold for long. It starts with the first cage that has something to be watched, and
ends when there has been none for IDLE seconds. What became of a cage is left in `LiveInit.condemned`.
"""

from __future__ import annotations

import signal
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING

from pysandbox.launch.duty import TICK, Duty
from pysandbox.launch.live import OUT_OF_MEMORY, OUT_OF_SCRATCH, Condemned
from pysandbox.launch.scratch_use import ScratchUse

if TYPE_CHECKING:
    from pysandbox.compile.plan import WatchPlan
    from pysandbox.launch.live import LiveInit

IDLE = 5.0  # seconds without a cage after which the thread ends
SOONEST, LATEST = 0.02, 0.2  # seconds between two looks at a cage's memory
FILL_RATE = 2 << 30  # bytes a second that a process can touch: what is left of the limit is looked at before it is gone
COST_SHARE = 10  # looks take a tenth of the time at most
DOZE = 2.0  # seconds between two looks at a cage that has no process but its init; an order wakes its watch
CALM = 1.0  # seconds without an order before that: what was asked has begun by then
LAST_WORDS = 0.05  # seconds that a killed cage has to report its commands


class Watch:
    """One cage that is watched, and not kept alive. `due` is when to look next (time.monotonic())."""

    def __init__(self, live: LiveInit, plan: WatchPlan, now: float) -> None:
        self._live = weakref.ref(live)
        self._limit = plan.memory
        self._duty = Duty(plan.cpu) if plan.cpu is not None else None
        self._cpu_used, self._cpu_seen = 0.0, now
        self._scratch_limit = plan.scratch
        self._scratch = ScratchUse(live.scratch) if plan.scratch is not None and live.scratch else None
        self._scratch_due = now + LATEST if self._scratch is not None else float("inf")
        self._memory_due = now + SOONEST if plan.memory is not None else float("inf")
        self._cpu_due = now + TICK if plan.cpu is not None else float("inf")
        self._orders, self._ordered = -1, now  # of the cage, at the last look, and when that changed
        self._asleep_until = 0.0

    @property
    def due(self) -> float:
        return max(self._asleep_until, min(self._memory_due, self._cpu_due, self._scratch_due))

    def wake(self) -> bool:
        """An order was sent to the cage; whether that changes when to look next."""
        slept, self._asleep_until = self._asleep_until > 0, 0.0
        return slept

    def look(self, now: float) -> bool:
        """Whether it is to be looked at again."""
        live = self._live()
        if live is None or live.closed:
            return False
        if live.condemned:
            live.end(wait=False)
            return not live.closed
        if now >= self._scratch_due:
            self._look_at_scratch(live, now)
        if now >= self._memory_due and not live.condemned:
            self._look_at_memory(live, now)
        if now >= self._cpu_due and not live.condemned:
            self._look_at_cpu(live, now)
        self._doze(live, now)
        return True

    def _doze(self, live: LiveInit, now: float) -> None:
        """A cage in which nothing runs is let be: a thousand idle ones cost next to nothing."""
        orders = live.orders
        if orders != self._orders:
            self._orders, self._ordered = orders, now
        calm = now - self._ordered >= CALM and self._scratch is None and not live.condemned
        idle = calm and live.tree is not None and live.tree.is_idle()
        self._asleep_until = now + DOZE if idle else 0.0
        if live.orders != orders:  # its `wake` may have come before we lay down
            self._asleep_until = 0.0

    def _look_at_memory(self, live: LiveInit, now: float) -> None:
        limit = self._limit or 0
        used = live.tree.memory(limit) if live.tree is not None else None
        if used is None:
            return
        if used > limit:
            self._condemn(live, OUT_OF_MEMORY, now)
            return
        cost = time.monotonic() - now
        self._memory_due = now + min(max((limit - used) / FILL_RATE, SOONEST, cost * COST_SHARE), LATEST)

    def _look_at_scratch(self, live: LiveInit, now: float) -> None:
        if self._scratch is not None and self._scratch.look() > (self._scratch_limit or 0):
            self._condemn(live, OUT_OF_SCRATCH, now)
            return
        cost = time.monotonic() - now
        self._scratch_due = now + max(LATEST, cost * COST_SHARE)

    def _condemn(self, live: LiveInit, why: Condemned, now: float) -> None:
        """Kills everything in the cage; it is closed at the next look, when its commands have been reported."""
        live.condemned = why
        live.signal_at_once(signal.SIGKILL)
        self._memory_due = self._cpu_due = self._scratch_due = now + LAST_WORDS

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def _look_at_cpu(self, live: LiveInit, now: float) -> None:
        duty, used = self._duty, live.cpu_seconds()
        if duty is None or used is None:
            return
        stop = duty.account(max(0.0, used - self._cpu_used), now - self._cpu_seen)
        self._cpu_used, self._cpu_seen = used, now
        # Also when nothing changes: a command that began meanwhile runs, and one that the cage stopped is its own.
        if not live.held and (stop or duty.stopped):
            done = live.signal_at_once(signal.SIGSTOP if stop else signal.SIGCONT)
            duty.stopped = stop if done else duty.stopped
        self._cpu_due = now + duty.pause


class Watchdog:
    """All watched cages of a Runtime."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, live: LiveInit, plan: WatchPlan) -> None:
        """Begins to watch a cage; it is forgotten when it is closed."""
        watch = Watch(live, plan, time.monotonic())
        with self._changed:
            self._watches.append(watch)
            live.woken.append(partial(self._wake, watch))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pysandbox-watchdog", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def _wake(self, watch: Watch) -> None:
        if watch.wake():
            with self._changed:
                self._changed.notify()

    def abandon(self) -> None:
        """In a forked copy of the host, which has no such thread: let go of what is open."""
        for watch in self._watches:
            watch.close()
        self._watches = []

    def _run(self) -> None:
        idle_since = time.monotonic()
        while True:
            now = time.monotonic()
            with self._changed:
                if self._watches:
                    idle_since = now
                elif now - idle_since >= IDLE:
                    self._thread = None
                    return
                next_look = min((watch.due for watch in self._watches), default=idle_since + IDLE)
                if next_look > now:
                    self._changed.wait(next_look - now)
                    continue
                ready = [watch for watch in self._watches if watch.due <= now]
            over = {watch for watch in ready if not self._look(watch)}
            if over:
                for watch in over:
                    watch.close()
                with self._changed:
                    self._watches = [watch for watch in self._watches if watch not in over]

    @staticmethod
    def _look(watch: Watch) -> bool:
        try:
            return watch.look(time.monotonic())
        except OSError:  # the cage ended while it was looked at; if not, the next look finds it as it is
            return True
