"""Sandboxed functions: called as they were before, in a cage; what cannot be sent or returned is refused by name."""

from __future__ import annotations

import asyncio
import enum
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from _support.numbers import imported
from pysandbox import Cage, Policy, SandboxedError, SandboxedFunction, sandboxed

FACTOR = 10
ARROW = imported("pyarrow")


class Kind(enum.Enum):
    GOOD = "good"


@dataclass
class Point:
    x: int
    y: int
    kind: Kind = Kind.GOOD


def times(number: int) -> int:
    return number * FACTOR


@sandboxed(Policy(), timeout=60, pool=2)
def add(one: int, other: int = 1) -> int:
    print("adding", one)
    return times(one) + other


@sandboxed
def bare(number: int) -> int:
    return times(number)


@sandboxed()
def turned(point: Point) -> dict[str, Point]:
    return {"point": Point(point.y, point.x, Kind.GOOD)}


@sandboxed()
def undeclared() -> int:
    return Point(1, 2)  # type: ignore[return-value]


@sandboxed()
def read(path: str) -> str:
    return Path(path).read_text()


@sandboxed()
def fails(number: int) -> float:
    print("before")
    return 1 / number


@sandboxed()
def ends() -> None:
    print("so far")
    os._exit(3)


@sandboxed(timeout=0.5)
def hangs() -> None:
    print("so far")
    time.sleep(60)


@sandboxed()
def is_killed() -> None:
    print("so far")
    os.kill(os.getpid(), 9)


@sandboxed()
def sleeps() -> None:
    time.sleep(60)


@sandboxed()
def twice(data: bytes) -> bytes:
    return data * 2


@sandboxed()
def returns_a_function() -> object:
    return lambda: 1


@sandboxed()
def squares(count: int) -> object:
    import pyarrow

    numbers = range(count)
    return pyarrow.table({"number": numbers, "square": [each * each for each in numbers], "text": map(str, numbers)})


ALL = [each for each in globals().values() if isinstance(each, SandboxedFunction)]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    for each in ALL:
        each.close()


def test_a_call_is_a_call() -> None:
    assert add(2) == 21 and add(2, other=3) == 23
    assert add.__wrapped__(1) == 11 and add.__name__ == "add"
    assert list(add.map([1, 2], [3, 4])) == [13, 24]
    assert add.submit(5).result(60) == 51
    assert asyncio.run(add.aio(6)) == 61


def test_what_a_map_takes_may_be_endless() -> None:
    taken = itertools.count()
    results = add.map(taken)
    assert [next(results) for _ in range(3)] == [1, 11, 21]
    assert next(taken) < 1000


def test_what_the_annotation_declares_comes_back() -> None:
    assert turned(Point(1, 2)) == {"point": Point(2, 1)}
    with pytest.raises(SandboxedError, match="does not declare"):
        undeclared()


def test_it_runs_in_its_cage(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(SandboxedError) as caught:
        read(str(tmp_path / "secret"))
    assert caught.value.kind == "FileNotFoundError" and caught.value.reason == "raised"


def test_what_it_raises_is_told_with_its_line_and_its_output() -> None:
    with pytest.raises(SandboxedError) as caught:
        fails(0)
    error = caught.value
    assert (error.kind, error.logs) == ("ZeroDivisionError", "before\n")
    line = fails.__wrapped__.__code__.co_firstlineno + 3
    assert f"line {line}, in fails" in error.traceback and "1 / number" in str(error)
    assert fails(2) == 0.5


@pytest.mark.parametrize("function, reason, words", [
    (ends, "exited", "exit code 3.* without an answer"), (hangs, "timeout", "in time"),
    (is_killed, "signaled", "SIGKILL.* without an answer"), (returns_a_function, "exited", "cannot return"),
])  # fmt: skip
def test_what_comes_to_nothing_says_why(function: SandboxedFunction[[], object], reason: str, words: str) -> None:
    with pytest.raises(SandboxedError, match=words) as caught:
        function()
    assert caught.value.reason == reason
    assert caught.value.logs == ("" if function is returns_a_function else "so far\n"), "what it had printed is told"


@pytest.mark.parametrize("size", [0, 1, 48 * 1024, 65535, 65536, 3_000_000])
def test_bytes_of_every_size(size: int) -> None:
    data = os.urandom(size)
    assert twice(data) == data * 2


def test_arguments_that_cannot_be_sent_fail_alone() -> None:
    with pytest.raises(TypeError):
        add.submit(threading.Lock())  # type: ignore[arg-type]
    assert add(1) == 11


def test_what_cannot_be_sent_is_refused_when_it_is_decorated() -> None:
    def local() -> None: ...

    async def coroutine() -> None: ...

    for each, why in ((local, "another function"), (lambda: 1, "lambda"), (len, "no plain function"),
                      (coroutine, "another function"), (print, "plain")):  # fmt: skip
        with pytest.raises(TypeError, match=why):
            sandboxed()(each)
    with pytest.raises(ValueError, match="pool"):
        sandboxed(pool=0)


def test_where_nothing_is_said_there_are_no_parentheses() -> None:
    assert (bare(2), bare.__name__) == (2 * FACTOR, "bare")
    bare.close()
    with pytest.raises(TypeError, match="no plain function"):
        sandboxed(Cage)


def test_a_function_that_is_in_no_file_is_told_what_to_do() -> None:
    text = "from pysandbox import sandboxed\n@sandboxed\ndef f() -> None: ...\n"
    for arguments in (["-"], ["-c", text]):
        done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True, timeout=100)
        assert "in no file: write it to one" in done.stderr.splitlines()[-1], done.stderr


def test_a_cancelled_task_ends_its_call() -> None:
    async def main() -> None:
        task = asyncio.ensure_future(sleeps.aio())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(main())
    sleeps.close()
    assert time.monotonic() - began < 40


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from pysandbox import sandboxed\n"
        "@sandboxed()\ndef double(x: int) -> int:\n    return 2 * x\n"
        "print('once', double(4))\ndouble.close()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert done.stdout == "once 8\n", done.stderr


@pytest.mark.skipif(ARROW is None, reason="pyarrow is not installed")
def test_a_table_of_arrow_comes_back() -> None:
    found = squares(20_000)
    assert type(found) is ARROW.Table and found.num_rows == 20_000
    assert found.column("square")[-1].as_py() == 19_999**2 and found.column("text")[-1].as_py() == "19999"
