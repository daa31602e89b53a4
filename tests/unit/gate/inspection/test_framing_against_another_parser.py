"""Where a message ends has one reading: what is passed on is what h11 reads in the very bytes that came, in both
directions, however these are cut. What h11 would not have read must have been refused. Run with PSB_FRAMING_SEEDS=N for
more."""

from __future__ import annotations

import os
import random
from typing import Any

import h11
import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.terms import Terms

TERMS = Terms("api.example", 443, True, False, Contract(), 1 << 20)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
HOST = b"Host: api.example\r\n"
SEEDS = range(int(os.environ.get("PSB_FRAMING_SEEDS", "8")))
LINES = [
    b"GET / HTTP/1.1\r\n", b"POST /a HTTP/1.1\r\n", b"POST /a HTTP/1.0\r\n", b"PUT /b?x=1 HTTP/1.1\r\n",
    b"GET http://api.example/c HTTP/1.1\r\n", b"GET https://api.example/c HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n",
]  # fmt: skip
ANSWERS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200\r\n",
    b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 204 No\r\n", b"HTTP/1.1 304 No\r\n",
    b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 404 N\r\n",
    b"HTTP/1.1 199 X\r\n",
]  # fmt: skip
FIELDS = [
    HOST, b"host: api.example\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"content-length:  5 \r\n",
    b"Content-Length: 5, 5\r\n", b"Content-Length: +5\r\n", b"Content-Length: 0x5\r\n", b"Content-Length: 5\r\n" * 2,
    b"Content-Length : 5\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: Chunked\r\n", b"Transfer-Encoding: chunked, chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n", b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: x\r\n chunked\r\n",
    b"X: a\r\n\tb\r\n", b"X: \x00\r\n", b"X: \xff\r\n", b"X:\r\n", b"X: a\n", b"X: a\rContent-Length: 5\r\n",
    b": a\r\n",
    b"Connection: close\r\n", b"Connection: content-length\r\n", b"Expect: 100-continue\r\n", b"\xc3\xa9: x\r\n",
]  # fmt: skip
BODIES = [
    b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nT: x\r\n\r\n",
    b"5\nhello\n0\n\n", b"05\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n",
    b"6\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\nGET /z HTTP/1.1\r\n",
    b"fffffffffffffffff\r\n", b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", b"-1\r\n",
    b"helloGET / HTTP/1.1\r\n\r\n",
]  # fmt: skip
Message = tuple[bytes, bytes, bytes]


def requests_in(stream: bytes) -> list[Message]:
    """(method, target, body) of every whole request, until h11 refuses."""
    server: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    return _messages(server, stream) if stream else []


def _messages(server: Any, stream: bytes) -> list[Message]:
    found: list[Message] = []
    head, body = None, b""
    server.receive_data(stream)
    while True:
        try:
            event = server.next_event()
        except h11.RemoteProtocolError:
            return found
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            found.append((bytes(head.method), bytes(head.target), body))
            server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            server.send(h11.EndOfMessage())
            if server.our_state is not h11.DONE or server.their_state is not h11.DONE:
                return found
            server.start_next_cycle()
        else:
            return found


def answer_in(stream: bytes, *, ended: bool) -> tuple[int, bytes] | None:
    """(status, body) of a whole answer to a GET; None where h11 reads none."""
    client: Any = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "api.example")]))
    client.send(h11.EndOfMessage())
    client.receive_data(stream)
    if ended and stream:
        client.receive_data(b"")
    status, body = 0, b""
    while True:
        try:
            event = client.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return status, body
        elif not isinstance(event, h11.InformationalResponse):
            return None


def cut(chance: random.Random, stream: bytes) -> list[bytes]:
    pieces = []
    while stream:
        size = chance.choice((1, 3, 17, 400))
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


def message(chance: random.Random, first: list[bytes]) -> bytes:
    fields = [HOST] if first is LINES and chance.random() < 0.9 else []
    fields += [chance.choice(FIELDS) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    return chance.choice(first) + b"".join(fields) + b"\r\n" + chance.choice(BODIES)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_that_is_passed_on_is_the_one_that_was_sent(seed: int) -> None:
    chance = random.Random(seed)
    passed = 0
    for _ in range(150):
        stream = b"".join(message(chance, LINES) for _ in range(chance.choice((1, 1, 2, 3))))
        made, sent = Exchange(TERMS, lambda _: None), bytearray()
        for piece in cut(chance, stream):
            made.client_said(piece)
            while made.to_server:
                sent += made.to_server
                made.to_server.clear()
                if len(requests_in(bytes(sent))) > made.answered and not made.over:
                    made.server_said(OK)
        forwarded, read = requests_in(bytes(sent)), [path_alone(each) for each in requests_in(stream)]
        assert forwarded == read[: len(forwarded)], stream
        passed += len(forwarded)
    assert passed > 20  # it does not refuse all


def path_alone(read: Message) -> Message:
    """An absolute target is passed on as its path."""
    return read[0], read[1].removeprefix(b"https://api.example"), read[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_that_is_passed_on_is_the_one_that_was_sent(seed: int) -> None:
    chance = random.Random(seed)
    passed = 0
    for _ in range(150):
        stream, clean = message(chance, ANSWERS), chance.random() < 0.5
        made = Exchange(TERMS, lambda _: None)
        made.client_said(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        for piece in cut(chance, stream):
            made.server_said(piece)
        if not made.over:
            made.server_ended(clean=clean)
        if made.broken or b"x-pysandbox-error" in made.to_client:
            continue
        forwarded = answer_in(bytes(made.to_client), ended=True)
        assert forwarded is not None and forwarded == answer_in(stream, ended=True), (stream, bytes(made.to_client))
        passed += 1
    assert passed > 10
