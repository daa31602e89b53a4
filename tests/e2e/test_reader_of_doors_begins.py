"""A reader of the doors that cannot be begun, or not be heard, is none: its cage has no doors and is told so, nothing
of it is left, nobody waits for it, and the next cage has another one."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable
from typing import Any

import pytest

from pysandbox import Cage, Event, Policy
from pysandbox.gate import reader
from pysandbox.gate.gatekeeper import Gatekeeper
from pysandbox.runtime.runtime import Runtime

DOORS = Policy(hosts=["example.org"])


def lacks() -> OSError:
    return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def failing_once(real: Callable[..., Any], fails: Callable[..., bool]) -> tuple[Callable[..., Any], list[object]]:
    """`real`, which does not work the first time that `fails` says so; and those times."""
    failed: list[object] = []

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not failed and fails(*arguments):
            failed.append(arguments)
            raise lacks()
        return real(self, *arguments, **keywords)

    return call, failed


@pytest.fixture(autouse=True)
def for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for an answer that does not come does it until the test is ended."""
    for name in ("PATIENCE", "START_PATIENCE"):
        monkeypatch.setattr(reader, name, 3600.0)


def of_two_cages() -> tuple[list[str], int | None, int | None]:
    """What the first one, which meets the error, is told, and the exit codes of both."""
    events: list[Event] = []
    runtime = Runtime(warm=0, sink=events.append)
    try:
        with Cage(DOORS, runtime=runtime) as cage:
            first = cage.run(["true"])
            let_it_come(runtime)
            with Cage(DOORS, runtime=runtime) as other:
                second = other.run(["true"])
                process = let_it_come(runtime)
                assert process is not None and process.poll() is None, "the next cage has one"
    finally:
        runtime.drain()
    return [event.type for event in events], first.exit_code, second.exit_code


def let_it_come(runtime: Runtime) -> subprocess.Popen[bytes] | None:
    """The reader's process once the loop has done what it was asked so far."""
    gatekeeper = runtime.shared.find(Gatekeeper)
    assert gatekeeper is not None
    for _ in range(20):
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), gatekeeper.loop).result()
    return gatekeeper.reader.process


def test_control_one_that_begins_serves_both() -> None:
    told, first, second = of_two_cages()
    assert "gatekeeper.failed" not in told and (first, second) == (0, 0)


def test_one_that_cannot_be_heard_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    call, failed = failing_once(
        BaseSelectorEventLoop.add_reader, lambda fd, callback, *_: getattr(callback, "__name__", "") == "_read"
    )
    monkeypatch.setattr(BaseSelectorEventLoop, "add_reader", call)
    told, first, second = of_two_cages()
    assert failed and "gatekeeper.failed" in told and (first, second) == (0, 0)


def test_one_whose_beginning_cannot_be_heard_of_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process runs by then."""
    real, failed = subprocess.Popen._execute_child, list[int]()  # type: ignore[attr-defined]

    def begun(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        if not failed and any("gate.reading" in str(each) for each in arguments[0]):
            failed.append(self.pid)
            raise lacks()

    monkeypatch.setattr(subprocess.Popen, "_execute_child", begun)
    told, first, second = of_two_cages()
    assert failed and "gatekeeper.failed" in told and (first, second) == (0, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(failed[0], 0)
