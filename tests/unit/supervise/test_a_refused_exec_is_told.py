"""When a refused execve is recorded, when its caller learns of it, and when a sink hears of it: in this order. Until
its caller is let go of it is traced, and its cage cannot end, so whoever listens is not called meanwhile: he may
wait."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from pysandbox.handlers.shebang import Image
from pysandbox.supervise import wire

IMAGE = Image(b"/bin/true", b"true\0", 1, 2)


class FakeLibrary:
    """The C half, where the execve comes to `number`."""

    def __init__(self, number: int, happened: list[str]) -> None:
        self.number, self.happened = number, happened

    def psb_answer_exec(self, *_: Any) -> int:
        return -self.number

    def psb_refuse_exec(self, *_: Any) -> int:
        self.happened.append("its caller is told, and traced no longer")
        return 0


def execute(monkeypatch: pytest.MonkeyPatch, number: int, happened: list[str], *, failing: bool = False) -> None:
    def record(refused: int) -> Any:
        happened.append(f"recorded: {errno.errorcode[refused]}")
        if failing:
            raise MemoryError
        return lambda: happened.append("a sink hears of it")

    monkeypatch.setattr(wire, "lib", FakeLibrary(number, happened))
    none: Any = wire.ffi.NULL
    wire.execute(none, 1, b"/bin/true\0true\0", IMAGE, record)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_it_is_recorded_then_let_go_of_then_told(monkeypatch, number):
    happened: list[str] = []
    execute(monkeypatch, number, happened)
    assert happened == [
        f"recorded: {errno.errorcode[number]}", "its caller is told, and traced no longer", "a sink hears of it",
    ]  # fmt: skip


def test_a_record_that_fails_leaves_nobody_traced(monkeypatch):
    happened: list[str] = []
    with pytest.raises(MemoryError):
        execute(monkeypatch, errno.EPERM, happened, failing=True)
    assert happened == ["recorded: EPERM", "its caller is told, and traced no longer"]


@pytest.mark.parametrize("number", [0, errno.ENOENT, errno.ESRCH])
def test_what_runs_or_waits_no_longer_is_nobody_s_refusal(monkeypatch, number):
    happened: list[str] = []
    execute(monkeypatch, number, happened)
    assert happened == []
