"""Claim: a request in HTTP/2 is held to what one in HTTP/1.1 is; none that has two readings, or is another host's,
arrives; floods and bombs end their own connection, cost bounded memory, and hold up no other cage.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, ResponseReceived, StreamEnded
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from _support.http2 import GREETING, fields, frame, without_goodbye
from _support.inspected import NAME, Asking, Server, inspector_process, resident, tls_server
from pysandbox.compile.plan import Contract
from pysandbox.events import Event
from pysandbox.gate.inspection.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from pysandbox.gate.inspector import InspectorProcess

from .harness import PATIENCE

ONLY = Contract(methods=("GET",), paths=("/a/",))
ASKED = b"\x82\x87\x44\x04/a/x\x41\x0b" + NAME.encode()
MIB = 1 << 20
NOTHING = {  # frames that bring nothing, on an upload that goes on
    "pings": frame(PING, 0, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0),
    "window updates": frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", 1)),
    "priorities": frame(PRIORITY, 0, 3, struct.pack("!IB", 0, 1)),
    "empty data": frame(DATA, 0, 1),
    "data of a byte of padding": frame(DATA, PADDED, 1, b"\0"),
    "data of padding": frame(DATA, PADDED, 1, b"\x10" + bytes(16)),
    "frames of no kind": frame(0x77, 0, 0, b"x"),
}


class Http2Server(Server):
    """Says hello to each request; `heard` has a line of each."""

    speaks = ("h2",)
    content = 0  # bytes of it that have come

    def _serve(self, far: Any) -> None:
        self.context.set_alpn_protocols(list(self.speaks))
        try:
            with self.context.wrap_socket(far, server_side=True) as tls:
                made = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
                made.initiate_connection()
                made.update_settings({SettingCodes.ENABLE_CONNECT_PROTOCOL: 1})
                tls.sendall(made.data_to_send())
                while said := tls.recv(65536):
                    for event in made.receive_data(said):
                        with suppress(ProtocolError):  # the stream was taken back meanwhile
                            self._answer(made, event)
                    tls.sendall(made.data_to_send())
        except (OSError, ProtocolError):  # it was hung up on
            pass

    def _answer(self, made: H2Connection, event: Any) -> None:
        if isinstance(event, RequestReceived):
            self.heard += repr(event.headers).encode() + b"\n"
        if isinstance(event, DataReceived):
            self.content += len(event.data or b"")
            made.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        if isinstance(event, StreamEnded):
            made.send_headers(event.stream_id or 0, [(":status", "200")])
            made.send_data(event.stream_id or 0, b"hello", end_stream=True)


class Http1Server(Http2Server):
    speaks = ("http/1.1",)


@pytest.fixture
def inspector() -> Iterator[InspectorProcess]:
    events: list[Event] = []
    with inspector_process(events) as made:
        yield made
    assert [each for each in events if "FAILED" in each.kind.upper()] == []  # it was never taken for stuck


@pytest.fixture
def server(tmp_path: Path) -> Http2Server:
    return tls_server(tmp_path, Http2Server)


@pytest.fixture
def asking(inspector: InspectorProcess, server: Http2Server, tmp_path: Path) -> Asking:
    return Asking(inspector, ONLY, str(tmp_path / f"{NAME}.pem"))


def raw(tls: ssl.SSLSocket, said: bytes) -> bytes:
    """What is answered to these bytes, until the end or a pause."""
    heard = b""
    tls.settimeout(3)
    try:
        tls.sendall(said)
        while part := tls.recv(65536):
            heard += part
    except (TimeoutError, OSError):
        pass
    return heard


def statuses(asking: Asking, server: Server, *heads: list[tuple[str, str]]) -> list[str]:
    """The statuses of requests on one connection, each on its stream; "" where the connection ended."""
    client = H2Connection(H2Configuration(
        client_side=True, header_encoding="latin-1", validate_outbound_headers=False, normalize_outbound_headers=False
    ))  # fmt: skip
    found: dict[int, str] = {}
    with asking.client(server, alpn=["h2", "http/1.1"]) as tls:
        assert tls.selected_alpn_protocol() == "h2"
        client.initiate_connection()
        for number, each in enumerate(heads):
            client.send_headers(2 * number + 1, each, end_stream=True)
        tls.sendall(client.data_to_send())
        while len(found) < len(heads) and (said := tls.recv(65536)):
            rest, goodbye = without_goodbye(said)
            for event in client.receive_data(rest) if rest else ():
                if isinstance(event, ResponseReceived):
                    found[event.stream_id or 0] = dict(event.headers or ())[":status"]
            if goodbye is not None:
                break
    return [found.get(2 * number + 1, "") for number in range(len(heads))]


def test_the_control_arrives_and_what_is_refused_does_not(asking: Asking, server: Http2Server) -> None:
    assert statuses(asking, server, fields(), fields("DELETE"), fields(path="/b"), fields()) == [
        "200", "415", "415", "200",
    ]  # fmt: skip
    assert server.heard.count(b"\n") == 2 and b"DELETE" not in server.heard and b"/b" not in server.heard
    assert sorted(asking.refused()) == [("http", "host.methods"), ("http", "host.paths")]


@pytest.mark.parametrize("authority", ["other.example", f"{NAME}:444", f"a@{NAME}", f"{NAME}.evil.example", ""])
def test_no_request_for_another_host_shares_the_connection(authority: str, asking: Asking, server: Http2Server) -> None:
    """Coalescing: a certificate that covers another name does not make its requests this connection's."""
    assert statuses(asking, server, fields(), fields(authority=authority))[1] in ("403", "400", "")
    assert server.heard.count(b"\n") <= 1 and b"other" not in server.heard and b"evil" not in server.heard


@pytest.mark.parametrize(
    "field",
    [("transfer-encoding", "chunked"), ("connection", "x"), ("x", "a\r\nhost: evil"), ("x\r\ny", "a"), ("X", "a"),
     ("content-length", "7"), ("host", "evil.example"), (":path", "/b"), ("upgrade", "h2c")],
    ids=lambda field: field[0].strip(),
)  # fmt: skip
def test_nothing_is_smuggled_in_a_field(field: tuple[str, str], asking: Asking, server: Http2Server) -> None:
    assert statuses(asking, server, [*fields(), field])[0] in ("400", "403", "")
    assert server.heard == b""


def test_a_rapid_reset_ends_its_connection_and_the_server_sees_little_of_it(
    asking: Asking, server: Http2Server, inspector: InspectorProcess
) -> None:
    cancel = struct.pack("!I", 8)
    attack = b"".join(frame(HEADERS, 5, n, ASKED) + frame(RST_STREAM, 0, n, cancel) for n in range(1, 4001, 2))
    with asking.client(server, alpn=["h2"]) as tls:
        assert without_goodbye(raw(tls, GREETING + attack))[1] in (ENHANCE_YOUR_CALM, None)
    assert server.heard.count(b"\n") < 300
    assert statuses(asking, server, fields()) == ["200"]


@pytest.mark.parametrize("flood", NOTHING)
def test_a_flood_of_frames_that_bring_nothing_ends_its_connection(
    flood: str, inspector: InspectorProcess, server: Http2Server, tmp_path: Path
) -> None:
    asking = Asking(inspector, Contract(), str(tmp_path / f"{NAME}.pem"))
    upload = GREETING + frame(HEADERS, END_HEADERS, 1, b"\x83" + ASKED[1:])
    with asking.client(server, alpn=["h2"]) as tls:
        tls.settimeout(PATIENCE)
        with suppress(ConnectionError, ssl.SSLError):  # it is hung up on before all of it went
            tls.sendall(upload + NOTHING[flood] * 6000)
            while tls.recv(65536):
                pass  # a connection that went on would time out here
    assert statuses(asking, server, fields()) == ["200"], "the control: others are answered"


def test_content_in_frames_of_a_byte_holds_up_no_other_cage(
    inspector: InspectorProcess, server: Http2Server, tmp_path: Path
) -> None:
    """It is content, so it is not refused: all of it arrives, and another cage is answered meanwhile."""
    slow, calm = (Asking(inspector, Contract(), str(tmp_path / f"{NAME}.pem")) for _ in range(2))
    slow.session.number = 1
    upload = GREETING + frame(HEADERS, END_HEADERS, 1, b"\x83" + ASKED[1:])
    with slow.client(server, alpn=["h2"]) as tls:
        tls.sendall(upload + frame(DATA, 0, 1, b"x") * 30_000)
        assert statuses(calm, server, *[fields()] * 20) == ["200"] * 20
        answered_at = server.content
        tls.settimeout(PATIENCE)
        tls.sendall(frame(DATA, END_STREAM, 1, b"x"))
        heard = b""
        while b"hello" not in heard:
            heard += tls.recv(65536)
    assert answered_at < 30_000 and server.content == 30_001


def test_no_offer_of_tunnels_is_passed_on(asking: Asking, server: Http2Server) -> None:
    """RFC 8441: the server says that it takes extended CONNECT, and no client hears of it (nor is one passed on)."""
    with asking.client(server, alpn=["h2"]) as tls:
        said = raw(tls, GREETING)
    assert frame(SETTINGS, 1, 0) in said, "the control: it has got so far"
    assert struct.pack("!HI", SettingCodes.ENABLE_CONNECT_PROTOCOL, 1) not in said


def test_a_bomb_of_fields_costs_little_memory_and_never_arrives(
    asking: Asking, server: Http2Server, inspector: InspectorProcess
) -> None:
    """Four kilobytes in the table, named nine thousand times: 36 MB."""
    assert statuses(asking, server, fields()) == ["200"]
    before, heard = resident(inspector), bytes(server.heard)
    bomb = b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000 + b"\xbe" * 9000
    for _ in range(10):
        with asking.client(server, alpn=["h2"]) as tls:
            assert without_goodbye(raw(tls, GREETING + frame(HEADERS, 5, 1, bomb)))[1] not in (None, 0)
    assert resident(inspector) - before < 16 * MIB and server.heard == heard
    assert statuses(asking, server, fields()) == ["200"]


@pytest.mark.parametrize("offered", [["h2", "http/1.1"], ["h2"], ["http/1.1"]])
@pytest.mark.parametrize("kind", [Http2Server, Http1Server])
def test_the_client_is_told_what_its_server_speaks(
    kind: type[Http2Server], offered: list[str], inspector: InspectorProcess, tmp_path: Path
) -> None:
    server = tls_server(tmp_path, kind)
    asking = Asking(inspector, ONLY, str(tmp_path / f"{NAME}.pem"))
    shared = [each for each in offered if each in kind.speaks]
    with asking.client(server, alpn=offered) as tls:
        if "h2" not in offered:
            assert tls.selected_alpn_protocol() is None  # which is HTTP/1.1 to everybody
        elif shared:
            assert tls.selected_alpn_protocol() == shared[0]
        else:  # it is told why, in what it speaks
            assert tls.selected_alpn_protocol() == "h2"
            assert b"speaks no HTTP/2" in raw(tls, GREETING + frame(HEADERS, 5, 1, ASKED))
