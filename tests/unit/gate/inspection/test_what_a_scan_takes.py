"""What a request takes of memory while it is scanned, and that many at once take turns at the room that there is."""

from __future__ import annotations

import base64
import json
import random
import tracemalloc
from collections.abc import Callable

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.room import MOST, Room
from pysandbox.gate.inspection.scanning import ConnectionScan, PlanScan
from pysandbox.gate.inspection.terms import Terms

HOST, WHOLE = "api.example", 8 << 20
GIVEN = {
    "depth": 32, "whole": WHOLE, "scopes": (), "warns": False, "budget": 1 << 40, "detectors": (),
}  # fmt: skip
MOST_BODIES = 2.2
MANY = 32
HEAD = b"POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n"
PROSE = 'a line of "words", with \\u00e9 and \\n in it, and <tags> (too); '


class Talk:
    def __init__(self, room: Room) -> None:
        self.woken = 0
        self.scan = ConnectionScan(PlanScan(GIVEN), HOST, (), lambda _: None, room)
        self.scan.wake = self.wake
        self.exchange = Exchange(Terms(HOST, 443, True, False, Contract(), 64 << 20), lambda _: None, None, self.scan)
        self.sent = 0

    def wake(self) -> None:
        self.woken += 1

    def say(self, said: bytes | memoryview) -> None:
        self.exchange.client_said(bytes(said))
        self.go_on()

    def go_on(self) -> None:
        while self.exchange.goes_on:
            self.exchange.go_on()
            self.sent += len(self.exchange.to_server)
            self.exchange.to_server.clear()
        self.sent += len(self.exchange.to_server)
        self.exchange.to_server.clear()


def chat(size: int) -> bytes:
    return json.dumps({"messages": [PROSE * 100] * (size // (100 * len(PROSE)) + 1)}).encode()[:size]


BODIES: dict[str, Callable[[int], bytes]] = {
    "chat": chat, "prose": lambda size: (PROSE.encode() * size)[:size], "bytes": random.Random(1).randbytes,
    "base64": lambda size: base64.b64encode(random.Random(2).randbytes(size))[:size],
    "hex": lambda size: random.Random(3).randbytes(size // 2).hex().encode(),
    "other letters": lambda size: ("\u0437\u0434\u0435\u0441\u044c e\u0301, " * (size // 16)).encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_takes_at_most_twice_its_size(kind: str) -> None:
    body = memoryview(BODIES[kind](WHOLE - 1))
    talk = Talk(Room())
    talk.say(HEAD % 5 + b"small")  # what is loaded at the first request
    talk.exchange.server_said(b"HTTP/1.1 204 No Content\r\n\r\n")
    tracemalloc.start()
    try:
        talk.say(HEAD % len(body))
        for at in range(0, len(body), 65536):
            talk.say(body[at : at + 65536])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert talk.sent > len(body) and most < MOST_BODIES * len(body), most / len(body)


def test_many_large_bodies_at_once_finish_by_waiting() -> None:
    """None is refused, what is kept of all together has a bound, and each is sent to its last byte."""
    room = Room()
    talks = [Talk(room) for _ in range(MANY)]
    body = memoryview(chat(WHOLE))
    at = [0] * MANY
    for talk in talks:
        talk.say(HEAD % len(body))
    waited = most = 0
    while any(each < len(body) for each in at):
        for number, talk in enumerate(talks):
            talk.go_on()
            if at[number] < len(body) and talk.exchange.hears_client:
                talk.say(body[at[number] : at[number] + (1 << 18)])
                at[number] += 1 << 18
        waited += sum(each.exchange._request.is_looking for each in talks)
        most = max(most, MOST - room._left)
    for talk in talks:
        talk.go_on()
    assert [each.sent > len(body) for each in talks] == [True] * MANY and waited
    assert room._left == MOST and most <= MOST
