"""When a cage that may use a share of a CPU has to pause: a bucket of CPU time that fills at the share's rate.

Pure arithmetic; the watchdog measures and acts. What was used too much is waited for, so over seconds the share is
exact whatever the pauses between two measurements; what was not used is kept for BURST seconds only, like cpu.max.
"""

from __future__ import annotations

BURST = 0.1  # seconds of unused share that are kept
SLACK = 0.05  # seconds of share that may be overdrawn before a pause: pauses are that long at least
TICK = 0.01  # seconds between two measurements of a cage that runs
IDLE_TICK = 0.05  # ... of one that uses nothing


class Duty:
    """One cage's balance, in CPU seconds; it starts with nothing saved and runs."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.stopped = False
        self._balance = 0.0
        self._idle = False

    def account(self, used: float, elapsed: float) -> bool:
        """Books what was used in the time that passed; whether the cage is to be stopped from now on."""
        self._balance = min(self._balance + self.rate * elapsed - used, self.rate * BURST)
        self._idle = used <= 0 and not self.stopped  # what was stopped is about to use all that it can
        return self._balance < (0.0 if self.stopped else -SLACK * self.rate)

    @property
    def pause(self) -> float:
        """Seconds until the next measurement: when a stopped cage has waited for what it overdrew."""
        if self.stopped:
            return max(TICK, -self._balance / self.rate)
        return IDLE_TICK if self._idle else TICK
