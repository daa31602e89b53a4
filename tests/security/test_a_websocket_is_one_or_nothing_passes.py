"""Claim: what is passed on as a WebSocket is one that its client asked for, its host's block allows and its server
agreed to. Whatever only pretends to be one, on either side, gets no byte past the inspector that it has not judged."""

from __future__ import annotations

import base64
import hashlib
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from _support.inspected import ANSWER, NAME, Asking, Server, request, tls_server
from pysandbox.compile.plan import Contract, SecretGrant
from pysandbox.gate.inspection.frames import BINARY, PING, TEXT, frame
from pysandbox.gate.inspection.handshake import MAGIC
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.secrets import CageSecrets, SecretValue, hold_secrets

OPEN = Contract(("GET",), ("/chat",), websocket=True)
KEY = base64.b64encode(bytes(range(16)))
ASKED = (
    b"GET /chat HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
    b"\r\nSec-WebSocket-Key: " + KEY + b"\r\n"
)  # fmt: skip
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
    + base64.b64encode(hashlib.sha1(KEY + MAGIC).digest()) + b"\r\n\r\n"
)  # fmt: skip
VALUE = "sk-ant-" + "Real5ecretValue" * 3


@dataclass
class Scripted(Server):
    """Answers each head with `says`, and echoes nothing."""

    says: bytes = SWITCHED

    def _serve(self, far) -> None:  # type: ignore[no-untyped-def]
        with suppress(OSError), self.context.wrap_socket(far, server_side=True) as tls:
            while said := tls.recv(65536):
                self.heard += said
                if said.endswith(b"\r\n\r\n"):
                    tls.sendall(self.says)


@pytest.fixture
def inspector(quiet_inspector: InspectorProcess) -> InspectorProcess:
    return quiet_inspector


@pytest.fixture
def server(tmp_path: Path) -> Scripted:
    return tls_server(tmp_path, Scripted)


def asking(inspector: InspectorProcess, ca: Path, contract: Contract = OPEN) -> Asking:
    return Asking(inspector, contract, str(ca / f"{NAME}.pem"))


def read(tls: ssl.SSLSocket, until: Callable[[bytes], bool] = lambda said: False) -> bytes:
    """What comes until then, or until the end."""
    said = b""
    with suppress(OSError):
        while not until(said) and (part := tls.recv(65536)):
            said += part
    return said


def talk(at: Asking, server: Server, *pieces: bytes) -> bytes:
    """All that a client sees that says these, one after another is answered."""
    with at.client(server) as tls:
        seen = b""
        for each in pieces:
            with suppress(OSError):
                tls.sendall(each)
            seen += read(tls, lambda said: said.endswith((SWITCHED, b"hello")))
        return seen


def has(server: Server, what: bytes, tls: ssl.SSLSocket) -> bool:
    """Whether the server hears it; it is asked until the connection ends."""
    tls.settimeout(0.02)
    for _ in range(500):
        if what in server.heard:
            return True
        with suppress(TimeoutError):
            if tls.recv(1) == b"":
                return what in server.heard
    return False


def test_one_that_is_asked_for_and_agreed_to_passes(
    inspector: InspectorProcess, server: Scripted, tmp_path: Path
) -> None:
    """The control."""
    at = asking(inspector, tmp_path)
    with at.client(server) as tls:
        tls.sendall(ASKED + b"\r\n")
        assert read(tls, lambda said: said.endswith(b"\r\n\r\n")) == SWITCHED.replace(
            b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b""
        ).replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        tls.sendall(frame(TEXT, b"the words of a client", masked=True))
        head = bytes((0x81, 0x80 | 21))
        assert has(server, head, tls)
    assert at.refused() == []


def test_where_its_block_does_not_say_so_no_server_hears_of_it(
    inspector: InspectorProcess, server: Scripted, tmp_path: Path
) -> None:
    at = asking(inspector, tmp_path, Contract(("GET",)))
    assert talk(at, server, ASKED + b"\r\n").startswith(b"HTTP/1.1 415 ")
    assert server.heard == b"" and at.refused() == [("http", "host.websocket")]


SMUGGLED = b"DELETE /admin HTTP/1.1\r\nHost: api.example\r\n\r\n"
TRICKS = {
    "behind a handshake that is refused": (ANSWER, ASKED + b"\r\n" + SMUGGLED),
    "behind one that is agreed to": (SWITCHED, ASKED + b"\r\n" + SMUGGLED),
    "as the body of one": (ANSWER, ASKED + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED),
    "as its chunks": (ANSWER, ASKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED),
    "behind one of HTTP/1.0": (SWITCHED, ASKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + SMUGGLED),
    "behind another protocol": (SWITCHED, ASKED.replace(b"websocket", b"h2c") + b"\r\n" + SMUGGLED),
    "behind a request that is none": (SWITCHED, request("GET", "/chat") + SMUGGLED),
}  # fmt: skip


@pytest.mark.parametrize("how", TRICKS)
def test_no_request_is_smuggled_by_it(how: str, inspector: InspectorProcess, server: Scripted, tmp_path: Path) -> None:
    server.says, said = TRICKS[how]
    with asking(inspector, tmp_path).client(server) as tls:
        with suppress(OSError):
            tls.sendall(said)
        assert not has(server, b"DELETE", tls)


LIES = {
    "to one that nobody asked for": (request("GET", "/chat"), SWITCHED),
    "to another key": (ASKED + b"\r\n", SWITCHED.replace(b"Accept: ", b"Accept: x")),
    "with a body": (ASKED + b"\r\n", SWITCHED[:-2] + b"Content-Length: 8\r\n\r\n"),
    "with an extension": (ASKED + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
                          SWITCHED[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
    "twice": (ASKED + b"\r\n", SWITCHED + SWITCHED),
}  # fmt: skip


@pytest.mark.parametrize("how", LIES)
def test_no_client_hears_what_comes_behind_a_lie(
    how: str, inspector: InspectorProcess, server: Scripted, tmp_path: Path
) -> None:
    asked, answer = LIES[how]
    server.says = answer + frame(BINARY, b"smuggled", masked=False)
    at = asking(inspector, tmp_path)
    with at.client(server) as tls:
        tls.sendall(asked)
        seen = read(tls)
    assert b"smuggled" not in seen
    assert b"x-pysandbox-error: upstream-unreachable" in seen or (how == "twice" and b"\x03\xf3" in seen)


def test_a_placeholder_in_a_message_is_never_sent(
    inspector: InspectorProcess, server: Scripted, tmp_path: Path
) -> None:
    at = asking(inspector, tmp_path)
    grants = (SecretGrant("TOKEN", "given", (NAME,), ("header:authorization", "body")),)
    cage = CageSecrets({"TOKEN": SecretValue(VALUE)})
    placeholder = cage.prepare(type("Plan", (), {"env": ()})(), grants)["TOKEN"].encode()  # type: ignore[arg-type]
    at.secrets = hold_secrets(inspector, cage, grants).number
    with at.client(server) as tls:
        tls.sendall(ASKED + b"Authorization: Bearer " + placeholder + b"\r\n\r\n")
        assert read(tls, lambda said: said.endswith(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert VALUE.encode() in server.heard
        server.heard.clear()
        tls.sendall(frame(TEXT, b"key: " + placeholder, masked=True))
        assert b"secret-refused" in read(tls)
    assert server.heard == b"" and at.refused() == [("http", "secret.in")]


def test_a_flood_of_empty_frames_holds_up_no_other_cage(
    inspector: InspectorProcess, server: Scripted, tmp_path: Path
) -> None:
    """Two bytes of a server's are a frame, and thirty thousand of them come in one read: they are read in turns."""
    server.says = SWITCHED + frame(PING, b"", masked=False) * 500_000
    other = Server(server.context)
    flooded, calm = asking(inspector, tmp_path), asking(inspector, tmp_path, Contract())
    flooded.session.number = 1
    with flooded.client(server) as tls, calm.client(other) as quiet:
        tls.sendall(ASKED + b"\r\n")
        seen = 0
        for _ in range(20):
            quiet.sendall(request())
            assert read(quiet, lambda said: said.endswith(b"hello"))
            seen += len(tls.recv(65536))
        while seen < 1_000_000:
            seen += len(tls.recv(1 << 20))
