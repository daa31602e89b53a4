"""gate/tcp/second_hello.py: whether a server asks for another hello, and whether that names what the first one has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.tcp.second_hello import LONGEST_SKIPPED, RETRY, AnswerReader, SecondHello
from pysandbox.gate.tcp.sni import NotTls
from unit.gate.hellos import alpn, handshake, hello, records, server_name, vector

CHANGE = b"\x14\3\3\0\1\1"
EARLY = b"\x17\3\3" + vector(2, b"e" * 1000)
SAME, OTHER = hello(server_name(b"a.example"), alpn(b"h2")), hello(server_name(b"b.example"))
AGAIN = handshake(b"\3\3" + RETRY + b"\0\x13\1\0\0\0", 2)
USUAL = handshake(b"\3\3" + b"r" * 32 + b"\0\x13\1\0\0\0", 2)


def asks_again(*pieces: bytes) -> bool | None:
    reader, found = AnswerReader(), None
    for piece in pieces:
        if found is None:
            found = reader.asks_again(piece)
    return found


@pytest.mark.parametrize("size", [3, 20, 16384])
def test_a_retry_is_told_from_every_other_answer(size: int) -> None:
    for said, expected in ((AGAIN, True), (USUAL, False)):
        whole = records(said, size)
        assert asks_again(whole) is asks_again(*(bytes([each]) for each in whole)) is expected


@pytest.mark.parametrize(
    "said", [b"\x15\3\3\0\2\2\x28", b"HTTP/1.1 400 Bad Request\r\n\r\n", records(handshake(b"", 0))]
)
def test_what_is_no_answer_to_a_hello_asks_for_nothing(said: bytes) -> None:
    assert asks_again(said) is False


def test_part_of_an_answer_tells_nothing() -> None:
    assert asks_again(records(AGAIN)[:-1]) is None is asks_again(b"") is asks_again(b"\x16")


@pytest.mark.parametrize("before", [b"", CHANGE, CHANGE + EARLY * 3], ids=len)
def test_the_same_name_is_taken_and_another_is_not(before: bytes) -> None:
    second = SecondHello(b"a.example")
    assert second.read(before + SAME) and second.said == before + SAME
    with pytest.raises(NotTls, match=r"a second hello names b\.example, after a\.example was let through"):
        SecondHello(b"a.example").read(before + OTHER)
    with pytest.raises(NotTls, match="a second hello names nothing"):
        SecondHello(b"a.example").read(before + hello(alpn(b"h2")))


@given(st.lists(st.integers(1, 60)))
def test_it_may_come_in_any_pieces(sizes: list[int]) -> None:
    second, rest, whole = SecondHello(b"a.example"), CHANGE + SAME, False
    for size in [*sizes, 9999]:
        assert not (whole and rest)
        whole = second.read(rest[:size]) or whole
        rest = rest[size:]
    assert whole and second.said == CHANGE + SAME


@pytest.mark.parametrize("said", [b"\x15\3\3\0\2\2\x28", records(handshake(b"x" * 40, 16)), b"\x16\3\1\0\0"])
def test_anything_else_is_refused(said: bytes) -> None:
    with pytest.raises(NotTls):
        SecondHello(b"a.example").read(said)


def test_what_is_skipped_before_it_has_an_end() -> None:
    second = SecondHello(b"a.example")
    with pytest.raises(NotTls, match="no second hello came"):
        for _ in range(LONGEST_SKIPPED // len(EARLY) + 2):
            second.read(EARLY)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(said: bytes) -> None:
    AnswerReader().asks_again(said)
    try:
        SecondHello(b"a.example").read(said)
    except NotTls:
        pass
