"""How much of the host's time may go into looking who asks, for each cage: a share of it, and some at once.

Which process it is, and of which command, is worth a look while refusals are few. A cage that makes each look long (a
chain of forks, thousands of descriptors) and asks without pause is not looked at any more for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CREDIT, SHARE = 0.25, 0.05  # seconds of looks at once, and for each second later on


class LookCredit:
    """Any thread may call any method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._left, self._at = CREDIT, clock()

    @property
    def is_left(self) -> bool:
        with self._lock:
            now = self._clock()
            self._left = min(CREDIT, self._left + (now - self._at) * SHARE)
            self._at = now
            return self._left > 0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """What happens meanwhile is a look."""
        began = self._clock()
        try:
            yield
        finally:
            took = self._clock() - began
            with self._lock:
                self._left -= took
