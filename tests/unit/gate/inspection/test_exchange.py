"""The conversation on an inspected connection: what is passed on is one message to everybody who reads it."""

from __future__ import annotations

import random
from typing import Any

import h11
import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.terms import Terms, Told

HOST = b"Host: api.example\r\n"
GET = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
ANY = Contract()


def exchange(contract: Contract = ANY, *, proxied: bool = False, secure: bool = True, most: int = 1 << 20) -> Exchange:
    told: list[Told] = []
    made = Exchange(Terms("api.example", 443 if secure else 80, secure, proxied, contract, most), told.append)
    made.told = told  # type: ignore[attr-defined]
    return made


def said(*pieces: bytes, contract: Contract = ANY, **terms: Any) -> Exchange:
    made = exchange(contract, **terms)
    for piece in pieces:
        made.client_said(piece)
    return made


def status(made: Exchange) -> int:
    return int(made.to_client.split(b" ", 2)[1]) if made.to_client else 0


def test_a_request_and_its_answer_are_passed_on_and_the_connection_stays() -> None:
    made = said(GET)
    assert bytes(made.to_server) == GET
    made.server_said(OK)
    assert bytes(made.to_client) == OK
    assert not made.over and not made.broken
    made.to_server.clear()
    made.client_said(GET)
    assert bytes(made.to_server) == GET


def test_a_second_request_waits_for_the_first_answer() -> None:
    made = said(GET + GET.replace(b"/a", b"/b"))
    assert made.to_server.count(b"GET") == 1
    made.server_said(OK)
    assert made.to_server.count(b"GET") == 2


SMUGGLED = {
    "both lengths": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a length with a sign": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +4\r\n\r\nabcd",
    "two encodings": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n",
    "another encoding": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "gzip, chunked": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunks in 1.0": b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a bare LF": b"GET / HTTP/1.1\n" + HOST + b"\r\n",
    "a bare LF in a field": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\nC: d\r\n\r\n",
    "a bare CR": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\rC: d\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "a NUL": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\0c\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n",
    "8 bits in a name": b"GET / HTTP/1.1\r\n" + HOST + b"A\xff: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT api.example:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "Connection names the framing": b"POST / HTTP/1.1\r\n" + HOST + b"Connection: content-length\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "8 bits in the target": b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_has_two_readings_is_refused(name: str) -> None:
    made = said(SMUGGLED[name])
    assert (status(made), bytes(made.to_server), made.over) == (400, b"", True)


@pytest.mark.parametrize("host", [b"other.example", b"api.example:80", b"x@api.example", b"api.example.", b"1.2.3.4"])
def test_a_request_names_the_host_of_its_connection(host: bytes) -> None:
    made = said(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    if host == b"api.example.":  # one spelling of it: what was checked is sent
        assert b"Host: api.example\r\n" in made.to_server
    else:
        assert (status(made), bytes(made.to_server)) == (403, b"")


def test_an_absolute_target_is_this_host_s() -> None:
    assert said(b"GET https://api.example/x HTTP/1.1\r\n" + HOST + b"\r\n").to_server.startswith(b"GET /x HTTP/1.1\r\n")
    assert status(said(b"GET https://other.example/x HTTP/1.1\r\n" + HOST + b"\r\n")) == 403
    assert status(said(b"GET http://api.example/x HTTP/1.1\r\n" + HOST + b"\r\n")) == 400


CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = {
    "a size that overflows": b"10000000000000000\r\n", "a size with a sign": b"+1\r\na\r\n", "no size": b"\r\n",
    "a size with 0x": b"0x1\r\na\r\n", "more than it says": b"1\r\nab\r\n", "a bare LF": b"1\na\r\n",
    "a line without end": b"1;" + b"x" * 5000, "a trailer with a host": b"0\r\nHost: other.example\r\n\r\n",
    "a trailer with a length": b"0\r\nContent-Length: 5\r\n\r\n", "NUL in an extension": b"1;\0\r\na\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_chunks_are_read_strictly(name: str) -> None:
    made = said(CHUNKED, BAD_CHUNKS[name])
    assert made.over and status(made) == 400
    assert not made.to_server.endswith(b"0\r\n\r\n")


def test_chunks_are_written_anew_with_their_trailer() -> None:
    made = said(CHUNKED, b"3;ext=1\r\nabc\r\n2\r\nde\r\n", b"0\r\nX-Sum: 5\r\n\r\n")
    assert made.to_server.endswith(b"5\r\nabcde\r\n0\r\nX-Sum: 5\r\n\r\n")


def test_a_body_is_refused_at_the_first_byte_too_many() -> None:
    small = Contract(max_request_bytes=4)
    assert status(said(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n", contract=small)) == 413
    made = said(CHUNKED, b"4\r\nabcd\r\n", contract=small)
    assert not made.over
    made.client_said(b"1\r\ne\r\n0\r\n\r\n")
    assert made.over and status(made) == 413 and b"max_request_bytes = 8" in made.to_client
    assert not made.to_server.endswith(b"0\r\n\r\n")  # no server takes it for whole


def test_a_refusal_names_its_column_and_the_patch_as_the_client_reads_it() -> None:
    made = said(b"PUT /x HTTP/1.1\r\n" + HOST + b"Accept: application/json\r\n\r\n", contract=Contract(("GET",)))
    head, _, body = bytes(made.to_client).partition(b"\r\n\r\n")
    assert (
        b"415 " in head and b"x-pysandbox-error: contract-refused" in head and b"x-pysandbox-rule: host.methods" in head
    )
    assert b'"patch"' in body and b"PUT" in body
    assert [each.column for each in made.told] == ["methods"]  # type: ignore[attr-defined]
    assert made.over


def test_an_upgrade_to_h2c_is_taken_out() -> None:
    made = said(
        b"GET / HTTP/1.1\r\n"
        + HOST
        + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
    )
    assert bytes(made.to_server) == b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


BAD_ANSWERS = {
    "HTTP/0.9": b"hello\r\n", "an upgrade": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "a bare LF": b"HTTP/1.1 200 OK\nA: b\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "another encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a flood of 1xx": b"HTTP/1.1 103 Early\r\n\r\n" * 17,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_that_makes_no_sense_is_502(name: str) -> None:
    made = said(GET)
    made.server_said(BAD_ANSWERS[name])
    assert made.over
    assert b" 502 " in made.to_client


@pytest.mark.parametrize("head", [b"HTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n"])
def test_a_body_that_cannot_be_is_never_passed_on(head: bytes) -> None:
    made = said(GET)
    made.server_said(head + b"HTTP/1.1 200 smuggled\r\n\r\n")
    assert b"smuggled" not in made.to_client and made.over


def test_hints_at_other_ways_are_taken_out() -> None:
    made = said(GET)
    made.server_said(b'HTTP/1.1 200 OK\r\nAlt-Svc: h3=":443"\r\nContent-Length: 0\r\n\r\n')
    assert b"Alt-Svc" not in made.to_client


def test_an_answer_streams_from_its_first_byte() -> None:
    made = said(GET)
    made.server_said(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    assert b"text/event-stream" in made.to_client
    made.to_client.clear()
    made.server_said(b"data: 1\n\n")
    assert bytes(made.to_client) == b"data: 1\n\n"
    made.server_ended(clean=True)
    assert made.over and not made.broken


def test_half_an_answer_is_never_taken_for_a_whole_one() -> None:
    for head in (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", b"HTTP/1.1 200 OK\r\n\r\nhal"):
        made = said(GET)
        made.server_said(head)
        made.server_ended(clean=False)
        assert made.broken


def test_the_door_serves_one_request_on_a_connection() -> None:
    made = said(b"GET http://api.example/x HTTP/1.1\r\n" + HOST + b"\r\n", proxied=True, secure=False)
    assert made.to_server.startswith(b"GET /x HTTP/1.1")
    made.server_said(OK)
    assert made.over and b"Connection: close" in made.to_client


def test_what_waits_is_bounded() -> None:
    made = said(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100_000)
    assert not made.hears_client
    made.to_server.clear()
    assert made.hears_client
    idle = said(GET)
    for _ in range(100):
        if idle.hears_client:
            idle.client_said(b"GET /more HTTP/1.1\r\n" * 1000)
    assert not idle.hears_client


# ---- the oracle: another parser reads what is passed on as the same messages ------------------------------------

PIECES = [
    b"GET / HTTP/1.1\r\n", b"POST /a HTTP/1.1\r\n", b"get /x HTTP/1.0\r\n", HOST, b"Host: other\r\n",
    b"Host:api.example\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 05\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding:\tchunked\r\n", b"transfer-encoding: Chunked\r\n", b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",    b"X: \xff\r\n", b"X:\r\n", b" fold\r\n", b"\n", b"\r", b"\r\n", b"\r\n\r\n", b"hello",
    b"5\r\nhello\r\n", b"0\r\n\r\n",
    b"5;a=b\r\nhello\r\n", b"0\r\nT: x\r\n\r\n", b"\0", b"HTTP/1.1", b":", b" ",
]  # fmt: skip


def read_by_h11(stream: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """(method, target, body) of every whole request."""
    if not stream:
        return []  # to h11 it would be the end
    server: Any = h11.Connection(h11.SERVER)
    server.receive_data(stream)
    found, body = [], b""
    head: Any = None
    while True:
        event = server.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            if event is h11.PAUSED and server.their_state is h11.DONE:
                server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                server.send(h11.EndOfMessage())
                if server.our_state is h11.DONE and server.their_state is h11.DONE:
                    server.start_next_cycle()
                    continue
            return found
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            found.append((head.method, head.target, body))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_passed_on_is_read_alike_by_another_parser(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        stream = b"".join(chance.choice(PIECES) for _ in range(chance.randint(1, 12)))
        if chance.random() < 0.7:
            stream = b"POST /a HTTP/1.1\r\n" + HOST + stream
        made = exchange()
        at = 0
        while at < len(stream):
            size = chance.randint(1, 40)
            made.client_said(stream[at : at + size])
            at += size
        sent = bytes(made.to_server)
        for method, target, _ in read_by_h11(sent):  # raises where it is no message
            assert method.upper() in (b"GET", b"POST") and target in (b"/", b"/a", b"/x")
        assert sent.count(b" HTTP/1.1\r\nHost: api.example\r\n") <= 1
