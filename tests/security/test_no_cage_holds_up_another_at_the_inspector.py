"""Claim: clients and servers that are slow, stand still or say too much cost the inspector bounded memory, and hold up
no other cage's requests."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from _support.inspected import (
    ANSWER,
    NAME,
    Asking,
    Server,
    ask,
    request,
    write_certificate,
)
from pysandbox.compile.plan import Contract
from pysandbox.gate.held import held_for
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.tcp.target import DialTarget

from .harness import wait_until

GET = Contract(methods=("GET",))
CROWD = 700
SENT = 400_000
MIB = 1 << 20


@pytest.fixture
def inspector(quiet_inspector: InspectorProcess) -> InspectorProcess:
    return quiet_inspector


class Plain(Asking):
    """A cage of its own, and its connections without TLS."""

    def __init__(self, inspector: InspectorProcess, ca: Path, cage: int) -> None:
        super().__init__(inspector, GET, str(ca))
        self.session.number = cage

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """A client, and its server."""
        near, client = pair()
        upstream, far = roomy_pair()
        held = held_for(self.session, DialTarget(NAME, 80), self.contract, False, self.ended.append)
        with client, upstream:
            while True:
                with suppress(BlockingIOError):
                    self.inspector.open(held, b"", client, upstream, proxied=False)
                    return near, far


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.socket()
        near.settimeout(20)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        near.connect(listener.getsockname())
        far = listener.accept()[0]
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return near, far


def roomy_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), timeout=20)
        far = listener.accept()[0]
        far.settimeout(20)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * SENT)
        return near, far


def memory(inspector: InspectorProcess) -> int:
    assert inspector.process is not None
    with open(f"/proc/{inspector.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.usefixtures("many_descriptors")
def test_clients_that_never_read_fill_no_more_than_the_cage_s_budget(
    inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    crowd, other = (Plain(inspector, tmp_path / f"{NAME}.pem", cage) for cage in (1, 2))
    with ExitStack() as undo:
        before, ends = memory(inspector), []
        for _ in range(CROWD):
            near, far = crowd.connect()
            undo.enter_context(near), undo.enter_context(far)
            ends.append((near, far))
        flood(ends)
        grown = settled(inspector) - before
        assert 20 * MIB < grown < 65 * MIB  # 86 without
        with other.client(server) as tls:
            assert ask(tls, request()).endswith(b"hello")
        for near, far in ends[1:]:
            near.close()
            far.close()
        near, far = ends[0]
        far.close()
        assert len(all_of(near)) > SENT  # what was held back comes


def flood(ends: list[tuple[socket.socket, socket.socket]]) -> None:
    for near, far in ends:
        near.send(request())
        assert far.recv(65536).startswith(b"GET / ")
        far.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(SENT))


def settled(inspector: InspectorProcess) -> int:
    """Its memory, once it has read what it reads: it grows no more, also where others have the processor."""
    seen = [0, 0, memory(inspector)]
    while seen[-1] > seen[-3]:
        time.sleep(0.3)
        seen.append(memory(inspector))
    return seen[-1]


def all_of(sock: socket.socket) -> bytes:
    said = bytearray()
    with suppress(OSError):
        while part := sock.recv(MIB):
            said += part
    return bytes(said)


def test_heads_that_never_end_hold_up_nobody(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    crowd, other = (Plain(inspector, tmp_path / f"{NAME}.pem", cage) for cage in (1, 2))
    with ExitStack() as undo:
        clients = []
        for _ in range(100):
            near, far = crowd.connect()
            undo.enter_context(near), undo.enter_context(far)
            clients.append(near)
        with other.client(server) as tls:
            for byte in request("GET", "/" + "x" * 60):
                for near in clients:
                    near.send(bytes([byte]))
                if byte == ord("x"):
                    assert ask(tls, request()).endswith(b"hello")


def test_a_thousand_requests_at_once_are_answered_one_by_one(
    inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    asking = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem"))
    with asking.client(server) as tls:
        threading.Thread(target=tls.sendall, args=(request() * 1000,), daemon=True).start()
        said = bytearray()
        while said.count(b"hello") < 1000:
            part = tls.recv(65536)
            assert part
            said += part
    assert server.heard.count(b"GET / ") == 1000


SERVERS = {
    "a flood of 1xx": b"HTTP/1.1 103 Early\r\n\r\n" * 5000,
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20000,
    "a chunk's line without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 9000,
    "a trailer without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 9000,
    "an answer that nobody asked for": ANSWER * 3,
}


@pytest.mark.parametrize("said", SERVERS)
def test_a_server_that_says_too_much_is_left(said: str, inspector: InspectorProcess, tmp_path: Path) -> None:
    write_certificate(tmp_path)
    asking = Plain(inspector, tmp_path / f"{NAME}.pem", 1)
    near, far = asking.connect()
    with near, far:
        near.sendall(request())
        assert far.recv(65536).startswith(b"GET / ")
        with suppress(OSError):
            far.sendall(SERVERS[said])
        all_of(near)  # ends
        assert wait_until(lambda: len(asking.ended) == 1, 20)


def test_a_client_that_is_gone_frees_its_connection(inspector: InspectorProcess, tmp_path: Path) -> None:
    write_certificate(tmp_path)
    asking = Plain(inspector, tmp_path / f"{NAME}.pem", 1)
    ends = [asking.connect() for _ in range(30)]
    for near, _ in ends[:15]:
        near.sendall(request())  # the server owes an answer
    for near, far in ends:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        near.close()
        far.close()
    assert wait_until(lambda: len(asking.ended) == 30, 20)
