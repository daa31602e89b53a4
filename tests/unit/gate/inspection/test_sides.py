"""The sides of an inspected connection, in memory: how much is taken at once, and which session is gone on with."""

from __future__ import annotations

import random
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from _support.inspected import write_certificate
from pysandbox.gate.inspection.ca import SigningAuthority
from pysandbox.gate.inspection.in_flight import AT_ONCE
from pysandbox.gate.inspection.revoked import upstream_context
from pysandbox.gate.inspection.sides import ClientSide, ServerSide

NAME = "a.example"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def wires() -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        for each in (near, far):
            each.setblocking(False)
        yield near, far


class Peer:
    """The other end, with the TLS of the standard library."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, serves: bool) -> None:
        self._sock, self._in, self._out = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, serves, None if serves else NAME)

    def records(self, said: bytes) -> bytes:
        """What would be sent for it."""
        self.tls.write(said)
        return self._out.read()

    def turn(self) -> bytes:
        """What has come by now; the handshake goes on meanwhile."""
        with suppress(BlockingIOError):
            while said := self._sock.recv(1 << 20):
                self._in.write(said)
        got = b""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
            while said := self.tls.read(1 << 20):
                got += said
        if self._out.pending:
            self._sock.send(self._out.read())
        return got


def shaken(side: ClientSide | ServerSide, peer: Peer) -> None:
    for _ in range(10):
        peer.turn()
        side.handshake()
        if side.ready:
            peer.turn()
            return
    raise AssertionError("no handshake")


@pytest.fixture
def client(wires: Pair) -> tuple[ClientSide, Peer]:
    authority = SigningAuthority([NAME])
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    side, peer = ClientSide(wires[0], authority.context(NAME), b""), Peer(wires[1], trusting, serves=False)
    shaken(side, peer)
    return side, peer


@pytest.fixture
def server(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Its context, and the one that trusts it."""
    both, own = write_certificate(tmp_path, NAME)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(both)
    return serving, upstream_context(Path(own).read_text())


def all_through(side: ClientSide | ServerSide, peer: Peer, said: bytes) -> tuple[bytes, list[int]]:
    """What arrives, and how much was taken each time."""
    left, got, taken = bytearray(said), b"", [0]
    for _ in range(1000):
        if left or side.writes:
            taken.append(side.write(left))
            del left[: taken[-1]]
        got += peer.turn()
        if len(got) == len(said):
            return got, taken
    raise AssertionError(f"{len(got)} of {len(said)} bytes")


SAID = bytes(range(256)) * 1200


def test_a_client_is_sent_as_much_as_one_turn_takes(client: tuple[ClientSide, Peer]) -> None:
    got, taken = all_through(*client, SAID)
    assert got == SAID and max(taken) == AT_ONCE


def test_a_server_is_sent_as_much_as_one_turn_takes(wires: Pair, server: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    side, peer = ServerSide(wires[0], server[1], NAME, None), Peer(wires[1], server[0], serves=True)
    shaken(side, peer)
    got, taken = all_through(side, peer, SAID)
    assert got == SAID and max(taken) == AT_ONCE


def test_a_side_that_reads_nothing_is_sent_no_more_than_one_turn(wires: Pair, client: tuple[ClientSide, Peer]) -> None:
    """What its socket does not take waits, and nothing more is made of it meanwhile."""
    side, _ = client
    wires[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    counts = [side.write(bytearray(SAID)) for _ in range(20)]
    assert counts[-1] == 0 and 0 < side.kept < 2 * AT_ONCE


@pytest.mark.parametrize("seed", range(8))
def test_what_a_client_says_is_read_when_it_comes_wherever_it_was_cut(
    seed: int, client: tuple[ClientSide, Peer], wires: Pair
) -> None:
    """Where one record comes at a time, too, of which TLS is asked no more than once."""
    side, peer = client
    chosen, said, at = random.Random(seed), bytearray(), 0
    wire: list[bytes] = []
    for _ in range(60):
        piece = chosen.randbytes(chosen.choice((1, 40, 1024, 16384)))
        said += piece
        wire.append(peer.records(piece))
    got, ciphertext = b"", b"".join(wire)
    cuts = [sum(map(len, wire[:number])) for number in range(1, len(wire) + 1)]
    for cut in sorted([*cuts, *(chosen.randrange(len(ciphertext)) for _ in range(seed * 10))]):
        if cut > at:
            wires[1].sendall(ciphertext[at:cut])
            while select.select([wires[0]], [], [], 0)[0]:  # nothing but the socket tells of what has come
                got += side.read() or b""
            at = cut
    assert got == said


def test_a_session_that_was_gone_on_with_is_known(server: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    """So the one of before is kept, and serves any number of connections."""
    session = None
    for number in range(4):
        near, far = socket.socketpair()
        with closing(near), closing(far):
            for each in (near, far):
                each.setblocking(False)
            side, peer = ServerSide(near, server[1], NAME, session), Peer(far, server[0], serves=True)
            shaken(side, peer)
            side.read()  # the ticket
            assert side.resumed == (number > 0) == peer.tls.session_reused
            if not side.resumed:
                session = side.session
