"""AsyncCage has the same names, awaitable, on the running loop, and starts no thread for a process."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import anyio
import pytest

from pysandbox import PIPE, AsyncCage, CageTimeout, Policy, Runtime
from pysandbox.aio import AsyncFiles
from pysandbox.files import Files


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


# ---- a task that is cancelled, once, twice, at every await -------------------------------------------------------

SLEEPERS = ["/bin/sh", "-c", "cat /proc/[0-9]*/comm"]


async def nothing_sleeps(cage: AsyncCage) -> bool:
    """Whether none is there a moment later: what was killed may still be seen dying."""
    for _ in range(200):
        if "sleep" not in str((await cage.run(SLEEPERS)).stdout):
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.parametrize("cancels", [1, 2, 5])
@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.05])
def test_cancelled_again_and_again_it_leaves_no_command(cancels: int, delay: float) -> None:
    async def main() -> bool:
        async with AsyncCage() as cage:
            running = [asyncio.create_task(cage.run(["/bin/sleep", "600"])) for _ in range(8)]
            await asyncio.sleep(delay)
            for _ in range(cancels):
                for task in running:
                    task.cancel()
                await asyncio.sleep(0)
            done = await asyncio.gather(*running, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in done), done
            return await nothing_sleeps(cage)

    assert asyncio.run(main())


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.002, 0.01, 0.05])
def test_a_scope_that_cancels_every_await_leaves_no_command_and_no_cage(warm: bool, delay: float) -> None:
    mark = f"6{time.monotonic_ns() % 10**9}"
    runtime = Runtime(warm=2 if warm else 0)

    async def main() -> None:
        for shape in ("run", "spawn", "session", "wait"):
            with anyio.move_on_after(delay):
                if shape == "run":
                    await AsyncCage(runtime=runtime).run(["/bin/sleep", mark])
                elif shape == "spawn":
                    async with await AsyncCage(runtime=runtime).spawn(["/bin/sleep", mark]) as process:
                        await process.wait()
                elif shape == "wait":
                    process = await AsyncCage(runtime=runtime).spawn(["/bin/sleep", mark])
                    try:
                        await process.wait()
                    finally:
                        await process.close()
                else:
                    async with AsyncCage(runtime=runtime) as cage:
                        await cage.run(["/bin/sleep", mark])

    asyncio.run(main())
    deadline = time.monotonic() + 10
    while (left := alive_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    runtime.drain()
    assert not left


def alive_with(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_the_cancelled_command_is_told_as_cancelled() -> None:
    async def main() -> str:
        async with AsyncCage() as cage:
            process = await cage.spawn(["/bin/sleep", "600"])
            closing = asyncio.create_task(process.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            return (await process.result()).reason

    assert asyncio.run(main()) == "cancelled"


# ---- streams and files -----------------------------------------------------------------------------------------


def test_streams_are_awaited_and_the_loop_stays_free() -> None:
    async def main() -> tuple[list[bytes], int]:
        ticks, said = 0, []

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        async with AsyncCage() as cage:
            ticking = asyncio.create_task(tick())
            script = "read a; echo got $a; sleep 0.5; printf 'x%.0s' 1 2 3; echo; echo last; echo bad >&2"
            async with await cage.spawn(["/bin/sh", "-c", script], stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
                assert process.stdin and process.stdout and process.stderr
                process.stdin.write(b"it\n")
                await process.stdin.drain()
                said.append(await process.stdout.readline())
                said.append(await process.stdout.readexactly(2))
                said += [line async for line in process.stdout]
                said.append(await process.stderr.read())
                assert process.stdout.at_eof() and await process.wait() == 0
            ticking.cancel()
        return said, ticks

    said, ticks = asyncio.run(main())
    assert said == [b"got it\n", b"xx", b"x\n", b"last\n", b"bad\n"] and ticks > 10


def test_much_is_written_and_read_at_once() -> None:
    async def main() -> int:
        async with AsyncCage() as cage, await cage.spawn(["/bin/cat"], stdin=PIPE, stdout=PIPE) as process:
            assert process.stdin and process.stdout
            for _ in range(40):
                process.stdin.write(b"x" * 100_000)
            process.stdin.close()
            return len(await process.stdout.read())

    assert asyncio.run(main()) == 4_000_000


def test_what_a_reader_has_kept_is_not_lost_to_communicate() -> None:
    async def main() -> tuple[bytes, bytes]:
        async with AsyncCage() as cage, await cage.spawn(["/bin/sh", "-c", "echo a; echo b; cat"],
                                                         stdin=PIPE, stdout=PIPE) as process:  # fmt: skip
            assert process.stdin and process.stdout
            first = await process.stdout.readline()
            process.stdin.write(b"c\n")
            return first, (await process.communicate(b"d\n"))[0]

    assert asyncio.run(main()) == (b"a\n", b"b\nc\nd\n")


def test_a_command_that_reads_no_more_is_told_to_the_writer() -> None:
    async def main() -> None:
        async with AsyncCage() as cage, await cage.spawn(["/bin/true"], stdin=PIPE) as process:
            assert process.stdin and await process.wait() == 0
            with pytest.raises(BrokenPipeError):
                for _ in range(1000):  # another cage that starts has a copy of every descriptor until it closes them
                    process.stdin.write(b"x")
                    await process.stdin.drain()
                    await asyncio.sleep(0.01)
            process.stdin.close()

    asyncio.run(main())


def test_any_number_of_tasks_may_wait_for_one_command() -> None:
    async def main() -> list[int]:
        async with AsyncCage() as cage, await cage.spawn(["/bin/sleep", "0.2"]) as process:
            one, other, third = (asyncio.create_task(process.wait()) for _ in range(3))
            await asyncio.sleep(0.05)
            third.cancel()
            return [await one, await other]

    assert asyncio.run(main()) == [0, 0]


def test_files_have_the_same_names_awaitable() -> None:
    async def main() -> None:
        async with AsyncCage() as cage:
            await cage.files.write("/tmp/a", "text")
            assert await cage.files.read("/tmp/a") == b"text" and await cage.files.exists("/tmp/a")
            assert await cage.files.list("/tmp") == ["a"]

    asyncio.run(main())
    public = {name for name in vars(Files) if not name.startswith("_")}
    assert {name for name in vars(AsyncFiles) if not name.startswith("_")} == public


def test_another_event_loop_is_refused_by_name() -> None:
    """What trio does: it steps a coroutine where no loop of asyncio's runs."""
    for begin in (lambda: AsyncCage().run(["true"]), lambda: AsyncCage().open()):
        with pytest.raises(RuntimeError, match=r"an event loop of asyncio's.*trio"):
            begin().send(None)
