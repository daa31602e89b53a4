"""A body of a told length, of which nothing is to be looked at, is handed on without a copy: no byte more or less."""

from __future__ import annotations

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.bodies import OfLength
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.terms import Terms

HEAD = b"POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def exchange(most: int = 1 << 20) -> Exchange:
    return Exchange(Terms("api.example", 443, True, False, Contract(max_request_bytes=most), 1 << 26), lambda _: None)


def test_only_what_is_content_to_the_last_byte_passes_so() -> None:
    body = OfLength(5)
    assert not body.passes(0) and not body.passes(6) and body.size == 0
    assert body.passes(2) and (body.size, body.done) == (2, False)
    assert not body.passes(4) and body.passes(3) and (body.size, body.done) == (5, True)


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.parametrize("cut", [1, 2, 9, 10])
def test_nothing_of_the_next_request_is_taken_for_the_body(cut: int, drained: bool) -> None:
    """The request after it is judged by itself, in whatever pieces both come."""
    said, one = HEAD % 10 + b"0123456789" + HEAD % 2 + b"ab", exchange()
    at, sent = len(HEAD % 10), b""
    for piece in (said[:at], said[at : at + cut], said[at + cut :]):
        one.client_said(piece)
        if drained:
            sent += bytes(one.to_server)
            one.to_server.clear()
    one.server_said(ANSWER % 0)
    sent += bytes(one.to_server)
    assert sent.count(b"POST /a HTTP/1.1") == 2 and sent.endswith(b"\r\n\r\nab") and b"0123456789POST" in sent


def test_what_is_too_large_is_not_sent_to_its_end() -> None:
    one = exchange(most=4)
    one.client_said(HEAD % 5 + b"01234")
    assert b"413" in one.to_client and not one.to_server


@pytest.mark.parametrize("drained", [True, False])
def test_an_answer_that_is_longer_than_it_says_ends_the_connection(drained: bool) -> None:
    one = exchange()
    one.client_said(b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n")
    one.server_said(ANSWER % 4)
    told = bytes(one.to_client)
    if drained:
        one.to_client.clear()
    one.server_said(b"ab")
    one.server_said(b"cdHTTP/1.1 200 OK\r\n\r\n")
    assert one.over and (b"" if drained else told) + b"abcd" == bytes(one.to_client)
