"""Memory that is handed over: by the host to a worker, sealed against every change; and back, sealed before it is read.

A worker cannot make what it is given larger or smaller, so that no access of the host's can fault; and what it still
has mapped for writing when it has answered is not read at all.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress

from pysandbox._native import lib
from pysandbox.pipeline import calls
from pysandbox.pipeline.calls import BadRecord, Record
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    Piece = bytes | memoryview

SEAL_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def fixed_memory(size: int) -> int:
    """A memfd of that size for good: whoever has it can write in it, and make it neither larger nor smaller. Raises
    OSError."""
    fd = os.memfd_create("pysandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEAL_SIZE)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            why = f"a call needs memory of {size} bytes, and a file of this program may have fewer: raise ulimit -f"
            raise OSError(errno.EFBIG, why) from None
        raise
    return fd


def send_call(sock: socket.socket, number: int, pieces: Sequence[Piece], beside: Sequence[int] = ()) -> None:
    """A CALL, and the descriptors that go with it."""
    sizes = tuple(len(each) for each in pieces)
    if sum(sizes) <= calls.INLINE:
        _send(sock, Record(calls.CALL, number, sizes, b"".join(pieces)), beside)
        return
    offsets, end = calls.places(sizes)
    fd = fixed_memory(end)
    try:
        for begin, each in zip(offsets, pieces, strict=True):
            calls.write_at(fd, each, begin)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        _send(sock, Record(calls.CALL, number, sizes), [fd, *beside])
    finally:
        os.close(fd)


def give_room(sock: socket.socket, asked: Record) -> int:
    """Memory for the answer of those sizes, which the caller closes."""
    fd = fixed_memory(calls.places(asked.sizes)[1])
    _send(sock, Record(calls.ROOM, asked.call, asked.sizes), [fd])
    return fd


def read_room(fd: int, sizes: Sequence[int]) -> list[memoryview]:
    """Raises BadRecord: an answer that somebody can still write is none."""
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    except OSError as error:
        raise BadRecord(f"its memory is still in use ({error.strerror})") from None
    offsets, size = calls.places(sizes)
    if not size:
        return [memoryview(b"")] * len(sizes)
    whole = memoryview(mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    return [whole[begin : begin + each] for begin, each in zip(offsets, sizes, strict=True)]


def hand_over(sock: socket.socket, said: bytes, fds: Sequence[int]) -> None:
    """`calls.send_with`, for the host: where the limit is raised for it, that is of all threads, and csrc does it one
    at a time (csrc/host/spawn/passing.c), also for who starts cages meanwhile. Raises OSError."""

    def beyond() -> None:
        if failed := lib.psb_pass(sock.fileno(), said, len(said), fds, len(fds)):
            raise OSError(-failed, os.strerror(-failed))

    calls.send_with(sock, said, fds, beyond)


def _send(sock: socket.socket, record: Record, fds: Sequence[int]) -> None:
    with suppress(ConnectionError):  # it has ended: the next receive says so
        hand_over(sock, calls.encode(record), fds)
