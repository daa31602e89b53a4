"""csrc/host/repeats: what is said at a door again is answered without Python, and whatever else is said goes to Python
with every byte.

Claim: words are compared as a whole; nobody is answered for words that were forgotten, or learned at another door; what
one door learns, and how many it serves at once, is bounded. The control of each is a client who says what was learned.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from pysandbox._native import lib

from _support.repeats import GREETING, HEAD, METHOD, OFFER, REQUEST, Back, RepeatWait, is_readable
from pysandbox.gate.doors import Repeat
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import Verb


@pytest.fixture
def wait() -> Iterator[RepeatWait]:
    made = RepeatWait()
    yield made
    made.close()


def test_the_meanings_have_the_numbers_of_the_extension() -> None:
    names = ("GREETING", "REQUEST", "HEAD", "PLACE")
    assert [Repeat[each] for each in names] == [getattr(lib, f"PSB_REPEAT_{each}") for each in names]


# ---- from the first word to the last -------------------------------------------------------------------------------


def test_a_client_of_socks_is_served_to_its_end_without_python(wait: RepeatWait) -> None:
    client, call = wait.offered(wait.socks_door())
    assert call >> 62 == 1
    client.sendall(b"12345\n")
    assert wait.told() == (ChannelRecord(Verb.GO, call, (b"12345\n",)), [])
    client.sendall(b"later")  # is for the relay to read
    assert wait.waits() == [] and wait.is_told_nothing()
    wait.says(Verb.OVER, call, b"0")
    assert wait.waits() == [] and wait.backs(0) == []
    assert lib.psb_repeat_free_places(wait.repeats, 1) == 16
    assert lib.psb_repeat_over(wait.repeats, call) == 0


def test_a_head_is_offered_at_once(wait: RepeatWait) -> None:
    door = wait.door(1)
    assert wait.learn(door, Repeat.HEAD, HEAD, b"HTTP/1.1 200 \r\n\r\n") == 0
    wait.client(door, HEAD)
    assert wait.told()[0].fields == (*OFFER, b"HTTP/1.1 200 \r\n\r\n")


@pytest.mark.parametrize("said", [b"", b"12345\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\3\1"])
def test_a_redirected_client_is_passed_on_with_what_is_plain(wait: RepeatWait, said: bytes) -> None:
    """One that is silent is offered a connection, and nothing is told to it."""
    door = wait.door(1, redirected=True)
    listener = wait.doors[door]
    place = socket.inet_aton("127.0.0.1") + struct.pack("!H", listener.getsockname()[1])
    assert wait.learn(door, Repeat.PLACE, place) == 0
    wait.client(door, said)
    if (said and said[0] < 0x30) or said.startswith(b"GET"):
        assert [(each.call, each.words) for each in wait.backs()] == [(0, said)] and wait.is_told_nothing()
        return
    record, fds = wait.told()
    assert (record.kind, record.fields) == (Verb.PASS if said else Verb.OFFER, (*OFFER, said)) and len(fds) == 1


def test_a_redirected_client_to_another_place_is_python_s(wait: RepeatWait) -> None:
    door = wait.door(1, redirected=True)
    assert wait.learn(door, Repeat.PLACE, b"\x7f\0\0\1\0\1") == 0
    wait.client(door, b"12345\n")
    assert [each.words for each in wait.backs()] == [b""]  # not read, and not lost
    assert wait.socks[-1].recv(9) == b"12345\n"


def test_it_is_served_where_the_reader_is_confined(wait: RepeatWait) -> None:
    """In a process that may do no more than the reader; the control is that it opens no file any more."""
    door = wait.socks_door()
    wait.client(door, GREETING), wait.client(door, GREETING[:1])
    child = os.fork()
    if not child:
        code = 1
        with suppress(BaseException):
            assert lib.psb_confine_reader() == 0
            with suppress(OSError):
                os.open("/", os.O_RDONLY)
                os._exit(3)
            client = wait.socks[0]
            assert wait.answers(client) == METHOD
            client.sendall(REQUEST)
            record, _ = wait.told()
            client.sendall(b"12345\n")
            assert wait.told()[0].kind is Verb.GO
            wait.says(Verb.OVER, record.number, b"0")
            wait.until(lambda: lib.psb_repeat_free_places(wait.repeats, door) == 15)
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- compared as a whole -------------------------------------------------------------------------------------------


def changed(said: bytes) -> list[bytes]:
    return [
        said[:-1], said[1:], said + b"\0", said + said,
        *(said[:at] + bytes((said[at] ^ 1,)) + said[at + 1 :] for at in range(len(said))),
    ]  # fmt: skip


@pytest.mark.parametrize("said", changed(GREETING) + changed(HEAD) + [REQUEST, GREETING + REQUEST])
def test_other_first_words_are_python_s(wait: RepeatWait, said: bytes) -> None:
    door = wait.socks_door()
    assert wait.learn(door, Repeat.HEAD, HEAD, b"yes") == 0
    client = wait.client(door, said)
    assert wait.backs() == [Back(door, 0, False, False, b"", said)]
    assert wait.is_told_nothing() and not is_readable(client)


@pytest.mark.parametrize("said", [*changed(REQUEST), GREETING, HEAD, REQUEST + b"words"])
def test_other_second_words_are_python_s(wait: RepeatWait, said: bytes) -> None:
    door = wait.socks_door()
    assert wait.learn(door, Repeat.HEAD, HEAD, b"yes") == 0
    client = wait.client(door, GREETING)
    assert wait.answers(client) == METHOD
    client.sendall(said)
    assert wait.backs() == [Back(door, 0, True, False, b"", said)] and wait.is_told_nothing()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\3\1", b"half", b"\x80\1", b" x\n"])
def test_words_that_are_not_plain_are_python_s_with_the_call(wait: RepeatWait, said: bytes) -> None:
    door = wait.socks_door()
    client, call = wait.offered(door)
    client.sendall(said)
    assert wait.backs() == [Back(door, call, True, True, REQUEST, said)] and wait.is_told_nothing()


def test_split_writes_are_python_s(wait: RepeatWait) -> None:
    door = wait.socks_door()
    client = wait.client(door, GREETING[:2])
    assert wait.backs() == [Back(door, 0, False, False, b"", GREETING[:2])]
    client.sendall(GREETING[2:])
    assert wait.waits() == [] and wait.backs(0) == []  # nobody but Python reads it
    assert wait.socks[-1].recv(9) == GREETING[2:]
