"""launch/worker.py: every task is done, also where the user can have no further thread."""

from __future__ import annotations

import threading
import time

import pytest

from pysandbox.launch.worker import Worker


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_tasks_are_done_in_order_and_a_failure_is_told() -> None:
    done: list[object] = []
    worker = Worker(lambda: True, done.append)
    failure = ValueError("no")

    def fail() -> None:
        raise failure

    for task in (lambda: done.append(1), fail, lambda: done.append(2)):
        worker.submit(task)
    worker.drain()
    assert done == [1, failure, 2]


def test_without_a_thread_drain_does_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    worker = Worker(lambda: True, done.append)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        worker.submit(lambda: done.append(1))
        worker.submit(lambda: worker.submit(lambda: done.append(3)))
        assert done == []
        worker.drain()
    assert done == [1, 3]


def test_the_next_task_brings_the_thread_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    worker = Worker(lambda: True, done.append)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        worker.submit(lambda: done.append(threading.current_thread().name))
    worker.submit(lambda: done.append(threading.current_thread().name))
    worker.drain()
    assert done == ["pysandbox-worker"] * 2


def test_what_is_put_off_waits_for_its_time_or_for_a_drain() -> None:
    done, over = list[object](), threading.Event()
    worker = Worker(lambda: True, done.append)
    worker.submit(lambda: worker.put_off(over.set, 0.01))
    assert over.wait(60)
    over.clear()
    worker.submit(lambda: worker.put_off(lambda: done.append("put off"), 3600))
    worker.submit(lambda: done.append("now"))
    worker.submit(over.set)
    assert over.wait(60)
    assert done == ["now"]
    worker.drain()
    assert done == ["now", "put off"]


def test_what_is_put_off_while_somebody_drains_is_done_at_once() -> None:
    done, begun, drained = list[object](), threading.Event(), threading.Event()
    worker = Worker(lambda: True, done.append)

    def task() -> None:
        begun.set()
        while not worker._draining:
            drained.wait(0.001)
        worker.put_off(lambda: done.append("put off"), 3600)

    worker.submit(task)
    assert begun.wait(60)
    worker.drain()
    assert done == ["put off"]


def test_without_a_thread_drain_does_what_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    worker = Worker(lambda: True, done.append)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    worker.submit(lambda: worker.put_off(lambda: done.append(1), 3600))
    worker.drain()
    assert done == [1]


def test_any_thread_may_put_something_off() -> None:
    over = threading.Event()
    worker = Worker(lambda: True, lambda _: None)
    worker.put_off(over.set, 0.01)
    assert over.wait(60)
    worker.drain()


def test_what_is_put_off_while_there_is_something_to_do_wakes_nobody() -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()
    worker = Worker(lambda: True, lambda _: None)
    worker.submit(lambda: (begun.set(), go_on.wait(60)))
    assert begun.wait(60)
    worker.put_off(over.set, 0.01)
    assert worker._tasks.empty()
    go_on.set()
    assert over.wait(60)
    worker.drain()


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    done, wanted = list[object](), [True]
    worker = Worker(lambda: True, done.append)
    worker.put_off(lambda: done.append("put off"), 3600, lambda: wanted[0])
    seen = threading.Event()
    worker.submit(seen.set)
    assert seen.wait(60) and len(worker._later) == 1, "the control"
    wanted.clear()
    wanted.append(False)
    again = threading.Event()
    worker.submit(again.set)
    assert again.wait(60)
    deadline = time.monotonic() + 60
    while worker._later and time.monotonic() < deadline:
        time.sleep(0.001)
    worker.drain()
    assert not done and worker._pending == 0


def test_who_is_asked_is_asked_without_the_lock() -> None:
    """It has a lock of its own, and who holds that may submit something, in a garbage collection."""
    was_free: list[bool] = []
    asked = threading.Event()

    def is_wanted() -> bool:
        other = threading.Thread(target=worker.submit, args=(lambda: None,), daemon=True)
        other.start()
        other.join(5)
        was_free.append(not other.is_alive())
        asked.set()
        return False

    worker = Worker(lambda: True, lambda _: None)
    worker.put_off(lambda: None, 3600, is_wanted)
    assert asked.wait(60)
    worker.drain()
    assert was_free[0]


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
def test_a_task_that_would_end_its_thread_ends_nothing(raised: type[BaseException]) -> None:
    """A sink of the user's may call sys.exit."""
    done: list[object] = []
    worker = Worker(lambda: True, done.append)

    def leave() -> None:
        raise raised

    worker.submit(leave)
    worker.submit(lambda: done.append(1))
    worker.drain()
    assert done == [1]
