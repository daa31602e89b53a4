"""Templates that have loaded what a program loads: libraries with threads, locks and hooks of fork of their own."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from pysandbox import Policy, Template


def rows_of_a_table(rows: int) -> int:
    return int(pyarrow.table({"n": list(range(rows))}).num_rows)  # type: ignore[name-defined] # noqa: F821 - of `init`


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_pyarrow_starts_no_thread_as_it_is_loaded() -> None:
    with Template(Policy(), init="pyarrow, numpy") as template:
        found = template.map(rows_of_a_table, [3])[0]
    assert found.value == 3, found.error


def with_hooks() -> None:
    global LOCK
    import os
    import threading

    LOCK = threading.Lock()
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def threads_and_locks(_: object) -> list[object]:
    import logging
    import os
    import threading

    logging.getLogger().addHandler(logging.StreamHandler())
    thread = threading.Thread(target=logging.warning, args=("from a thread",))
    thread.start()
    thread.join()
    return [threading.main_thread().native_id == threading.get_native_id() == os.getpid(), LOCK.locked()]


def forked_beside_a_thread(_: object) -> int:
    """In a child of a worker there is no other thread: the hook of `threading` is there for that fork."""
    import os
    import threading

    done = threading.Event()
    threading.Thread(target=done.wait).start()
    read, write = os.pipe()
    if not os.fork():
        os.write(write, b"%d" % threading.active_count())
        os._exit(0)
    os.wait()
    done.set()
    return int(os.read(read, 8))


def test_a_child_of_a_worker_is_made_as_any_is() -> None:
    with Template(Policy(), init="threading") as template:
        assert template.map(forked_beside_a_thread, [0])[0].value == 1


def test_threads_logging_and_hooks_work_in_a_worker() -> None:
    with Template(Policy(), init="asyncio, logging", preload=with_hooks) as template:
        found = template.map(threads_and_locks, [0, 1])
    assert [each.value for each in found] == [[True, False]] * 2
    assert b"from a thread" in found[0].output
