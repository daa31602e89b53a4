"""AsyncCage has the same names, awaitable, on the running loop, and starts no thread for a process."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from pysandbox import PIPE, AsyncCage, CageTimeout, Policy


def test_commands_run_side_by_side_without_a_thread_each() -> None:
    async def main() -> tuple[list[str], int, float]:
        start = time.monotonic()
        async with AsyncCage() as cage:
            runs = [
                asyncio.create_task(cage.run(["/bin/sh", "-c", f"sleep 0.5; echo {number}"])) for number in range(20)
            ]
            await asyncio.sleep(0.1)
            threads = threading.active_count()
            results = await asyncio.gather(*runs)
        return [str(result.stdout) for result in results], threads, time.monotonic() - start

    before = threading.active_count()
    said, threads, took = asyncio.run(main())

    assert said == [f"{number}\n" for number in range(20)]
    assert threads <= before + 2, "the library's worker and the loop's executor, which opened the cage, at most"
    assert took < 5, "not one after the other"


def test_the_loop_stays_free_while_a_command_runs() -> None:
    async def main() -> tuple[int, bool]:
        ticks = 0
        async with AsyncCage() as cage:
            running = asyncio.create_task(cage.run(["/bin/sleep", "0.5"]))
            while not running.done():
                await asyncio.sleep(0.01)
                ticks += 1
            return ticks, (await running).ok

    ticks, ok = asyncio.run(main())

    assert ok and ticks > 20


def test_a_process_is_spoken_to_and_waited_for() -> None:
    async def main() -> tuple[int, object]:
        async with AsyncCage() as cage:
            process = await cage.spawn(["/bin/sh", "-c", "read line; exit $line"], stdin=PIPE)
            assert process.stdin is not None
            process.stdin.write(b"7\n")
            process.stdin.close()
            return await process.wait(), cage.caged

    assert asyncio.run(main()) == (7, True)


def test_input_timeout_and_partial_output() -> None:
    async def main() -> None:
        async with AsyncCage() as cage:
            assert (await cage.run(["/bin/cat"], input="text")).stdout == "text"
            with pytest.raises(CageTimeout) as caught:
                await cage.run(["/bin/sh", "-c", "echo so far; sleep 600"], timeout=0.5)
            assert caught.value.result.stdout == "so far\n"
            assert (await cage.run(["/bin/echo", "on"])).stdout == "on\n"

    asyncio.run(main())


def test_cancelling_a_task_ends_its_command() -> None:
    async def main() -> str:
        async with AsyncCage() as cage:
            running = asyncio.create_task(cage.run(["/bin/sleep", "600"]))
            while "sleep" not in str((await cage.run(["/bin/sh", "-c", "cat /proc/[0-9]*/comm"])).stdout):
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return str((await cage.run(["/bin/sh", "-c", "cat /proc/[0-9]*/comm"])).stdout)

    assert "sleep" not in asyncio.run(main())


def test_walltime_holds_here_too() -> None:
    async def main() -> str:
        async with AsyncCage(Policy(walltime_sec=1, grace_sec=0)) as cage:
            return (await cage.run(["/bin/sleep", "600"])).reason

    assert asyncio.run(main()) == "timeout"
