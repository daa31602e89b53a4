"""Claim: what is said inside of a WebSocket is passed on as frames with one reading alone (RFC 6455, section 5). A
frame that another reader may take otherwise ends the connection, and neither it nor what follows it arrives; messages
without end cost bounded memory; floods of pieces hold up no other cage.
"""

from __future__ import annotations

import os
import ssl
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from _support.inspected import NAME, Asking, Server, request, tls_server
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.frames import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame
from pysandbox.gate.inspector import InspectorProcess

from .harness import PATIENCE, wait_until
from .test_a_websocket_is_one_or_nothing_passes import ASKED, SWITCHED, read

MIB = 1 << 20
OPEN = Contract(("GET",), ("/chat",), websocket=True)
MASK = b"\x01\x02\x03\x04"
CONTROL = frame(TEXT, b"the control", masked=False)
BEHIND = frame(TEXT, b"smuggled", masked=True)
DEFLATE = zlib.compressobj(9, zlib.DEFLATED, -15)
BOMB = DEFLATE.compress(bytes(64 * MIB)) + DEFLATE.flush(zlib.Z_SYNC_FLUSH)[:-4]


def head(first: int, size: int, *, masked: bool = True) -> bytes:
    """A frame's head, with the shortest length that fits."""
    mark = 0x80 if masked else 0
    if size < 126:
        said = bytes((first, mark | size))
    elif size < 1 << 16:
        said = bytes((first, mark | 126)) + struct.pack("!H", size)
    else:
        said = bytes((first, mark | 127)) + struct.pack("!Q", size)
    return said + (MASK if masked else b"")


ATTACKS = {
    "not masked": frame(TEXT, b"smuggled", masked=False),
    "compressed, and nothing was agreed on": head(0xC2, len(BOMB)) + BOMB,
    "a reserved bit": head(0x91, 0),
    "a reserved opcode": head(0x83, 0),
    "a control frame in pieces": head(0x09, 0),
    "a control frame of 126 bytes": bytes((0x89, 0xFE, 0, 126)) + MASK + bytes(126),
    "a length that is longer than it need be": bytes((0x82, 0xFE, 0, 5)) + MASK + b"12345",
    "a negative length": bytes((0x82, 0xFF)) + b"\xff" * 8 + MASK,
    "a length of 2^63": bytes((0x82, 0xFF)) + struct.pack("!Q", 1 << 63) + MASK,
    "a length that no message may have": head(0x82, 1 << 40),
    "a piece of no message": frame(CONTINUATION, b"a", masked=True),
    "a message in a message": frame(TEXT, b"a", final=False, masked=True) + frame(BINARY, b"b", masked=True),
    "a close in a message that goes on": (
        frame(TEXT, b"a", final=False, masked=True) + frame(CLOSE, b"\x03\xe8", masked=True)
        + frame(CONTINUATION, b"smuggled", masked=True)
    ),
    "text that is none": frame(TEXT, b"\xc0\xaf", masked=True),
    "a request": request("DELETE", "/smuggled"),
}  # fmt: skip


@dataclass
class Chat(Server):
    """Agrees to each WebSocket, and says `says` once its client has spoken."""

    says: bytes = b""

    def _serve(self, far) -> None:  # type: ignore[no-untyped-def]
        with suppress(OSError), self.context.wrap_socket(far, server_side=True) as tls:
            while said := tls.recv(65536):
                self.heard += said
                if said.endswith(b"\r\n\r\n"):
                    tls.sendall(SWITCHED + CONTROL)
                elif self.says:
                    tls.sendall(self.says)


@pytest.fixture
def server(tmp_path: Path) -> Chat:
    return tls_server(tmp_path, Chat)


def opened(tls: ssl.SSLSocket, server: Server) -> None:
    """A frame of the server's arrives in it; what the server has heard until then is forgotten."""
    tls.sendall(ASKED + b"\r\n")
    said = read(tls, lambda said: CONTROL in said)
    assert said.startswith(b"HTTP/1.1 101 ") and said.endswith(CONTROL), said
    server.heard.clear()


def words(heard: bytes) -> bytes:
    """What of short frames in what a server has heard is content, without their masks."""
    content, at = b"", 0
    while at + 6 <= len(heard) and heard[at + 1] & 0x7F < 126:
        size, mask = heard[at + 1] & 0x7F, heard[at + 2 : at + 6]
        content += bytes(each ^ mask[number % 4] for number, each in enumerate(heard[at + 6 : at + 6 + size]))
        at += 6 + size
    return content


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_client_says_behind_it_never_arrives(
    attack: str, quiet_inspector: InspectorProcess, server: Chat, tmp_path: Path
) -> None:
    at = Asking(quiet_inspector, OPEN, str(tmp_path / f"{NAME}.pem"))
    with at.client(server) as tls:
        opened(tls, server)
        tls.sendall(frame(TEXT, b"the control", masked=True))
        assert wait_until(lambda: words(bytes(server.heard)) == b"the control", PATIENCE)
        with suppress(OSError):
            tls.sendall(ATTACKS[attack] + BEHIND)
        said = read(tls)
    assert b"smuggled" not in words(bytes(server.heard)) and b"DELETE" not in server.heard
    assert said[:1] in (b"\x88", b""), "the client was told by a close frame, or hung up on"


OF_SERVERS = {
    "masked": frame(BINARY, b"x", masked=True),
    "compressed": head(0xC2, len(BOMB), masked=False) + BOMB,
    "a control frame in pieces": head(0x09, 0, masked=False),
    "a negative length": bytes((0x82, 0x7F)) + b"\xff" * 8,
    "a piece of no message": frame(CONTINUATION, b"a", masked=False),
    "an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n",
}


@pytest.mark.parametrize("attack", OF_SERVERS)
def test_what_a_server_says_behind_it_never_arrives(
    attack: str, quiet_inspector: InspectorProcess, server: Chat, tmp_path: Path
) -> None:
    server.says = OF_SERVERS[attack] + frame(BINARY, b"smuggled", masked=False)
    with Asking(quiet_inspector, OPEN, str(tmp_path / f"{NAME}.pem")).client(server) as tls:
        opened(tls, server)
        tls.sendall(frame(TEXT, b"say it", masked=True))
        said = read(tls)
    assert said[:1] == b"\x88" and b"smuggled" not in said and bytes(100) not in said


def test_a_message_without_end_is_held_to_a_body_s_bound(
    quiet_inspector: InspectorProcess, server: Chat, tmp_path: Path
) -> None:
    """In pieces of which none is too large, with pings in between."""
    contract = Contract(("GET",), ("/chat",), (), 4 * MIB, websocket=True)
    at = Asking(quiet_inspector, contract, str(tmp_path / f"{NAME}.pem"))
    piece = frame(CONTINUATION, bytes(1 << 16), final=False, masked=True) + frame(PING, b"", masked=True)
    with at.client(server) as tls:
        opened(tls, server)
        before = resident(quiet_inspector)
        with suppress(OSError):
            tls.sendall(frame(BINARY, b"", final=False, masked=True))
            for _ in range(200):
                tls.sendall(piece)
        said = read(tls)
        assert resident(quiet_inspector) - before < 8 * MIB
    assert len(server.heard) < 5 * MIB and at.refused() == [("http", "host.max_request_bytes")]
    assert said == b"" or said.rpartition(b"\x88")[2][1:3] in (b"\x03\xf0", b"\x03\xf1"), said[-80:]


def resident(inspector: InspectorProcess) -> int:
    assert inspector.process is not None
    return int(Path(f"/proc/{inspector.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [0, 1])
def test_a_flood_of_pieces_holds_up_no_other_cage(
    size: int, quiet_inspector: InspectorProcess, server: Chat, tmp_path: Path
) -> None:
    """A client sends it, whose frames have to be unmasked and masked anew."""
    flooded, calm = (Asking(quiet_inspector, each, str(tmp_path / f"{NAME}.pem")) for each in (OPEN, Contract()))
    flooded.session.number = 1
    piece = frame(CONTINUATION, b"x" * size, final=False, masked=True)
    with flooded.client(server) as tls, calm.client(Server(server.context)) as quiet:
        opened(tls, server)
        tls.sendall(frame(BINARY, b"x", final=False, masked=True) + piece * 40_000)
        for _ in range(20):
            quiet.sendall(request())
            assert read(quiet, lambda said: said.endswith(b"hello"))
        tls.sendall(frame(CONTINUATION, b"", masked=True) + frame(PING, b"the end", masked=True))
        assert wait_until(lambda: words(bytes(server.heard[-13:])) == b"the end", PATIENCE)
