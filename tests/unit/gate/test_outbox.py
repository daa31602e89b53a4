"""What is said to a process that is gone, or is another one by now: one end for one channel, and nothing after it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

import pytest

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate import outbox
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.outbox import Outbox
from pysandbox.gate.reading.kinds import Verb

PING = ChannelRecord(Verb.PING, 1)
DOOR = ChannelRecord(Verb.DOOR, 2, (b"1", b"dns", b"udp"))


def told_by(act: Callable[[Outbox, Callable[[], None]], None], rounds: int = 5) -> tuple[list[str], list[int]]:
    """What `failed` and `lost` heard. `act` gets an outbox, and what ends the other side of its channel."""

    async def hear() -> tuple[list[str], list[int]]:
        near, far = socket_pair()
        failed: list[str] = []
        lost: list[int] = []
        with near, far:
            box = Outbox(asyncio.get_running_loop(), near, lambda each: lost.append(each.number), failed.append)
            act(box, far.close)
            for _ in range(rounds):
                await asyncio.sleep(0.01)
            box.close()
        return failed, lost

    return asyncio.run(asyncio.wait_for(hear(), 20))


def test_an_end_is_told_once_however_much_is_said_after_it() -> None:
    def act(box: Outbox, end: Callable[[], None]) -> None:
        end()
        for _ in range(10):
            box.say(PING)

    failed, lost = told_by(act)
    assert len(failed) == 1 and os.strerror(errno.EPIPE) in failed[0] and not lost


def test_an_end_that_is_heard_when_the_channel_takes_more_is_told_once() -> None:
    def act(box: Outbox, end: Callable[[], None]) -> None:
        for _ in range(2000):  # more than it takes
            box.say(PING)
        asyncio.get_running_loop().call_later(0.02, end)

    assert len(told_by(act, rounds=10)[0]) == 1


def test_whoever_has_taken_its_place_hears_of_no_end_before() -> None:
    def act(box: Outbox, end: Callable[[], None]) -> None:
        end()
        box.say(PING)
        box.close()
        box.say(PING)

    assert told_by(act) == ([], [])


def test_whoever_has_taken_its_place_loses_nothing_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise OSError(errno.ETOOMANYREFS, "too many")

    monkeypatch.setattr(channel, "pass_on", short)
    monkeypatch.setattr(outbox, "PATIENCE", -1.0)

    def act(box: Outbox, end: Callable[[], None]) -> None:
        box.say(DOOR, (0,))

    assert told_by(act) == ([], [DOOR.number]), "the control"

    def act_and_close(box: Outbox, end: Callable[[], None]) -> None:
        act(box, end)
        box.close()

    assert told_by(act_and_close) == ([], [])


def test_no_descriptor_stays_with_what_could_not_be_said() -> None:
    def act(box: Outbox, end: Callable[[], None]) -> None:
        for _ in range(2000):
            box.say(PING)
        for _ in range(5):
            box.say(DOOR, (0,))
        asyncio.get_running_loop().call_later(0.02, end)
        before.append(len(os.listdir("/proc/self/fd")))

    before: list[int] = []
    count = len(os.listdir("/proc/self/fd"))
    assert len(told_by(act, rounds=10)[0]) == 1
    assert before[0] > count == len(os.listdir("/proc/self/fd"))
