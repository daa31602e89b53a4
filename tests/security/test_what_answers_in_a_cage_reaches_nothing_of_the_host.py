"""Claim: whatever a sandboxed function puts in the place of its answer, the host runs none of it, takes no descriptor,
waits no longer than it was told to, and reads nothing that can still be changed; also where it runs in a worker.

The function owns its interpreter: it finds the socket of its host, and speaks there itself: a pickle that runs, an
answer for another call, two answers, half a record, an answer that is larger than anything, or that is large once it is
read, memory that it goes on writing to, descriptors, silence.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pysandbox import CageExecutor, SandboxedError, SandboxedFunction, sandboxed

Call = Callable[..., Any]

CALL, ASK, RETURNED = 2, 3, 5
MARK = f"/tmp/psb-a-pickle-was-run-here-{os.getpid()}"
PATIENCE = 5.0


def host_socket():  # type: ignore[no-untyped-def]
    import socket
    import stat

    for fd in range(3, 1024):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                found = socket.socket(fileno=os.dup(fd))
                if found.type == socket.SOCK_SEQPACKET:
                    return found
        except OSError:
            pass
    raise RuntimeError("no socket")


def record(kind: int, sizes: tuple[int, ...] = (), data: bytes = b"", call: int = 1) -> bytes:
    import struct

    return struct.pack(f"<4sHHQ{len(sizes)}Q", b"psb1", kind, len(sizes), call, *sizes) + data


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (MARK, "w"))


@sandboxed(timeout=60)
def says(*records: bytes) -> None:
    sock = host_socket()
    for each in records:
        sock.send(each)
    time.sleep(60)


@sandboxed(timeout=60)
def closes() -> None:
    import socket

    for fd in range(3, 1024):
        try:
            socket.socket(fileno=fd).close()
        except OSError:
            pass
    time.sleep(60)


@sandboxed(timeout=60)
def sends_descriptors() -> None:
    import socket

    sock = host_socket()
    zero = os.open("/dev/zero", os.O_RDWR)
    for _ in range(3):
        socket.send_fds(sock, [record(RETURNED, (1,), b"N", call=9)], [zero] * 250)
    time.sleep(60)


@sandboxed(timeout=60)
def keeps_writing() -> str:
    """Asks for room, tries to make it smaller, has a child that goes on writing there, and answers."""
    import mmap
    import socket

    sock = host_socket()
    sizes = (200_000,)
    sock.send(record(ASK, sizes))
    _, fds, _, _ = socket.recv_fds(sock, 65536, 4)
    room = mmap.mmap(fds[0], sizes[0])
    room[:17] = b"s" + (8).to_bytes(8, "little") + b"harmless"
    for size in (0, 1 << 30):
        try:
            os.ftruncate(fds[0], size)
        except PermissionError:
            continue
        room[9:17] = b"resized!"
    if os.fork() == 0:
        os.setsid()
        while True:
            room[9:17] = b"changed!"
    sock.send(record(RETURNED, sizes))
    time.sleep(60)
    return ""


@sandboxed(timeout=0.5)
def is_silent() -> None:
    while True:
        time.sleep(1)


@sandboxed(timeout=60)
def seals() -> None:
    """Asks for room, and seals it against every seal, or as the host would, before it answers."""
    import fcntl
    import mmap
    import socket

    sock = host_socket()
    sock.send(record(ASK, (200_000,)))
    _, fds, _, _ = socket.recv_fds(sock, 65536, 4)
    with mmap.mmap(fds[0], 200_000) as room:
        room[:1] = b"N"
    fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    sock.send(record(RETURNED, (200_000,)))
    time.sleep(60)


@pytest.fixture(params=["cage", pytest.param("worker", marks=pytest.mark.landlock(6))])
def call(request: pytest.FixtureRequest) -> Iterator[Call]:
    """Calls a function behind one of the two walls."""
    if request.param == "cage":
        yield lambda function, *args: function(*args)
        return
    with CageExecutor(isolate="worker", max_workers=1, timeout=10) as executor:
        yield lambda function, *args: executor.submit(function.__wrapped__, *args).result(50)


@pytest.fixture(autouse=True)
def none_is_left() -> object:
    yield
    for each in [each for each in globals().values() if isinstance(each, SandboxedFunction)]:
        each.close()


def test_control_unpickled_on_the_host_the_bomb_goes_off() -> None:
    pickle.loads(pickle.dumps(Bomb())).close()
    assert Path(MARK).exists()
    Path(MARK).unlink()


BOMB = pickle.dumps(Bomb())
BUFFER = b"a buffer beside the message"


def copies(count: int) -> bytes:
    """Returned: a list of so many values, each of which is said to be the one buffer."""
    said = b"l" + count.to_bytes(8, "little") + b"B\0\0\0\0" * count
    return record(RETURNED, (len(said), len(BUFFER)), said + BUFFER)


def test_control_a_buffer_is_one_value(call: Call) -> None:
    assert call(says, copies(1)) == [BUFFER]


@pytest.mark.parametrize(
    "records, words",
    [
        ((record(RETURNED, (len(BOMB),), BOMB),), "what came out of the cage"),
        ((record(RETURNED),), "what came out of the cage"),
        ((copies(2),), "names buffer 0"),
        ((copies(5000),), "names buffer 0"),
        ((record(RETURNED, (1,), b"N", call=2),), "out of turn"),
        ((record(CALL, (1,), b"N"),), "out of turn"),
        ((record(1),), "out of turn"),
        ((record(ASK, (2**63,)),), "are the most"),
        ((record(ASK, (2**60,) * 1000),), "are the most"),
        ((record(ASK, (100_000,)), record(ASK, (100_000,))), "out of turn"),
        ((record(ASK, (100_000,)), record(RETURNED, (1,), b"N")), "room for"),
        ((record(RETURNED, (5,), b"N"),), "made no sense"),
        ((record(RETURNED, (1,), b"N")[:9],), "made no sense"),
        ((b"\x80\x04" + bytes(100),), "made no sense"),
        ((bytes(60_000),), "made no sense"),
        ((b"",), "without an answer"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_makes_no_sense_is_an_error_of_that_call(call: Call, records: tuple[bytes, ...], words: str) -> None:
    began = time.monotonic()
    with pytest.raises(SandboxedError, match=words):
        call(says, *records)
    assert time.monotonic() - began < 50 and not Path(MARK).exists()


def test_the_first_of_two_answers_counts(call: Call) -> None:
    assert call(says, record(RETURNED, (1,), b"N"), record(RETURNED, (1,), b"T")) is None


def test_the_future_of_a_liar_fails_alone() -> None:
    bomb, other = record(RETURNED, (len(BOMB),), BOMB), record(RETURNED, (1,), b"N", call=99)
    futures = [says.submit(each) for each in (bomb, other, record(ASK, (2**63,), call=3))]
    wrong = [str(each.exception(50)) for each in futures]
    assert "what came out" in wrong[0] and "out of turn" in wrong[1] and "are the most" in wrong[2], wrong
    assert not Path(MARK).exists() and says.submit(record(RETURNED, (1,), b"T", call=4)).result(50) is True


def test_one_that_says_nothing_is_ended() -> None:
    with pytest.raises(SandboxedError, match="without an answer"):
        closes()
    with pytest.raises(SandboxedError, match="in time"):
        is_silent()


def test_no_descriptor_is_taken(call: Call) -> None:
    with pytest.raises(SandboxedError, match="out of turn"):
        call(sends_descriptors)
    assert not [each for each in os.listdir("/proc/self/fd") if _leads_to(each) == "/dev/zero"]


def _leads_to(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_memory_that_the_host_cannot_seal_is_not_read(call: Call) -> None:
    with pytest.raises(SandboxedError, match="still in use"):
        call(seals)


def test_what_is_read_is_what_nobody_can_change_any_more(call: Call) -> None:
    try:
        said = call(keeps_writing)
    except SandboxedError as error:
        assert "goes on after its end" in str(error) or "still in use" in str(error)
        return
    assert said in ("harmless", "changed!")
