"""What the host program and the inspector say to each other: records on a SEQPACKET socket, each whole or not at all.

A record is a kind, a number and a few fields of bytes. Whoever reads takes nothing on trust: what is no record is
`BadChannelRecord`, and ends the channel. The reader of the doors has kinds of its own (`reading.kinds`), in the same
form.
"""

from __future__ import annotations

import array
import errno
import os
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from enum import IntEnum

from pysandbox._native import lib
from pysandbox.shapes import Any, NamedTuple

HEAD = struct.Struct("!BQB")  # kind, number, how many fields
SIZE = struct.Struct("!I")
LONGEST = 1 << 18
MOST_FDS = 4
AT_ONCE = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
TAKEN = int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
SHORTAGE = frozenset((errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM))  # of what others have taken: it may come back
AGAIN = 0.02  # seconds, after which it is tried again then
RIGHTS = int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS)
ROOM = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)
OF_CAGE = 32  # the bits of a connection's number above these say whose it is


class Kind(IntEnum):
    """To the inspector: PLAN (a descriptor: what a plan's hosts are held to), OPEN (number of the plan in the first
    field, of the secrets in the sixth; two descriptors), CUT, PING, SECRETS (placeholders and values, as JSON), REVOKE
    (the name of one), FORGET, CANARIES (of a cage, as JSON, before its first OPEN), ENDED (a cage), ANSWER (why
    something is refused, or nothing), DROP (a plan, of which no connection is opened any more). From it: READY,
    AUTHORITY (the certificate of a plan's authority), REFUSED, UNTRUSTED (the client does not trust the
    authority), UPSTREAM (the server's certificate is not accepted), OVER, PONG, FOUND (a credential), ASK (the host's
    callback: number of the question, place, offset, bytes), PASSED (a request to a host whose requests are told:
    method, path, type)."""

    PLAN = 1
    OPEN = 2
    CUT = 3
    PING = 4
    READY = 5
    AUTHORITY = 6
    REFUSED = 7
    UNTRUSTED = 8
    UPSTREAM = 9
    OVER = 10
    PONG = 11
    SECRETS = 12
    REVOKE = 13
    FORGET = 14
    FOUND = 15
    ENDED = 16
    ASK = 17
    ANSWER = 18
    PASSED = 19
    CANARIES = 20
    DROP = 21


TO_INSPECTOR = frozenset((Kind.PLAN, Kind.OPEN, Kind.CUT, Kind.PING, Kind.SECRETS, Kind.REVOKE, Kind.FORGET,
                          Kind.ENDED, Kind.ANSWER, Kind.CANARIES, Kind.DROP))  # fmt: skip
FIELDS = {
    Kind.PLAN: 0, Kind.OPEN: 8, Kind.CUT: 0, Kind.PING: 0, Kind.READY: 0, Kind.AUTHORITY: 1, Kind.REFUSED: 5,
    Kind.UNTRUSTED: 1, Kind.UPSTREAM: 1, Kind.OVER: 1, Kind.PONG: 0, Kind.SECRETS: 1, Kind.REVOKE: 1,
    Kind.FORGET: 0, Kind.FOUND: 4, Kind.ENDED: 0, Kind.ASK: 4, Kind.ANSWER: 1,
    Kind.PASSED: 3, Kind.CANARIES: 1, Kind.DROP: 0,
}  # fmt: skip


_mine = threading.local()


class BadChannelRecord(Exception):
    """What came is no record."""


class ChannelRecord(NamedTuple):
    kind: IntEnum
    number: int
    fields: tuple[bytes, ...] = ()


class LostDescriptors(BadChannelRecord):
    """A whole record, whose descriptors nobody could open here: no more than what it is about comes to nothing."""

    def __init__(self, record: ChannelRecord) -> None:
        super().__init__("a record whose descriptors were lost")
        self.record = record


def encode(record: ChannelRecord) -> bytes:
    """Raises ValueError for one that is too long."""
    head = HEAD.pack(record.kind, record.number, len(record.fields))
    said = head + b"".join(SIZE.pack(len(each)) + each for each in record.fields)
    if len(said) > LONGEST:
        raise ValueError("a record that is too long")
    return said


def decode(said: bytes, known: Mapping[Any, int] = FIELDS) -> ChannelRecord:
    """`known`: the kinds that there are, each with the count of its fields. Raises BadChannelRecord."""
    if len(said) < HEAD.size:
        raise BadChannelRecord("a record without a head")
    kind, number, count = HEAD.unpack_from(said)
    if known.get(kind) != count:
        raise BadChannelRecord(f"a record of kind {kind} with {count} fields")
    at, fields = HEAD.size, []
    for _ in range(count):
        if at + SIZE.size > len(said):
            raise BadChannelRecord("a record that ends early")
        (size,) = SIZE.unpack_from(said, at)
        at += SIZE.size
        if at + size > len(said):
            raise BadChannelRecord("a field that is longer than its record")
        fields.append(said[at : at + size])
        at += size
    if at != len(said):
        raise BadChannelRecord("bytes after a record")
    return ChannelRecord(type(next(iter(known)))(kind), number, tuple(fields))


def send(channel: socket.socket, record: ChannelRecord, fds: tuple[int, ...] = (), patience: float = 0.0) -> None:
    """Waits so many seconds for the other side to read. Raises OSError: BlockingIOError where it does not, one of
    SHORTAGE where the kernel is short of something for now."""
    if patience:
        poll = select.poll()
        poll.register(channel, select.POLLOUT)
        poll.poll(patience * 1000)
    pass_on(channel, encode(record), fds)


def send_owed(channel: socket.socket, owed: deque[ChannelRecord], question: ChannelRecord) -> None:
    """What the other side has not taken yet, as far as it reads, and then a question, which it owes an answer to also
    where it does not, or where the kernel is short of something. Raises OSError."""
    try:
        while owed:
            send(channel, owed[0])
            owed.popleft()
        send(channel, question)
    except OSError as error:
        if not isinstance(error, BlockingIOError) and error.errno not in SHORTAGE:
            raise


def pass_on(channel: socket.socket, said: bytes, fds: tuple[int, ...] = ()) -> None:
    """One record, at once. Descriptors go whatever else this user has on its way (csrc/host/spawn/passing.h), as far as
    this process may raise its limit. Raises OSError, as `send`."""
    if not fds:
        channel.send(said, AT_ONCE)
    elif failed := lib.psb_pass(channel.fileno(), said, len(said), fds, len(fds)):
        raise OSError(-failed, os.strerror(-failed))


def _room() -> bytearray:
    """Where this thread receives: room for the longest that is made anew each time costs more than all else here."""
    room: bytearray | None = getattr(_mine, "room", None)
    if room is None:
        room = _mine.room = bytearray(LONGEST)
    return room


def receive(channel: socket.socket, known: Mapping[Any, int] = FIELDS) -> tuple[ChannelRecord, list[int]] | None:
    """The next record with its descriptors; None at the end. Raises BlockingIOError, BadChannelRecord; no descriptor is
    left open then: LostDescriptors where it had more than could be opened."""
    room = _room()
    size, rights, flags, _ = channel.recvmsg_into((room,), ROOM, TAKEN)
    said = bytes(memoryview(room)[:size])
    fds: list[int] = []
    for level, kind, data in rights:
        if (level, kind) == RIGHTS:
            got = array.array("i")
            got.frombytes(data[: len(data) - len(data) % got.itemsize])
            fds.extend(got)
    if not said and not fds:
        return None
    try:
        if flags & socket.MSG_TRUNC:
            raise BadChannelRecord("a record that was cut off")
        record = decode(said, known)
        if flags & socket.MSG_CTRUNC:
            raise LostDescriptors(record)
        return record, fds
    except BadChannelRecord:
        for fd in fds:
            os.close(fd)
        raise
