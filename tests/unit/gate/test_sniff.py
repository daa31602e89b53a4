"""gate/sniff.py: what a client's first bytes are, and what becomes of them, however they are split."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.tcp.sniff import UNRECOGNIZED_NAME, Sniffer, SniffResult, Way
from pysandbox.gate.tcp.target import DialTarget
from unit.gate.hellos import ECH, GREASE, body, handshake, hello, records, server_name

NAME, ADDRESS = "example.com", "192.0.2.7"
TO_NAME, TO_OTHER = server_name(b"Example.COM"), server_name(b"evil.com")


def judged(port: int, said: bytes, host: str = NAME, *, at: int = 0) -> SniffResult | None:
    """The verdict, when the bytes come in two pieces; "allowed.com" is what the rules allow besides."""
    sniffer = Sniffer(DialTarget(host, port), lambda name, port: name == "allowed.com")
    for piece in (said[:at], said[at:]):
        if piece and (verdict := sniffer.read(piece)) is not None:
            return verdict
    return None


def way(port: int, said: bytes, host: str = NAME) -> Way | None:
    verdict = judged(port, said, host)
    return verdict and verdict.way


PASS, HTTP, REFUSE = Way.PASS, Way.HTTP, Way.REFUSE
GET = b"GET / HTTP/1.1\r\n"

CASES = [
    (443, hello(TO_NAME), NAME, PASS),
    (443, hello(GREASE, TO_NAME, ECH), NAME, PASS),
    (443, hello(TO_OTHER), NAME, REFUSE),
    (443, hello(GREASE), NAME, REFUSE),
    (443, hello(server_name(b"example.com\0")), NAME, REFUSE),
    (443, hello(server_name(b"example.com.evil.com")), NAME, REFUSE),
    (443, hello(server_name(b"3221225991")), NAME, REFUSE),
    (443, GET, NAME, REFUSE),
    (443, b"\0", NAME, REFUSE),
    (443, b"\x80\x2e\1\3", NAME, REFUSE),
    (443, hello(GREASE), ADDRESS, PASS),
    (443, hello(server_name(b"allowed.com")), ADDRESS, PASS),
    (443, hello(TO_OTHER), ADDRESS, REFUSE),
    (443, b"\0", ADDRESS, PASS),
    (80, b"G", NAME, HTTP),
    (80, b"\0", NAME, HTTP),
    (80, hello(TO_NAME), NAME, REFUSE),
    (8443, hello(TO_NAME), NAME, PASS),
    (8443, hello(TO_OTHER), NAME, REFUSE),
    (8443, records(handshake(body(TO_OTHER)), 3), NAME, REFUSE),
    (8443, records(handshake(b"", kind=2)), NAME, REFUSE),
    (8443, b"\x80\x2e\1\3\1", NAME, REFUSE),
    (8443, b"\x80\x2e\2\3\1", NAME, PASS),
    (8080, GET, NAME, HTTP),
    (8080, b"\r\n\n " + GET, NAME, HTTP),
    (8080, b"G\tx  HTTP/1.0\n", NAME, HTTP),
    (8080, b"WEIRD / HTTP/1.1\n", NAME, HTTP),
    (8080, b"get / http/1.1\r\n", NAME, HTTP),
    (8080, b"PRI * HTTP/2.0\r\n", NAME, HTTP),
    (8080, GET, ADDRESS, HTTP),
    *((8080, each + GET, NAME, HTTP) for each in (b"\x0b", b"\x0c", b"\x1c", b"\x1f", b"\x85", b"\xa0")),
    *((8080, GET.replace(b" ", each), NAME, HTTP) for each in (b"\x0b", b"\x0c", b"\r", b"\x1d", b"\x85", b"\xa0")),
    (8080, b"GET /\0 HTTP/1.1\r\n", NAME, HTTP),
    (8080, b"GET / HTTP/+1.1\r\n", NAME, HTTP),
    (8080, b"GET / HTTP/1.1\rHost: x", NAME, HTTP),
    (8080, b"GET /evil\r\nHost: evil.com\r\n", NAME, HTTP),
    (8080, b"GET\x0chttp://evil.com/\r\n", NAME, HTTP),
    (6379, b"GET key\r\n", NAME, PASS),
    (11211, b"get /key\r\n", NAME, PASS),
    (11211, b"GET /key more\r\n", NAME, PASS),
    (5000, b"A \0\0" + b"x" * 70_000, NAME, PASS),
    (5432, b"\0\0\0\x08\x04\xd2\x16\x2f", NAME, PASS),
    (6379, b"*1\r\n$4\r\nPING\r\n", NAME, PASS),
    (6379, b"PING\r\n", NAME, PASS),
    (25, b"EHLO me\r\n", NAME, PASS),
    (22, b"SSH-2.0-x\r\n", NAME, PASS),
    (9418, b"0032git-upload-pack /x\0host=y\x000032want x\n", NAME, PASS),
    (3306, b"\x55\0\0\1", NAME, PASS),
    (554, b"OPTIONS rtsp://x RTSP/1.0\r\n", NAME, PASS),
    (8080, b"x" * 65, NAME, PASS),
    (8080, b"GET " + b"x" * 70_000, NAME, REFUSE),
]  # fmt: skip


@pytest.mark.parametrize(("port", "said", "host", "expected"), CASES)
def test_what_is_said_is_held_against_where_it_goes(port: int, said: bytes, host: str, expected: Way) -> None:
    assert way(port, said, host) is expected


@pytest.mark.parametrize(("port", "said", "host", "expected"), [case for case in CASES if len(case[1]) < 300])
def test_it_does_not_matter_how_it_is_split(port: int, said: bytes, host: str, expected: Way) -> None:
    for at in range(1, len(said)):
        verdict = judged(port, said, host, at=at)
        assert verdict is not None and verdict.way is expected, at


@pytest.mark.parametrize("said", [b"\x16", b"\x16\3\1", b"GE", b"GET", b"GET ", b"\r\n", b"\x80", hello(TO_OTHER)[:-1]])
def test_what_could_become_either_is_waited_for(said: bytes) -> None:
    assert judged(8080, said) is None


@pytest.mark.parametrize(
    ("port", "said", "expected"),
    [(443, b"", PASS), (443, hello(TO_NAME)[:-1], REFUSE), (8080, b"GE", PASS), (8080, b"\x16\3\1", REFUSE)],
)
def test_an_end_in_between_says_what_it_was(port: int, said: bytes, expected: Way) -> None:
    sniffer = Sniffer(DialTarget(NAME, port), lambda name, port: False)
    if said:
        assert sniffer.read(said) is None
    assert sniffer.end().way is expected


def test_a_wrong_name_is_told_so_in_tls() -> None:
    verdict = judged(8443, hello(TO_OTHER))
    assert verdict is not None and verdict.answer == UNRECOGNIZED_NAME and "evil.com" in verdict.why


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20), st.sampled_from([25, 80, 443, 8080]))
def test_nothing_that_is_said_is_lost(pieces: list[bytes], port: int) -> None:
    sniffer, heard = Sniffer(DialTarget(NAME, port), lambda name, port: False), b""
    for piece in pieces:
        heard += piece
        verdict = sniffer.read(piece)
        assert bytes(sniffer.said) == heard
        if verdict is not None:
            break
    with suppress(IndexError):
        sniffer.end()


@given(st.integers(0, 3), st.integers(1, 9), st.sampled_from([b"\r\n", b"\n"]))
def test_no_split_of_a_request_hides_it(blank: int, size: int, end: bytes) -> None:
    said = end * blank + b"GET /path HTTP/1.1" + end
    sniffer, verdict = Sniffer(DialTarget(NAME, 8080), lambda name, port: False), None
    for start in range(0, len(said), size):
        verdict = sniffer.read(said[start : start + size])
        if verdict is not None:
            break
    assert verdict is not None and verdict.way is Way.HTTP
