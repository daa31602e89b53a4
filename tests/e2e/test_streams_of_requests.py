"""HTTP through the doors, over loopback: each request has one reading and one decision; its answer arrives whole."""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import suppress

import pytest

from _support.doors import ALLOWED, ALSO_ALLOWED, SYNTHETIC, Doors, server
from _support.sockets import PATIENCE, everything, exactly
from _support.streams import Origin, connect, connected, echo, head, socks

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
