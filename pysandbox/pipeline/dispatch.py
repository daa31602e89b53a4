"""Calls that wait for a worker, and those that run: one thread for all of them, which lives while there are any.

    queued      nothing holds it but its future
    running     a CallExchange; every descriptor of all of them is in one poll(2) (`driven`)
    over        its future has the value, the failure, or was cancelled: then its worker was ended

The thread is no daemon, so that the interpreter's exit waits for what was submitted, as `concurrent.futures` has it;
and it ends when it has had nothing to do for a moment, so that a program which has nothing left to wait for ends.
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections import deque
from concurrent.futures import Future

from pysandbox.pipeline.answers import value_of
from pysandbox.pipeline.driven import DrivenCalls
from pysandbox.pipeline.exchange import CallExchange, CallWorker, logs_of
from pysandbox.shapes import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pysandbox.pipeline.decoder import Shapes
    from pysandbox.pipeline.exchange import ReceivedAnswer
    from pysandbox.shapes import Any

R = TypeVar("R")
IDLE = 0.05  # seconds without a call until the thread ends
LONGEST_POLL = 60.0
AHEAD = 2  # calls for each running worker whose arguments are kept
KEPT = 32  # results for each running worker that wait for the one before them


class CageFuture(Future, Generic[R]):  # type: ignore[type-arg]
    """What becomes of a call. Until its answer is there it can be cancelled: one that runs is then killed, with its
    worker. `printed` is what it has printed, when it is done, and `logs` that as text."""

    def __init__(self) -> None:
        super().__init__()
        self.printed = b""
        self._under_way = False
        self._on_cancel: Callable[[], None] | None = None

    def begin(self, on_cancel: Callable[[], None]) -> None:
        """For who carries it out."""
        self._on_cancel, self._under_way = on_cancel, True

    @property
    def logs(self) -> str:
        return logs_of(self.printed)

    def running(self) -> bool:
        return self._under_way and not self.done()

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled and self._on_cancel is not None:
            self._on_cancel()
        return cancelled

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host nobody will answer it; and another thread may have held its lock at the fork."""
        if self._state not in ("CANCELLED_AND_NOTIFIED", "FINISHED"):
            self.__init__()  # type: ignore[misc]
            self.cancel()


def in_order(futures: Iterable[CageFuture[R]], at_a_time: int, kept: int) -> Iterator[CageFuture[R]]:
    """Each, for whoever asks for its result. So many are unfinished at most, some of which run; and of those that wait
    for one before them, `kept`, so that there may be any number of them. Who stops iterating ends the rest."""
    taken, left, places = deque[CageFuture[R]](), iter(futures), threading.Semaphore(AHEAD * at_a_time)
    try:
        while True:
            while len(taken) < kept and not (taken and taken[0].done()):
                places.acquire()
                future = next(left, None)
                if future is None:
                    kept = 0
                    break
                taken.append(future)
                future.add_done_callback(lambda _: places.release())
            if not taken:
                return
            yield taken[0]
            taken.popleft()
    finally:
        for future in taken:
            future.cancel()


class QueuedCall(NamedTuple):
    future: CageFuture[Any]
    pieces: Sequence[bytes | memoryview]
    shapes: Callable[[], Shapes]
    timeout: float | None
    most: int


class CallWorkers(Protocol):
    """Where workers come from: each is taken once."""

    def take(self) -> CallWorker:
        """One that is ready, or will be. Raises CageError."""

    def close(self) -> None:
        """Ends those that nobody took; no more are taken. Idempotent."""


class Dispatcher:
    """At most `most` calls run. Any thread may submit."""

    def __init__(self, source: CallWorkers, most: int) -> None:
        self._source, self._most = source, most
        self._queue: deque[QueuedCall] = deque()
        self._running: dict[CallExchange, QueuedCall] = {}
        self._driven = DrivenCalls()
        self._thread: threading.Thread | None = None
        self._woken = -1
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()
        _ALL.add(self)

    def submit(self, call: QueuedCall) -> None:
        """Raises RuntimeError after `shutdown`, and where no thread can be started."""
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._thread is None:
                self._start()
            self._queue.append(call)
            os.eventfd_write(self._woken, 1)

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        """What was submitted is carried out, but for what has not begun, where that is cancelled."""
        with self._lock:
            self._closed = True
            thread, queued = self._thread, list(self._queue) if cancel_futures else []
            if cancel_futures:
                self._queue.clear()
        for each in queued:
            each.future.cancel()
            each.future.set_running_or_notify_cancel()
        if thread is None:
            self._source.close()
        self._wake()
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def after_fork_in_child(self) -> None:
        """What runs and what waits is the original's."""
        self._lock, self._thread = threading.Lock(), None
        for call in self._running.values():
            call.future.after_fork_in_child()
        for call in self._queue:
            call.future.after_fork_in_child()
        if self._woken >= 0:
            os.close(self._woken)
        self._woken, self._running, self._queue = -1, {}, deque()

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._driven = DrivenCalls(self._woken)
        self._thread = threading.Thread(target=self._serve, name="pysandbox-calls", daemon=False)
        try:
            self._thread.start()
        except BaseException:
            os.close(self._woken)
            self._woken, self._thread = -1, None
            raise

    def _wake(self) -> None:
        with self._lock:
            if self._woken >= 0:
                os.eventfd_write(self._woken, 1)

    def _serve(self) -> None:
        try:
            self._serve_calls()
        except Exception as error:  # of the host's own: no memory, no descriptor
            self._give_up(error)
        if self._closed:
            self._source.close()

    def _give_up(self, error: Exception) -> None:
        """What was submitted hears why; the next call has a thread again."""
        with self._lock:
            queued, self._queue = list(self._queue), deque()
            running, self._running = self._running, {}
            os.close(self._woken)
            self._woken, self._thread = -1, None
        for exchange in running:
            exchange.abandon()
        for call in (*running.values(), *queued):
            _conclude(call.future, error=error)

    def _serve_calls(self) -> None:
        while not self._is_over():
            self._begin_calls()
            self._advance()
            for exchange, call in list(self._running.items()):
                if call.future.cancelled():
                    self._driven.remove(exchange)
                    self._over(exchange, exchange.abandon())

    def _is_over(self) -> bool:
        if not self._running and not self._queue and not self._closed:
            is_woken(self._woken, IDLE)
        with self._lock:
            if self._running or self._queue:
                return False
            os.close(self._woken)
            self._woken, self._thread = -1, None
            return True

    def _begin_calls(self) -> None:
        while len(self._running) < self._most:
            with self._lock:
                call = self._queue.popleft() if self._queue else None
            if call is None:
                return
            call.future.begin(self._wake)  # first: who cancels from here on wakes us
            if call.future.cancelled():
                call.future.set_running_or_notify_cancel()
                continue
            self._count += 1
            try:
                worker = self._source.take()
                exchange = CallExchange(worker, call.pieces, timeout=call.timeout, most=call.most, number=self._count)
            except Exception as error:
                _conclude(call.future, error=error)
                continue
            self._running[exchange] = call
            self._driven.add(exchange)

    def _advance(self) -> None:
        """Where nothing runs, all that waited was cancelled or has failed, and nobody would end a wait."""
        for exchange, outcome in self._driven.advance(LONGEST_POLL if self._running else 0):
            self._over(exchange, outcome)
        if self._driven.was_woken:
            os.eventfd_read(self._woken)

    def _over(self, exchange: CallExchange, what: ReceivedAnswer | Exception) -> None:
        call = self._running.pop(exchange)
        if isinstance(what, Exception):
            _conclude(call.future, error=what, printed=exchange.printed)
            return
        try:
            value = value_of(what, call.shapes())
        except Exception as error:
            _conclude(call.future, error=error, printed=what.printed)
        else:
            _conclude(call.future, value, printed=what.printed)


def is_woken(fd: int, patience: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(patience * 1000))


def _conclude(
    future: CageFuture[Any], value: object = None, *, error: Exception | None = None, printed: bytes = b""
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    future.printed = printed
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


_ALL: weakref.WeakSet[Dispatcher] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in list(_ALL):
        each.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
