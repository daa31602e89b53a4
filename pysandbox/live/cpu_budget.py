"""When a cage that may use a share of a CPU has to pause: a bucket of CPU time that fills at the share's rate.

Pure arithmetic; the watchdog measures and acts. What was used too much is waited for, so over seconds the share is
exact whatever the pauses between two measurements; what was not used is kept for BURST seconds only, like cpu.max.

A cage that was stopped uses nothing, but for calls that the kernel has to finish and for the moment until all of it
has heard. One that uses more than its share all the same is let go on by something within (a timer that sends SIGCONT):
it fights, and stopping cannot hold it.
"""

from __future__ import annotations

import os

BURST = 0.1  # seconds of unused share that are kept
SLACK = 0.05  # seconds of share that may be overdrawn before a pause: pauses are that long at least
TICK = 0.01  # seconds between two measurements of a cage that runs
IDLE_TICK = 0.05  # ... of one that uses nothing, or is stopped
DEFIANCE = max(1.0, 0.1 * (os.cpu_count() or 1))  # CPU seconds beyond its share that a stopped cage may use


class CpuBudget:
    """One cage's balance, in CPU seconds; it starts with nothing saved and runs."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.stopped = False
        self._balance = 0.0
        self._defied = 0.0
        self._idle = False

    @property
    def fights(self) -> bool:
        return self._defied > DEFIANCE

    def account(self, used: float, elapsed: float, excused: float = 0.0) -> bool:
        """Books what was used in the time that passed; whether the cage is to be stopped from now on. `excused` of it
        was used by what began after the stop, at the host's word."""
        if self.stopped:
            self._defied = max(0.0, self._defied + used - excused - self.rate * elapsed)
        self._balance = min(self._balance + self.rate * elapsed - used, self.rate * BURST)
        self._idle = used <= 0 and not self.stopped  # what was stopped is about to use all that it can
        return self._balance < (0.0 if self.stopped else -SLACK * self.rate)

    @property
    def pause(self) -> float:
        """Seconds until the next measurement: when a stopped cage is even again, or may be defying."""
        if self.stopped:
            return min(max(TICK, -self._balance / self.rate), IDLE_TICK)
        return IDLE_TICK if self._idle else TICK
