"""csrc/host/relay/offered.c: a client that has asked for a connection is told when it is there, and nothing passes in
either direction until what it says next was judged.

Claim: neither side hears more of the other than the answer, and what was cut meanwhile stays so, whatever the reader
says of it later. The control of each is a connection that is gone on with.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from _support.dialler import NAME, Dialler
from _support.sockets import PATIENCE, everything, exactly, pair
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import OF_DIALLER, Verb

ANSWER = b"\5\0\0\1\0\0\0\0\0\0"


@pytest.fixture
def dialler() -> Iterator[Dialler]:
    made = Dialler()
    assert made.knows()
    yield made
    made.close()


class OfferedPair:
    """A client whose reader has offered its connection, from the far ends of both."""

    def __init__(self, dialler: Dialler, host: str = NAME) -> None:
        self.dialler, (self.client, self.inner) = dialler, pair()
        self.client.settimeout(PATIENCE)
        self.call = next(dialler.calls)
        fields = dialler.cage.number, host, dialler.port, ANSWER
        dialler.says(Verb.OFFER, self.call, *fields, fds=(self.inner.fileno(),))

    def says(self, kind: Verb, *fields: object) -> None:
        self.dialler.says(kind, self.call, *fields)

    def hears_over(self) -> bool:
        return self.dialler.hears()[0] == ChannelRecord(Verb.OVER, self.call, (b"0",))

    def close(self) -> None:
        self.client.close(), self.inner.close()


def is_silent(sock: socket.socket) -> bool:
    return not select.select([sock], [], [], 0.2)[0]


def is_reset(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_it_is_answered_when_it_is_there_and_goes_on_when_it_was_judged(dialler: Dialler) -> None:
    offered = OfferedPair(dialler)
    with dialler.accepts() as there:
        assert exactly(offered.client, len(ANSWER)) == ANSWER
        offered.client.sendall(b"not judged")  # the reader has not read it
        assert is_silent(there)
        assert offered.inner.recv(10) == b"not judged"
        offered.says(Verb.GO, b"judged ")
        offered.client.sendall(b"later")
        offered.client.shutdown(socket.SHUT_WR)
        assert everything(there) == b"judged later"
        there.sendall(b"answer")
    assert everything(offered.client) == b"answer"
    assert offered.hears_over()
    assert dialler.cage.counts() == {"gatekeeper.tcp_allowed": 1}
    offered.close()


def test_a_server_that_speaks_first_is_the_reader_s(dialler: Dialler) -> None:
    """What it says passes when the reader has handed the connection over, as one that it has dialled."""
    offered = OfferedPair(dialler)
    with dialler.accepts() as there:
        assert exactly(offered.client, len(ANSWER)) == ANSWER
        there.sendall(b"220 ready")
        record, fds = dialler.hears()
        number = int(record.fields[0])
        assert (record.kind, record.number) == (Verb.DIALLED, offered.call) and number & OF_DIALLER
        assert is_silent(offered.client)
        with socket.socket(fileno=fds[0]):
            dialler.says(Verb.GO, offered.call, b"too late")  # it has been told already
            dialler.says(Verb.SPLICE, number, 0, b"", fds=(offered.inner.fileno(),))
            assert exactly(offered.client, 9) == b"220 ready"
        assert is_silent(there)
    offered.close()


@pytest.mark.parametrize("early", [True, False])
def test_the_reader_fetches_what_it_has_to_look_at(dialler: Dialler, early: bool) -> None:
    offered = OfferedPair(dialler)
    if early:
        offered.says(Verb.FETCH)
    there = dialler.accepts()
    assert exactly(offered.client, len(ANSWER)) == ANSWER
    if not early:
        offered.says(Verb.FETCH)
    record, fds = dialler.hears()
    assert (record.kind, record.number) == (Verb.DIALLED, offered.call)
    with socket.socket(fileno=fds[0]) as server, there:
        server.sendall(b"said by the reader")
        assert exactly(there, 18) == b"said by the reader"
        dialler.says(Verb.LET_GO, int(record.fields[0]))
    offered.close()


def test_who_asks_for_what_is_not_known_is_told_nothing(dialler: Dialler) -> None:
    offered = OfferedPair(dialler, "other.example")
    record, fds = dialler.hears()
    assert (record.kind, record.number, fds) == (Verb.FAILED, offered.call, [])
    assert is_silent(offered.client)
    offered.close()


@pytest.mark.parametrize("by", ["cut", "left", "let go"])
def test_what_was_cut_before_it_was_judged_stays_so(dialler: Dialler, by: str) -> None:
    offered = OfferedPair(dialler)
    there = dialler.accepts()
    assert exactly(offered.client, len(ANSWER)) == ANSWER
    if by == "cut":
        (kept,) = dialler.cage.judged.connections()
        dialler.cage.judged.cut(kept.number)
        assert dialler.cage.judged.connections() == []
    elif by == "left":
        dialler.cage.judged.leave()
    else:
        offered.says(Verb.LET_GO)
    offered.says(Verb.GO, b"a secret")
    assert offered.hears_over()
    assert is_reset(there) and is_reset(offered.client)
    there.close(), offered.close()


def test_one_that_was_fetched_and_cut_is_told_as_such(dialler: Dialler) -> None:
    """Its client has its answer, so nobody dials for it anew."""
    offered = OfferedPair(dialler)
    there = dialler.accepts()
    offered.says(Verb.FETCH)
    record, fds = dialler.hears()
    dialler.cage.judged.cut(int(record.fields[0]))
    assert dialler.hears()[0] == ChannelRecord(Verb.CUT, int(record.fields[0]))
    with socket.socket(fileno=fds[0]):
        assert is_reset(there)
    there.close(), offered.close()


@pytest.mark.parametrize("when", ["on its way to the reader", "fetched"])
def test_one_that_was_fetched_is_nobody_s_when_its_cage_has_ended(dialler: Dialler, when: str) -> None:
    """What the reader has of it by then is a duplicate, and of no use."""
    offered = OfferedPair(dialler)
    there = dialler.accepts()
    assert exactly(offered.client, len(ANSWER)) == ANSWER
    offered.says(Verb.FETCH)
    kept = dialler.hears() if when == "fetched" else None
    dialler.cage.judged.leave()
    heard, fds = kept or dialler.hears()
    if heard.kind is Verb.DIALLED:  # it was in the channel before its cage ended
        with socket.socket(fileno=fds[0]) as server, pytest.raises(OSError):
            server.sendall(b"afterwards")
            server.sendall(b"afterwards")
    assert is_reset(there)
    assert dialler.cage.judged.connections() == []
    for kind, fields in ((Verb.GO, (b"a secret",)), (Verb.FETCH, ()), (Verb.LET_GO, ())):
        offered.says(kind, *fields)
    assert dialler.misses(dialler.cage.number)  # the channel goes on
    there.close(), offered.close()


@pytest.mark.parametrize("twice", [True, False])
def test_what_makes_no_sense_ends_the_channel(dialler: Dialler, twice: bool) -> None:
    """A second GO while the first waits for its server; a GO for a client that was passed on."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:  # it drops what comes once its queue is full
        fillers = [socket.socket() for _ in range(4)]
        for each in fillers:
            each.setblocking(False)
            each.connect_ex(deaf.getsockname())
        dialler.port = deaf.getsockname()[1]
        assert dialler.knows()
        client, inner = pair()
        if twice:
            offered = OfferedPair(dialler)
            offered.says(Verb.GO, b"once")
            offered.says(Verb.GO, b"twice")
            offered.close()
        else:
            dialler.says(Verb.GO, dialler.passes(b"", inner), b"none was offered")
        assert is_reset(dialler.channel)
        for each in (*fillers, client, inner):
            each.close()
