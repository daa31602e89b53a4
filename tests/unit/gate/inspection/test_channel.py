"""Records between the host program and the inspector: what is none is found out, and no descriptor stays."""

from __future__ import annotations

import os
import random
import socket

import pytest

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
