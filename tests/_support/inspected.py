"""The inspector without a cage: a process of its own as ever, served from this test, with TLS servers on loopback."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from _support.gate import net_plan
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan, NetPlan, ScanPlan
from pysandbox.events import Event
from pysandbox.gate.held import held_for
from pysandbox.gate.inspection.channel import OF_CAGE
from pysandbox.gate.inspector import ASKED_EVERY, InspectorProcess
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.sent import LeakCaller
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import replace

NAME = "api.example"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def write_certificate(
    directory: Path, name: str = NAME, *, days: int = 2, begun: int = 1, bits: int = 0
) -> tuple[str, str]:
    """A self-signed certificate and its key: the file of both, and of the certificate alone. `bits`: of RSA."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key: Any = rsa.generate_private_key(65537, bits) if bits else ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"a test's {name}")])
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=begun))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both, alone = directory / f"{name}.both.pem", directory / f"{name}.pem"
    both.write_bytes(pem + private)
    alone.write_bytes(pem)
    return str(both), str(alone)


@dataclass
class Server:
    """A TLS server that answers each request alike; `heard` is what it was sent."""

    context: ssl.SSLContext
    heard: bytearray = field(default_factory=bytearray)
    silent: bool = False
    answer: bytes = ANSWER

    def connect(self) -> socket.socket:
        """A connection to it, as the gatekeeper would have dialled it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far = listener.accept()[0]
        threading.Thread(target=self._serve, args=(far,), daemon=True).start()
        return near

    def greet(self, far: socket.socket) -> socket.socket:
        return self.context.wrap_socket(far, server_side=True)

    def _serve(self, far: socket.socket) -> None:
        try:
            with self.greet(far) as near:
                while said := near.recv(65536):
                    self.heard += said
                    if said.endswith(b"\r\n\r\n") and not self.silent:
                        near.sendall(self.answer)
        except OSError:
            pass


class ClearServer(Server):
    """One without TLS."""

    def greet(self, far: socket.socket) -> socket.socket:
        return far


ServerT = TypeVar("ServerT", bound=Server)


def tls_server(directory: Path, kind: type[ServerT]) -> ServerT:
    """One with a certificate for NAME, which is written there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificate(directory)[0])
    return kind(context)


@dataclass(eq=False)
class Session:
    net: NetPlan
    ledger: Ledger
    number: int = 0
    ended: bool = False
    leak_caller: LeakCaller | None = None
    canaries: Mapping[str, str] = field(default_factory=dict)


class Asking:
    """One plan at an inspector, whose only host is NAME."""

    def __init__(
        self, inspector: InspectorProcess, contract: Contract, ca: str, timeout_ms: int = 5000,
        scan: ScanPlan | None = None, upstream_scheme: str = "",
    ) -> None:  # fmt: skip
        self.inspector, self.contract = inspector, contract
        grant = HostGrant(NAME, (), False, contract)
        held = InspectionPlan(timeout_ms, 1 << 26, (ca,), scan=scan, upstream_scheme=upstream_scheme)
        self.net = replace(net_plan(), hosts=(grant,), inspection=held)
        self.events: list[Event] = []
        self.session = Session(self.net, Ledger("cage", self.events.append))
        self.trusted = inspector.trust(self.net)
        self.ended: list[bool] = []
        self.secrets = 0  # their number at the inspector

    @contextmanager
    def client(self, server: Server, *, trusts: bool = True, alpn: Sequence[str] = ()) -> Iterator[ssl.SSLSocket]:
        """A client's TLS through the inspector; with `alpn`, its hello comes with it. Raises OSError."""
        near, far = tcp_pair()
        upstream = server.connect()
        target = DialTarget(NAME, 443)
        held = held_for(self.session, target, self.contract, True, self.ended.append, self.secrets)
        with near:
            context = ssl.create_default_context(cafile=self.trusted if trusts else None)
            near.settimeout(20)
            if not alpn:
                with far, upstream:
                    self.number = self.inspector.open(held, b"", far, upstream, proxied=False)
                with context.wrap_socket(near, server_hostname=NAME) as tls:
                    yield tls
                return
            context.set_alpn_protocols(list(alpn))
            with far, upstream, ThreadPoolExecutor(1) as other:
                greeted = other.submit(context.wrap_socket, near, server_hostname=NAME)
                self.number = self.inspector.open(held, far.recv(65536), far, upstream, proxied=False)
            with greeted.result() as tls:
                yield tls

    @contextmanager
    def raw_client(self, server: Server, name: str = NAME) -> Iterator[socket.socket]:
        """A client's end, whose TLS has not begun."""
        near, client = tcp_pair()
        held = held_for(self.session, DialTarget(name, 443), self.contract, True, self.ended.append, self.secrets)
        near.settimeout(20)
        with client, server.connect() as upstream:
            self.inspector.open(held, b"", client, upstream, proxied=False)
        with near:
            yield near

    def refused(self) -> list[tuple[str, str]]:
        self.inspector.wait_booked()
        return [(each.kind, each.rule) for each in self.session.ledger.denials()]


def ask(tls: ssl.SSLSocket, request: bytes) -> bytes:
    tls.sendall(request)
    return tls.recv(65536)


def request(method: str = "GET", path: str = "/") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode()


def wait_for_another(inspector: InspectorProcess, net: NetPlan, within: float = 30) -> str:
    """Until it serves again. Raises AssertionError."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            return inspector.trust(net)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("there is no other inspector")


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def resident(inspector: InspectorProcess) -> int:
    """Bytes of memory that it holds."""
    assert inspector.process is not None
    return int(Path(f"/proc/{inspector.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def inspector_process(
    events: list[Event], asked_every: float = ASKED_EVERY, kind: type[InspectorProcess] = InspectorProcess
) -> Iterator[InspectorProcess]:
    made = kind(events.append, asked_every)
    try:
        yield made
    finally:
        for number in range(1, 1000):
            for cage in range(3):
                made.cut(cage << OF_CAGE | number)
        made.retire()
