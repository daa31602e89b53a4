"""Records between the host program and the inspector: what is none is found out, and no descriptor stays."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from contextlib import suppress

import pytest

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate.inspection.channel import (
    FIELDS,
    MOST_FDS,
    BadChannelRecord,
    ChannelRecord,
    Kind,
    decode,
    encode,
    receive,
    send,
    send_owed,
)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_record_is_read_as_it_was_written(kind: Kind) -> None:
    record = ChannelRecord(kind, 1 << 40, tuple(b"x" * size for size in range(FIELDS[kind])))
    assert decode(encode(record)) == record


def test_anything_else_is_no_record() -> None:
    chance = random.Random(1)
    whole = encode(ChannelRecord(Kind.REFUSED, 7, (b"a", b"bc", b"", b"d", b"e")))
    for size in range(len(whole)):
        with pytest.raises(BadChannelRecord):
            decode(whole[:size])
    with pytest.raises(BadChannelRecord):
        decode(whole + b"x")
    for _ in range(3000):
        said = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            said[chance.randrange(len(said))] = chance.randrange(256)
        try:
            decode(bytes(said))
        except BadChannelRecord:
            continue


@pytest.mark.parametrize("count", [0, 2, MOST_FDS, 250])
def test_no_descriptor_of_a_bad_record_is_kept(count: int) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(far, [b"garbage"], [0] * count)
        with pytest.raises(BadChannelRecord):
            receive(near)
        assert len(os.listdir("/proc/self/fd")) == before


def test_descriptors_arrive_with_their_record() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        send(far, ChannelRecord(Kind.PING, 3), (0, 1))
        received = receive(near)
        assert received is not None and received[0] == ChannelRecord(Kind.PING, 3) and len(received[1]) == 2
        for fd in received[1]:
            os.close(fd)
        far.close()
        assert receive(near) is None


def test_what_a_busy_reader_is_owed_is_told_when_it_reads_again() -> None:
    near, far = socket_pair()
    owed = deque([ChannelRecord(Kind.FORGET, number) for number in (1, 2)])
    with near, far:
        with suppress(BlockingIOError):
            while True:
                send(near, ChannelRecord(Kind.CUT, 7))
        send_owed(near, owed, ChannelRecord(Kind.PING, 3))
        assert len(owed) == 2  # it takes nothing
        for _ in range(50):
            receive(far)
        send_owed(near, owed, ChannelRecord(Kind.PING, 4))
        assert not owed
        while (heard := receive(far)) is not None and heard[0].kind is Kind.CUT:
            pass
        told = [heard, receive(far), receive(far)]
        assert [(each[0].kind, each[0].number) for each in told if each] == [
            (Kind.FORGET, 1), (Kind.FORGET, 2), (Kind.PING, 4),
        ]  # fmt: skip
