"""Claim: on a connection that was opened for one name, no server reads a request for another, however lenient it is.

What has arrived comes back from an echo at a port that is for no protocol, and is read by Python's own server, which
splits a line at any white space, minds no NUL, and reads headers after a request of HTTP/0.9.
"""

from __future__ import annotations

import http.server
import io
from typing import Any

import pytest

from _support.internet import Host, Internet, places

from .network import attack, control

LISTED, OTHER = "origin.example", "denied.example"
HOST = b"\r\nHost: denied.example\r\n\r\n"
SMUGGLED = {
    "a form feed before it": b"\x0cGET / HTTP/1.1" + HOST,
    "a separator before it": b"\x1fGET / HTTP/1.1" + HOST,
    "a next line before it": b"\x85GET / HTTP/1.1" + HOST,
    "vertical tabs": b"GET\x0b/\x0bHTTP/1.1" + HOST,
    "no-break spaces": b"\xa0GET\xa0/\xa0HTTP/1.1" + HOST,
    "carriage returns": b"GET\r/\rHTTP/1.1" + HOST,
    "a NUL in it": b"GET /\0 HTTP/1.1" + HOST,
    "HTTP/0.9": b"GET /" + HOST,
    "HTTP/0.9, absolute": b"GET\x0chttp://denied.example/ " + HOST,
    "a method of its own": b"ODD\x0c/\0\x0cHTTP/1.1" + HOST,
    "plain": b"GET / HTTP/1.1" + HOST,
}
SAYS = """
    import time

    def arrives(data, size):
        s = socket.create_connection((LISTED, ECHO), PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(1.5)
        got = b""
        try:
            for at in range(0, len(data), size):
                s.sendall(data[at:at + size])
                if size < len(data):
                    time.sleep(0.02)
            while len(got) < len(data) and (part := s.recv(65536)):
                got += part
        except OSError:
            pass
        return got.hex()

    for name, data in SMUGGLED.items():
        says(name + ", at once", arrives, data, len(data))
        says(name + ", in pieces", arrives, data, 5)
"""
NAMES = {"LISTED": LISTED, "ECHO": places.ECHO}


class Reads(http.server.BaseHTTPRequestHandler):
    def __init__(self, arrived: bytes) -> None:
        self.rfile, self.wfile = io.BytesIO(arrived), io.BytesIO()
        self.client_address = ("", 0)
        self.raw_requestline = self.rfile.readline(65537)
        self.host = str(self.headers.get("Host")) if self.parse_request() else ""

    def log_message(self, *_: Any) -> None:
        pass


def read_by_a_server(values: dict[str, Any]) -> set[str]:
    return {name for name, arrived in values.items() if Reads(bytes.fromhex(arrived)).host == OTHER}


def test_uncaged_the_server_reads_each_of_them(net_host: Host, net: Internet) -> None:
    said = control(net_host, SAYS, names={**NAMES, "SMUGGLED": SMUGGLED})

    assert {name.rpartition(",")[0] for name in read_by_a_server(dict(said.values))} == set(SMUGGLED)


@pytest.mark.slow
def test_no_request_for_another_name_arrives(net_host: Host, net: Internet) -> None:
    said = attack(net_host, SAYS, names={**NAMES, "SMUGGLED": SMUGGLED}, hosts=(LISTED,), timeout=120)

    assert len(said.values) == 2 * len(SMUGGLED)
    assert read_by_a_server(dict(said.values)) == set()
    assert said.answer.refused() >= {LISTED}


def test_other_words_arrive_whole(net_host: Host, net: Internet) -> None:
    words = {"redis": b"GET key\r\n", "memcached": b"get /key\r\n", "git": b"0032git-upload-pack /x\0host=y\0"}
    said = attack(net_host, SAYS, names={**NAMES, "SMUGGLED": words}, hosts=(LISTED,))

    assert {bytes.fromhex(arrived) for arrived in said.values.values()} == set(words.values())
