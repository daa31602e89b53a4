"""Claim: inside TLS to a host with a contract, requests in HTTP are all that passes: no tunnel to anybody (CONNECT, in
either version, extended or not), no other protocol (TLS inside TLS, SSH, SOCKS, HTTP/2 that was not agreed on), and no
second handshake.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamReset
from h2.settings import SettingCodes
from OpenSSL import SSL

from _support.http2 import GREETING, fields, without_goodbye
from _support.inspected import NAME, Asking, Server, ask, request, tls_server
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspector import InspectorProcess

from .test_no_request_of_http2_gets_past_the_inspector import Http2Server

ANY = Contract()  # it allows every request: what is refused here is none


@pytest.fixture
def inspector(quiet_inspector: InspectorProcess) -> InspectorProcess:
    return quiet_inspector


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return tls_server(tmp_path, Server)


def asking_of(inspector: InspectorProcess, directory: Path, contract: Contract = ANY) -> Asking:
    return Asking(inspector, contract, str(directory / f"{NAME}.pem"))


def hello() -> bytes:
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="evil.example").do_handshake()
    return said.read()


OTHERS = {
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "CONNECT to itself": b"CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (NAME.encode(), NAME.encode()),
    "TLS inside TLS": hello(),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "SOCKS 5": b"\5\1\0" + b"\5\1\0\3\x0cevil.example\1\xbb" * 3 + b"\r\n\r\n",
    "HTTP/2 that was not agreed on": GREETING,
    "an upgrade to it": b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" % NAME.encode(),
    "a line of nothing": b"\r\n\r\n\0\0\0\0\r\n\r\n",
}  # fmt: skip


def test_a_request_passes(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    """The control."""
    with asking_of(inspector, tmp_path).client(server) as tls:
        assert ask(tls, request()).endswith(b"hello")
    assert server.heard.count(b"GET / ") == 1


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("after", [b"", request()], ids=["at first", "after a request"])
def test_nothing_else_does(
    after: bytes, other: str, inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    with asking_of(inspector, tmp_path).client(server) as tls:
        if after:
            assert ask(tls, after).endswith(b"hello")
        heard = everything(tls, OTHERS[other])
    if other == "an upgrade to it":  # is a request, without the upgrade
        assert heard.startswith(b"HTTP/1.1 200 ") and b"pgrade" not in bytes(server.heard)
    else:
        assert heard.startswith(b"HTTP/1.1 4"), heard
        assert server.heard == after


def everything(tls: ssl.SSLSocket, said: bytes) -> bytes:
    """What is answered, until the end or a pause."""
    heard = b""
    tls.settimeout(2)
    with suppress(OSError):
        tls.sendall(said)
        while part := tls.recv(65536):
            heard += part
    return heard


TUNNELS: dict[str, list[tuple[str, str]]] = {
    "CONNECT": [(":method", "CONNECT"), (":authority", "evil.example:443")],
    "CONNECT to itself": [(":method", "CONNECT"), (":authority", f"{NAME}:443")],
    "CONNECT that looks like a request": fields("CONNECT"),
    "extended CONNECT": [*fields("CONNECT"), (":protocol", "websocket")],
    "extended CONNECT of another kind": [*fields("CONNECT"), (":protocol", "connect-udp")],
}


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_no_tunnel_is_made_in_http2(tunnel: str, inspector: InspectorProcess, tmp_path: Path) -> None:
    server = tls_server(tmp_path, Http2Server)
    client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
    with asking_of(inspector, tmp_path).client(server, alpn=["h2"]) as tls:
        client.initiate_connection()
        client.send_headers(1, fields(), end_stream=True)  # the control
        tls.sendall(client.data_to_send())
        assert statuses(tls, client, 1) == {1: "200"}
        assert not client.remote_settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL, 0)
        client.send_headers(3, TUNNELS[tunnel], end_stream=False)
        client.send_data(3, b"SSH-2.0-OpenSSH_9.6\r\n")
        tls.sendall(client.data_to_send())
        answered = statuses(tls, client, 3)
    assert answered.get(3, "") in ("", "400", "403", "reset"), answered
    assert server.heard.count(b"\n") == 1 and b"CONNECT" not in server.heard and b"SSH" not in server.heard


def statuses(tls: ssl.SSLSocket, client: H2Connection, until: int) -> dict[int, str]:
    """What the streams are answered, until this one is, or the connection ends."""
    found: dict[int, str] = {}
    tls.settimeout(5)
    with suppress(OSError):
        while until not in found and (said := tls.recv(65536)):
            rest, goodbye = without_goodbye(said)
            for event in client.receive_data(rest) if rest else ():
                stream: Any = getattr(event, "stream_id", None) or 0
                if isinstance(event, ResponseReceived):
                    found[stream] = str(dict(event.headers or ())[":status"])
                if isinstance(event, StreamReset):
                    found[stream] = "reset"
            if goodbye is not None:
                break
    return found


def test_no_second_handshake_is_made(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    """A renegotiation of TLS 1.2 could bring another name, after the first was looked at."""
    asking = asking_of(inspector, tmp_path)
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    context.load_verify_locations(asking.trusted)
    with asking.raw_client(server) as near:
        near.setblocking(True)
        tls = SSL.Connection(context, near)
        tls.set_tlsext_host_name(NAME.encode())
        tls.set_connect_state()
        tls.do_handshake()
        tls.sendall(request())
        assert tls.recv(65536).endswith(b"hello")
        assert tls.renegotiate()
        with pytest.raises(SSL.Error):
            tls.do_handshake()
            tls.sendall(request(path="/evil"))
            tls.recv(65536)
    assert server.heard.count(b"GET / ") == 1 and b"evil" not in server.heard
