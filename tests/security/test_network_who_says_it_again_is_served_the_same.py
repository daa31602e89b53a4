"""Claim: a client who says at a door what was said there before, and is served without its words being read, gets what
he would have got, and nothing else; it is counted, cut and ended the same, in whatever state it is.

The doors of a reader that remembers, and of one that does not, which is the control. That words were not read again is
seen by the count of those who were served so.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from _support.again import GREETING, KINDS, METHOD, NAME, AgainDoors, EchoService, again_doors
from pysandbox.gate.reading import repeats

from .harness import PATIENCE, wait_until

SCRIPTS = 100  # for each door
BRIEFLY = 0.4  # seconds
WORDS = (b"12345\n", b"12345\n", b"12345\n", b"x\n" * 3000, b"\0\1\2", b"\x80\1\2\3", b"HELO x", b"GET",
         b"GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n", b"\x16\3\1\0\5hello", b"\x16", b" \r\nx\n",
         b"")  # fmt: skip
STATES = ("greeted", "answered", "relayed")


@pytest.fixture
def server() -> Iterator[EchoService]:
    made = EchoService()
    yield made
    made.close()


@pytest.fixture
def doors(server: EchoService, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgainDoors]:
    with again_doors(server, monkeypatch) as made:
        yield made


# ---- the same answers ----------------------------------------------------------------------------------------------


def messages(doors: AgainDoors, kind: str, chance: random.Random) -> list[tuple[bytes, int]]:
    """What one client says, with the size of the answer that it waits for."""
    said: list[tuple[bytes, int]] = []
    odd = chance.random() < 0.4
    if kind == "socks":
        greetings = (GREETING, b"\5\2\0\2", b"\5\1\2", b"\4\1\0\x50", GREETING[:2], GREETING + b"\0")
        said.append((chance.choice(greetings) if odd and chance.random() < 0.5 else GREETING, 2))
        right, port = doors.request(), doors.port.to_bytes(2, "big")
        requests = (
            right[:-1], right + b"\0", right.replace(b"\3", b"\4", 1), b"\5\2" + right[2:],
            b"\5\1\0\1\x7f\0\0\1" + port, b"\5\1\0\3\6denied" + port, right[:-2] + b"\0\1",
        )  # fmt: skip
        said.append((chance.choice(requests) if odd else right, 10))
    elif kind == "http":
        right = doors.head()
        heads = (
            right[:-1], right + b"x", right.replace(NAME, b"denied.example"), right.replace(b"CONNECT", b"GET"),
            right.replace(b"1.1", b"9.9"), right.replace(b"Host", b"Hose"), right[:20],
        )  # fmt: skip
        said.append((chance.choice(heads) if odd else right, 12))
    said.append((chance.choice(WORDS), 0))
    return said


def heard_by(doors: AgainDoors, kind: str, seed: int) -> list[bytes]:
    """What a client of this seed was told after each of its messages, and in the end."""
    chance = random.Random(seed)
    said = messages(doors, kind, chance)
    split, pipelined = chance.random() < 0.25, chance.random() < 0.2
    told: list[bytes] = []
    with doors.knock(kind) as client:
        try:
            if pipelined:
                said = [(b"".join(each for each, _ in said), 0)]
            for each, size in said:
                at = chance.randrange(1, len(each)) if split and len(each) > 1 else len(each)
                for part in (each[:at], each[at:]):
                    client.sendall(part)
                    if part is not each and split:
                        time.sleep(0.01)
                told.append(answer(client, size))
            client.shutdown(socket.SHUT_WR)
        except OSError:
            told.append(b"cut")
        told.append(rest(client))
    return [b"".join(told).replace(b"cut", b"")] if pipelined or split else told


def answer(client: socket.socket, size: int) -> bytes:
    """So many bytes, or what came until there was silence, or the end."""
    client.settimeout(BRIEFLY)
    got = b""
    try:
        while len(got) < size and (more := client.recv(size - len(got))):
            got += more
    except OSError:
        pass
    return got


def rest(client: socket.socket) -> bytes:
    client.settimeout(20)
    got = b""
    try:
        while more := client.recv(65536):
            got += more
    except ConnectionError:
        pass
    return got


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_many_clients_is_told_the_same(
    server: EchoService, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:  # fmt: skip
    told: dict[bool, list[Any]] = {}
    counts: dict[bool, Any] = {}
    for remembers in (True, False):
        with again_doors(server, monkeypatch, remembers=remembers) as doors:
            doors.teach(kind)
            told[remembers] = [heard_by(doors, kind, seed) for seed in range(SCRIPTS)]
            assert doors.served() > SCRIPTS // 4 if remembers else doors.served() == 0
            assert server.is_left_alone()
            counts[remembers] = doors.session.ledger.counts.get("gatekeeper.tcp_allowed")
    for seed, (one, other) in enumerate(zip(told[True], told[False], strict=True)):
        assert one == other, f"seed {seed}"
    assert abs(counts[True] - counts[False]) <= 3  # of those that hang up at once, some are dialled twice


# ---- tightened, ended, killed --------------------------------------------------------------------------------------


def in_state(doors: AgainDoors, kind: str, state: str) -> socket.socket:
    if state == "greeted":
        client = doors.knock(kind)
        client.sendall(GREETING)
        assert client.recv(2) == METHOD
        return client
    return doors.asks(kind) if state == "answered" else doors.speaks(kind)


def is_over(client: socket.socket) -> bool:
    client.settimeout(20)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


CASES = [(kind, state) for kind in KINDS for state in STATES if state != "greeted" or kind == "socks"]


@pytest.mark.parametrize(("kind", "state"), CASES)
def test_what_is_taken_away_is_had_by_nobody_in_any_state(
    doors: AgainDoors, server: EchoService, kind: str, state: str
) -> None:  # fmt: skip
    doors.teach(kind)
    before = doors.served()
    with in_state(doors, kind, state) as client:
        assert state == "greeted" or doors.served() > before
        assert wait_until(lambda: state == "greeted" or server.alive == 1, PATIENCE)
        said = bytes(server.heard)
        doors.session.tighten(())
        seen = server.seen
        try:
            client.sendall(doors.request() if state == "greeted" else b"a secret\n")
        except OSError:
            pass
        if state == "greeted":
            assert client.recv(10)[1:2] == b"\2"  # not allowed
        else:
            assert is_over(client)
        for _ in range(3):
            with pytest.raises(ConnectionError):
                doors.speaks(kind)
        assert server.is_left_alone() and server.seen == seen and bytes(server.heard) == said


@pytest.mark.parametrize(("kind", "state"), CASES)
def test_it_ends_with_its_cage(doors: AgainDoors, server: EchoService, kind: str, state: str) -> None:
    doors.teach(kind)
    with in_state(doors, kind, state) as client:
        doors.session.end()
        assert is_over(client) and server.is_left_alone()


@pytest.mark.parametrize(("kind", "state"), CASES)
def test_it_ends_with_the_reader(
    server: EchoService, monkeypatch: pytest.MonkeyPatch, kind: str, state: str
) -> None:  # fmt: skip
    """The real one, in its process."""
    with again_doors(server, monkeypatch, in_thread=False) as doors:
        doors.teach(kind)
        with in_state(doors, kind, state) as client:
            doors.live.kill_reader()
            assert is_over(client) and server.is_left_alone()
            with pytest.raises(ConnectionError):
                doors.speaks(kind)


# ---- what it costs others ------------------------------------------------------------------------------------------


def places_taken(doors: AgainDoors) -> int:
    return doors.thread.call(lambda: doors.remote.descriptors.taken)


@pytest.mark.parametrize("kind", KINDS)
def test_clients_that_vanish_and_others_that_say_what_nobody_has_said_leave_nothing(
    doors: AgainDoors, server: EchoService, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:  # fmt: skip
    """Not a descriptor, once the places that are kept for the next ones are given back."""
    monkeypatch.setattr(repeats, "IDLE", 0.2)
    doors.teach(kind)
    for seed in range(80):
        chance = random.Random(seed)
        client = doors.knock(kind)
        for each, size in messages(doors, kind, chance)[: chance.randrange(4)]:
            try:
                client.sendall(each[: chance.randrange(len(each) + 1)])
                if size and chance.random() < 0.3:
                    client.settimeout(0.05)
                    client.recv(size)
            except OSError:
                break
        client.close()
    doors.speaks(kind).close()
    assert server.is_left_alone()
    assert wait_until(lambda: places_taken(doors) == 0, PATIENCE)


def test_a_crowd_has_as_many_places_as_before(doors: AgainDoors, server: EchoService) -> None:
    """More than are served so at once: the others are served as they were."""
    doors.teach("socks")
    kept = [doors.speaks("socks") for _ in range(40)]
    assert all(each.send(b"again\n") and each.recv(6) == b"again\n" for each in kept)
    for each in kept:
        each.close()
    assert server.is_left_alone()
    before = doors.served()
    doors.teach("socks")
    assert doors.served() > before


def test_words_that_lead_nowhere_any_more_are_read_again(doors: AgainDoors, server: EchoService) -> None:
    """The relay's thread has forgotten what it knew: it says so, and all goes on as if nothing had been known."""
    doors.teach()
    for kind in KINDS:
        doors.session.judged.forget()
        before = doors.served()
        with doors.speaks(kind):
            pass
        doors.teach(kind)
        assert doors.served() > before
