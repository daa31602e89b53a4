"""gate/reading/repeats.py: the places of a door, which are descriptors that a cage has in advance.

Claim: words that are not kept take none, one cage takes no more than its part, and however often they run out one timer
gives them back. The control of each is a door whose words are kept, with all the places that it may have.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.gate.doors import Repeat, RepeatClient
from pysandbox.gate.reading import dialling
from pysandbox.gate.reading.dialling import Dialling
from pysandbox.gate.reading.host_end import HostEnd
from pysandbox.gate.reading.repeats import PART, PLACES, RepeatDoor, RepeatDoors, RepeatSelector
from pysandbox.gate.shares import Account
from pysandbox.gate.tcp.target import DialTarget

EACH = 3
TARGET = DialTarget("name", 80)
HEAD = b"CONNECT name:80 HTTP/1.1\r\n\r\n"


class Doors:
    """Doors of cages with a share each, in a loop that waits as the reader's does."""

    def __init__(self, selector: RepeatSelector, limit: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.near.setblocking(False)
        self.relay = HostEnd(self.near, self.loop, lambda _: None)
        self.doors = RepeatDoors(selector, self.relay, self.loop)
        self.account = Account(lambda: limit)
        self.shares = {cage: self.account.share() for cage in (1, 2)}
        self.socks = [self.near, self.far]
        self.back: list[RepeatClient] = []

    def door(self, cage: int = 1) -> tuple[RepeatDoor, socket.socket]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        listener.setblocking(False)
        self.socks.append(listener)
        self.loop.add_reader(listener, lambda: None)
        door = self.doors.open(cage, self.shares[cage], EACH, listener, self._goes_on(cage))
        assert door is not None
        return door, listener

    def _goes_on(self, cage: int) -> Callable[[RepeatClient], object]:
        def go_on(client: RepeatClient) -> None:
            self.back.append(client)
            client.sock.close()
            self.shares[cage].give(EACH)

        return go_on

    async def clients(self, listener: socket.socket, count: int) -> None:
        """So many say what nobody has heard, and each takes its place along."""
        there = len(self.back) + count
        for _ in range(count):
            self.socks.append(made := socket.create_connection(listener.getsockname()))
            made.sendall(b"x")
        while len(self.back) < there:
            await asyncio.sleep(0.001)

    def close(self) -> None:
        for each in self.socks:
            self.loop.remove_reader(each)
            each.close()


def run(serve: Callable[[Doors], Any], limit: int = 1 << 20) -> None:
    async def served() -> None:
        doors = Doors(selector, limit)
        try:
            await asyncio.wait_for(serve(doors), 60)
        finally:
            doors.close()

    selector = RepeatSelector()
    loop = asyncio.SelectorEventLoop(selector)
    try:
        loop.run_until_complete(served())
    finally:
        loop.close()


@pytest.mark.parametrize(("size", "places"), [(1024, PLACES), (1025, 0)])
def test_words_that_are_not_kept_take_no_descriptors(size: int, places: int) -> None:
    async def serve(doors: Doors) -> None:
        door, _ = doors.door()
        door.learn_offer(Repeat.HEAD, b"x" * size, TARGET, b"yes")
        assert doors.shares[1].taken == places * EACH
        door.end()
        assert doors.account.taken == 0

    run(serve)


def test_places_that_run_out_and_are_had_again_have_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(doors: Doors) -> None:
        begun: list[asyncio.TimerHandle] = []
        call_later = doors.loop.call_later

        def counted(*args: Any, **named: Any) -> asyncio.TimerHandle:
            begun.append(call_later(*args, **named))
            return begun[-1]

        door, listener = doors.door()
        monkeypatch.setattr(door, "_loop", SimpleNamespace(call_later=counted))
        for _ in range(4):
            door.learn_offer(Repeat.HEAD, HEAD, TARGET, b"yes")
            assert doors.shares[1].taken == PLACES * EACH
            await doors.clients(listener, PLACES)
            assert doors.shares[1].taken == 0
        assert len(begun) == 1 and not begun[0].cancelled()
        door.end()
        assert begun[0].cancelled()

    run(serve)


def test_a_cage_has_no_more_than_its_part_in_advance() -> None:
    async def serve(doors: Doors) -> None:
        made = [doors.door()[0] for _ in range(3)]
        (other, _), part = doors.door(2), doors.account.limit // PART
        for door in (*made, other):
            door.learn_offer(Repeat.HEAD, HEAD, TARGET, b"yes")
        assert part - EACH < doors.shares[1].taken <= part and doors.shares[2].taken == doors.shares[1].taken
        made[0].make_up()
        assert doors.shares[1].taken <= part
        made[0].end()
        made[1].learn_offer(Repeat.HEAD, HEAD, TARGET, b"yes")  # has what the first one has given back
        assert part - EACH < doors.shares[1].taken <= part
        for door in (*made[1:], other):
            door.end()
        assert doors.account.taken == 0

    run(serve, 512)


def test_a_handed_back_client_is_made_up_for_once() -> None:
    async def serve(doors: Doors) -> None:
        door, listener = doors.door()
        door.learn_offer(Repeat.HEAD, HEAD, TARGET, b"yes")
        await doors.clients(listener, 2)
        assert doors.shares[1].taken == (PLACES - 2) * EACH
        for _ in range(4):
            door.make_up()
        assert doors.shares[1].taken == PLACES * EACH
        door.end()

    run(serve)


@pytest.mark.parametrize("served", [0, 2])
def test_who_is_served_without_python_counts_among_the_calls(monkeypatch: pytest.MonkeyPatch, served: int) -> None:
    """Both count against what the relay's thread has room for. Control: nobody is served there."""
    monkeypatch.setattr(dialling, "MOST_UNANSWERED", 2)

    async def serve(doors: Doors) -> None:
        dials = Dialling(doors.relay, doors.relay)
        dials._known[(1, *TARGET)] = TARGET
        door, listener = doors.door()
        door.learn_offer(Repeat.HEAD, HEAD, TARGET, b"yes")
        for _ in range(served):
            doors.socks.append(made := socket.create_connection(listener.getsockname()))
            made.sendall(HEAD)
        while doors.relay.outstanding < served:
            await asyncio.sleep(0.001)
        assert doors.relay.unanswered == 0
        assert dials.known(1, *TARGET) == (None if served else TARGET)
        door.end()
        assert doors.relay.outstanding == 0

    run(serve)
