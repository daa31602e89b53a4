"""Claim: a call that is cancelled at any moment of its life, by its future, its task or a cancel scope around it, is
over at once, with its process and whatever that has started, and its place is free for the next one.

The moments are drawn from a seed that a failure tells: before the call has begun, while its interpreter starts, while
it runs, while it answers, when it is over. The calls start processes of their own, in sessions of their own.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from _support.hosts import comes_true
from pysandbox import CageExecutor

PATIENCE = 60
SEED = int.from_bytes(os.urandom(4))
MOMENTS = 10
AHEAD = 4  # two that wait, a template, and one that goes
LONGEST = 0.15  # seconds: until after the answer of a call that does not wait


def spreads(waits: bool) -> str:
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    if waits:
        time.sleep(600)
    return "x" * 100_000  # too long for one record


def square(number: int) -> int:
    return number * number


@pytest.fixture(params=["cage", pytest.param("worker", marks=pytest.mark.landlock(6))])
def executor(request: pytest.FixtureRequest) -> Iterator[CageExecutor]:
    with CageExecutor(isolate=request.param, max_workers=2, timeout=PATIENCE) as made:
        yield made


def interpreters() -> int:
    """In cages of this process: those that wait ahead, a template, its workers, and what any of them has forked."""

    def children(of: Path) -> list[int]:
        try:
            return [int(child) for child in (of / "children").read_text().split()]
        except OSError:  # it is over
            return []

    def below(pid: int) -> Iterator[int]:
        for child in children(Path(f"/proc/{pid}/task/{pid}")):
            yield child
            yield from below(child)

    def is_one(pid: int) -> bool:
        try:
            return b"\0-I\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    inits = [child for each in Path("/proc/self/task").iterdir() for child in children(each)]
    return sum(is_one(pid) for init in inits for pid in below(init))


def test_control_a_call_that_nobody_cancels_goes_on(executor: CageExecutor) -> None:
    running = executor.submit(spreads, True)
    assert comes_true(running.running)
    with pytest.raises(TimeoutError):
        running.result(0.5)
    assert comes_true(lambda: interpreters() >= 3), "what it starts is seen, too"
    assert running.cancel()


def test_by_a_scope_that_ends(executor: CageExecutor) -> None:
    random.seed(SEED)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for moment in range(MOMENTS):
            with anyio.move_on_after(random.uniform(0, LONGEST)), anyio.CancelScope():
                await loop.run_in_executor(executor, spreads, moment % 2 == 0)
        found = await asyncio.wait_for(loop.run_in_executor(executor, square, 5), PATIENCE)
        assert found == 25, f"a place is free again (seed {SEED})"

    asyncio.run(main())
    assert comes_true(lambda: interpreters() <= AHEAD), f"{interpreters()} interpreters (seed {SEED})"


def test_by_a_task_that_is_cancelled_twice_and_by_the_future_itself(executor: CageExecutor) -> None:
    random.seed(SEED)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(MOMENTS):
            future = executor.submit(spreads, True)
            task = loop.create_task(asyncio.wait_for(asyncio.wrap_future(future), PATIENCE))
            await asyncio.sleep(random.uniform(0, LONGEST))
            task.cancel()
            future.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert future.cancelled()

    asyncio.run(main())
    assert executor.submit(square, 6).result(PATIENCE) == 36, f"seed {SEED}"
    assert comes_true(lambda: interpreters() <= AHEAD), f"{interpreters()} interpreters (seed {SEED})"


def test_all_that_waits_when_the_executor_is_shut_down(executor: CageExecutor) -> None:
    futures = [executor.submit(spreads, True) for _ in range(200)]
    executor.shutdown(wait=False, cancel_futures=True)
    for each in futures:
        each.cancel()
    executor.shutdown()
    assert all(each.cancelled() for each in futures)
    assert comes_true(lambda: not interpreters())
