"""One Process in many threads, one library in forked copies: no descriptor is used once it is another file's, no lock
stays held by nobody.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from _support.hosts import comes_true
from pysandbox import PIPE, Cage, CageClosedError, Process, Runtime

TALKS: dict[str, Callable[[Process], object]] = {
    "communicate": lambda process: process.communicate(),
    "wait": lambda process: process.wait(),
    "result": lambda process: process.result(),
}


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("session", [False, True], ids=["one-shot", "session"])
def test_a_process_closed_while_another_thread_talks_to_it(talk: str, session: bool) -> None:
    """The numbers it had are taken at once by pipes that hold other words: none of them is ever read."""
    with ExitStack() as stack:
        cage = stack.enter_context(Cage()) if session else Cage()
        process = cage.spawn(["/bin/sh", "-c", "echo ours; exec sleep 600"], stdout=PIPE, stderr=PIPE)
        ended: list[object] = []
        entered = threading.Event()

        def talking() -> None:
            entered.set()
            try:
                ended.append(TALKS[talk](process))
            except CageClosedError as error:
                ended.append(error)

        thread = threading.Thread(target=talking)
        thread.start()
        entered.wait()
        assert comes_true(lambda: process.in_use.count)

        process.close()
        pipes = [stack.enter_context(other_words()) for _ in range(20)]
        thread.join()

        assert len(ended) == 1
        assert "theirs" not in repr(ended)
        assert all(select.select([pipe], [], [], 0)[0] for pipe in pipes), "what the others wrote is still theirs"
        assert (process.fileno(), process.state.streams.stdio.stdout) == (-1, -1)


class other_words:  # noqa: N801 - used as a function
    """A pipe with something in it, opened as soon as a number is free."""

    def __enter__(self) -> int:
        self._read, write = os.pipe()
        os.write(write, b"theirs")
        os.close(write)
        return self._read

    def __exit__(self, *_: object) -> None:
        os.close(self._read)


def test_many_threads_may_close_one_process() -> None:
    process = Cage().spawn(["/bin/sleep", "600"], stdout=PIPE)
    threads = [threading.Thread(target=process.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.poll() == -9


LOCKS: dict[str, Callable[[Runtime, Cage, Process], object]] = {
    "runtime": lambda runtime, cage, process: runtime._lock,
    "plans": lambda runtime, cage, process: runtime.plans._lock,
    "shared": lambda runtime, cage, process: runtime.shared._making,
    "pool": lambda runtime, cage, process: runtime._pool._lock,
    "worker": lambda runtime, cage, process: runtime._worker._lock,
    "recorder": lambda runtime, cage, process: runtime._recorder._lock,
    "cage": lambda runtime, cage, process: cage._lock,
    "live": lambda runtime, cage, process: process.state.live._lock,
    "process": lambda runtime, cage, process: process.state._lock,
    "users": lambda runtime, cage, process: process.in_use._lock,
}


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("session", [False, True], ids=["one-shot", "session"])
def test_a_forked_copy_is_not_held_up_by_a_lock_of_another_thread(name: str, session: bool) -> None:
    runtime = Runtime()
    cage = Cage(runtime=runtime)
    if session:
        cage.open()
    process = cage.spawn(["/bin/sleep", "600"])
    runtime.wait_idle()
    lock = LOCKS[name](runtime, cage, process)
    with held_elsewhere(lock):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                process.close()
                cage.close()
                code = 0 if Cage(runtime=runtime).run(["/bin/true"]).ok else 2
                runtime.drain()
            finally:
                os._exit(code)
        pidfd = os.pidfd_open(pid)
        done = select.select([pidfd], [], [], 30)[0]
        os.close(pidfd)
        if not done:
            os.kill(pid, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0
    assert process.poll() is None, "the original's command runs on"
    process.close()
    cage.close()
    runtime.drain()


class held_elsewhere:  # noqa: N801 - used as a function
    """A lock that another thread has for the time of the block."""

    def __init__(self, lock: object) -> None:
        self._lock = lock
        self._held, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._lock:  # type: ignore[attr-defined]
            self._held.set()
            self._over.wait()

    def __enter__(self) -> None:
        self._thread.start()
        self._held.wait()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
