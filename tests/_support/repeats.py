"""The wait of a reader, in whose place a test learns, and receives what the relay's thread is told."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from pysandbox._native import ffi, lib

from _support.sockets import PATIENCE, exactly
from pysandbox.gate.doors import Repeat
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import FIELDS, Verb

GREETING, METHOD, REQUEST, ANSWER = b"\5\1\0", b"\5\0", b"\5\1\0\3\4name\0\x50", b"\5\0\0\1" + bytes(6)
HEAD = b"CONNECT name:80 HTTP/1.1\r\n\r\n"
OFFER = (b"7", b"name", b"80")
MOST_REPEATS, LONGEST, TURNS = 32, 1024, 8


class Back(NamedTuple):
    """A client that is Python's."""

    door: int
    call: int
    greeted: bool
    has_spoken: bool
    asked: bytes
    words: bytes


def is_readable(sock: socket.socket) -> bool:
    poll = select.poll()  # a call that the reader may make, too
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class RepeatWait:
    """The wait of a reader, in whose place a test learns, and hears what the relay's thread is told."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.repeats = lib.psb_repeat_new(self.epoll.fileno())
        self.relay, self.near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.relay.settimeout(PATIENCE)
        assert lib.psb_repeat_offer_at(self.repeats, self.near.fileno()) == 0
        self.epoll.register(self.near.fileno(), select.EPOLLIN)
        self.events = ffi.new("struct psb_repeat_event[]", 64)
        self.doors: dict[int, socket.socket] = {}
        self.socks: list[socket.socket] = []

    def door(self, number: int, places: int = 16, address: str = "127.0.0.1", *, redirected: bool = False) -> int:
        listener = socket.create_server((address, 0), backlog=128)
        listener.setblocking(False)
        self.doors[number] = listener
        assert lib.psb_repeat_open(self.repeats, number, listener.fileno(), int(redirected)) == 0
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        lib.psb_repeat_allow(self.repeats, number, places)
        return number

    def learn(self, door: int, what: Repeat, said: bytes, answer: bytes = b"") -> int:
        record = channel.encode(ChannelRecord(Verb.OFFER, 0, (*OFFER, answer)))
        told = answer if what is Repeat.GREETING else record
        return int(lib.psb_repeat_learn(self.repeats, door, what, said, len(said), told, len(told)))

    def socks_door(self, number: int = 1, places: int = 16) -> int:
        self.door(number, places)
        assert self.learn(number, Repeat.GREETING, GREETING, METHOD) == 0
        assert self.learn(number, Repeat.REQUEST, REQUEST, ANSWER) == 0
        return number

    def client(self, door: int, said: bytes = b"") -> socket.socket:
        made = socket.create_connection(self.doors[door].getsockname(), PATIENCE)
        self.socks.append(made)
        made.sendall(said)
        return made

    def waits(self, milliseconds: int = 20, unanswered: int = 0) -> list[int]:
        """The descriptors of which Python hears."""
        count = lib.psb_repeat_wait(self.repeats, milliseconds, unanswered, self.events, 64)
        assert count >= 0
        return [each.fd for each in self.events[0:count]]

    def until(self, is_so: Callable[[], object]) -> None:
        """Serves until it is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            self.waits()

    def answers(self, client: socket.socket, size: int = 2) -> bytes:
        """What a client is told without Python."""
        self.until(lambda: is_readable(client))
        return exactly(client, size)

    def backs(self, count: int = 1) -> list[Back]:
        """So many are Python's, and no more."""
        found: list[Back] = []

        def are_there() -> bool:
            found.extend(self._taken())
            return len(found) >= count

        self.until(are_there)
        assert len(found) == count
        return found

    def _taken(self) -> list[Back]:
        found, each = [], ffi.new("struct psb_repeat_client *")
        while lib.psb_repeat_take(self.repeats, each):
            self.socks.append(socket.socket(fileno=each.fd))
            asked, words = (
                bytes(ffi.buffer(said, size)) if size else b""
                for said, size in ((each.asked, each.asked_size), (each.words, each.words_size))
            )
            found.append(Back(each.door, each.call, bool(each.is_greeted), bool(each.has_spoken), asked, words))
        return found

    def told(self) -> tuple[ChannelRecord, list[int]]:
        """What the relay's thread is told next."""
        self.until(lambda: is_readable(self.relay))
        said, fds, _, _ = socket.recv_fds(self.relay, 1 << 17, 4)
        self.socks.extend(socket.socket(fileno=fd) for fd in fds)
        return channel.decode(said, FIELDS), fds

    def passed(self, fd: int) -> socket.socket:
        """A client that came with what the relay's thread was told."""
        (found,) = (each for each in self.socks if each.fileno() == fd)
        found.settimeout(PATIENCE)
        return found

    def is_told_nothing(self) -> bool:
        self.waits()
        return not is_readable(self.relay)

    def says(self, kind: Verb, number: int, *fields: bytes) -> None:
        channel.send(self.relay, ChannelRecord(kind, number, fields))

    def offered(self, door: int) -> tuple[socket.socket, int]:
        """A client of a socks door that was offered its connection, and the call."""
        client = self.client(door, GREETING)
        assert self.answers(client) == METHOD
        client.sendall(REQUEST)
        record, fds = self.told()
        assert record.kind is Verb.OFFER and record.fields == (*OFFER, ANSWER) and len(fds) == 1
        return client, record.number

    def close(self) -> None:
        lib.psb_repeat_free(self.repeats)
        for each in (*self.socks, *self.doors.values(), self.near, self.relay):
            each.close()
        self.epoll.close()
