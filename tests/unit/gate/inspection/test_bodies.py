"""A chunked body, line by line: what is one, what is none, and how far anybody waits for its end. What other parsers
make of it is held against this in test_framing_against_another_parser.py."""

from __future__ import annotations

import pytest

from pysandbox.gate.inspection.bodies import LONGEST_LINE, LONGEST_TRAILER, Chunked, OfLength, UntilEnd
from pysandbox.gate.inspection.heads import FRAMING, BadMessage

BODY = b"5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"


def read(said: bytes, body: Chunked | None = None) -> tuple[bytes, bool, bytes]:
    """What is passed on, whether that was all of it, what is left."""
    body, buffer = body or Chunked(), bytearray(said)
    return body.take(buffer), body.done, bytes(buffer)


def test_chunks_are_written_anew_without_extensions() -> None:
    assert read(BODY + b"GET /") == (b"6\r\nhello!\r\n0\r\nX-Trailer: 1\r\n\r\n", True, b"GET /")
    assert read(BODY + BODY)[1:] == (True, BODY) and read(BODY + b"\r\n")[1:] == (True, b"\r\n")
    assert read(b"0\r\n\r\n") == (b"0\r\n\r\n", True, b"")
    assert read(BODY, Chunked(bare=True)) == (b"hello!", True, b"")
    assert read(b"A\r\n0123456789\r\n00\r\n\r\n") == (b"a\r\n0123456789\r\n0\r\n\r\n", True, b"")


@pytest.mark.parametrize("at", range(1, len(BODY)))
def test_it_may_come_in_any_two_pieces(at: int) -> None:
    body, buffer = Chunked(bare=True), bytearray(BODY[:at])
    first = body.take(buffer)
    assert not body.done and not body.end()
    buffer += BODY[at:]
    assert (first + body.take(buffer), body.done, body.end(), body.size) == (b"hello!", True, True, 6)


@pytest.mark.parametrize("said", [
    b"x\r\n", b"-1\r\n", b"0x5\r\n", b" 5\r\n", b"5 \r\n", b"5\n", b"\r\n", b"+5\r\n", b"5_0\r\n", b"1" * 16 + b"\r\n",
    b"5;a\nb\r\n", b"5;\0\r\n",
    b"1\r\nab\r\n", b"1\r\na\n", b"1\r\na\r5", b"1\r\na0\r\n\r\n",
    *(b"0\r\n" + name + b": 1\r\n\r\n" for name in sorted(FRAMING)),
    b"0\r\nContent_Length: 1\r\n\r\n", b"0\r\nTRANSFER-ENCODING: chunked\r\n\r\n", b"0\r\nno field\r\n\r\n",
    b"0\r\n folded: 1\r\n\r\n",
])  # fmt: skip
def test_what_is_no_chunk_or_would_frame_the_message_is_refused(said: bytes) -> None:
    with pytest.raises(BadMessage):
        read(said)


def test_nobody_waits_for_a_line_or_a_trailer_that_never_ends() -> None:
    assert (LONGEST_LINE, LONGEST_TRAILER) == (4096, 16384)
    longest = b"0;" + b"x" * (LONGEST_LINE - 4) + b"\r\n"
    assert read(longest + b"\r\n")[1] and read(longest[:-1])[:2] == (b"", False)
    with pytest.raises(BadMessage, match="size is too long"):
        read(b"0;" + b"x" * LONGEST_LINE)
    fields = b"x: " + b"y" * (LONGEST_TRAILER - 7) + b"\r\n\r\n"
    assert len(fields) == LONGEST_TRAILER and read(b"0\r\n" + fields)[1]
    assert read(b"0\r\n" + fields[:-1])[:2] == (b"", False)
    with pytest.raises(BadMessage, match="trailer that is too long"):
        read(b"0\r\n" + b"x: " + b"y" * LONGEST_TRAILER)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_body_of_a_length_takes_so_much_and_no_more(length: int) -> None:
    body, buffer = OfLength(length), bytearray(b"hello, and more")
    assert body.done is body.end() is (length == 0)
    assert body.take(buffer) == b"hello"[:length] and body.done and body.end() and body.size == length
    assert body.take(buffer) == b"" and bytes(buffer) == b"hello, and more"[length:]


def test_what_passes_as_it_is_is_content_to_the_last_byte() -> None:
    body = OfLength(5)
    assert not body.passes(6) and not body.passes(0) and body.passes(2) and not body.done
    assert not body.passes(4) and body.passes(3) and body.done and body.size == 5 and not body.passes(1)


def test_a_body_without_a_length_is_whole_when_its_connection_ends() -> None:
    body, buffer = UntilEnd(), bytearray(b"hello")
    assert body.take(buffer) == b"hello" and not body.done and not buffer
    assert body.end() and body.done and body.size == 5
