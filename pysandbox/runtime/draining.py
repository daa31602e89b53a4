"""SIGTERM to the host ends its cages cleanly first, then does what it did before (LIFE-06).

The handler runs in the main thread, between any two of its instructions, which may hold any lock: so it only starts a
thread that does the work. When the cages are gone that thread sends the signal again, and the second time the handler
puts back what was there before it and passes the signal on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from pysandbox.shapes import Any


class DrainOnSignal:
    """The handler. `end_all` returns when the cages are gone, and may raise nothing."""

    def __init__(self, end_all: Callable[[], None]) -> None:
        self.end_all = end_all
        self._before: Any = signal.SIG_DFL
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._done = False

    def install(self, number: int) -> None:
        """Raises ValueError outside of the main thread."""
        before = signal.getsignal(number)
        if isinstance(before, DrainOnSignal) and before.end_all == self.end_all:
            return
        self._before = signal.SIG_DFL if before is None else before  # None: set by C, and not to be had back
        signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._done or os.getpid() != self._pid:  # a forked copy has no cages
            self._pass_on(number, frame)
        elif self._thread is None:  # a further signal changes nothing: the grace period is bounded
            self._thread = threading.Thread(target=self._drain, args=(number,), name="pysandbox-drain")
            self._thread.start()

    def _drain(self, number: int) -> None:
        try:
            self.end_all()
        finally:
            self._done = True
            os.kill(os.getpid(), number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, self._before)
        if callable(self._before):
            self._before(number, frame)
        elif self._before == signal.SIG_DFL:
            os.kill(os.getpid(), number)
