"""The thread of a Dispatcher: whatever fails in it, nobody waits for ever."""

from __future__ import annotations

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
