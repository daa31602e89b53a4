"""What whoever checks types is told of `run`, `spawn` and the rest: read by mypy and pyright, never executed."""

from __future__ import annotations

from typing import Any, assert_type

from pysandbox import PIPE, AsyncCage, AsyncProcess, Cage, ExitError, Process, Result, run, spawn


def commands(either: bool) -> None:
    cage = Cage("python")
    assert_type(run(["true"]), Result[str])
    assert_type(run(["true"]).stdout, str)
    assert_type(run(["true"]).check().stderr, str)
    assert_type(run(["true"], text=False).stdout, bytes)
    assert_type(run(["true"], text=either).stdout, Any)
    assert_type(run("true | cat", "python", shell=True, encoding="latin-1").stdout, str)
    assert_type(cage.run(["true"], input="x", timeout=3, check=True, env={"A": "b"}, cwd="/tmp"), Result[str])
    assert_type(cage.run(["true"], text=False), Result[bytes])


def processes() -> None:
    cage = Cage()
    assert_type(spawn(["true"]), Process[bytes])
    assert_type(cage.spawn(["true"], stdout=PIPE).communicate(b""), tuple[bytes, bytes])
    assert_type(cage.spawn(["true"], text=True), Process[str])
    assert_type(spawn(["true"], errors="strict").communicate("x"), tuple[str, str])
    process = spawn(["true"], encoding="utf-8", stdout=PIPE, pty=(24, 80))
    assert process.stdout is not None
    for line in process.stdout:
        assert_type(line, str)
    assert_type(process.result(), Result[str])
    assert_type(process.returncode, int | None)
    assert_type(process.pid, int)


async def awaited(either: bool) -> None:
    async with AsyncCage(cwd="/tmp", watch=["exec"]) as cage:
        assert_type(await cage.run(["true"]), Result[str])
        assert_type((await cage.run(["true"], text=False)).stdout, bytes)
        assert_type(await cage.run(["true"], text=either), Result[Any])
        process = await cage.spawn(["cat"], text=True, stdin=PIPE, stdout=PIPE)
        assert_type(process, AsyncProcess[str])
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("x")
        assert_type(await process.stdout.readline(), str)
        async for line in process.stdout:
            assert_type(line, str)


def a_function_of_a_user(result: Result) -> Process:  # without parameters: what `run` and `spawn` give by themselves
    assert_type(result.stdout, str)
    try:
        return spawn(["true"])
    except ExitError as error:
        print(error.result.stdout)
        raise


def misspelt() -> None:
    run(["true"], timout=3)  # type: ignore[call-overload]  # pyright: ignore
    spawn(["true"], standard_output=PIPE)  # type: ignore[call-overload]  # pyright: ignore
    AsyncCage(sesion="x")  # type: ignore[call-arg]  # pyright: ignore
    run(["true"], timeout="3")  # type: ignore[call-overload]  # pyright: ignore
