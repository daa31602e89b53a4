"""CageExecutor is an executor of concurrent.futures: submit, map, cancel, shutdown, exit and forks of the host."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, as_completed, wait
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from _support.hosts import comes_true
from pysandbox import CageExecutor, CageFuture, Policy, PolicyError, SandboxedError, TemplateError

PATIENCE = 60
WALLS = ["cage", pytest.param("worker", marks=pytest.mark.landlock(6))]


@dataclass
class Point:
    x: int
    y: int


def turned(point: Point) -> Point:
    print("turning")
    return Point(point.y, point.x)


def square(number: int) -> int:
    return number * number


def with_function(function, number):  # type: ignore[no-untyped-def]
    return function(number)


def sleeps() -> None:
    time.sleep(600)


def ends(how: str) -> None:
    if how == "exits":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def prepared_with() -> list[object]:
    return [getattr(sys, "prepared", None), "decimal" in sys.modules]


def prepare(what: str) -> None:
    sys.prepared = what  # type: ignore[attr-defined]


def takes_memory(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def spins() -> None:
    while True:
        pass


def leaves_a_trace() -> list[object]:
    found = [getattr(sys, "prepared", None), hasattr(sys, "trace_of_another") or os.path.exists("trace")]
    sys.trace_of_another = True  # type: ignore[attr-defined]
    Path("trace").touch()
    return found


def fails() -> None:
    raise LookupError("nothing there")


@pytest.fixture(params=WALLS)
def isolate(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def executor(isolate: str) -> Iterator[CageExecutor]:
    with CageExecutor(max_workers=2, timeout=PATIENCE, isolate=isolate) as made:
        yield made


def test_a_call_has_its_value_its_logs_and_its_error(executor: CageExecutor) -> None:
    future = executor.submit(turned, Point(1, 2))
    assert (future.result(PATIENCE), future.logs) == (Point(2, 1), "turning\n")
    failed = executor.submit(fails)
    error = failed.exception(PATIENCE)
    assert isinstance(error, SandboxedError) and (error.kind, error.reason) == ("LookupError", "raised")


def test_functions_go_as_arguments_too(executor: CageExecutor) -> None:
    assert executor.submit(with_function, square, 3).result(PATIENCE) == 9
    assert executor.submit(functools.partial(square, 4)).result(PATIENCE) == 16
    assert executor.submit(sorted, [2, 1], reverse=True).result(PATIENCE) == [2, 1]
    around = 5
    assert executor.submit(lambda: around).result(PATIENCE) == 5, "by cloudpickle"


def test_map_keeps_the_order_and_takes_chunks(executor: CageExecutor) -> None:
    assert list(executor.map(square, range(5))) == [0, 1, 4, 9, 16]
    assert list(executor.map(square, range(7), chunksize=3)) == [0, 1, 4, 9, 16, 25, 36]
    assert list(executor.map(pow, [2, 3], [3, 2], chunksize=2)) == [8, 9]
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(square, [1], chunksize=0)


def test_what_cannot_be_sent_fails_in_submit_and_alone(executor: CageExecutor) -> None:
    with pytest.raises(TypeError):
        executor.submit(square, threading.Lock())  # type: ignore[arg-type]
    assert executor.submit(square, 2).result(PATIENCE) == 4


@pytest.mark.parametrize("how, reason", [("exits", "exited"), ("is killed", "signaled")])
def test_a_worker_that_dies_fails_its_own_call(executor: CageExecutor, how: str, reason: str) -> None:
    dead, well = executor.submit(ends, how), executor.submit(square, 3)
    error = dead.exception(PATIENCE)
    assert isinstance(error, SandboxedError) and "without an answer" in str(error) and error.reason == reason
    assert well.result(PATIENCE) == 9


def test_each_interpreter_is_prepared(isolate: str) -> None:
    with CageExecutor(isolate=isolate, max_workers=1, init="decimal", initializer=prepare, initargs=("yes",)) as made:
        assert [made.submit(prepared_with).result(PATIENCE) for _ in range(2)] == [["yes", True]] * 2
    with CageExecutor(isolate=isolate, max_workers=1, initializer=fails) as made:
        error = made.submit(square, 1).exception(PATIENCE)
    assert isinstance(error, SandboxedError | TemplateError) and "nothing there" in str(error)


def test_a_call_that_runs_and_one_that_waits_can_be_cancelled(isolate: str) -> None:
    with CageExecutor(isolate=isolate, max_workers=1) as made:
        running, queued = made.submit(sleeps), made.submit(sleeps)
        assert comes_true(running.running) and not queued.running()
        assert queued.cancel() and running.cancel() and running.cancel()
        assert wait([running, queued], PATIENCE).not_done == set()
        for each in (running, queued):
            with pytest.raises(CancelledError):
                each.result(0)
        last = made.submit(square, 3)
        assert list(as_completed([last], PATIENCE)) == [last] and not last.cancel()


def test_shutdown_carries_out_or_cancels_what_waits(isolate: str) -> None:
    made = CageExecutor(isolate=isolate, max_workers=1)
    futures = [made.submit(square, each) for each in range(3)]
    made.shutdown()
    assert [each.result(0) for each in futures] == [0, 1, 4]
    with pytest.raises(RuntimeError, match="after shutdown"):
        made.submit(square, 1)
    made = CageExecutor(isolate=isolate, max_workers=1)
    running = made.submit(sleeps)
    assert comes_true(running.running)
    many: list[CageFuture[int]] = [made.submit(square, each) for each in range(1000)]
    made.shutdown(wait=False, cancel_futures=True)
    assert all(each.cancelled() for each in many) and not running.done()
    running.cancel()
    made.shutdown()


def test_cancelled_tasks_end_their_calls(isolate: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(made, square, 4) == 16
        with anyio.move_on_after(0.3):
            await loop.run_in_executor(made, sleeps)

    with CageExecutor(isolate=isolate, max_workers=1) as made:
        asyncio.run(main())
        assert made.submit(square, 5).result(PATIENCE) == 25, "the only place is free again"


def test_a_worker_that_never_answers_is_ended(isolate: str) -> None:
    with CageExecutor(isolate=isolate, max_workers=1, timeout=0.5) as made:
        error = made.submit(sleeps).exception(PATIENCE)
        assert isinstance(error, SandboxedError) and error.reason == "timeout"


SCRIPT = """
import os, sys
from pysandbox import CageExecutor
def square(number):
    return number * number
def sleeps():
    import time
    time.sleep(600)
executor = CageExecutor(max_workers=2, isolate=ISOLATE)
"""


def run(tmp_path: Path, isolate: str, text: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(f"ISOLATE = {isolate!r}\n" + SCRIPT + text)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_interpreter_s_exit_waits_for_a_full_queue(tmp_path: Path, isolate: str) -> None:
    told = run(
        tmp_path,
        isolate,
        "for each in range(6):\n    executor.submit(square, each).add_done_callback(lambda f: print(f.result()))\n",
    )
    assert sorted(told.split()) == ["0", "1", "16", "25", "4", "9"]


def test_a_forked_copy_of_the_host_has_an_executor_of_its_own(tmp_path: Path, isolate: str) -> None:
    told = run(
        tmp_path,
        isolate,
        "running = executor.submit(sleeps)\n"
        "assert executor.submit(square, 3).result() == 9\n"
        "if not (child := os.fork()):\n"
        "    print(running.cancelled(), executor.submit(square, 4).result(), flush=True)\n"
        "    executor.shutdown(); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(running.running(), executor.submit(square, 5).result(), running.cancel())\n",
    )
    assert told.split("\n")[:2] == ["True 16", "True 25 True"]


def templates() -> list[int]:
    """Those that this process has, by their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            init = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            host = int(Path(f"/proc/{init}/stat").read_text().rpartition(")")[2].split()[1])
            if host == os.getpid() and b"frozen_modules" in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except (OSError, IndexError):  # it is over
            pass
    return found


def zygote_of(template: int) -> int:
    """The process that its workers are forked from: the first that it started."""
    return int(Path(f"/proc/{template}/task/{template}/children").read_text().split()[0])


@pytest.mark.landlock(6)
@pytest.mark.parametrize("whom", ["itself", "its zygote"])
def test_a_template_that_has_ended_is_loaded_again(whom: str) -> None:
    with CageExecutor(isolate="worker", max_workers=1, timeout=PATIENCE) as made:
        assert made.submit(square, 2).result(PATIENCE) == 4
        (template,) = templates()
        running = made.submit(sleeps)
        assert comes_true(running.running)
        os.kill(template if whom == "itself" else zygote_of(template), signal.SIGKILL)
        assert isinstance(running.exception(PATIENCE), SandboxedError)
        assert made.submit(square, 3).result(PATIENCE) == 9
        (again,) = templates()
        assert again != template


def test_an_interrupt_of_who_waits_for_a_result_is_no_end_of_the_call(isolate: str) -> None:
    def interrupt() -> None:
        assert comes_true(running.running)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with CageExecutor(isolate=isolate, max_workers=1, timeout=PATIENCE) as made:
        running = made.submit(sleeps)
        helper = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):
            helper.start()
            running.result(PATIENCE)
        helper.join()
        assert running.running() and running.cancel()
        assert made.submit(square, 3).result(PATIENCE) == 9


def test_ten_thousand_that_wait_are_cancelled_at_once(isolate: str) -> None:
    made = CageExecutor(isolate=isolate, max_workers=1, timeout=PATIENCE)
    first = made.submit(sleeps)
    assert comes_true(first.running)
    waiting = [made.submit(square, 3) for _ in range(10_000)]
    first.cancel()
    made.shutdown(wait=True, cancel_futures=True)
    assert sum(each.cancelled() for each in waiting) >= 9_990 and all(each.done() for each in waiting)


@pytest.mark.landlock(6)
def test_calls_that_are_cancelled_as_soon_as_they_are_submitted_leave_room_for_others() -> None:
    """Some before their worker is born, some while it is, some after."""
    with CageExecutor(isolate="worker", max_workers=2, timeout=PATIENCE) as made:
        assert made.submit(square, 2).result(PATIENCE) == 4
        for _ in range(30):
            made.submit(sleeps).cancel()
            running = made.submit(sleeps)
            assert comes_true(running.running)
            running.cancel()
        assert [made.submit(square, each).result(PATIENCE) for each in range(4)] == [0, 1, 4, 9]
        (template,) = templates()
        assert comes_true(lambda: len(workers_of(template)) <= 2), "those that wait for a call"


def workers_of(template: int) -> list[str]:
    zygote = zygote_of(template)
    return Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()


@pytest.mark.landlock(6)
def test_a_worker_that_waits_shares_nearly_all_it_has() -> None:
    """Seven in eight of the pages that it sees are those of its siblings, too."""
    with CageExecutor(isolate="worker", max_workers=4, timeout=PATIENCE) as made:
        assert [made.submit(square, each).result(PATIENCE) for each in range(4)] == [0, 1, 4, 9]
        (template,) = templates()
        assert comes_true(lambda: len(workers_of(template)) == 4)
        waiting = statistics.median(own_memory(int(pid)) for pid in workers_of(template))
        at_all = statistics.median(memory(int(pid)) for pid in workers_of(template))
    assert 0 < waiting < at_all / 8


def memory(pid: int, *fields: str) -> int:
    """kB."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line[1]) for line in lines if line[0].rstrip(":") in (fields or ("Rss",)))


def own_memory(pid: int) -> int:
    return memory(pid, "Private_Dirty", "Private_Clean")


@pytest.mark.landlock(6)
def test_limits_are_of_each_worker() -> None:
    with CageExecutor(isolate="worker", max_workers=1, timeout=PATIENCE, memory_mb=300, cpu_sec=1) as made:
        large = made.submit(takes_memory, 1000).exception(PATIENCE)
        assert isinstance(large, SandboxedError) and large.kind == "MemoryError"
        endless = made.submit(spins).exception(PATIENCE)
        assert isinstance(endless, SandboxedError) and endless.reason == "timeout"
        assert made.submit(square, 3).result(PATIENCE) == 9


def forks_all_it_can() -> bool:
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            return True


@pytest.mark.landlock(6)
def test_what_one_worker_has_started_is_ended_with_it() -> None:
    """The number of processes is the cage's: while one has them all, others may fail, and none does afterwards."""
    with CageExecutor(Policy(max_pids=40), isolate="worker", max_workers=1, timeout=PATIENCE) as made:
        assert made.submit(forks_all_it_can).result(PATIENCE)

        def works() -> bool:
            return made.submit(square, 3).exception(PATIENCE) is None

        assert comes_true(lambda: all(works() for _ in range(4)))


@pytest.mark.landlock(6)
def test_workers_of_one_template_share_what_it_has_loaded_and_nothing_else() -> None:
    with CageExecutor(isolate="worker", max_workers=1, initializer=prepare, initargs=("once",)) as made:
        assert made.submit(leaves_a_trace).result(PATIENCE) == ["once", False]
        assert made.submit(leaves_a_trace).result(PATIENCE) == ["once", False]


def test_what_it_has_not_is_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="isolation"):
        CageExecutor(Policy(isolation="landlock", run_as="self"), isolate="worker")
    for wrong in ({"isolate": "thread"}, {"max_workers": 0}, {"timeout": -1}, {"memory_mb": 100}):
        with pytest.raises(ValueError):
            CageExecutor(**wrong)  # type: ignore[arg-type]
