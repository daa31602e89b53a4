"""csrc/host/repeats: what is learned at a door and forgotten again, how much of it there is, and how clients end.

Claim: nobody is answered for words that were forgotten, or learned at another door; what one door learns, and how many
it serves at once, is bounded; who does not go on, or goes, leaves nothing.
"""

from __future__ import annotations

import array
import select
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from pysandbox._native import ffi, lib

from _support.repeats import (
    GREETING,
    HEAD,
    LONGEST,
    METHOD,
    MOST_REPEATS,
    REQUEST,
    TURNS,
    Back,
    RepeatWait,
    is_readable,
)
from _support.sockets import exactly
from pysandbox.gate.doors import Repeat
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import FIELDS, Verb


@pytest.fixture
def wait() -> Iterator[RepeatWait]:
    made = RepeatWait()
    yield made
    made.close()


# ---- what is forgotten, and what is bounded ------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["before", "greeted"])
@pytest.mark.parametrize("said", [None, REQUEST])
def test_what_was_forgotten_means_nothing(wait: RepeatWait, state: str, said: bytes | None) -> None:
    door = wait.socks_door()
    greeted = state == "greeted" or said is not None
    client = wait.client(door, GREETING)
    if state == "greeted":
        assert wait.answers(client) == METHOD
    lib.psb_repeat_forget(wait.repeats, door, said or ffi.NULL, len(said or b""))
    if state != "greeted" and greeted:
        assert wait.answers(client) == METHOD
    if greeted:
        client.sendall(REQUEST)
    (back,) = wait.backs()
    assert back == Back(door, 0, greeted, False, b"", REQUEST if greeted else GREETING) and wait.is_told_nothing()


def test_a_flood_of_words_takes_the_place_of_none_at_another_door(wait: RepeatWait) -> None:
    flooded, other = wait.socks_door(1), wait.socks_door(2)
    for number in range(10 * MOST_REPEATS):
        assert wait.learn(flooded, Repeat.HEAD, b"%d" % number, b"yes") == 0
    wait.client(flooded, GREETING)
    wait.client(flooded, b"%d" % (10 * MOST_REPEATS - 1))  # the last one
    wait.client(flooded, b"%d" % (9 * MOST_REPEATS - 1))
    assert sorted(each.words for each in wait.backs(2)) == sorted([GREETING, b"%d" % (9 * MOST_REPEATS - 1)])
    assert wait.told()[0].kind is Verb.OFFER and wait.is_told_nothing()
    wait.offered(other)


def test_what_is_too_long_is_not_kept(wait: RepeatWait) -> None:
    door = wait.door(1)
    assert wait.learn(door, Repeat.HEAD, b"x" * LONGEST, b"y") == 0
    assert wait.learn(door, Repeat.HEAD, b"x" * (LONGEST + 1), b"y") < 0
    assert wait.learn(door, Repeat.HEAD, b"x", b"y" * 3 * LONGEST) < 0
    assert wait.learn(door, Repeat.HEAD, b"", b"y") < 0 and wait.learn(99, Repeat.HEAD, b"x", b"y") < 0


def test_who_finds_no_place_is_python_s_to_accept(wait: RepeatWait) -> None:
    door = wait.socks_door(places=2)
    clients = [wait.client(door, GREETING) for _ in range(3)]
    listener = wait.doors[door].fileno()
    assert [wait.answers(each) for each in clients[:2]] == [METHOD, METHOD]
    wait.until(lambda: wait.waits() == [listener])
    assert lib.psb_repeat_free_places(wait.repeats, door) == 0 and not is_readable(clients[2])


def test_who_goes_to_python_takes_the_place_along(wait: RepeatWait) -> None:
    """So that a cage that says what nobody has heard has no more clients than Python gives it places."""
    door = wait.socks_door(places=3)
    for _ in range(3):
        wait.client(door, b"x")
    assert len(wait.backs(3)) == 3 and lib.psb_repeat_free_places(wait.repeats, door) == 0
    client = wait.client(door, GREETING)
    wait.until(lambda: wait.waits() == [wait.doors[door].fileno()])
    lib.psb_repeat_allow(wait.repeats, door, 1)
    assert wait.answers(client) == METHOD


def test_no_more_calls_than_the_relay_answers(wait: RepeatWait) -> None:
    door = wait.socks_door()
    client = wait.client(door, GREETING)
    wait.until(lambda: wait.waits(unanswered=1000) == [wait.doors[door].fileno()])
    wait.until(lambda: wait.waits(unanswered=999) or is_readable(client))
    assert exactly(client, 2) == METHOD


def test_a_round_serves_a_few_of_each_door(wait: RepeatWait) -> None:
    crowded, other = wait.socks_door(1, places=64), wait.socks_door(2)
    crowd, one = [wait.client(crowded, GREETING) for _ in range(40)], wait.client(other, GREETING)
    for each in (*crowd, one):
        assert wait.answers(each) == METHOD
        each.sendall(REQUEST)
    time.sleep(0.1)  # all have arrived
    wait.waits(0)  # one round
    served = [lib.psb_repeat_served(wait.repeats, door) for door in (crowded, other)]
    assert served == [TURNS, 1]


def test_a_busy_door_keeps_python_from_nothing(wait: RepeatWait) -> None:
    """What is Python's is told in the round in which it is seen."""
    door = wait.socks_door(places=64)
    for _ in range(40):
        wait.client(door, GREETING)
    mine, far = socket.socketpair()
    wait.socks += [mine, far]
    wait.epoll.register(mine.fileno(), select.EPOLLIN)
    far.send(b"x")
    assert wait.waits(-1) == [mine.fileno()]  # the first round
    assert lib.psb_repeat_free_places(wait.repeats, door) >= 64 - TURNS


# ---- time, ends and a full channel ---------------------------------------------------------------------------------


def test_who_does_not_go_on_after_the_greeting_is_python_s(wait: RepeatWait) -> None:
    door = wait.socks_door()
    client = wait.client(door, GREETING)
    assert wait.answers(client) == METHOD
    assert wait.waits(-1) == []  # returns when its time is over
    assert wait.backs() == [Back(door, 0, True, False, b"", b"")]


def test_an_address_that_does_not_answer_is_given_up(wait: RepeatWait) -> None:
    _, call = wait.offered(wait.socks_door())
    began = time.monotonic()
    assert wait.told()[0] == ChannelRecord(Verb.GIVE_UP, call) and time.monotonic() - began >= 0.2
    assert wait.backs(0) == [] and wait.is_told_nothing()
    wait.says(Verb.FAILED, call, b"0", b"", b"0", b"")
    wait.until(lambda: wait.waits() == [wait.near.fileno()])  # Python reads it
    lib.psb_repeat_give_back(wait.repeats, call)
    assert wait.backs() == [Back(1, call, True, False, REQUEST, b"")]


@pytest.mark.parametrize("state", ["silent", "greeted", "offered", "gone"])
@pytest.mark.parametrize("reset", [False, True])
def test_clients_that_vanish_leave_nothing(wait: RepeatWait, state: str, reset: bool) -> None:
    door = wait.socks_door()
    call = 0
    if state in ("silent", "greeted"):
        client = wait.client(door, b"" if state == "silent" else GREETING)
        if state == "greeted":
            assert wait.answers(client) == METHOD
    else:
        client, call = wait.offered(door)
        if state == "gone":
            client.sendall(b"x\n")
            assert wait.told()[0].kind is Verb.GO
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    backs = wait.backs(int(state != "gone"))
    if state == "gone":  # the relay hears of it
        assert lib.psb_repeat_over(wait.repeats, call) == 1
    else:
        assert [(each.call, each.words) for each in backs] == [(call, b"")]
        assert backs[0].has_spoken is (state == "offered")
        lib.psb_repeat_allow(wait.repeats, door, 1)
    assert lib.psb_repeat_free_places(wait.repeats, door) == 16


def test_a_full_channel_loses_nobody(wait: RepeatWait) -> None:
    door = wait.socks_door()
    client, call = wait.offered(door)
    late = wait.client(door, GREETING)
    assert wait.answers(late) == METHOD
    while True:
        try:
            wait.near.send(b"x" * 9000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
    client.sendall(b"12345\n"), late.sendall(REQUEST)
    backs = sorted(wait.backs(2), key=lambda each: each.call)
    assert backs == [Back(door, 0, True, False, b"", REQUEST), Back(door, call, True, True, REQUEST, b"12345\n")]


def test_a_door_that_is_shut_hands_everybody_back(wait: RepeatWait) -> None:
    door = wait.socks_door()
    _, one = wait.offered(door)
    client, two = wait.offered(door)
    client.sendall(b"x\n")
    assert wait.told()[0].kind is Verb.GO
    assert wait.answers(wait.client(door, GREETING)) == METHOD
    lib.psb_repeat_shut(wait.repeats, door)
    assert sorted(each.call for each in wait.backs(3)) == sorted([0, one, two])
    wait.client(door, GREETING)
    wait.until(lambda: wait.waits() == [wait.doors[door].fileno()])


def test_what_is_not_for_here_is_python_s_to_read(wait: RepeatWait) -> None:
    """Records about calls of Python's own, and of calls that nobody has."""
    _, call = wait.offered(wait.socks_door())
    for number in (1, call + (1 << 24), 0, call | 1 << 63):
        wait.says(Verb.OVER, number, b"0")
        wait.until(lambda: wait.waits() == [wait.near.fileno()])
        assert channel.decode(wait.near.recv(99), FIELDS) == ChannelRecord(Verb.OVER, number, (b"0",))
    wait.says(Verb.OVER, call, b"0")
    assert wait.waits() == [] and lib.psb_repeat_over(wait.repeats, call) == 0


@pytest.mark.parametrize("is_stale", [False, True])
def test_an_event_of_who_had_the_number_reads_nothing_of_who_has_it_now(wait: RepeatWait, is_stale: bool) -> None:
    """Evidence: all bytes come to the relay. Control: who had the number has said nothing in that round."""
    old, call = wait.offered(wait.socks_door(1))
    listener = wait.doors[wait.door(2, redirected=True)]
    host, port = listener.getsockname()
    wait.learn(2, Repeat.PLACE, socket.inet_aton(host) + struct.pack("!H", port))
    wait.says(Verb.OVER, call, b"0")  # the first event of the round
    said = b"\0" * 40000
    wait.client(2, said)  # the second
    if is_stale:
        old.sendall(b"hello\n")  # the third
    time.sleep(0.1)  # all have arrived
    wait.waits(0)  # one round
    record, fds = wait.told()
    assert record.kind is Verb.PASS and record.number & 0xFFFFFF == call & 0xFFFFFF != 0
    assert wait.is_told_nothing() and wait.backs(0) == []
    assert record.fields[3] + exactly(wait.passed(fds[0]), len(said) - len(record.fields[3])) == said


def test_a_stale_event_of_a_watched_client_is_tried_in_vain(wait: RepeatWait) -> None:
    door = wait.socks_door(1)
    old, call = wait.offered(door)
    wait.says(Verb.OVER, call, b"0")
    new = wait.client(door, GREETING)
    old.sendall(b"hello\n")
    time.sleep(0.1)
    wait.waits(0)
    assert exactly(new, 2) == METHOD and wait.backs(0) == []
    new.sendall(REQUEST)
    record, _ = wait.told()
    assert record.kind is Verb.OFFER and record.number & 0xFFFFFF == call & 0xFFFFFF


def offered(wait: RepeatWait, door: int, count: int) -> list[int]:
    """The calls of so many clients. Some may have been given up meanwhile, and are there all the same."""
    assert wait.learn(door, Repeat.HEAD, HEAD, b"yes") == 0
    calls: list[int] = []
    for _ in range(count):
        wait.client(door, HEAD)
    while len(calls) < count:
        record, _ = wait.told()
        calls += [record.number] * (record.kind is Verb.OFFER)
    return calls


def test_many_ends_hold_up_no_answer_of_python_s(wait: RepeatWait) -> None:
    door = wait.socks_door(places=48)
    for call in offered(wait, door, 24):
        wait.says(Verb.OVER, call, b"0")
    wait.says(Verb.FAILED, 7, b"0", b"", b"0", b"")
    assert wait.waits(0) == [wait.near.fileno()]  # the first round
    assert lib.psb_repeat_free_places(wait.repeats, door) == 48
    assert channel.decode(wait.near.recv(999), FIELDS).kind is Verb.FAILED


def test_a_round_takes_so_many_ends_and_no_more(wait: RepeatWait) -> None:
    door = wait.socks_door(places=48)
    for call in offered(wait, door, 40):
        wait.says(Verb.OVER, call, b"0")
    free = []
    for _ in range(2):
        assert wait.waits(0) == []
        free.append(lib.psb_repeat_free_places(wait.repeats, door))
    assert free == [48 - 8, 48]


def test_clients_are_counted_until_they_are_taken(wait: RepeatWait) -> None:
    """So that a call that goes to Python is counted by one of them at each moment."""
    door = wait.socks_door()
    _, call = wait.offered(door)
    client, other = wait.offered(door)
    assert lib.psb_repeat_clients(wait.repeats) == 2
    client.sendall(b"\x16")
    wait.until(lambda: lib.psb_repeat_has_back(wait.repeats))
    assert lib.psb_repeat_clients(wait.repeats) == 2
    assert [each.call for each in wait.backs()] == [other] and lib.psb_repeat_clients(wait.repeats) == 1
    assert lib.psb_repeat_over(wait.repeats, call) == 1 and lib.psb_repeat_clients(wait.repeats) == 0


def test_descriptors_that_come_with_a_record_are_python_s(wait: RepeatWait) -> None:
    _, call = wait.offered(wait.socks_door())
    record = channel.encode(ChannelRecord(Verb.DIALLED, call, (b"1", b"name", b"80", b"1")))
    with socket.socket() as server:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [server.fileno()]))]
        wait.relay.sendmsg([record], rights)
        wait.until(lambda: wait.waits() == [wait.near.fileno()])
        _, fds, _, _ = socket.recv_fds(wait.near, 999, 4)
        assert len(fds) == 1
        wait.socks.append(socket.socket(fileno=fds[0]))
