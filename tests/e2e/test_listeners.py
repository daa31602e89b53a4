"""`on_stdout` hears each line as it is written; whoever listens holds the command up, or ends it; nothing is lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import pysandbox
from pysandbox import DEVNULL, STDOUT, AsyncCage, Cage, CageTimeout

pytestmark = pytest.mark.guest

SLOWLY = "for n in 1 2 3; do echo $n; sleep 0.2; done; printf end; echo bad >&2"
FLOOD = "while :; do echo flood; done"


class OfTheCaller(Exception):
    pass


def awaited(*args: Any, **options: Any) -> pysandbox.Result[Any]:
    async def main() -> pysandbox.Result[Any]:
        return await AsyncCage().run(*args, **options)

    return asyncio.run(main())


both = pytest.mark.parametrize("run", [pysandbox.run, awaited])


@both
def test_each_line_is_heard_when_it_is_written(run: Any) -> None:
    heard: list[tuple[str, float]] = []
    errors: list[str] = []
    result = run(SLOWLY, shell=True, on_stdout=lambda line: heard.append((line, time.monotonic())),
                 on_stderr=errors.append)  # fmt: skip
    assert [line for line, _ in heard] == ["1\n", "2\n", "3\n", "end"] and errors == ["bad\n"]
    assert heard[2][1] - heard[0][1] > 0.3
    assert (result.stdout, result.stderr, result.ok) == ("1\n2\n3\nend", "bad\n", True)


@both
def test_bytes_are_heard_as_bytes_and_nothing_of_much_is_lost(run: Any) -> None:
    heard: list[bytes] = []
    result = run(["seq", "200000"], text=False, on_stdout=heard.append)
    assert b"".join(heard) == result.stdout and len(heard) == 200_000


@both
def test_what_a_listener_raises_ends_the_command_and_is_raised(run: Any) -> None:
    count = 0

    def hear(line: str) -> None:
        nonlocal count
        count += 1
        raise OfTheCaller(line)

    began = time.monotonic()
    with pytest.raises(OfTheCaller, match="flood"):
        run(FLOOD, shell=True, on_stdout=hear)
    assert count == 1 and time.monotonic() - began < 10


@both
def test_a_slow_listener_holds_the_command_up_and_not_the_time(run: Any) -> None:
    """Had the command run on, it would have written far more than a pipe holds."""
    count = 0

    def hear(line: str) -> None:
        nonlocal count
        count += 1
        time.sleep(0.01)

    began = time.monotonic()
    with pytest.raises(CageTimeout) as late:
        run(FLOOD, shell=True, on_stdout=hear, timeout=1.0)
    assert time.monotonic() - began < 10 and count > 0
    assert len(late.value.result.stdout) < 8_000_000
    heard = count
    time.sleep(0.1)
    assert count == heard, "nobody is called afterwards"


@both
def test_a_line_without_an_end_comes_in_pieces(run: Any) -> None:
    heard: list[str] = []
    run("head -c 300000 /dev/zero | tr '\\0' x", shell=True, on_stdout=heard.append)
    assert "".join(heard) == "x" * 300_000 and max(map(len, heard)) == 1 << 16


@both
def test_what_cannot_be_heard_is_refused_before_anything_runs(run: Any) -> None:
    for options in ({"stdout": DEVNULL, "on_stdout": print}, {"stderr": STDOUT, "on_stderr": print}):
        with pytest.raises(ValueError, match="hears what is captured"):
            run(["true"], **options)
    with pytest.raises(TypeError, match="must be a function"):
        run(["true"], on_stdout="print")


def test_an_async_listener_is_awaited_and_the_loop_stays_free() -> None:
    heard: list[str] = []

    async def hear(line: str) -> None:
        await asyncio.sleep(0.05)
        heard.append(line)

    async def main() -> int:
        ticks = 0
        async with AsyncCage() as cage:
            running = asyncio.create_task(cage.run(["seq", "10"], on_stdout=hear))
            while not running.done():
                await asyncio.sleep(0.02)
                ticks += 1
            assert (await running).ok
        return ticks

    assert asyncio.run(main()) > 10
    assert heard == [f"{number}\n" for number in range(1, 11)]
    with pytest.raises(TypeError, match="AsyncCage"):
        pysandbox.run(["true"], on_stdout=hear)


def test_a_cancelled_task_calls_its_async_listener_no_more() -> None:
    heard: list[str] = []

    async def hear(line: str) -> None:
        heard.append(line)
        await asyncio.sleep(30)

    async def main() -> None:
        async with AsyncCage() as cage:
            running = asyncio.create_task(cage.run(FLOOD, shell=True, on_stdout=hear))
            while not heard:
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await cage.run(["echo", "next"])).stdout == "next\n"

    asyncio.run(main())
    assert len(heard) == 1


def test_a_listener_may_close_its_own_cage() -> None:
    with Cage() as cage:
        result = cage.run("echo go; sleep 60", shell=True, on_stdout=lambda line: cage.close())
    assert (result.reason, result.stdout) == ("cancelled", "go\n")


def test_a_process_left_in_the_background_is_not_waited_for() -> None:
    heard: list[str] = []
    with Cage() as cage:
        began = time.monotonic()
        assert cage.run("printf part; sleep 60 & exit 0", shell=True, on_stdout=heard.append).ok
        assert heard == ["part"] and time.monotonic() - began < 20
