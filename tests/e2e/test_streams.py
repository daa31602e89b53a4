"""Connections through the doors, over loopback: what is allowed arrives whole, what is not is refused and told."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from _support.doors import ALLOWED, ALSO_ALLOWED, SYNTHETIC, Doors, server
from _support.sockets import PATIENCE, everything, exactly

MANY = int(os.environ.get("PSB_TRIES", "10000"))


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    made = Doors(tmp_path / "hosts")
    yield made
    made.close()


def connect(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((host, port), PATIENCE)


def head(sock: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        if not (more := sock.recv(1)):
            raise ConnectionError(f"it ended after {said!r}")
        said += more
    return said


def echo(client: socket.socket) -> None:
    while said := client.recv(65536):
        client.sendall(said)


def a_banner(client: socket.socket) -> None:
    client.sendall(b"220 ready\r\n")
    echo(client)


class Origin:
    """A small HTTP server that keeps the heads it was sent."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") -> None:
        self.heads: list[bytes] = []
        self._answer = answer

    def __call__(self, client: socket.socket) -> None:
        while True:
            self.heads.append(head(client))
            client.sendall(self._answer)


def socks(port: int, host: str | bytes, to: int) -> tuple[int, socket.socket]:
    """The reply code of a CONNECT by name."""
    sock = connect(port)
    sock.sendall(b"\5\1\0")
    assert exactly(sock, 2) == b"\5\0"
    name = host.encode() if isinstance(host, str) else host
    sock.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + struct.pack("!H", to))
    answer = exactly(sock, 10)
    return answer[1], sock


def connected(doors: Doors, host: str, to: int) -> tuple[bytes, socket.socket]:
    sock = connect(doors.ports["http"])
    sock.sendall(f"CONNECT {host}:{to} HTTP/1.1\r\nHost: {host}:{to}\r\n\r\n".encode())
    return head(sock), sock


# ---- SOCKS ----------------------------------------------------------------------------------------------------------


def test_socks_carries_an_allowed_name_and_refuses_another(doors: Doors) -> None:
    with server(echo) as port:
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        with sock:
            assert code == 0
            sock.sendall(b"\0hello")
            assert exactly(sock, 6) == b"\0hello"
            sock.shutdown(socket.SHUT_WR)
            assert everything(sock) == b""
        code, sock = socks(doors.ports["socks"], "evil.com", port)
        with sock:
            assert code == 2
            assert everything(sock) == b""
    assert doors.denied() == ["evil.com"]


@pytest.mark.parametrize("name", [b"evil.com\0.example.com", b"example.com\0", b"a@example.com", b"*.example.com", b""])
def test_socks_refuses_a_name_that_has_two_readings(doors: Doors, name: bytes) -> None:
    code, sock = socks(doors.ports["socks"], name, 80)
    sock.close()
    assert code == 2


@pytest.mark.parametrize("spelled", ["EXAMPLE.com", "example.com.", "Example.Com."])
def test_one_name_has_many_spellings(doors: Doors, spelled: str) -> None:
    with server(echo) as port:
        code, sock = socks(doors.ports["socks"], spelled, port)
        sock.close()
    assert code == 0


def test_socks4_is_hung_up_on_in_peace(doors: Doors) -> None:
    with connect(doors.ports["socks"]) as sock:
        sock.sendall(b"\4\1\0\x50\x7f\0\0\1\0")
        assert everything(sock) == b""


def test_a_closed_port_is_a_refused_connection(doors: Doors) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, sock = socks(doors.ports["socks"], ALLOWED, port)
    sock.close()
    assert code == 5


# ---- CONNECT, and what is said in a tunnel --------------------------------------------------------------------------


def test_connect_carries_an_allowed_host_whoever_speaks_first(doors: Doors) -> None:
    with server(a_banner) as port:
        answer, sock = connected(doors, ALLOWED, port)
        with sock:
            assert answer.startswith(b"HTTP/1.1 200")
            assert exactly(sock, 11) == b"220 ready\r\n"
            sock.sendall(b"EHLO me\r\n")
            assert exactly(sock, 9) == b"EHLO me\r\n"


def test_connect_to_another_host_is_refused_with_the_line_that_would_allow_it(doors: Doors) -> None:
    answer, sock = connected(doors, "evil.com", 443)
    with sock:
        body = everything(sock)
    assert answer.startswith(b"HTTP/1.1 415")
    assert b"x-pysandbox-error: contract-refused" in answer.lower()
    assert b'    [[also]]\n    host = [{ domain = "evil.com" }]' in body
    assert doors.denied() == ["evil.com"]


def test_plain_http_in_a_tunnel_is_held_against_the_host(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock:
            sock.sendall(f"GET /a HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n".encode())
            assert head(sock).startswith(b"HTTP/1.1 200")
            assert exactly(sock, 2) == b"hi"
            sock.sendall(f"GET /b HTTP/1.1\r\nHost: {ALSO_ALLOWED}:{port}\r\n\r\n".encode())
            assert head(sock).startswith(b"HTTP/1.1 403")
            assert b"Host names other.example.com" in everything(sock)
    assert [each.split()[1] for each in origin.heads] == [b"/a"]


def test_http_to_a_server_that_spoke_first_is_cut(doors: Doors) -> None:
    with server(a_banner) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ConnectionResetError):
            exactly(sock, 11)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n")
            everything(sock)
    assert doors.denied() == [ALLOWED]


# ---- HTTP requests --------------------------------------------------------------------------------------------------


def asked(doors: Doors, request: str) -> bytes:
    """All that the http door answers; the client says no more after it."""
    with connect(doors.ports["http"]) as sock:
        sock.sendall(request.encode("latin-1"))
        sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def test_an_absolute_request_reaches_the_server_in_origin_form(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port:
        answer = asked(
            doors,
            f"GET http://{ALLOWED}:{port}/path?q HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\nProxy-Connection: keep-alive\r\n"
            "Proxy-Authorization: Basic x\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 1\r\n\r\n",
        )
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"hi")
    (said,) = origin.heads
    assert said.startswith(f"GET /path?q HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n".encode())
    assert b"X-Kept" in said and b"Hop" not in said and b"Proxy" not in said


def test_each_request_on_a_connection_is_decided_by_itself(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port:
        answer = asked(
            doors,
            f"GET http://{ALLOWED}:{port}/1 HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n"
            f"GET http://{ALSO_ALLOWED}:{port}/2 HTTP/1.1\r\nHost: {ALSO_ALLOWED}:{port}\r\n\r\n"
            f"GET http://evil.com:{port}/3 HTTP/1.1\r\nHost: evil.com:{port}\r\n\r\n"
            f"GET http://{ALLOWED}:{port}/4 HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n",
        )
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"415"]
    assert [each.split()[1] for each in origin.heads] == [b"/1", b"/2"]
    assert doors.denied() == ["evil.com"]


def test_requests_that_come_byte_by_byte_are_the_same_requests(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port, connect(doors.ports["http"]) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for path, host in (("1", ALLOWED), ("2", "evil.com")):
            for byte in f"GET http://{host}:{port}/{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode():
                sock.sendall(bytes([byte]))
        said = everything(sock)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200", b"415"]
    assert [each.split()[1] for each in origin.heads] == [b"/1"]


SMUGGLING = {
    "both lengths": "POST {url} HTTP/1.1\r\nHost: {host}\r\n"
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n123456",
    "odd coding": "POST {url} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding in 1.0": "POST {url} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before colon": "GET {url} HTTP/1.1\r\nHost : {host}\r\n\r\n",
    "two hosts": "GET {url} HTTP/1.1\r\nHost: {host}\r\nHost: evil.com\r\n\r\n",
    "other host": "GET {url} HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    "other port": "GET {url} HTTP/1.1\r\nHost: example.com:1\r\n\r\n",
    "user information": "GET http://example.com@evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "origin form": "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "https in the clear": "GET https://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "port 443 in the clear": "GET http://example.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
    "host with a space": "GET {url} HTTP/1.1\r\nHost: example.com evil.com\r\n\r\n",
    "connect elsewhere": "CONNECT example.com:443 HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    "connect with a path": "CONNECT {url} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "no port": "CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "too long": "GET {url} HTTP/1.1\r\nX: " + "a" * 70_000 + "\r\n\r\n",
    "junk": "\x16\x03\x01\x02\x00\x01",
}


@pytest.mark.parametrize("request_text", SMUGGLING.values(), ids=SMUGGLING)
def test_what_has_two_readings_reaches_nobody(doors: Doors, request_text: str) -> None:
    origin = Origin()
    with server(origin) as port:
        answer = asked(doors, request_text.format(url=f"http://{ALLOWED}:{port}/", host=f"{ALLOWED}:{port}"))
    assert answer == b"" or answer.split()[1] in (b"400", b"405", b"431", b"501"), answer[:200]
    assert not origin.heads


def test_a_body_that_breaks_off_the_rules_ends_the_exchange(doors: Doors) -> None:
    gone = threading.Event()

    def swallow(client: socket.socket) -> None:
        head(client)
        try:
            everything(client)
        finally:
            gone.set()

    with server(swallow) as port, connect(doors.ports["http"]) as sock:
        sock.sendall(f"POST http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n".encode())
        sock.sendall(b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloGET")
        assert head(sock).startswith(b"HTTP/1.1 400")
        assert gone.wait(PATIENCE)


ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
    ),
    "informed": (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n"),
}


@pytest.mark.parametrize(("answer", "body"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_arrives_whole(doors: Doors, answer: bytes, body: bytes) -> None:
    with server(Origin(answer)) as port:
        said = asked(doors, f"GET http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n")
    assert said.endswith(body)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_that_ends_with_its_connection_arrives_whole(doors: Doors, version: str) -> None:
    def old(client: socket.socket) -> None:
        head(client)
        client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000)

    with server(old) as port:
        said = asked(doors, f"GET http://{ALLOWED}:{port}/ HTTP/{version}\r\nHost: {ALLOWED}:{port}\r\n\r\n")
    assert said.count(b"x" * 50_000) or said.replace(b"\r\n", b"").count(b"x") >= 100_000
    assert said.endswith(b"0\r\n\r\n" if version == "1.1" else b"x")


def test_half_an_answer_is_no_whole_one(doors: Doors) -> None:
    def half(client: socket.socket) -> None:
        head(client)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")

    with server(half) as port, connect(doors.ports["http"]) as sock:
        sock.sendall(f"GET http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            everything(sock)


def test_a_request_waits_for_100_continue_and_a_head_has_no_body(doors: Doors) -> None:
    def careful(client: socket.socket) -> None:
        head(client)
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        exactly(client, 5)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        head(client)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")
        client.recv(1)

    with server(careful) as port, connect(doors.ports["http"]) as sock:
        url = f"http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n"
        sock.sendall(f"PUT {url}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode())
        assert head(sock).startswith(b"HTTP/1.1 100")
        sock.sendall(b"hello")
        assert head(sock).startswith(b"HTTP/1.1 200")
        assert exactly(sock, 2) == b"ok"
        sock.sendall(f"HEAD {url}\r\n".encode())
        assert b"Content-Length: 999" in head(sock)
        sock.sendall(b"GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n")
        assert head(sock).startswith(b"HTTP/1.1 415")


def test_a_websocket_is_opaque_after_its_101_and_h2c_is_never_asked_for(doors: Doors) -> None:
    seen = []

    def upgraded(client: socket.socket) -> None:
        seen.append(head(client))
        if b"upgrade: websocket" not in seen[-1].lower():
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        client.sendall(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        echo(client)

    with server(upgraded) as port:
        url = f"http://{ALLOWED}:{port}/ HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n"
        with connect(doors.ports["http"]) as sock:
            sock.sendall(f"GET {url}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
            assert head(sock).startswith(b"HTTP/1.1 101")
            assert exactly(sock, 5) == b"first"
            sock.sendall(b"\x81\x05GET /")
            assert exactly(sock, 7) == b"\x81\x05GET /"
        answer = asked(
            doors, f"GET {url}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"h2c" not in seen[-1] and b"ettings" not in seen[-1]


HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
REQUIRED = b"\0\0\0\0\0\0\0\x0d"  # GOAWAY: no stream was worked on, HTTP_1_1_REQUIRED


def test_http_2_with_prior_knowledge_is_told_to_use_http_1_at_the_proxy(doors: Doors) -> None:
    with connect(doors.ports["http"]) as sock:
        sock.sendall(HTTP_2)
        answer = everything(sock)
    assert answer.startswith(bytes((0, 0, 0, 4))) and REQUIRED in answer and b"use HTTP/1.1" in answer


def test_http_2_with_prior_knowledge_is_told_to_use_http_1_by_an_allowed_server_s_door(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port:
        doors.transparent(port)
        with connect(port, SYNTHETIC) as sock:
            sock.sendall(HTTP_2)
            answer = everything(sock)
    assert answer.startswith(bytes((0, 0, 0, 4))) and REQUIRED in answer
    assert origin.heads == [] and doors.denied() == [ALLOWED]


# ---- the transparent door -------------------------------------------------------------------------------------------


def through(doors: Doors, port: int, said: bytes) -> bytes:
    """What a program that knows of no proxy gets for it."""
    doors.transparent(port)
    with connect(port, SYNTHETIC) as sock:
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def test_a_program_without_proxy_is_governed_by_name(doors: Doors) -> None:
    with server(echo) as port:
        assert through(doors, port, b"\1binary") == b"\1binary"


@pytest.mark.parametrize("host", [ALLOWED, "EXAMPLE.com.", "evil.com", ALSO_ALLOWED, "127.0.0.1", ""])
def test_its_http_names_the_host_it_connected_to(doors: Doors, host: str) -> None:
    origin = Origin()
    with server(origin) as port:
        answer = through(doors, port, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    allowed = host in (ALLOWED, "EXAMPLE.com.", "")
    assert answer.split()[1] == (b"200" if allowed else b"403")
    assert len(origin.heads) == allowed
    assert all(b"Host: example.com" in each for each in origin.heads)


def test_an_unknown_address_meets_a_reset(doors: Doors) -> None:
    doors.admission.rules = doors.admission.rules.tightened(())
    with server(echo) as port:
        doors.transparent(port)
        with pytest.raises(ConnectionResetError), connect(port, SYNTHETIC) as sock:
            everything(sock)
    assert doors.denied()


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    names = f"subjectAltName=DNS:{ALLOWED},DNS:evil.com"
    both = ["-keyout", str(folder / "both.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=x", "-addext", names]
    subprocess.run([*command, *both], check=True, capture_output=True, timeout=30)
    (folder / "both.pem").write_text((folder / "both.pem").read_text() + (folder / "cert.pem").read_text())
    return folder / "both.pem"


def speaks_tls(certificate: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as tls:
            while said := tls.recv(4096):
                tls.sendall(said)

    return answer


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.with_name("cert.pem")))


def test_tls_to_the_name_that_was_connected_is_carried(doors: Doors, certificate: Path) -> None:
    with server(speaks_tls(certificate)) as port:
        _, sock = connected(doors, ALLOWED, port)
        with trusting(certificate).wrap_socket(sock, server_hostname=ALLOWED) as tls:
            tls.sendall(b"hello")
            assert tls.recv(5) == b"hello"


@pytest.mark.parametrize("name", ["evil.com", None])
def test_tls_to_another_name_or_none_is_refused_with_an_alert(
    doors: Doors, certificate: Path, name: str | None
) -> None:
    context = trusting(certificate)
    context.check_hostname = name is not None
    with server(speaks_tls(certificate)) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            context.wrap_socket(sock, server_hostname=name)
    assert doors.denied() == [ALLOWED]


def test_a_hello_in_many_segments_is_still_read(doors: Doors, certificate: Path) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting(certificate).wrap_bio(incoming, outgoing, server_hostname="evil.com").do_handshake()
    heard: list[bytes] = []
    with server(lambda client: heard.append(client.recv(1))) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            assert everything(sock)[:1] == b"\x15"
    assert heard in ([], [b""])


# ---- words without an end -------------------------------------------------------------------------------------------

UNFINISHED = [b"ruok", b"12345", b"hello world", b"HELO me", b"PING", b"x y z", b"A"]


@pytest.mark.parametrize("words", UNFINISHED)
def test_words_that_begin_no_known_request_are_not_held_up(doors: Doors, words: bytes) -> None:
    with server(echo) as port:
        for _, sock in (socks(doors.ports["socks"], ALLOWED, port), connected(doors, ALLOWED, port)):
            with sock:
                sock.settimeout(5)
                sock.sendall(words)
                assert exactly(sock, len(words)) == words
                sock.sendall(b" and more")  # still no end of the line
                assert exactly(sock, 9) == b" and more"
                sock.sendall(b"\n" + b"z" * 100_000)
                assert exactly(sock, 100_001) == b"\n" + b"z" * 100_000


def test_words_that_may_become_a_request_are_held_for_a_moment(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.gate.tcp.first_bytes.HOLD_SECONDS", 0.1)
    with server(echo) as port:
        for words in (b"GET", b"\r\n", b"\x16", b"\xff"):
            _, sock = socks(doors.ports["socks"], ALLOWED, port)
            with sock:
                sock.settimeout(5)
                sock.sendall(words)
                assert exactly(sock, len(words)) == words


@pytest.mark.parametrize("line", [b"FROB / HTTP/1.1\r\n", b"get / HTTP/1.1\r\n"])
@pytest.mark.parametrize("at", [1, 4, 6, 12])
def test_a_request_in_pieces_never_arrives_with_its_end(doors: Doors, line: bytes, at: int) -> None:
    """Wherever it is cut: no server has read a whole first line of it."""
    heard = bytearray()
    said = line + b"Host: evil.com\r\n\r\n"
    with server(lambda client: heard.extend(_all_of(client))) as port:
        _, sock = socks(doors.ports["socks"], ALLOWED, port)
        with sock:
            sock.settimeout(5)
            sock.sendall(said[:at])
            time.sleep(0.05)
            with suppress(OSError):
                sock.sendall(said[at:])
                while sock.recv(1000):
                    pass
    assert b"\n" not in heard and b"evil" not in heard


def _all_of(client: socket.socket) -> bytes:
    said = b""
    with suppress(OSError):
        while more := client.recv(1000):
            said += more
    return said


# ---- bounds and the end ---------------------------------------------------------------------------------------------


def test_tightening_cuts_what_lost_its_grant(doors: Doors) -> None:
    with server(echo) as port:
        _, sock = socks(doors.ports["socks"], ALLOWED, port)
        with sock:
            sock.sendall(b"\0")
            assert exactly(sock, 1) == b"\0"
            assert doors.connections() == 1
            assert doors.admission.tighten(()) == 1
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        sock.close()
    assert code == 2


def test_the_end_of_a_cage_cuts_what_it_was_connected_to(doors: Doors) -> None:
    with server(a_banner) as port:
        socks_, relayed = socks(doors.ports["socks"], ALLOWED, port)
        assert socks_ == 0 and exactly(relayed, 11)
        with relayed, connect(doors.ports["http"]) as silent:
            doors.call(doors.admission.close)
            for sock in (relayed, silent):
                with pytest.raises(ConnectionResetError):
                    sock.recv(1)


def test_a_head_that_never_ends_is_hung_up_on(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.gate.http.forward.HEAD_SECONDS", 0.1)
    monkeypatch.setattr("pysandbox.gate.tcp.socks_door.HANDSHAKE_SECONDS", 0.1)
    monkeypatch.setattr("pysandbox.gate.tcp.first_bytes.WORDS_SECONDS", 0.1)
    with connect(doors.ports["http"]) as sock:
        sock.sendall(b"GET http://example.com/ HTTP/1.1\r\nHost:")
        assert head(sock).startswith(b"HTTP/1.1 408")
    with connect(doors.ports["socks"]) as sock, pytest.raises(ConnectionResetError):
        sock.sendall(b"\5")
        sock.recv(1)
    with server(echo) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ConnectionResetError):
            sock.sendall(b"\x16\x03\x01\x02")
            sock.recv(1)


@pytest.mark.parametrize("count", [300, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_junk_is_bounded_and_leaves_the_door_open(doors: Doors, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("pysandbox.gate.tcp.streams.MOST_STREAMS", 20)
    words = [b"", b"\5", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\5\1\0\5\1\0\3\0\0\0", b"\4\1"]
    with server(echo) as port:
        for number in range(count):
            with connect(doors.ports[("http", "socks")[number % 2]]) as sock:
                sock.sendall(words[number % len(words)])
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        sock.close()
        assert code == 0


def test_more_streams_than_the_bound_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.gate.tcp.streams.MOST_STREAMS", 3)
    doors = Doors(tmp_path / "hosts")
    try:
        silent = [connect(doors.ports["http"]) for _ in range(3)]
        with server(echo) as port, connect(doors.ports["http"]) as late:
            late.sendall(f"CONNECT {ALLOWED}:{port} HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n".encode())
            late.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.recv(1)
            late.settimeout(PATIENCE)
            silent.pop().close()
            assert head(late).startswith(b"HTTP/1.1 200")
        for sock in silent:
            sock.close()
    finally:
        doors.close()


# ---- a real client --------------------------------------------------------------------------------------------------

WAYS = {
    "http": ["--proxy", "http://127.0.0.1:{http}", "http://{host}:{port}/"],
    "connect": ["--proxytunnel", "--proxy", "http://127.0.0.1:{http}", "http://{host}:{port}/"],
    "socks5h": ["--proxy", "socks5h://127.0.0.1:{socks}", "http://{host}:{port}/"],
    "no proxy": ["--noproxy", "*", "--resolve", "{host}:{port}:" + SYNTHETIC, "http://{host}:{port}/"],
}


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing: apt-get install curl")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("host", [ALLOWED, "evil.com"])
def test_curl_reaches_what_is_allowed_and_nothing_else(doors: Doors, way: list[str], host: str) -> None:
    with server(Origin()) as port:
        doors.transparent(port)
        words = [each.format(host=host, port=port, **doors.ports) for each in way]
        done = subprocess.run(
            ["curl", "-sS", "--fail", *words, "-m", "20"],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=30,
        )
    assert (done.returncode == 0) == (host == ALLOWED), done.stderr
    assert done.stdout == (b"hi" if host == ALLOWED else b"")
