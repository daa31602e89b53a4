"""An inspector that scans, without a cage: a server that answers whole requests, and a client that sends what it is
told, cut wherever one wishes."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from _support.inspected import NAME, Asking, Server, ask, inspector_process, request, write_certificate
from pysandbox.compile.plan import ANY_REQUEST, ScanPlan
from pysandbox.dlp import registry
from pysandbox.events import Event
from pysandbox.gate.inspectors import AskingInspector, ScanningInspector
from pysandbox.gate.sent import LeakCaller

TOKEN = registry.BY_NAME["github_pat"].hits[0]
SCAN = ScanPlan(depth=32, whole=1 << 23, scopes=(), warns=False, budget=1 << 40)
LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE)


class WholeServer(Server):
    """It answers a request once all of it has come."""

    def _serve(self, far: socket.socket) -> None:
        said = bytearray()
        try:
            with self.context.wrap_socket(far, server_side=True) as tls:
                while piece := tls.recv(65536):
                    self.heard += piece
                    said += piece
                    while size := _size(said):
                        del said[:size]
                        tls.sendall(self.answer)
        except OSError:
            pass


def _size(said: bytearray) -> int:
    """Bytes of the first request in it; 0 where it is not whole."""
    head, mark, body = said.partition(b"\r\n\r\n")
    if not mark:
        return 0
    length = LENGTH.search(head + b"\r\n")
    if length is not None:
        whole = len(head) + 4 + int(length[1])
        return whole if len(said) >= whole else 0
    if b"chunked" in head.lower():
        end = body.find(b"\r\n\r\n", max(0, body.find(b"0\r\n")))
        return len(head) + 4 + end + 4 if body.startswith(b"0\r\n") or (b"\r\n0\r\n" in body and end >= 0) else 0
    return len(head) + 4


class ScannedHost:
    """One plan at an inspector that scans: its only host is NAME."""

    def __init__(
        self, directory: Path, inspector: ScanningInspector, scan: ScanPlan = SCAN,
        canaries: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        both, alone = write_certificate(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        self.server = WholeServer(context)
        self.asking = Asking(inspector, ANY_REQUEST, alone, scan=scan)
        self.asking.session.canaries = canaries or {}

    def send(self, pieces: Sequence[bytes], answers: int = 1) -> bytes:
        """What is answered to bytes that are sent in these pieces."""
        said = b""
        with self.asking.client(self.server) as tls:
            tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for piece in pieces:
                    tls.sendall(piece)
                while said.count(b"HTTP/1.1 ") < answers and (piece := tls.recv(65536)):
                    said += piece
            except OSError:
                pass
        return said

    def found(self) -> list[dict[str, object]]:
        """What was told of credentials."""
        self.asking.inspector.wait_booked()
        return [dict(each.data) for each in self.asking.events if each.type == "gatekeeper.credential_found"]


@contextmanager
def scanned(
    directory: Path, scan: ScanPlan = SCAN, caller: LeakCaller | None = None, canaries: Mapping[str, str] | None = None
) -> Iterator[ScannedHost]:
    """`caller`: the callback of its host; `canaries`: the false credentials of its cage."""
    events: list[Event] = []
    with inspector_process(events, kind=AskingInspector if caller else ScanningInspector) as inspector:
        assert isinstance(inspector, ScanningInspector)
        made = ScannedHost(directory, inspector, scan, canaries)
        made.asking.session.leak_caller = caller
        yield made


def another_cage_is_answered_beside(directory: Path, scan: ScanPlan, message: bytes) -> None:
    """While one cage sends the message, another one keeps its connection by the same inspector, which lives on."""
    with scanned(directory, scan) as host:
        process = host.asking.inspector.process
        assert process is not None
        other = Asking(host.asking.inspector, host.asking.contract, str(directory / f"{NAME}.pem"), scan=SCAN)
        other.session.number = 1
        with other.client(host.server) as tls:
            assert ask(tls, request()).endswith(b"hello")  # the control: nobody attacks
            assert host.send([message]).startswith(b"HTTP/1.1 ")
            assert ask(tls, request()).endswith(b"hello")  # on the connection that it had
        assert host.asking.inspector.process is process and process.poll() is None


def get(path: bytes = b"/", *fields: bytes) -> bytes:
    return b"\r\n".join((b"GET " + path + b" HTTP/1.1", b"Host: " + NAME.encode(), *fields, b"", b""))


def post(body: bytes, *fields: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join((b"POST / HTTP/1.1", b"Host: " + NAME.encode(), length, *fields, b"", body))


def chunked(body: bytes, size: int, *trailer: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    cut = (body[at : at + size] for at in range(0, len(body), size))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in cut)
    return head + chunks + b"\r\n".join((b"0", *trailer, b"", b""))
