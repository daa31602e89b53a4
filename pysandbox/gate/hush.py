"""A flag that silences senders: what is sent under it is sent before the flag is raised, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Hush:
    """Raised once, by any thread; never lowered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_silent = False

    def silence(self) -> None:
        with self._lock:
            self.is_silent = True

    @contextmanager
    def spoken(self) -> Iterator[bool]:
        """Whether something may be sent, for as long as it is being sent."""
        with self._lock:
            yield not self.is_silent
