"""Clients that are offered to the relay take their turns one after the other, however many of them speak at once."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.gate.doors import Offered, RepeatClient
from pysandbox.gate.tcp.offered import PATIENCE, OfferedClients
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.gate.turns import LoopTurns

GREETING, REQUEST = b"\x05\x01\x00", b"\x05\x01\x00\x03\x01x\x27\x0f"


class Door:
    """A SOCKS door at which `count` clients are, and what became of them."""

    def __init__(self, count: int) -> None:
        self.turns = LoopTurns(asyncio.get_running_loop())
        self.rules = SimpleNamespace(may_name_at_address=lambda *_: False)
        self.judged: list[bytes] = []
        self.given_back: list[ClientStream] = []
        self.pairs = [socket.socketpair() for _ in range(count)]
        back = lambda client, leave, serve: self.given_back.append(client)  # noqa: E731
        self.clients = OfferedClients(self, "socks", back)  # type: ignore[arg-type]
        for _, inner in self.pairs:
            self.clients.takes(ClientStream(inner, self.turns), lambda: None)

    def known(self, asked: DialTarget) -> DialTarget:
        return DialTarget("x", 9999)

    def offer(self, *_: Any) -> Offered:
        return Offered(self.judged.append, lambda: None, lambda: None)

    def say(self, words: bytes) -> None:
        for client, _ in self.pairs:
            client.send(words)

    async def serves(self, rounds: int) -> None:
        for _ in range(rounds):
            await asyncio.sleep(0)

    def close(self) -> None:
        self.clients.end()
        for pair in self.pairs:
            for each in pair:
                each.close()


@pytest.mark.parametrize("count", [4, 60])
def test_all_that_speak_at_once_are_served(count: int) -> None:
    async def told() -> int:
        door = Door(count)
        for words in (GREETING, REQUEST, b"12345\n"):
            door.say(words)
            await door.serves(60 + 2 * count)
        judged = len(door.judged)
        door.close()
        return judged

    assert asyncio.run(told()) == count


def test_who_waits_for_a_turn_is_not_forgotten_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def given_back() -> int:
        door = Door(1)
        monkeypatch.setattr(door.turns, "now", lambda: False)
        door.say(GREETING)
        held: list[Any] = []
        monkeypatch.setattr(door.turns, "later", held.append)
        await asyncio.sleep(PATIENCE * 1.1)  # a sweep has passed by one that waits for its turn
        for work in held:
            work()
        await asyncio.sleep(PATIENCE * 1.5)
        count = len(door.given_back)
        door.close()
        return count

    assert asyncio.run(given_back()) == 1


@pytest.mark.parametrize("is_answered_first", [False, True])
def test_who_was_handed_back_is_made_up_for_when_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch, is_answered_first: bool
) -> None:
    """Control: it is still there then."""
    made_up: list[bool] = []
    held: list[Any] = []
    told: list[Any] = []

    async def serve() -> None:
        door: Any = Door(0)
        repeats = SimpleNamespace(make_up=lambda: made_up.append(True), end=lambda: None)
        door.descriptors = SimpleNamespace(give=lambda _: None)
        door.learn_at = lambda *_, **__: repeats
        door.adopt = lambda call, asked, hears: told.append(hears) or door.offer()
        with socket.socket() as listener, socket.socket() as client:
            door.clients.learn_at(listener, 3, lambda: False, lambda *_: None)
            monkeypatch.setattr(door.turns, "now", lambda: False)
            monkeypatch.setattr(door.turns, "later", held.append)
            door.clients._handed_back(RepeatClient(client, 5, True, False, REQUEST, b""))
            if is_answered_first:
                told[0](True, None)
            assert not made_up
            held[0]()
            door.close()

    asyncio.run(serve())
    assert made_up == [True]
