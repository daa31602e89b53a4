"""The thread of a Dispatcher: whatever fails in it, nobody waits for ever."""

from __future__ import annotations

import os
import threading
from errno import EMFILE
from typing import Any

import pytest

from pysandbox.errors import CageError
from pysandbox.pipeline.dispatch import CageFuture, Dispatcher, QueuedCall


class NoWorkers:
    def take(self) -> Any:
        raise CageError("none is to be had")

    def close(self) -> None:
        return


def submitted(dispatcher: Dispatcher) -> CageFuture[Any]:
    future = CageFuture[Any]()
    dispatcher.submit(QueuedCall(future, (), dict, None, 0))
    return future


def test_what_ends_its_thread_is_told_to_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = Dispatcher(NoWorkers(), 1)

    def fail() -> None:
        raise OSError(EMFILE, "no descriptor is left")

    with monkeypatch.context() as patched:
        patched.setattr(dispatcher, "_begin_calls", fail)
        failed = [submitted(dispatcher).exception(timeout=20) for _ in range(3)]
    assert [each.errno for each in failed if isinstance(each, OSError)] == [EMFILE] * 3
    assert isinstance(submitted(dispatcher).exception(timeout=20), CageError), "and the next has a thread again"
    dispatcher.shutdown(wait=True, cancel_futures=False)


class SlowWorkers(NoWorkers):
    """Who has nothing but a failure for whoever waits, and that when it is let."""

    def __init__(self) -> None:
        self.asked, self.let = threading.Event(), threading.Event()

    def take(self) -> Any:
        self.asked.set()
        self.let.wait(20)
        return super().take()


@pytest.mark.parametrize("cancels", [True, False], ids=["cancelled", "failed"])
def test_the_thread_ends_when_what_waited_came_to_nothing(cancels: bool) -> None:
    """A call that is over before it began is answered by nobody: a wait for that would have no end but its own."""
    workers = SlowWorkers()
    dispatcher = Dispatcher(workers, 1)
    futures = [submitted(dispatcher)]
    assert workers.asked.wait(20)
    thread = next(each for each in threading.enumerate() if each.name == "pysandbox-calls")
    futures += [submitted(dispatcher) for _ in range(3)]
    with dispatcher._lock:
        os.eventfd_read(dispatcher._woken)  # as the thread does, when it has met its first call
    if cancels:
        assert all(each.cancel() for each in futures[1:])
    workers.let.set()
    thread.join(20)
    assert not thread.is_alive()


def test_who_cancels_a_call_as_it_begins_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, taken = CageFuture.begin, []

    def cancelled_meanwhile(future: CageFuture[Any], on_cancel: Any) -> None:
        future.cancel()
        begin(future, on_cancel)

    workers = NoWorkers()
    monkeypatch.setattr(workers, "take", lambda: taken.append(1))
    monkeypatch.setattr(CageFuture, "begin", cancelled_meanwhile)
    dispatcher = Dispatcher(workers, 1)
    future = submitted(dispatcher)
    dispatcher.shutdown(wait=True, cancel_futures=False)
    assert future.cancelled() and not taken
