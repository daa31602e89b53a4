"""The one background thread of a Runtime: it opens cages ahead and collects ended ones, so that no caller waits.

It starts with the first task. IDLE seconds without one it calls `on_idle`, and ends when that returns True; `drain`
waits until nothing is left to do, and has done at once what was put off. Where the user can have no further thread
(`ulimit -u`), tasks wait for the next that is submitted, or for `drain`, which then does them itself.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pysandbox.launch.forgotten import wait_for_forgotten
from pysandbox.shapes import NamedTuple

IDLE = 5.0  # seconds


def always() -> bool:
    return True


class PutOff(NamedTuple):
    due: float  # time.monotonic()
    task: Callable[[], object]
    is_wanted: Callable[[], bool]  # still, asked before this is waited for, without the worker's lock


class Worker:
    """Runs callables in order. One that raises is handed to `on_error`; the next one runs all the same.

    The lock is reentrant: a garbage collection inside `submit` may end a forgotten Process, which submits.
    """

    def __init__(self, on_idle: Callable[[], bool], on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._tasks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._on_idle = on_idle
        self._lock = threading.RLock()
        self._later: list[PutOff] = []
        self._draining = 0  # threads
        self._pending = 0
        self._quiet = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], object]) -> None:
        with self._lock:
            self._pending += 1
            self._tasks.put(task)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="pysandbox-worker", daemon=True)
                with suppress(RuntimeError):  # "can't start new thread"
                    thread.start()
                    self._thread = thread

    def put_off(self, task: Callable[[], object], seconds: float, is_wanted: Callable[[], bool] = always) -> None:
        """Has it run so much later, unless it is not wanted any more when the worker has done the rest. Nobody is woken
        for it while there is a rest."""
        with self._lock:
            wakes = self._pending == len(self._later)
            self._pending += 1
            self._later.append(PutOff(0.0 if self._draining else time.monotonic() + seconds, task, is_wanted))
            if wakes:
                self.submit(lambda: None)

    def drain(self) -> None:
        """Returns when every task submitted so far has run, and what was forgotten has been ended."""
        wait_for_forgotten()
        with self._lock:
            self._draining += 1
            if self._later and self._thread is not None:  # it may wait for the time
                self.submit(lambda: None)
            self._later = [each._replace(due=0.0) for each in self._later]
        try:
            while (task := self._left_over()) is not None:
                self._do(task)
            with self._quiet:
                self._quiet.wait_for(lambda: self._pending == 0)
        finally:
            with self._lock:
                self._draining -= 1

    def _left_over(self) -> Callable[[], object] | None:
        """A task that no thread will do."""
        with self._lock:
            if self._thread is not None:
                return None
            return self._due() or (None if self._tasks.empty() else self._tasks.get_nowait())

    def _due(self) -> Callable[[], object] | None:
        """What was put off until now, and is not any more."""
        with self._lock:
            now = time.monotonic()
            for place, each in enumerate(self._later):
                if each.due <= now:
                    del self._later[place]
                    return each.task
        return None

    def _still_wanted(self) -> list[PutOff]:
        """What else was put off is forgotten. It is asked without the lock: who is asked has one of its own, and holds
        it where a garbage collection may submit something here."""
        with self._lock:
            asked = list(self._later)
        unwanted = {id(each) for each in asked if not each.is_wanted()}
        with self._lock:
            before, self._later = self._later, [each for each in self._later if id(each) not in unwanted]
            self._have_ended(len(before) - len(self._later))
            return list(self._later)

    def _have_ended(self, tasks: int) -> None:
        """With the lock."""
        self._pending -= tasks
        if self._draining:  # who else would wait for that
            self._quiet.notify_all()

    def _next(self) -> Callable[[], object]:
        """Raises queue.Empty after some time without a task."""
        while True:
            if not self._later:
                return self._tasks.get(timeout=IDLE)
            if (task := self._due()) is not None:
                return task
            waiting = [max(0.0, each.due - time.monotonic()) for each in self._still_wanted()]
            try:
                return self._tasks.get(timeout=min([IDLE, *waiting]))
            except queue.Empty:
                if not waiting:
                    raise

    def _run(self) -> None:
        while True:
            try:
                task = self._next()
            except queue.Empty:
                may_end = self._attempt(self._on_idle)
                with self._lock:
                    if may_end is True and self._tasks.empty():
                        self._thread = None
                        return
                continue
            with suppress(BaseException):  # others wait for what comes behind a task that leaves (SystemExit)
                self._do(task)
            del task  # and what it holds, before the wait for the next one

    def _do(self, task: Callable[[], object]) -> None:
        try:
            self._attempt(task)
        finally:
            with self._lock:
                self._have_ended(1)

    def _attempt(self, task: Callable[[], object]) -> object:
        try:
            return task()
        except Exception as error:
            with suppress(Exception):  # on_error ends in a sink of the user's, which must not end this thread
                self._on_error(error)
            return None
