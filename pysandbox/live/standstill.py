"""A cage stands still while the watchdog ends a look that the cage would keep from ending.

A look takes milliseconds of a processor, and a cage may have so many processes that want one, each in a session of its
own (sched(7), autogroup), that the watchdog gets a thousandth of it: what they take meanwhile nobody has counted. So a
look at a crowd, or one that has waited for PATIENCE, stops the cage, is ended within what it costs, and lets the cage
go on. Whoever waits for something else than a processor (another thread of the host's) stops nobody.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pysandbox.launch.proctext import runnable
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.live.init import CageInit

PATIENCE = 0.005  # seconds that one look may wait for a processor
GLANCE = 0.002  # seconds between two times that this is asked
CROWD = 2 * (os.cpu_count() or 1)  # processes that are more than the watchdog can stand beside
CROWD_DELAY = 0.1  # seconds for which a crowd may keep it from looking

Glance = Callable[[int], None]  # is called as a look goes on, with the number of processes once that is known, else 0


def waited_for_processor() -> float:
    """Seconds in which this thread could have run and did not, from any start (proc_pid_schedstat; without it, all in
    which no thread of the host ran)."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read(100).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return time.monotonic() - time.process_time()


class Standstill:
    """Whether one cage stands still for a look. `held`: it was stopped and has not been let go on yet. `lasted`: for
    how many seconds of the last look it stood still."""

    def __init__(self) -> None:
        self.held = False
        self.lasted = 0.0

    @contextmanager
    def during_look(self, live: CageInit, *, may_stop: bool, urgent: bool) -> Iterator[Glance]:
        """Yields what the look calls as it goes on. Afterwards the cage goes on, unless it is to be killed. `may_stop`:
        nobody else has stopped it, who decides when it goes on. `urgent`: what a crowd can take while it keeps the look
        waiting could be too much."""
        asked, waited, since = time.monotonic(), waited_for_processor(), 0.0

        def glance(processes: int) -> None:
            nonlocal asked, since
            now = time.monotonic()
            if self.held or not may_stop or (not processes and now - asked < GLANCE):
                return
            asked = now
            crowded = urgent and processes > CROWD and runnable() > CROWD
            if crowded or waited_for_processor() - waited > PATIENCE:
                self.held, since = _signal(live, signal.SIGSTOP), now

        try:
            yield glance
        finally:
            self.lasted = time.monotonic() - since if since else 0.0
            self.let_go(live)

    def let_go(self, live: CageInit) -> None:
        """One that cannot be told now is told after the next look: `held` says so."""
        if self.held and not live.kill_reason:
            self.held = not (live.paused or _signal(live, signal.SIGCONT))


def _signal(live: CageInit, number: int) -> bool:
    """By one way alone: cage-init may get to what it was told when the contrary holds already."""
    reached = live.tree is not None and live.tree.signal(number)
    return reached or live.signal_at_once(number)
