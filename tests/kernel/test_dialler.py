"""csrc/host/relay/dial.h: what was judged is dialled by the relay's thread alone, and nothing else is.

Claim: over its channel the reader gets what the table of the cage that it names holds now, and no more of it than that
cage may have. The control of each test is a connection that is made.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from pysandbox._native import ffi, lib

from _support.dialler import LOOPBACK, NAME, Dialler
from _support.sockets import PATIENCE, everything, pair
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.judged import MOST_DIALLED
from pysandbox.gate.reading.kinds import Verb

RACES = 1000


@pytest.fixture
def dialler() -> Iterator[Dialler]:
    made = Dialler()
    yield made
    made.close()


def is_over(there: socket.socket) -> bool:
    """Whether it has ended without a word."""
    with suppress(ConnectionResetError):
        return there.recv(1) == b""
    return True


def test_what_is_known_is_dialled_and_relayed_without_the_loop(dialler: Dialler) -> None:
    """Nobody runs the event loop here."""
    assert dialler.dials() is None
    assert dialler.knows()
    server = dialler.dials()
    assert server is not None
    client, inner = pair()
    there = dialler.accepts()
    dialler.says(Verb.SPLICE, dialler.number, 1, b"held ", fds=(inner.fileno(),))
    inner.close(), server.close()
    client.sendall(b"later")
    dialler.says(Verb.SAY, dialler.number, b"and ")
    dialler.says(Verb.RELEASE, dialler.number, b"")
    client.shutdown(socket.SHUT_WR)
    assert everything(there) == b"held and later"
    there.sendall(b"answer")
    there.close()
    assert everything(client) == b"answer"
    assert dialler.hears()[0] == ChannelRecord(Verb.OVER, dialler.number, (b"0",))
    assert dialler.cage.counts() == {"gatekeeper.tcp_allowed": 1}
    assert dialler.cage.judged.connections() == []
    client.close()


def test_a_client_that_was_judged_is_relayed_as_soon_as_its_server_is_there(dialler: Dialler) -> None:
    assert dialler.knows()
    client, inner = pair()
    call = dialler.passes(b"first", inner)
    inner.close()
    with dialler.accepts() as there:
        assert there.recv(5) == b"first"
        there.sendall(b"answer")
        assert client.recv(6) == b"answer"
        client.close()
        assert everything(there) == b""
    assert dialler.hears()[0] == ChannelRecord(Verb.OVER, call, (b"0",))


def test_a_client_of_what_is_not_known_is_left_alone(dialler: Dialler) -> None:
    assert dialler.knows()
    client, inner = pair()
    call = dialler.passes(b"first", inner, "other.example")
    record, fds = dialler.hears()
    assert (record.kind, record.number, fds) == (Verb.FAILED, call, [])
    inner.sendall(b"still there")
    assert client.recv(11) == b"still there"
    client.close(), inner.close()


def test_letting_go_of_a_call_ends_what_it_has_passed(dialler: Dialler) -> None:
    assert dialler.knows()
    client, inner = pair()
    call = dialler.passes(b"", inner)
    with dialler.accepts() as there:
        dialler.says(Verb.LET_GO, call)
        assert is_over(there)
    assert dialler.hears()[0] == ChannelRecord(Verb.OVER, call, (b"0",))
    client.close(), inner.close()


def test_the_end_of_a_cage_ends_what_came_of_it(dialler: Dialler) -> None:
    """What the reader waits for is answered; what it holds it closes by itself."""
    assert dialler.knows()
    held = dialler.dials()
    assert held is not None
    client, inner = pair()
    call = dialler.passes(b"", inner)
    there = [dialler.accepts(), dialler.accepts()]
    dialler.cage.judged.leave()
    assert all(is_over(each) for each in there)
    assert dialler.hears()[0] == ChannelRecord(Verb.OVER, call, (b"0",))
    for each in (held, client, inner, *there):
        each.close()


@pytest.mark.parametrize("what", ["name", "port", "cage", "time", "forgotten", "synthetic address", "left"])
def test_what_is_not_known_is_not_dialled(dialler: Dialler, what: str) -> None:
    """Another name; a port that was not granted; the cage of somebody else; one whose time is over; tightened; whose
    address stands for its name no longer; of a cage that has ended."""
    other = dialler.session()
    assert dialler.knows() and dialler.knows("198.18.1.0")
    assert dialler.knows("other.example", cage=other)
    control = dialler.dials("198.18.1.0")
    assert control is not None
    dialler.accepts().close()
    asked: dict[str, Any] = {}
    if what == "name":
        asked = {"host": "other.example"}
    elif what == "port":
        asked = {"port": dialler.port % 65535 + 1}
    elif what == "cage":
        asked = {"cage": other.number}
    elif what == "time":
        assert dialler.knows(life=0)
    elif what == "forgotten":
        dialler.cage.judged.forget()
    elif what == "synthetic address":
        asked = {"host": "198.18.1.0"}
        dialler.cage.names.forgotten(ip_address("198.18.1.0"))
    else:
        dialler.cage.judged.leave()
    assert dialler.dials(**asked) is None
    dialler.server.setblocking(False)
    with pytest.raises(BlockingIOError):
        dialler.server.accept()
    control.close()


@pytest.mark.parametrize("fetched", [False, True])
def test_a_duplicate_that_the_reader_keeps_of_what_it_lets_go_of_is_of_no_use(dialler: Dialler, fetched: bool) -> None:
    """Control: it has it, and it works until then. Nothing would find it when the rules are tightened."""
    assert dialler.knows()
    if fetched:
        client, inner = pair()
        call = next(dialler.calls)
        dialler.says(Verb.OFFER, call, dialler.cage.number, NAME, dialler.port, b"answer", fds=(inner.fileno(),))
        dialler.says(Verb.FETCH, call)
        record, fds = dialler.hears()
        kept, number = socket.socket(fileno=fds[0]), int(record.fields[0])
        client.close(), inner.close()
    else:
        held = dialler.dials()
        assert held is not None
        kept, number = held, dialler.number
    with dialler.accepts() as there:
        kept.sendall(b"control")
        assert there.recv(99) == b"control"
        dialler.says(Verb.LET_GO, number)
        assert is_over(there)
        with pytest.raises(OSError):
            kept.sendall(b"afterwards")
            kept.sendall(b"afterwards")
    assert dialler.cage.judged.connections() == []
    kept.close()


def test_a_table_is_bounded_and_has_what_was_told_last(dialler: Dialler) -> None:
    names = [f"n{number}.example" for number in range(200)]
    assert all(dialler.knows(name) for name in names)
    server = dialler.dials(names[-1])
    assert server is not None
    server.close()
    dialler.says(Verb.LET_GO, dialler.number)
    known = 0
    for name in names:
        if (server := dialler.dials(name)) is not None:
            known += 1
            server.close()
            dialler.says(Verb.LET_GO, dialler.number)
    assert 1 < known <= 32
    assert not dialler.knows("x" * 256)


def test_an_address_where_nobody_is_is_left_to_the_host(dialler: Dialler) -> None:
    assert dialler.knows()
    dialler.server.close()
    assert dialler.dials() is None
    dialler.server = socket.create_server(("127.0.0.1", dialler.port))
    assert dialler.dials() is None  # it is known no longer
    assert dialler.cage.counts().get("gatekeeper.tcp_allowed", 0) == 0


def test_an_address_that_has_become_the_host_s_own_is_left_to_the_host(dialler: Dialler) -> None:
    """It is asked again when what was said of it holds no longer: here at once."""
    assert dialler.knows()
    said = ffi.new("char[]", NAME.encode())
    judged = ffi.new("struct psb_judged *", {
        "said": said, "name": said, "said_size": len(NAME), "name_size": len(NAME), "life_ms": 60_000,
        "address": list(b"\0" * 10 + b"\xff\xff" + LOOPBACK.packed), "port": dialler.port, "own": 0, "own_ms": 0,
    })  # fmt: skip
    assert dialler.relay.ask(lib.psb_dial_learn, dialler.cage.number, judged) == 0
    assert dialler.dials() is None


def test_one_that_does_not_answer_is_given_up(dialler: Dialler) -> None:
    """A server whose queue is full drops what comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        assert dialler.knows(port=port)
        call = next(dialler.calls)
        dialler.says(Verb.DIAL, call, dialler.cage.number, NAME, port, b"")
        dialler.says(Verb.GIVE_UP, call)
        record, _ = dialler.hears()
        assert (record.kind, record.number) == (Verb.FAILED, call)
        assert dialler.cage.judged.connections() == []
        for filler in fillers:
            filler.close()


def test_a_cage_has_so_many_at_once(dialler: Dialler) -> None:
    assert dialler.knows()
    held = [server for _ in range(MOST_DIALLED + 5) if (server := dialler.dials()) is not None]
    assert len(held) == dialler.cage.judged.most <= MOST_DIALLED
    dialler.says(Verb.LET_GO, dialler.number)
    again = dialler.dials()
    assert again is not None
    for each in (*held, again):
        each.close()


def test_what_the_rules_refuse_is_cut_whoever_has_it(dialler: Dialler) -> None:
    """One that the reader holds, one that is relayed, one that was passed on; afterwards nothing is dialled."""
    assert dialler.knows()
    held = dialler.dials()
    assert held is not None
    relayed = dialler.dials()
    assert relayed is not None
    ends = [pair(), pair()]
    dialler.says(Verb.SPLICE, dialler.number, 0, b"", fds=(ends[0][1].fileno(),))
    dialler.passes(b"x", ends[1][1])
    there = [dialler.accepts() for _ in range(3)]
    assert there[2].recv(1) == b"x"
    threading.Thread(target=dialler.loop.run_forever, daemon=True).start()
    assert dialler.cage.tighten(()) == 3
    dialler.loop.call_soon_threadsafe(dialler.loop.stop)
    with pytest.raises(OSError):
        held.send(b"y")
    assert all(is_over(each) for each in there)
    assert dialler.misses(dialler.cage.number)
    for each in (held, relayed, *there, *ends[0], *ends[1]):
        each.close()
    while dialler.loop.is_running():
        pass


def test_nothing_is_left_of_a_name_that_is_taken_while_it_is_dialled(dialler: Dialler) -> None:
    """A thousand times: the reader dials as fast as it can, and once the tightening has returned, whatever was made
    before is dead, and nothing is made."""
    cages = [dialler.session() for _ in range(RACES)]
    made = refused = 0
    for cage in cages:
        assert dialler.knows(cage=cage)
        tightened = threading.Event()
        held: list[socket.socket] = []

        def dial(cage: CageSession = cage, held: list[socket.socket] = held, over: threading.Event = tightened) -> None:
            while not over.is_set() and len(held) < MOST_DIALLED:
                if (server := dialler.dials(cage=cage.number)) is None:
                    return
                held.append(server)

        thread = threading.Thread(target=dial)
        thread.start()
        with cage.lock:
            cage._tighten(())
        tightened.set()
        thread.join()
        assert dialler.misses(cage.number)
        assert cage.judged.connections() == []
        for server in held:
            with pytest.raises(OSError):
                server.send(b"y")
            server.close()
        made, refused = made + len(held), refused + (len(held) < MOST_DIALLED)
        cage.judged.leave()
    assert made and refused


GARBAGE = {
    "no record": (b"abc", ()),
    "an unknown kind": (b"\xc8" + b"\0" * 9, ()),
    "a record of the gatekeeper's": (channel.encode(ChannelRecord(Verb.PONG, 1)), ()),
    "a field that ends early": (channel.encode(ChannelRecord(Verb.SAY, 1, (b"abc",)))[:-1], ()),
    "bytes after it": (channel.encode(ChannelRecord(Verb.LET_GO, 1)) + b"x", ()),
    "a cage that is no number": (channel.encode(ChannelRecord(Verb.DIAL, 1, (b"-1", b"a", b"1", b""))), ()),
    "a port that is none": (channel.encode(ChannelRecord(Verb.DIAL, 1, (b"1", b"a", b"65537", b""))), ()),
    "a number without end": (channel.encode(ChannelRecord(Verb.DIAL, 1, (b"1" * 30, b"a", b"1", b""))), ()),
    "a missing descriptor": (channel.encode(ChannelRecord(Verb.SPLICE, 1, (b"0", b""))), ()),
    "a descriptor too many": (channel.encode(ChannelRecord(Verb.LET_GO, 1)), (0,)),
    "many descriptors": (channel.encode(ChannelRecord(Verb.LET_GO, 1)), (0,) * 250),
    "a descriptor that is no socket": (channel.encode(ChannelRecord(Verb.SPLICE, 1, (b"0", b""))), (0,)),
    "too much at once": (channel.encode(ChannelRecord(Verb.SAY, 1, (b"x" * 200_000,))), ()),
    "nothing": (b"", ()),
}


@pytest.mark.parametrize("lie", sorted(GARBAGE))
def test_what_makes_no_sense_ends_the_channel_and_all_that_came_of_it(dialler: Dialler, lie: str) -> None:
    assert dialler.knows()
    server = dialler.dials()
    assert server is not None
    said, fds = GARBAGE[lie]
    with open("/dev/null") as null, dialler.accepts() as there:
        if said:
            socket.send_fds(dialler.channel, [said], [null.fileno() for _ in fds])
        else:
            dialler.channel.shutdown(socket.SHUT_WR)
        server.close()
        assert dialler.channel.recv(99) == b""
        assert is_over(there)
    dialler.loop.call_later(PATIENCE, dialler.loop.stop)
    dialler.relay.dialler_failed = dialler.loop.stop
    dialler.loop.run_forever()
    assert dialler.relay.ask(lib.psb_dial_has_failed) == 1
    assert dialler.cage.judged.connections() == []
    dialler.channel.close()
    dialler.channel = dialler.opened()  # another reader
    again = dialler.dials()
    assert again is not None
    again.close()


def test_descriptors_are_as_many_as_before(dialler: Dialler) -> None:
    assert dialler.knows()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(60):
        client, inner = pair()
        call = dialler.passes(b"x", inner)
        client.close(), inner.close()
        with dialler.accepts() as there:
            if number % 2:
                there.recv(1)
        record, _ = dialler.hears()
        assert (record.kind, record.number) == (Verb.OVER, call)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_numbers_of_the_records_are_those_of_the_reader() -> None:
    header = Path(__file__).parents[2] / "csrc/host/relay/dial_records.h"
    said = re.findall(r"VERB_(\w+) = (\d+)", header.read_text())
    assert said and all(Verb[name] == int(value) for name, value in said)
