"""Claim: what TLS keeps besides content is its own connection's, and little: a ticket resumes nothing of another host
or policy, nothing is taken as early data, and a client or server that sends records without content (key updates, empty
ones) is hung up on before that costs anybody else.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from _support.inspected import (
    ANSWER,
    NAME,
    Asking,
    Server,
    ask,
    request,
    tcp_pair,
    tls_server,
    write_certificate,
)
from _support.internet.space import demand
from _support.raw_tls import CONTENT, RawTls, raw_client, raw_server
from pysandbox.compile.plan import Contract, HostGrant
from pysandbox.gate.held import held_for
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import Any, replace

from .harness import wait_until

GET = Contract(methods=("GET",))
OTHER = "other.example"
MIB = 1 << 20
FLOOD = 4 * MIB  # of records that say nothing
MOST = MIB // 4  # of them that are taken, with what the sockets hold


@pytest.fixture
def inspector(quiet_inspector: InspectorProcess) -> InspectorProcess:
    return quiet_inspector


class AskingTwo(Asking):
    """A plan of two hosts."""

    def __init__(self, inspector: InspectorProcess, ca: Path) -> None:
        super().__init__(inspector, GET, str(ca))
        self.net = replace(self.net, hosts=tuple(HostGrant(each, (), False, GET) for each in (NAME, OTHER)))
        self.session.net = self.net
        self.trusted = inspector.trust(self.net)


@contextmanager
def opened(asking: Asking, server: Server | None, name: str = NAME) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's end of an inspected connection, and the server's where that is nobody yet."""
    near, client = tcp_pair()
    upstream, far = (server.connect(), socket.socket()) if server is not None else tcp_pair()
    held = held_for(asking.session, DialTarget(name, 443), asking.contract, True, asking.ended.append)
    near.settimeout(20), far.settimeout(20)
    with client, upstream:
        asking.inspector.open(held, b"", client, upstream, proxied=False)
    with near, far:
        yield near, far


def resumed(
    asking: Asking, server: Server, trusting: ssl.SSLContext, name: str, session: ssl.SSLSession | None
) -> tuple[bool, ssl.SSLSession | None]:
    """Whether a connection went on with a session, and its own."""
    with (
        opened(asking, server, name) as (near, _),
        trusting.wrap_socket(near, server_hostname=name, session=session) as tls,
    ):
        ask(tls, request())
        found = bool(tls.session_reused), tls.session
        with suppress(OSError):
            tls.unwrap()  # who parts without a word is not remembered
        return found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_ticket_resumes_its_own_host_of_its_own_policy_alone(
    version: ssl.TLSVersion, inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    one = AskingTwo(inspector, tmp_path / f"{NAME}.pem")
    another = Asking(inspector, Contract(methods=("POST",)), str(tmp_path / f"{NAME}.pem"))
    trusting = ssl.create_default_context(cafile=one.trusted)
    trusting.load_verify_locations(another.trusted)
    trusting.maximum_version = version
    _, session = resumed(one, server, trusting, NAME, None)

    assert session is not None and session.has_ticket
    assert resumed(one, server, trusting, NAME, session)[0]  # the control
    assert not resumed(one, server, trusting, OTHER, session)[0]
    assert not resumed(another, server, trusting, NAME, session)[0]


@dataclass
class RememberingServer(Server):
    """`garbled`: in the place of each second answer comes what is no record of its connection."""

    resumed: list[bool] = field(default_factory=list)
    garbled: bool = False

    def greet(self, far: socket.socket) -> socket.socket:
        tls = self.context.wrap_socket(far, server_side=True)
        self.resumed.append(bool(tls.session_reused))
        return Garbling(tls) if self.garbled else tls


class Garbling(socket.socket):
    def __init__(self, tls: ssl.SSLSocket) -> None:
        super().__init__(fileno=os.dup(tls.fileno()))
        self._tls, self._answered = tls, False

    def recv(self, size: int, flags: int = 0) -> bytes:
        return self._tls.recv(size)

    def sendall(self, said: Any, flags: int = 0) -> None:
        if self._answered:
            super().sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        else:
            self._tls.sendall(said)
        self._answered = True

    def close(self) -> None:
        self._tls.close()
        super().close()


@pytest.mark.parametrize("garbled", [False, True])
def test_a_session_with_a_server_is_gone_on_with_unless_that_has_failed(
    garbled: bool, inspector: InspectorProcess, tmp_path: Path
) -> None:
    """Whether a client says goodbye is its own affair: many libraries never do."""
    server = tls_server(tmp_path, RememberingServer)
    server.garbled = garbled
    asking = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem"))
    for number in range(1, 4):
        with asking.client(server) as tls:
            assert ask(tls, request()) == ANSWER
            assert not garbled or b" 502 " in ask(tls, request())
        assert wait_until(lambda number=number: len(asking.ended) == number, 20)  # type: ignore[misc]
    assert server.resumed == [False, not garbled, not garbled]


def test_any_number_of_names_is_served(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    """A confined process has no more executable memory, which the library wants for each certificate."""
    asking = AskingTwo(inspector, tmp_path / f"{NAME}.pem")
    grants = (HostGrant("*.many.example", (), False, GET), *asking.net.hosts)
    asking.net = asking.session.net = replace(asking.net, hosts=grants)
    asking.trusted = inspector.trust(asking.net)
    trusting = ssl.create_default_context(cafile=asking.trusted)
    for number in range(300):
        name = f"n{number}.many.example"
        with opened(asking, server, name) as (near, _), trusting.wrap_socket(near, server_hostname=name) as tls:
            assert tls.version()
    assert resumed(asking, server, trusting, NAME, None)[1] is not None


def test_no_session_is_kept_for_a_client(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    """It would be kept for each connection of TLS 1.2 without a ticket, twenty thousand of each host."""
    asking = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem"))
    trusting = ssl.create_default_context(cafile=asking.trusted)
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2
    trusting.options |= ssl.OP_NO_TICKET
    _, session = resumed(asking, server, trusting, NAME, None)

    assert not resumed(asking, server, trusting, NAME, session)[0]


def test_early_data_is_not_asked_for(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    """A ticket that allows none: what comes as such is never read."""
    demand("openssl")
    asking, kept, early = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem")), tmp_path / "kept", tmp_path / "early"
    early.write_bytes(request(path="/early"))

    said = s_client(asking, server, "-sess_out", str(kept))
    assert "200 OK" in said, said
    described = subprocess.run(["openssl", "sess_id", "-in", kept, "-noout", "-text"], capture_output=True, text=True)
    assert re.search(r"Max Early Data: 0\b", described.stdout), described
    said = s_client(asking, server, "-sess_in", str(kept), "-early_data", str(early))
    assert "Reused, TLSv1.3" in said and "Early data was not sent" in said, said
    assert b"/early" not in server.heard and server.heard.count(b"GET / ") == 2


def s_client(asking: Asking, server: Server, *options: str) -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", NAME, "-CAfile",
                   asking.trusted, "-ign_eof", *options]  # fmt: skip
        with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.STDOUT, text=True) as client:
            accepted, upstream = listener.accept()[0], server.connect()
            with accepted, upstream:
                held = held_for(asking.session, DialTarget(NAME, 443), GET, True, asking.ended.append)
                asking.inspector.open(held, b"", accepted, upstream, proxied=False)
            closing = request().decode().replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
            return client.communicate(closing, timeout=30)[0]


Flood = Callable[[RawTls], bytes]
FLOODS: dict[str, Flood] = {
    "key updates": lambda raw: raw.key_update(asks=False),
    "key updates that ask for one": lambda raw: raw.key_update(asks=True),
    "empty records": lambda raw: raw.record(CONTENT, b""),
}


@contextmanager
def greeted(asking: Asking, directory: Path) -> Iterator[tuple[socket.socket, RawTls, socket.socket, RawTls]]:
    """A client and a server that have shaken hands through the inspector."""
    both = str(directory / f"{NAME}.both.pem")
    with opened(asking, None) as (near, far), ThreadPoolExecutor(1) as other:
        for each in (near, far):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        client = other.submit(raw_client, near, asking.trusted, NAME, directory / "client")
        server = raw_server(far, both, directory / "server")
        yield near, client.result(), far, server


def test_content_among_key_updates_arrives(inspector: InspectorProcess, tmp_path: Path) -> None:
    """The control: a few of them are everybody's right."""
    write_certificate(tmp_path)
    asking = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem"))
    with greeted(asking, tmp_path) as (near, client, far, server):
        for byte in request():
            near.sendall(client.key_update(asks=True) + client.record(CONTENT, bytes([byte])))
        assert far.recv(65536)
        for byte in ANSWER:
            far.sendall(server.key_update(asks=False) + server.record(CONTENT, bytes([byte])))
        heard = bytearray()
        while len(heard) < 27 * len(request()) + len(ANSWER):  # an answer to each key update, and that of the server
            heard += near.recv(65536)
    assert wait_until(lambda: len(asking.ended) == 1, 20)


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("side", ["client", "server"])
def test_records_that_say_nothing_end_their_connection(
    side: str, flood: str, inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    asking, made = Asking(inspector, GET, str(tmp_path / f"{NAME}.pem")), FLOODS[flood]
    with asking.client(server) as other:
        with greeted(asking, tmp_path) as (near, client, far, beyond):
            sock, raw = (near, client) if side == "client" else (far, beyond)
            taken = 0
            with suppress(OSError):
                while taken < FLOOD:
                    taken += sock.send(b"".join(made(raw) for _ in range(100)))
            assert taken < MOST
        assert wait_until(lambda: len(asking.ended) == 1, 20)
        assert ask(other, request()).endswith(b"hello")
