"""When to look next at something that grows towards a limit: soon when it grows or the limit is near, else seldom. Pure
but for the clock of the thread that looks.

What a look costs is counted in the CPU time of the watchdog's thread: on a busy host a look takes long without costing
much, and who pauses for that as well sees least where most happens.
"""

from __future__ import annotations

import os
import time

SOONEST, LATEST = 0.004, 0.2  # seconds between two looks
FILL_RATE = (2 << 30) * min(4, os.cpu_count() or 1)  # bytes a second that may begin to be filled at any moment
GROWS = 1 << 20  # bytes between two looks
# Looks take a tenth of the time at most, a third where the limit is near, half where it comes before the next one.
COST_SHARE, URGENT_SHARE = 10, 3
NEAR = 0.5  # seconds until it is reached, at twice the speed that was seen


def cpu_clock() -> float:
    """CPU seconds of this thread."""
    return time.thread_time()


class Pace:
    """How often to look at one limit of one cage."""

    def __init__(self) -> None:
        self._used, self._size, self._at = 0, 0, float("-inf")

    def may_be_filled(self, limit: int, within: float) -> bool:
        """Whether what was left at the last look could be gone within that many seconds."""
        return limit - self._used < FILL_RATE * within

    def pause(
        self, used: int, limit: int, now: float, cost: float, *, size: int | None = None, hurry: bool = False
    ) -> float:
        """Seconds until the next look. `cost`: CPU seconds of this one. `size`: what tells the growth where looks are
        not equally close, so that `used` may fall while there is more. `hurry`: this one did not see all."""
        size = used if size is None else size
        grew, since = size - self._size, now - self._at
        self._used, self._size, self._at = used, size, now
        rate = 2 * grew / since if grew > GROWS and since > 0 else 0.0
        left = max(0, limit - used)
        near = hurry or left < rate * NEAR
        share = (1 if left < rate * cost * URGENT_SHARE else URGENT_SHARE) if near else COST_SHARE
        wanted = SOONEST if hurry else min(left / max(rate, FILL_RATE), LATEST)
        return max(wanted, SOONEST, cost * share)
