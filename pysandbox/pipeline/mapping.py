"""One function over many items, each in a worker of its own; so many at a time as there are descriptors for.

A running worker costs the host its socket, the memory that its output goes to, and that of a large answer. All of it is
read when the worker has answered or ended, so that none is lost however many there are.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator

from pysandbox.errors import SandboxedError
from pysandbox.pipeline.answers import declared, returned_by
from pysandbox.pipeline.dispatch import KEPT, CageFuture, Dispatcher, QueuedCall, in_order
from pysandbox.pipeline.exchange import CallWorker
from pysandbox.pipeline.packing import SentCall, packed, sent
from pysandbox.shapes import Any, Protocol, dataclass

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
    """A template, as `map_items` knows it."""

    def take(self) -> CallWorker: ...


class LentWorkers:
    """Those of a template that goes on when nobody takes any more."""

    def __init__(self, template: LendsWorkers) -> None:
        self.take = template.take

    def close(self) -> None:
        pass


def map_items(
    template: LendsWorkers, function: Callable[[Any], object], items: Iterable[object], workers: int | None,
    timeout: float | None, kept: int | None = KEPT,
) -> Iterator[WorkerResult]:  # fmt: skip
    """Items are taken as they are needed: `kept` results for each worker may wait for one before them. Raises
    TypeError, ValueError, and what no item has to do with: CageClosedError, OSError."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    most = min(workers or 2 * (os.cpu_count() or 1), _room_for_workers())
    named, shapes = sent(function), declared(returned_by(function))
    calls = Dispatcher(LentWorkers(template), most)

    def submitted(item: object) -> CageFuture[object]:
        future: CageFuture[object] = CageFuture()
        calls.submit(QueuedCall(future, packed(SentCall(named, (item,))), lambda: shapes, timeout, LARGEST))
        return future

    def results() -> Iterator[WorkerResult]:
        try:
            for done in in_order(map(submitted, items), most, sys.maxsize if kept is None else kept * most):
                yield _result(done)
        finally:
            calls.shutdown(wait=True, cancel_futures=True)

    return results()


def _result(future: CageFuture[object]) -> WorkerResult:
    try:
        return WorkerResult(future.result(), None, future.printed, "exited")
    except SandboxedError as error:
        reason = "exited" if error.reason == "raised" else error.reason
        return WorkerResult(None, error.message, future.printed, reason, error.traceback)


def _room_for_workers() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    return max(1, (soft - used - SPARE) // OF_EACH)
