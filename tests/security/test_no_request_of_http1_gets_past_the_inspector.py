"""Claim: inside of inspected TLS, no request in HTTP/1.1 arrives that its block does not allow, that has two readings,
or that is another host's; nor does what comes behind it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from _support.inspected import NAME, Asking, Server, ask, tls_server
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspector import InspectorProcess

ONLY = Contract(("GET", "POST"), ("/a/",), ("application/json",), 100)
HOST = b"Host: %s\r\n" % NAME.encode()
JSON = b"Content-Type: application/json\r\n"
BEHIND = b"GET /a/evil HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = b"POST /a/x HTTP/1.1\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"


def get(path: bytes = b"/a/evil", fields: bytes = HOST, method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\n" + fields + b"\r\n"


def post(fields: bytes, body: bytes = b"") -> bytes:
    return get(fields=HOST + fields, method=b"POST") + body


FRAMING = {  # where it ends has two readings
    "a length and chunks": post(JSON + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "chunks and a length": post(JSON + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"0\r\n\r\n"),
    "two encodings": post(JSON + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    "xchunked": post(JSON + b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "chunked behind a tab": post(JSON + b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    "a length with a sign": post(JSON + b"Content-Length: +4\r\n", b"1234"),
    "a list of lengths": post(JSON + b"Content-Length: 4, 4\r\n", b"1234"),
    "two lengths": post(JSON + b"Content-Length: 4\r\nContent-Length: 0\r\n", b"1234"),
    "a length in hexadecimal": post(JSON + b"Content-Length: 0x4\r\n", b"1234"),
    "a length past 2^64": post(JSON + b"Content-Length: 18446744073709551620\r\n", b"1234"),
    "Connection names the length": post(JSON + b"Content-Length: 4\r\nConnection: content-length\r\n", b"1234"),
    "bare LF": get().replace(b"\r\n", b"\n"),
    "a bare LF in a field": get(fields=HOST + b"X: a\nTransfer-Encoding: chunked\r\n"),
    "a folded line": get(fields=b"Host: a\r\n " + NAME.encode() + b"\r\n"),
    "NUL": get(fields=HOST + b"X: a\0b\r\n"),
    "a space before the colon": get(fields=HOST + b"Content-Length : 4\r\n"),
    "8 bits in a name": get(fields=HOST + b"X\xff: a\r\n"),
    "HTTP/0.9": b"GET /a/evil\r\n",
}
CHUNKS = {  # its head arrives, and nothing of what is wrong
    "a size past 2^64": b"1FFFFFFFFFFFFFFFF\r\nevil\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nevil\r\n0\r\n\r\n",
    "more than the size": b"1\r\n{evil\r\n0\r\n\r\n",
    "an extension of a megabyte": b"4;" + b"x" * (1 << 20) + b"\r\nevil\r\n0\r\n\r\n",
    "a bare LF": b"4\nevil\n0\n\n",
    "a trailer that names a host": b"1\r\n{\r\n0\r\nHost: evil.example\r\n\r\n",
    "a trailer with a length": b"1\r\n{\r\n0\r\nContent-Length: 99\r\nX: evil\r\n\r\n",
    "a byte too many": b"65\r\n" + b"{" * 97 + b"evil\r\n0\r\n\r\n",
}
HOSTS = {
    "another": get(fields=b"Host: evil.example\r\n"),
    "two": get(fields=HOST + b"Host: evil.example\r\n"),
    "two, the other way round": get(fields=b"Host: evil.example\r\n" + HOST),
    "none": get(fields=b""),
    "userinfo": get(fields=b"Host: %s@evil.example\r\n" % NAME.encode()),
    "another port": get(fields=b"Host: %s:444\r\n" % NAME.encode()),
    "below it": get(fields=b"Host: evil.%s\r\n" % NAME.encode()),
    "absolute, another": get(b"https://evil.example/a/x"),
    "absolute, userinfo": get(b"https://%s@evil.example/a/x" % NAME.encode()),
    "absolute, another port": get(b"https://%s:444/a/evil" % NAME.encode()),
    "absolute, another scheme": get(b"http://%s/a/evil" % NAME.encode()),
    "CONNECT": get(b"evil.example:443", method=b"CONNECT"),
}
CONTRACT = {
    **{f"path {path.decode()}": get(path) for path in (
        b"/evil", b"/A/evil", b"/aevil", b"/a/../evil", b"/a/%2e%2e/evil", b"/a/.%2E/evil", b"/a/..%2fevil",
        b"/a/..%5cevil", b"/a/..\\evil", b"/a/..;v=1/evil", b"/a//../../evil", b"/a/%252e%252e/evil",
        b"/a/%c0%ae%c0%ae/evil", b"/a/%00evil", b"/a/x%0d%0aevil", b"//evil/a/", b"/./evil", b"/a/%u002e%u002e/evil",
    )},
    "a fragment": get(b"/a/x#/evil"),
    "another method": get(method=b"DELETE"),
    "an unknown method": get(method=b"EVIL"),
    "a method in a field": get(fields=HOST + b"X-HTTP-Method-Override: DELETE\r\n"),
    "a method in another field": get(fields=HOST + b"x-method-override: delete\r\n"),
    "no type": post(b"Content-Length: 4\r\n", b"evil"),
    "two types": post(JSON + b"Content-Type: text/evil\r\nContent-Length: 4\r\n", b"evil"),
    "a list of types": post(b"Content-Type: application/json, text/evil\r\nContent-Length: 4\r\n", b"evil"),
    "a type with another inside": post(b"Content-Type: multipart/mixed\r\nContent-Length: 4\r\n", b"evil"),
    "a type of chunks": post(b"Content-Type: text/evil\r\nTransfer-Encoding: chunked\r\n", b"4\r\nevil\r\n0\r\n\r\n"),
    "too long": post(JSON + b"Content-Length: 101\r\n", b"evil" * 25 + b"!"),
    "too long, and waiting to be asked": post(JSON + b"Content-Length: 101\r\nExpect: 100-continue\r\n"),
}  # fmt: skip
REFUSED = {"framing": FRAMING, "chunks": {name: CHUNKED + said for name, said in CHUNKS.items()},
           "host": HOSTS, "contract": CONTRACT}  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return tls_server(tmp_path, Server)


@pytest.mark.parametrize("group", REFUSED)
def test_it_is_refused_and_nothing_arrives(
    group: str, quiet_inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    """On connections of their own, each behind a request that is answered."""
    at = Asking(quiet_inspector, ONLY, str(tmp_path / f"{NAME}.pem"))
    arrived, answered = {}, {}
    for name, said in REFUSED[group].items():
        server.heard.clear()
        with at.client(server) as tls:
            assert ask(tls, get(b"/a/control")).endswith(b"hello")
            answer = b""
            with suppress(OSError):
                tls.sendall(said + BEHIND)
                while part := tls.recv(65536):
                    answer += part
        assert server.heard.startswith(b"GET /a/control ")
        arrived[name] = b"evil" in server.heard or server.heard.count(b"HTTP/1.1") > (2 if group == "chunks" else 1)
        answered[name] = answer[9:12]
    assert not any(arrived.values()), [name for name, did in arrived.items() if did]
    assert set(answered.values()) <= {b"400", b"403", b"413", b"415", b""}, answered
    assert bool(at.refused()) == (group != "framing")


def test_the_same_words_arrive_where_they_have_one_reading(
    quiet_inspector: InspectorProcess, server: Server, tmp_path: Path
) -> None:
    """The control: a host with one column alone is sent what another server reads as its own."""
    at = Asking(quiet_inspector, Contract(("GET",)), str(tmp_path / f"{NAME}.pem"))
    for path in (b"/evil", b"/a/../evil", b"/a/%2e%2e/evil", b"https://%s/evil" % NAME.encode()):
        with at.client(server) as tls:
            assert ask(tls, get(path)).endswith(b"hello")
    assert server.heard.count(b"evil") == 4 and at.refused() == []
