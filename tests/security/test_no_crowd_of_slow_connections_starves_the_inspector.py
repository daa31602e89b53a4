"""Claim: a cage whose connections are many and slow (handshakes that are half done, bodies that never end, answers in
HTTP/2 that nobody takes) costs the inspector bounded memory and time: each of them ends, and another cage's requests
are answered beside all of them as ever.
"""

from __future__ import annotations

import resource
import socket
import ssl
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from h2.events import RequestReceived

from _support.http2 import PREFACE, frame
from _support.inspected import NAME, Asking, Server, ask, request, resident, tcp_pair, tls_server
from pysandbox.compile.plan import Contract
from pysandbox.gate.held import held_for
from pysandbox.gate.inspection.http2.frames import HEADERS, SETTINGS, WINDOW_UPDATE
from pysandbox.gate.inspection.pair import HANDSHAKE_SECONDS
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.tcp.target import DialTarget

from .harness import wait_until
from .test_no_request_of_http2_gets_past_the_inspector import ASKED, Http2Server

ANY = Contract()
KIB, MIB = 1 << 10, 1 << 20
HALF_DONE = 1024  # as many as a cage may have at its doors
SLOW = 100
CROWD, STREAMS = 40, 90
ASKED_TIMES = 25
SLOWER = 8  # times a connection's own handshake that a request takes beside a crowd that does its worst


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * HALF_DONE:
        pytest.skip(f"{hard} descriptors are too few for a crowd")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def inspector(quiet_inspector: InspectorProcess) -> InspectorProcess:
    return quiet_inspector


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return tls_server(tmp_path, Server)


def asking_of(inspector: InspectorProcess, directory: Path, cage: int, **options: Any) -> Asking:
    asking = Asking(inspector, ANY, str(directory / f"{NAME}.pem"), **options)
    asking.session.number = cage
    return asking


def median_request(tls: ssl.SSLSocket) -> float:
    """Seconds of a request."""
    took = []
    for _ in range(ASKED_TIMES):
        begun = time.monotonic()
        assert ask(tls, request()).endswith(b"hello")
        took.append(time.monotonic() - begun)
    return statistics.median(took)


def handshake(asking: Asking, server: Server) -> float:
    """Seconds of a connection and its first request, where nobody else is: what a turn of the crowd's costs at most is
    a part of that."""
    took = []
    for _ in range(9):
        begun = time.monotonic()
        with asking.client(server) as tls:
            assert ask(tls, request()).endswith(b"hello")
        took.append(time.monotonic() - begun)
    return statistics.median(took)


def opened(asking: Asking, server: Server | None, said: bytes = b"") -> tuple[socket.socket, socket.socket]:
    """A client's end, and that of a server that nobody is; told again while the channel is full."""
    near, client = tcp_pair()
    upstream, far = (server.connect(), socket.socket()) if server is not None else tcp_pair()
    near.settimeout(20)
    held = held_for(asking.session, DialTarget(NAME, 443), ANY, True, asking.ended.append)
    with client, upstream:
        while True:
            with suppress(BlockingIOError):
                asking.inspector.open(held, said, client, upstream, proxied=False)
                return near, far
            time.sleep(0.001)


def hello(*alpn: str) -> bytes:
    said, context = ssl.MemoryBIO(), ssl.create_default_context()
    context.set_alpn_protocols(list(alpn))
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=NAME).do_handshake()
    return said.read()


@pytest.mark.parametrize("alpn", [(), ("h2", "http/1.1")], ids=["HTTP/1.1", "HTTP/2"])
def test_a_thousand_handshakes_that_are_half_done_end(
    alpn: tuple[str, ...], inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    crowd, other = (asking_of(inspector, tmp_path, cage) for cage in (1, 2))
    said = hello(*alpn)
    alone = handshake(other, server)
    with other.client(server) as tls, ExitStack() as undo:
        before = resident(inspector)
        for _ in range(HALF_DONE):
            for each in opened(crowd, None, said):
                undo.enter_context(each)
        assert ask(tls, request()).endswith(b"hello")  # while they are there
        assert (resident(inspector) - before) / HALF_DONE < 128 * KIB
        assert median_request(tls) < SLOWER * alone
        assert wait_until(lambda: len(crowd.ended) == HALF_DONE, 6 * HANDSHAKE_SECONDS)


def test_bodies_that_never_end_do(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    crowd, other = asking_of(inspector, tmp_path, 1, timeout_ms=1500), asking_of(inspector, tmp_path, 2)
    head = request("POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 1000000\r\n\r\n")
    silent = Server(server.context, silent=True)
    alone = handshake(other, server)
    with other.client(server) as tls, ExitStack() as undo:
        before = resident(inspector)
        slow = [undo.enter_context(crowd.client(silent)) for _ in range(SLOW)]
        for each in slow:
            each.sendall(head + b"x")
        for _ in range(3):
            for each in slow:
                each.sendall(b"x")  # one more byte: it goes on
        assert ask(tls, request()).endswith(b"hello")
        assert (resident(inspector) - before) / SLOW < 256 * KIB
        assert median_request(tls) < SLOWER * alone
        for each in slow:
            assert each.recv(4096).startswith(b"HTTP/1.1 504 ")
        assert wait_until(lambda: len(crowd.ended) == SLOW, 20)


class Flooding(Http2Server):
    """Answers each request with as much as it is allowed to send."""

    def _answer(self, made: Any, event: Any) -> None:
        if isinstance(event, RequestReceived):
            stream = event.stream_id or 0
            made.send_headers(stream, [(":status", "200")])
            while (room := min(made.local_flow_control_window(stream), made.max_outbound_frame_size)) > 0:
                made.send_data(stream, bytes(room))


def greedy() -> bytes:
    """Every window as large as may be, and as many streams as are allowed."""
    settings = struct.pack("!HI", 4, (1 << 31) - 1)
    window = struct.pack("!I", (1 << 31) - 1 - 65535)
    asked = b"".join(frame(HEADERS, 5, number, ASKED) for number in range(1, 2 * STREAMS, 2))
    return PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, window) + asked


def test_answers_in_http2_that_nobody_takes_are_held_back(inspector: InspectorProcess, tmp_path: Path) -> None:
    flooding = tls_server(tmp_path, Flooding)
    crowd, other = (asking_of(inspector, tmp_path, cage) for cage in (1, 2))
    server = Server(flooding.context)
    alone = handshake(other, server)
    with other.client(server) as tls, ExitStack() as undo:
        before = resident(inspector)
        for _ in range(CROWD):
            undo.enter_context(crowd.client(flooding, alpn=["h2"])).sendall(greedy())
        beside = median_request(tls)
        grown = settled(lambda: resident(inspector)) - before
        assert beside < SLOWER * alone
        assert 2 * MIB < grown < 96 * MIB, grown / MIB  # they would send 4 MiB each, and more of what is taken
        assert ask(tls, request()).endswith(b"hello")


def settled(measured: Callable[[], int]) -> int:
    """What it is when it has stopped to grow."""
    seen = [0, measured()]
    while seen[-1] > seen[-2]:
        time.sleep(0.5)
        seen.append(measured())
    return seen[-1]
