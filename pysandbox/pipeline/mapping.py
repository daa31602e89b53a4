"""One function over many items, each in a worker of its own; so many at a time as there are descriptors for.

A running worker costs the host its socket, the memory that its output goes to, and that of a large answer. All of it is
read when the worker has answered or ended, so that none is lost however many there are.

Who waits for all results, of items that are there already, drives the calls himself: no thread is started for them.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator

from pysandbox.descriptors.polling import LONGEST_POLL
from pysandbox.errors import SandboxedError
from pysandbox.pipeline.answers import declared, returned_by, value_of
from pysandbox.pipeline.dispatch import KEPT, CageFuture, Dispatcher, QueuedCall, in_order
from pysandbox.pipeline.driven import DrivenCalls
from pysandbox.pipeline.exchange import CallExchange, CallWorker
from pysandbox.pipeline.packing import SentCall, packed, sent
from pysandbox.shapes import TYPE_CHECKING, Any, Protocol, dataclass

if TYPE_CHECKING:
    from pysandbox.pipeline.decoder import Shapes
    from pysandbox.pipeline.exchange import ReceivedAnswer

AT_HAND = frozenset((list, tuple, range, set, frozenset, dict, str, bytes))  # what has its items already
LARGEST = 16 << 20  # bytes of a result
SPARE = 40  # descriptors that are left to the rest of the program
OF_EACH = 3


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What became of one item. `error` is None where the function returned: `value` is then what it gave.

    `reason`: "exited"; "signaled", "seccomp", "timeout"; "oom" where the cage of all ran out of memory; "cancelled"
    where its template ended, or it was ended since what it said made no sense.
    """

    value: object
    error: str | None
    output: bytes
    reason: str
    traceback: str = ""

    @property
    def ok(self) -> bool:
        return self.error is None


class LendsWorkers(Protocol):
    """A template, as `map_items` knows it; `modules` go along with each call."""

    modules: tuple[str, ...]

    def take(self) -> CallWorker: ...


class LentWorkers:
    """The workers of a template, which goes on when nobody takes any more."""

    def __init__(self, template: LendsWorkers) -> None:
        self.take = template.take

    def close(self) -> None:
        pass


def map_items(
    template: LendsWorkers, function: Callable[[Any], object], items: Iterable[object], workers: int | None,
    timeout: float | None,
) -> list[WorkerResult]:  # fmt: skip
    """Raises TypeError, ValueError, and what no item has to do with: CageClosedError, OSError."""
    if type(items) not in AT_HAND:  # to ask for the next one may take its time, in which calls have to be attended
        return list(_through_futures(template, function, items, workers, timeout, sys.maxsize))
    most, named, shapes = _room_for(workers), sent(function), declared(returned_by(function))
    results: dict[int, WorkerResult] = {}
    at: dict[CallExchange, int] = {}
    running = DrivenCalls()

    def attend(longest: float = LONGEST_POLL) -> None:
        for exchange, outcome in running.advance(longest):
            results[at.pop(exchange)] = _outcome(exchange, outcome, shapes)

    try:
        for number, item in enumerate(items):
            pieces = packed(SentCall(named, (item,), modules=template.modules))
            while len(running) >= most:
                attend()
            exchange = CallExchange(template.take(), pieces, timeout=timeout, most=LARGEST, number=number + 1)
            at[exchange] = number
            running.add(exchange)
            attend(0)  # who has answered meanwhile has done so in time, however long the next item takes
        while running:
            attend()
    finally:
        running.close()
    return [results[number] for number in range(len(results))]


def imap_items(
    template: LendsWorkers, function: Callable[[Any], object], items: Iterable[object], workers: int | None,
    timeout: float | None,
) -> Iterator[WorkerResult]:  # fmt: skip
    """As `map_items`; items are taken as they are needed: KEPT results for each worker may wait for one before them."""
    return _through_futures(template, function, items, workers, timeout, KEPT)


def _through_futures(
    template: LendsWorkers, function: Callable[[Any], object], items: Iterable[object], workers: int | None,
    timeout: float | None, kept: int,
) -> Iterator[WorkerResult]:  # fmt: skip
    most, named, shapes = _room_for(workers), sent(function), declared(returned_by(function))
    calls = Dispatcher(LentWorkers(template), most)

    def submitted(item: object) -> CageFuture[object]:
        future: CageFuture[object] = CageFuture()
        calls.submit(
            QueuedCall(
                future, packed(SentCall(named, (item,), modules=template.modules)), lambda: shapes, timeout, LARGEST
            )
        )
        return future

    def results() -> Iterator[WorkerResult]:
        try:
            for done in in_order(map(submitted, items), most, min(kept * most, sys.maxsize)):
                yield _result(done)
        finally:
            calls.shutdown(wait=True, cancel_futures=True)

    return results()


def _outcome(exchange: CallExchange, outcome: ReceivedAnswer | Exception, shapes: Shapes) -> WorkerResult:
    """Raises what no item has to do with."""
    try:
        if isinstance(outcome, Exception):
            raise outcome
        return WorkerResult(value_of(outcome, shapes), None, exchange.printed, "exited")
    except SandboxedError as error:
        return _failed(error, exchange.printed)


def _result(future: CageFuture[object]) -> WorkerResult:
    try:
        return WorkerResult(future.result(), None, future.printed, "exited")
    except SandboxedError as error:
        return _failed(error, future.printed)


def _failed(error: SandboxedError, printed: bytes) -> WorkerResult:
    reason = "exited" if error.reason == "raised" else error.reason
    return WorkerResult(None, error.message, printed, reason, error.traceback)


def _room_for(workers: int | None) -> int:
    """How many run at a time. Raises ValueError."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    return min(workers or 2 * (os.cpu_count() or 1), max(1, (soft - used - SPARE) // OF_EACH))
