"""One call on one worker: what it has said is read before the clock is."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.errors import SandboxedError
from pysandbox.pipeline import calls
from pysandbox.pipeline.calls import Record
from pysandbox.pipeline.driven import DrivenCalls
from pysandbox.pipeline.exchange import CallExchange


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def late(ours: socket.socket) -> tuple[CallExchange, list[str]]:
    """One whose time is over, and how its worker was ended."""
    ended: list[str] = []
    output = open("/dev/null", "rb")  # noqa: SIM115 - until it is closed
    worker: Any = SimpleNamespace(
        sock=ours, says_ready=False, how="", output_fd=lambda: -1 if output.closed else output.fileno(),
        end_fd=lambda: -1, begin=list, has_begun=lambda: None, read_output=lambda: True, printed=lambda: b"",
        finish=lambda: None,
        end=lambda reason: ended.append(reason) or reason, close=output.close, drop=output.close,
    )  # fmt: skip
    exchange = CallExchange(worker, [b"call"], timeout=0.01, most=1 << 20)
    while time.monotonic() < (exchange.deadline or 0):
        time.sleep(0.01)
    return exchange, ended


@pytest.mark.parametrize("told_of", ["its socket", "its output", "its time"])
def test_an_answer_that_is_there_is_none_that_came_too_late(pair: Any, told_of: str) -> None:
    ours, theirs = pair
    exchange, ended = late(ours)
    theirs.send(calls.encode(Record(calls.RETURNED, 1, (2,), b"is")))
    fds = {"its socket": ours.fileno(), "its output": exchange.watched()[1], "its time": -1}
    answer = exchange.advance(fds[told_of])
    assert answer is not None and [bytes(each) for each in answer.pieces] == [b"is"] and not ended


@pytest.mark.parametrize("says", [b"", calls.encode(Record(calls.ASK, 1, (2_000,)))])
def test_one_that_is_not_all_there_is(pair: Any, says: bytes) -> None:
    ours, theirs = pair
    exchange, ended = late(ours)
    if says:
        theirs.send(says)
    with pytest.raises(SandboxedError, match="did not end in time"):
        exchange.advance(-1)
    assert ended == ["timeout"]


def test_of_many_that_are_driven_each_that_has_answered_has_its_answer(pair: Any) -> None:
    ours, theirs = pair
    exchange, _ = late(ours)
    theirs.send(calls.encode(Record(calls.RETURNED, 1, (2,), b"is")))
    driven = DrivenCalls()
    driven.add(exchange)
    ((_, outcome),) = driven.advance(0)
    assert not isinstance(outcome, Exception)
