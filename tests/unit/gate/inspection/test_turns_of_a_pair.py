"""gate/inspection/pair.py: a turn writes what it has read before it reads on, in order, and a side that takes nothing
stops the other one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.in_flight import AT_ONCE, HIGH, InFlight
from pysandbox.gate.inspection.loop import IN
from pysandbox.gate.inspection.pair import READS, InspectedPair
from pysandbox.gate.inspection.terms import Terms
from pysandbox.shapes import Any

NAME, PIECES = "a.example", 40
PIECE = 65448  # bytes of content of a read of 64 KiB
NUMBERS = itertools.count(1000)
ASKS = b"POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n" % (PIECES * PIECE)
ANSWERS = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (PIECES * PIECE)


class FakeSide:
    """Says its pieces, and takes so many bytes of what it is sent; `log` is both of them, in order."""

    ready, writes, clean, is_over, kept, protocol = True, False, False, False, 0, "http/1.1"

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log, self.says, self.got, self.takes = name, log, list[bytes](), bytearray(), 1 << 30
        self._fd = next(NUMBERS)

    def fileno(self) -> int:
        return self._fd

    def handshake(self) -> None:
        return

    def read(self, most: int = AT_ONCE) -> bytes | None:
        if not self.says:
            return None
        self.log.append(f"read {self.name}")
        return self.says.pop(0)

    def write(self, said: bytearray) -> int:
        taken = min(self.takes, len(said))
        self.got += said[:taken]
        self.log.append(f"write {self.name}")
        return taken

    def end(self) -> None:
        return

    close = end


class FakeLoop:
    def __init__(self) -> None:
        self.turns, self.masks = list[Callable[[], object]](), dict[int, int]()
        self.called = dict[int, Callable[[int], object]]()

    def soon(self, called: Callable[[], object], share: int) -> None:
        self.turns.append(called)

    def wait_for(self, fd: int, mask: int, called: Callable[[int], object], share: int) -> None:
        self.masks[fd], self.called[fd] = mask, called

    def forget(self, fd: int) -> None:
        self.masks.pop(fd, None)

    def at(self, moment: float, called: Callable[[], object]) -> None:
        return


class Conversation:
    def __init__(self) -> None:
        self.log = list[str]()
        self.client, self.server, self.in_flight = (
            FakeSide("client", self.log),
            FakeSide("server", self.log),
            InFlight(),
        )
        self.loop: Any = FakeLoop()
        terms = Terms(NAME, 443, True, False, Contract(("GET", "POST"), ("/",), (), 1 << 30), 1 << 30)

        def nothing(_: object) -> None:
            return

        self.pair = InspectedPair(
            self.loop, self.client, self.server, Exchange(terms, nothing), 30.0, self.in_flight, 1,
            over=nothing, untrusted=nothing, refused=nothing,
        )  # fmt: skip

    def event(self, side: FakeSide) -> bool:
        """Whether it is heard, and then it is told that something has come."""
        while self.loop.turns:
            self.loop.turns.pop(0)()
        if heard := bool(self.loop.masks[side.fileno()] & IN):
            self.loop.called[side.fileno()](IN)
        return heard


def body() -> list[bytes]:
    return [bytes([number]) * PIECE for number in range(PIECES)]


def begun(sender: str) -> tuple[Conversation, FakeSide, FakeSide]:
    """One whose head has passed: who sends the body, and who gets it."""
    said = Conversation()
    said.client.says = [ASKS if sender == "client" else b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n"]
    said.event(said.client)
    if sender == "client":
        source, sink = said.client, said.server
    else:
        source, sink = said.server, said.client
        said.server.says = [ANSWERS]
        said.event(said.server)
    source.says = body()
    sink.got.clear()
    said.log.clear()
    return said, source, sink


@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_turn_writes_what_it_has_read_before_it_reads_on(sender: str) -> None:
    said, source, sink = begun(sender)
    assert said.event(source)
    assert said.log == [f"read {source.name}", f"write {sink.name}"] * READS, "and no more than so much in one turn"
    while source.says:
        assert said.event(source)
    assert sink.got == b"".join(body())


@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_side_that_takes_nothing_stops_the_other(sender: str) -> None:
    said, source, sink = begun(sender)
    sink.takes = 0
    for _ in range(PIECES):
        said.event(source)
    assert not said.event(source) and len(source.says) == PIECES - 2
    assert said.in_flight.bytes <= HIGH + AT_ONCE
    sink.takes = 1 << 30
    said.loop.called[sink.fileno()](0)
    while source.says:
        said.event(source)
    assert sink.got == b"".join(body())


@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_side_that_takes_little_is_never_waited_for_with_more_than_is_allowed(sender: str) -> None:
    said, source, sink = begun(sender)
    sink.takes, most = 1000, 0
    for _ in range(10 * PIECES):
        said.event(source)
        said.loop.called[sink.fileno()](0)
        most = max(most, said.in_flight.bytes)
    assert most <= HIGH + AT_ONCE and bytes(sink.got) == b"".join(body())[: len(sink.got)]
