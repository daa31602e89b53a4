"""Any thread may use any cage: one cage from many threads, many cages at once, and thousands in a row without a
leak.
"""

from __future__ import annotations

import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import pysandbox
from pysandbox import Cage, testing

THREADS = 64
IN_A_ROW = 10_000 if os.environ.get("PSB_SOAK") else 2_000


def test_one_cage_serves_many_threads() -> None:
    with Cage() as cage, ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda number: cage.run(["/bin/echo", str(number)], timeout=60).stdout, range(200)))

    assert said == [f"{number}\n" for number in range(200)]


def test_sixty_four_threads_start_a_cage_each_at_the_same_time() -> None:
    together = threading.Barrier(THREADS)

    def start(number: int) -> str:
        together.wait(timeout=60)
        return str(pysandbox.run(["/bin/echo", str(number)], timeout=60).stdout)

    with ThreadPoolExecutor(THREADS) as pool:
        said = list(pool.map(start, range(THREADS)))

    assert said == [f"{number}\n" for number in range(THREADS)]


def test_a_cage_may_be_closed_while_others_wait_on_it() -> None:
    ended: list[str] = []

    def wait_on(cage: Cage) -> None:
        try:
            ended.append(cage.run(["/bin/sleep", "600"]).reason)
        except pysandbox.CageError as error:
            ended.append(type(error).__name__)

    with Cage() as cage:
        waiting = [threading.Thread(target=wait_on, args=(cage,)) for _ in range(8)]
        for thread in waiting:
            thread.start()
        cage.close()
        for thread in waiting:
            thread.join(timeout=20)

    assert len(ended) == 8 and not any(thread.is_alive() for thread in waiting)


def test_a_thread_that_ends_does_not_take_its_cage_with_it() -> None:
    """The parent-death signal is sent when the *thread* that forked ends: a cage must not depend on it."""
    made: list[Cage] = []

    def make() -> None:
        made.append(Cage().__enter__())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    try:
        assert made[0].run(["/bin/echo", "alive"], timeout=20).stdout == "alive\n"
    finally:
        made[0].close()


def test_a_fork_of_the_host_does_not_keep_a_cage_alive() -> None:
    cage = Cage()
    with cage:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        os.close(read_end)
        init = cage.init_pid
        cage.close()
        alive = init is not None and os.path.exists(f"/proc/{init}/exe")
        os.close(write_end)
        os.waitpid(child, 0)

    assert not alive


@pytest.mark.slow
def test_thousands_in_a_row_leave_nothing() -> None:
    pysandbox.run(["/bin/true"])
    testing.drain()
    descriptors = len(os.listdir("/proc/self/fd"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for number in range(IN_A_ROW):
        result = pysandbox.run(["/bin/echo", str(number)])
        assert result.stdout == f"{number}\n"

    testing.drain()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 20_000, "KiB"
