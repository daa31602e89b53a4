"""The records between the host and a worker in a cage, on a socket of whole records (SOCK_SEQPACKET). Both ends.

    host                                         worker, in its cage
      <- READY                                      (an interpreter that has made ready; one that is forked is ready)
      CALL      a pickle, and its large buffers ->  unpickles it and calls
      <- ASK    an answer of so many bytes          (only one that is too large for a record)
      ROOM      a memfd of that size            ->  writes the answer there
      <- RETURNED, RAISED, or UNFIT                 bytes of the codec; never a pickle

A record carries pieces: the first is the pickle, or what the codec wrote; the others are large buffers. Up to INLINE
bytes they stand in the record, else in a memfd that the host has made and sealed against every change of size: with a
CALL the host also sealed it against writing, and what a worker has written into a ROOM it seals before it reads.

With a CALL go, in this order, the memfd of its pieces where they are in one, and a descriptor for what the function
writes to its standard output and errors, where the worker's own are not meant.

A worker answers one call, with the id of that call. The host takes no descriptor from a worker (it receives without
room for any, and the kernel drops them), parses each record totally, and ends a worker that says what makes no sense.

This file, the codec and what runs inside are read by the interpreter in the cage, which may have no pysandbox: they
import the standard library and one another, nothing else.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import NamedTuple
else:
    from collections import namedtuple

READY, CALL, ASK, ROOM, RETURNED, RAISED, UNFIT = range(1, 8)
MAGIC = b"psb1"
HEADER = struct.Struct("<4sHHQ")  # magic, kind, number of pieces, id of the call; then a u64 for each piece
INLINE = 48 * 1024  # bytes of all pieces: with its table a record fits any socket's buffer
MOST_PIECES = 1024
LONGEST = HEADER.size + 8 * MOST_PIECES + INLINE
SOL_SOCKET = SCM_RIGHTS = 1
ON_THEIR_WAY, AGAIN = 10.0, 0.001  # seconds that it may take until descriptors arrive, and between two looks
ALIGNED = 64  # where a piece begins in a memfd: as numpy likes its buffers


class BadRecord(ValueError):
    """What arrived is no record."""


if TYPE_CHECKING:

    class Record(NamedTuple):
        """`sizes` of all pieces; `inline` are they, or empty where they stand in a memfd."""

        kind: int
        call: int
        sizes: tuple[int, ...] = ()
        inline: bytes = b""

else:
    Record = namedtuple("Record", ("kind", "call", "sizes", "inline"), defaults=((), b""))  # noqa: PYI024 - typing would cost each worker


def encode(record: Record) -> bytes:
    """Raises BadRecord: more pieces than a record can name, or more bytes than it can hold."""
    if len(record.sizes) > MOST_PIECES or len(record.inline) > INLINE:
        raise BadRecord(f"{len(record.sizes)} pieces of {sum(record.sizes)} bytes are too many for a record")
    head = HEADER.pack(MAGIC, record.kind, len(record.sizes), record.call)
    return head + struct.pack(f"<{len(record.sizes)}Q", *record.sizes) + record.inline


def parse(data: bytes) -> Record:
    """Raises BadRecord; nothing else, whatever arrived."""
    if len(data) < HEADER.size or len(data) > LONGEST:
        raise BadRecord(f"{len(data)} bytes are no record")
    magic, kind, count, call = HEADER.unpack_from(data)
    if magic != MAGIC or not READY <= kind <= UNFIT or count > MOST_PIECES:
        raise BadRecord(f"no record begins with {data[: HEADER.size].hex()}")
    begin = HEADER.size + 8 * count
    if len(data) < begin:
        raise BadRecord(f"{len(data)} bytes do not hold a table of {count} pieces")
    sizes = struct.unpack_from(f"<{count}Q", data, HEADER.size)
    if len(data) != begin and len(data) - begin != sum(sizes):
        raise BadRecord(f"pieces of {sum(sizes)} bytes, and {len(data) - begin} arrived")
    return Record(kind, call, sizes, data[begin:])


def places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each piece begins in a memfd, and how large that is."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNED) * ALIGNED
    return offsets, end


def split(inline: bytes, sizes: Sequence[int]) -> list[memoryview]:
    """The pieces of a record that holds them itself."""
    view, pieces, begin = memoryview(inline), [], 0
    for size in sizes:
        pieces.append(view[begin : begin + size])
        begin += size
    return pieces


def write_at(fd: int, data: bytes | memoryview, begin: int) -> None:
    """By write(2): each page of a memfd that is stored to through a mapping is a fault, which costs as much again."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(fd, rest, begin)
        rest, begin = rest[count:], begin + count


def send_with(sock: socket, data: bytes, fds: Sequence[int], beyond: Callable[[], object] | None = None) -> None:
    """Where more descriptors of this user are on their way than it may have open (unix(7), ETOOMANYREFS), which others
    may have done, `beyond` sends with as many as it may ask for; where that is too few, or nobody reads, it waits: who
    is to have them takes them without us. In a cage one thread does it, which needs no more than is here. Raises
    OSError."""
    rights = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    send = partial(sock.sendmsg, [data], rights)
    if _has_sent(send, (errno.ETOOMANYREFS,)):
        return
    deadline = time.monotonic() + ON_THEIR_WAY
    while not _has_sent(beyond or partial(_with_all_descriptors, send), (errno.ETOOMANYREFS, errno.EAGAIN)):
        if time.monotonic() >= deadline:
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        time.sleep(AGAIN)


def _has_sent(send: Callable[[], object], not_yet: Sequence[int]) -> bool:
    """False where it is to be tried again. Raises OSError."""
    try:
        send()
    except OSError as error:
        if error.errno not in not_yet:
            raise
        return False
    return True


def _with_all_descriptors(send: Callable[[], object]) -> None:
    """As csrc/host/spawn/passing.c does, for one thread alone. Raises OSError."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        send()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
