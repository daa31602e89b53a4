"""A bound on the tasks of a cage that run at once; the thread that ends first runs the next one that waits.

A task may be a user's callback: whatever it raises, its turn is given back, and the next one runs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]


class BoundedTasks:
    """At most so many tasks at once. `complain` is called with what a task raised; it raises nothing itself."""

    def __init__(self, most: int, complain: Callable[[BaseException], None]) -> None:
        self._most, self._complain = most, complain
        self._lock = threading.Lock()
        self._busy = 0
        self._backlog: deque[Task] = deque()

    def run(self, task: Task, step_back: Task) -> None:
        """Runs the task now, or leaves it to a thread that is busy. `step_back`: see Supervision.handle."""
        with self._lock:
            if self._busy >= self._most:
                self._backlog.append(task)
                return
            self._busy += 1
        self._attempt(step_back)
        current: Task | None = task
        while current is not None:
            self._attempt(current)
            current = self._next()

    def _attempt(self, task: Task) -> None:
        try:
            task()
        except BaseException as error:  # SystemExit and its like too: a thread that died would keep its turn for good
            self._complain(error)

    def _next(self) -> Task | None:
        with self._lock:
            if self._backlog:
                return self._backlog.popleft()
            self._busy -= 1
            return None
