"""The watchdog: one thread of a Runtime that holds the limits of cages for which the kernel has no controller.

It looks at each cage as often as its limits need and acts by itself: no sink and no callback of a user runs on it, and
it never waits for a lock that others hold for long. It starts with the first cage that has something to be watched, and
ends when there has been none for IDLE seconds. What became of a cage is left in `CageInit.kill_reason`.

A watchdog that cannot look does not keep a limit, so whatever goes wrong here ends cages: an error at one cage that
cage, an error of the thread every cage that it watches. Only a shortage of the host's own (descriptors, memory) is
waited out, for PATIENCE seconds; a process that cannot be read is for `unreadable` to judge.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from functools import partial

from pysandbox.launch import native
from pysandbox.launch.proctext import runnable
from pysandbox.live.cpu_budget import TICK, CpuBudget
from pysandbox.live.disk_use import SCRATCH, DiskUse
from pysandbox.live.kill_reason import (
    FOUGHT,
    OUT_OF_MEMORY,
    TOO_MANY,
    WROTE,
    WROTE_UNSEEN,
    KillReason,
    unwatched,
)
from pysandbox.live.layers import DiskLayers
from pysandbox.live.pace import COST_SHARE, Pace, cpu_clock
from pysandbox.live.standstill import CROWD_DELAY, Standstill
from pysandbox.live.unwaited import Seen, Unwaited, explain_unwaited, newcomers, share
from pysandbox.live.written import Written, most_lost
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import WatchPlan
    from pysandbox.live.init import CageInit

IDLE = 5.0  # seconds without a cage after which the thread ends
SOONEST, LATEST = 0.02, 0.2  # seconds until the first look, and between two at a directory
WRITE_SOONEST, WRITE_LATEST = 0.005, 0.03  # seconds between two looks at what was written: who comes and goes is missed
PIDS_PAUSE = 0.03  # seconds between two looks at how many processes there are
WRITE_RATE = 2 << 30  # bytes a second: what is left of the limit is looked at before it is gone
BACK_OFF = 2.0  # seconds between two looks at a cage that has no process but its init; an order or a start wakes it
QUIET = 1.0  # seconds without an order before that: what was asked has begun by then
LAST_WORDS = 0.05  # seconds that a killed cage has to report its commands
SHORT_TURN = 500_000  # nanoseconds of CPU that the thread wants at a time: so it gets them sooner (6.12)
PATIENCE = 0.5  # seconds that the host may be too short of something to look
PROCESSORS = os.cpu_count() or 1
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class Watch:
    """One cage that is watched, and not kept alive. `due` is when to look next (time.monotonic())."""

    def __init__(self, live: CageInit, plan: WatchPlan, now: float) -> None:
        self._live = weakref.ref(live)
        self._limit = plan.memory
        self._cpu_budget = CpuBudget(plan.cpu) if plan.cpu is not None else None
        self._cpu_used, self._cpu_seen, self._cpu_orders = 0.0, now, 0
        self._cpu_each: Seen = {}
        self._unwaited = Unwaited()
        self._most_threads = plan.pids
        self._pids_due = now + SOONEST if plan.pids is not None else float("inf")
        self._scratch = _use_of_scratch(live, plan.scratch)
        self._scratch_due = now + LATEST if self._scratch is not None else float("inf")
        layers = live.services.find(DiskLayers)
        self._layers = layers.use() if layers is not None else None
        self._layers_due = now + SOONEST if self._layers is not None else float("inf")
        self._memory_pace, self._still = Pace(), Standstill()
        self._memory_due = now + SOONEST if plan.memory is not None else float("inf")
        self._cpu_due = now + TICK if plan.cpu is not None else float("inf")
        self._write_limit = plan.written
        self._written = Written()
        self._write_due = now + WRITE_SOONEST if plan.written is not None else float("inf")
        self._orders, self._ordered = -1, now  # of the cage, at the last look, and when that changed
        self._asleep_until = 0.0
        self._killed_at: float | None = None
        self._short_since: float | None = None  # of what looking takes
        self.doomed: BaseException | None = None  # what kept the thread from looking

    @property
    def due(self) -> float:
        if self.doomed is not None and self._killed_at is None:
            return 0.0
        return max(self._asleep_until, min(self._memory_due, self._cpu_due, self._scratch_due, self._pids_due,
                                            self._write_due, self._layers_due))  # fmt: skip

    def wake(self) -> bool:
        """An order was sent to the cage; whether that changes when to look next."""
        slept, self._asleep_until = self._asleep_until > 0, 0.0
        return slept

    def check(self, now: float) -> bool:
        """Whether it is to be looked at again."""
        live = self._live()
        if live is None or (live.closed and (live.kill_reason is None or live.is_dead(wait=False))):
            return False
        if live.kill_reason:
            return self._finish(live, now)
        if self.doomed is not None:
            self._condemn(live, unwatched(self.doomed), now)
            return True
        self._note_orders(live, now)
        if self._scratch is not None and now >= self._scratch_due:
            self._scratch_due = self._check_disk(live, self._scratch, now)
        if self._layers is not None and now >= self._layers_due and not live.kill_reason:
            self._layers_due = self._check_disk(live, self._layers, now)
        if now >= self._memory_due and not live.kill_reason:
            self._check_memory(live, now)
        if now >= self._pids_due and not live.kill_reason:
            self._check_threads(live, now)
        if now >= self._write_due and not live.kill_reason:
            self._check_writes(live, now)
        if now >= self._cpu_due and not live.kill_reason:
            self._check_cpu(live, now)
        self._back_off(live, now)
        self._short_since = None
        return True

    def failed(self, error: BaseException, now: float) -> bool:
        """A look went wrong; whether the cage is to be looked at again. It is ended, unless it has ended itself."""
        live = self._live()
        if live is None or live.closed or live.is_dead(wait=False):
            return False
        patience = _patience_with(error)
        if patience:
            self._short_since = now if self._short_since is None else self._short_since
            if now - self._short_since < patience:
                self._asleep_until = now + SOONEST
                return True
        self._condemn(live, unwatched(error), now)
        return True

    def _finish(self, live: CageInit, now: float) -> bool:
        """A cage that is to end has said all that it had to say: it is closed, and killed by the kernel if it lives."""
        live.end(wait=False)
        if self._killed_at is not None and now - self._killed_at > PATIENCE:
            live.kill_at_once()
        self._put_off(now + LAST_WORDS)
        return not live.is_dead(wait=False)

    def _note_orders(self, live: CageInit, now: float) -> None:
        if live.orders != self._orders:
            self._orders, self._ordered = live.orders, now
            if live.tree is not None:
                live.tree.ordered(now)

    def _back_off(self, live: CageInit, now: float) -> None:
        """A cage in which nothing runs is let be: a thousand idle ones cost next to nothing."""
        undisturbed = now - self._ordered >= QUIET and self._scratch is None and not live.kill_reason
        idle = undisturbed and live.tree is not None and live.tree.is_idle()
        self._asleep_until = now + BACK_OFF if idle else 0.0
        if live.orders != self._orders:  # its `wake` may have come before we lay down
            self._asleep_until = 0.0

    def _check_memory(self, live: CageInit, now: float) -> None:
        limit, began, tree, pace = self._limit or 0, cpu_clock(), live.tree, self._memory_pace
        if tree is None:
            return
        budget = self._cpu_budget
        may_stop = not (live.paused or live.stopped_by_hand or (budget is not None and budget.stopped))
        urgent = pace.may_be_filled(limit, CROWD_DELAY)
        with self._still.during_look(live, may_stop=may_stop, urgent=urgent) as glance:
            used = tree.memory(limit, glance)
            if used is not None and used > limit:
                self._condemn(live, OUT_OF_MEMORY, now)
        if used is None or live.kill_reason:
            return
        pause = pace.pause(used, limit, now, cpu_clock() - began, size=tree.rough, hurry=tree.hides)
        self._memory_due = now + (SOONEST if self._still.held else max(pause, self._still.lasted))

    def _check_disk(self, live: CageInit, use: DiskUse, now: float) -> float:
        """When to look next at what it wrote there."""
        began = cpu_clock()
        why = use.look(live.tree)
        if why is not None:
            self._condemn(live, why, now)
        return now + max(LATEST, (cpu_clock() - began) * COST_SHARE)

    def _check_threads(self, live: CageInit, now: float) -> None:
        began = cpu_clock()
        there = live.tree.threads() if live.tree is not None else None
        if there is not None and self._most_threads is not None and there > self._most_threads:
            self._condemn(live, TOO_MANY, now)
            return
        self._pids_due = now + max(PIDS_PAUSE, (cpu_clock() - began) * COST_SHARE)

    def _check_writes(self, live: CageInit, now: float) -> None:
        began = cpu_clock()
        limit, said = self._write_limit or 0, live.ask_written()
        each = live.tree.written() if live.tree is not None else None
        if each is None:
            return
        used = self._written.account(each, said)
        if used > limit or self._written.lost > most_lost(limit):
            self._condemn(live, WROTE if used > limit else WROTE_UNSEEN, now)
            return
        cost = (cpu_clock() - began) * COST_SHARE
        self._write_due = now + max(min((limit - used) / WRITE_RATE, WRITE_LATEST), WRITE_SOONEST, cost)

    def _condemn(self, live: CageInit, why: KillReason, now: float) -> None:
        """Kills everything in the cage; it is closed at the next look, when its commands have been reported."""
        live.kill_reason, self._killed_at = why, now
        self._asleep_until = 0.0
        self._put_off(now + LAST_WORDS)
        live.signal_at_once(signal.SIGKILL)
        if live.tree is not None:  # cage-init may have to wait for a CPU behind all that it is to kill
            with suppress(OSError):
                live.tree.signal(signal.SIGKILL)

    def _put_off(self, until: float) -> None:
        self._memory_due = self._cpu_due = self._scratch_due = self._pids_due = self._write_due = until
        self._layers_due = until

    def close(self) -> None:
        for each in (self._scratch, self._layers):
            if each is not None:
                each.close()

    def _check_cpu(self, live: CageInit, now: float) -> None:
        budget = self._cpu_budget
        seen = self._cpu_seconds(live, now - self._cpu_seen)
        if budget is None or seen is None:
            return
        used, excused = seen
        stop = budget.account(used, now - self._cpu_seen, excused)
        self._cpu_seen = now
        if budget.fights:
            self._condemn(live, FOUGHT, now)
            return
        # Sent even when nothing changes: a command may have begun meanwhile, or have stopped or continued itself.
        if not live.paused and (stop or budget.stopped):
            done = live.signal_at_once(signal.SIGSTOP if stop else signal.SIGCONT)
            budget.stopped = stop if done else budget.stopped
        self._cpu_due = now + budget.pause

    def _cpu_seconds(self, live: CageInit, elapsed: float) -> tuple[float, float] | None:
        """What was used since the last look, and how much of that by commands that were ordered since."""
        orders, ordered = live.orders, live.orders != self._cpu_orders
        counted = live.cgroup.stats().cpu_usec if live.cgroup is not None else None
        each = live.tree.cpu() if live.tree is not None else None
        if live.tree is None or not each:
            return None
        total = counted / 1e6 if counted is not None else sum(used.own + used.waited for used in each.values())
        used = max(0.0, total - self._cpu_used)
        excused = max(0.0, used - live.tree.used_by_known(self._cpu_each, each)) if ordered else 0.0
        if counted is None and self._cpu_each:
            new = len(newcomers(self._cpu_each, each))
            seen = new * elapsed * share(runnable(), PROCESSORS) if new else 0.0
            used += self._unwaited.owed(seen, explain_unwaited(self._cpu_each, each))
        self._cpu_used, self._cpu_each, self._cpu_orders = total, each, orders
        return used, excused


def _use_of_scratch(live: CageInit, most: int | None) -> DiskUse | None:
    if most is None or not live.scratch:
        return None
    return DiskUse(live.scratch, most, (live.scratch, "/scratch"), SCRATCH)


def _patience_with(error: BaseException) -> float:
    """Seconds that looks may fail in this way, one after the other, before the cage is ended."""
    short = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in SHORTAGES)
    return PATIENCE if short else 0.0


class Watchdog:
    """All watched cages of a Runtime."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._idle_since = 0.0

    def add(self, live: CageInit, plan: WatchPlan) -> None:
        """Begins to watch a cage; it is forgotten when it is closed."""
        watch = Watch(live, plan, time.monotonic())
        with self._changed:
            self._watches.append(watch)
            live.on_command.append(partial(self._wake, watch))
            if self._thread is not None and self._thread.is_alive():
                self._changed.notify()
                return
            thread = threading.Thread(target=self._run, name="pysandbox-watchdog", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except BaseException:  # a cage that nobody watches is not given out
                self._thread = None
                self._watches.remove(watch)
                raise

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
        self._idle_since = time.monotonic()
        native.take_short_turns(SHORT_TURN)
        while True:
            try:
                if not self._turn():
                    return
            except BaseException as error:  # nothing may end this thread while it has something to watch
                self._doom(error)

    def _doom(self, error: BaseException) -> None:
        for watch in list(self._watches):
            watch.doomed = watch.doomed or error
            with suppress(BaseException):
                _check(watch)
        with suppress(BaseException):
            time.sleep(LAST_WORDS)  # whatever it is, it may last

    def _turn(self) -> bool:
        """Waits for the next look that is due and takes it; False when there is nothing to be watched any more."""
        now = time.monotonic()
        with self._changed:
            if self._watches:
                self._idle_since = now
            elif now - self._idle_since >= IDLE:
                self._thread = None
                return False
            next_look = min((watch.due for watch in self._watches), default=self._idle_since + IDLE)
            if next_look > now:
                self._changed.wait(next_look - now)
                return True
            ready = [watch for watch in self._watches if watch.due <= now]
        over = {watch for watch in ready if not _check(watch)}
        if over:
            for watch in over:
                watch.close()
            with self._changed:
                self._watches = [watch for watch in self._watches if watch not in over]
        return True


def _check(watch: Watch) -> bool:
    try:
        return watch.check(time.monotonic())
    except BaseException as error:
        return watch.failed(error, time.monotonic())
