"""Turns go round by cage; what a cage has in flight is bounded by reading later."""

from __future__ import annotations

import socket
import time
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from pysandbox.gate.inspection import in_flight
from pysandbox.gate.inspection.in_flight import InFlight
from pysandbox.gate.inspection.loop import IN, Loop


@pytest.fixture
def pipes() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(60)]
    yield made
    for pair in made:
        for each in pair:
            each.close()


def test_a_crowd_holds_up_another_cage_by_one_turn(pipes: list[tuple[socket.socket, socket.socket]]) -> None:
    loop, order = Loop(), list[int]()
    for index, (near, far) in enumerate(pipes):
        far.send(b"x")
        share = 2 if index == 59 else 1
        loop.wait_for(near.fileno(), IN, lambda _, share=share: order.append(share), share)  # type: ignore[misc]
    for _ in range(4):
        loop.once(0)
    assert order[:2] in ([1, 2], [2, 1])


def test_each_of_a_crowd_has_its_turn(pipes: list[tuple[socket.socket, socket.socket]]) -> None:
    loop, served = Loop(), set[int]()
    for index, (near, far) in enumerate(pipes):
        far.send(b"x")
        loop.wait_for(near.fileno(), IN, lambda _, index=index: served.add(index), 1)  # type: ignore[misc]
    for _ in range(len(pipes) + 1):
        loop.once(0)
    assert len(served) == len(pipes)


def test_nobody_is_called_for_a_descriptor_that_was_forgotten(
    pipes: list[tuple[socket.socket, socket.socket]],
) -> None:
    loop, called = Loop(), list[int]()
    (first, one), (second, two) = pipes[:2]
    one.send(b"x"), two.send(b"x")

    def forget(other: socket.socket, event: int) -> None:
        called.append(event)
        loop.forget(other.fileno())

    loop.wait_for(first.fileno(), IN, partial(forget, second), 1)
    loop.wait_for(second.fileno(), IN, partial(forget, first), 1)
    for _ in range(3):
        loop.once(0)
    assert called


def test_what_was_asked_for_soon_is_done_once() -> None:
    loop, done = Loop(), list[int]()
    loop.soon(lambda: done.append(1), 1)
    for _ in range(3):
        loop.once(0)
    assert done == [1]


def test_a_timer_that_is_cancelled_holds_nothing_until_it_was_due() -> None:
    class Held:
        def late(self) -> None:
            rung.append(self)

    loop, rung = Loop(), list[Held]()
    held, other = Held(), Held()
    gone = weakref.ref(held)
    timer = loop.at(time.monotonic() + 3600, held.late)
    loop.at(time.monotonic() - 1, other.late)
    timer.cancel()
    timer.cancel()
    del held
    assert gone() is None
    loop.once(0)
    assert rung == [other]


def test_a_cage_is_crowded_from_its_budget_on_until_it_is_calm() -> None:
    cage, woken = InFlight(), list[int]()
    for number in range(3):
        cage.has(number, in_flight.MOST // 2)
    assert cage.is_crowded
    cage.wait(0, lambda: woken.append(0))
    cage.wait(1, lambda: woken.append(1))
    cage.leave(1)
    assert cage.is_crowded  # between the two bounds
    cage.has(0, 0)
    assert not cage.is_crowded and woken == [0]
    cage.leave(0)
    cage.leave(2)
    assert not cage.is_used and cage.bytes == 0
