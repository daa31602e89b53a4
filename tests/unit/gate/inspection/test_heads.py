"""Heads at their bounds, and the names by which a message could be read in two ways. What other parsers make of them is
held against these in test_framing_against_another_parser.py."""

from __future__ import annotations

import pytest

from pysandbox.gate.inspection.heads import (
    LONGEST_HEAD,
    MOST_FIELDS,
    BadMessage,
    Head,
    content_length,
    end_to_end,
    is_chunked,
    take_request,
    take_response,
)

LINE = b"GET / HTTP/1.1\r\n"
# Written out: each is the next hop's alone (RFC 9110, 7.6.1; RFC 9113, 8.2.2), or frames or types the message.
FOR_ONE_HOP = [
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"http2-settings",
]  # fmt: skip
FRAMES = [b"content-length", b"transfer-encoding", b"host"]
TYPES = [b"content-type", b"content-encoding"]


def head(*fields: tuple[bytes, bytes], minor: int = 1) -> Head:
    return Head((b"GET", b"/"), minor, [(name.lower(), name, value) for name, value in fields])


def of_size(size: int) -> bytearray:
    """A head of so many bytes up to the empty line."""
    return bytearray(LINE + b"a:" + b"x" * (size - len(LINE) - 4) + b"\r\n\r\n")


def test_a_head_is_so_long_and_no_longer() -> None:
    assert (LONGEST_HEAD, MOST_FIELDS) == (64 << 10, 200)
    assert take_request(of_size(LONGEST_HEAD + 2)) is not None  # with what ends its last line
    with pytest.raises(BadMessage, match="a head of more than"):
        take_request(of_size(LONGEST_HEAD + 3))
    with pytest.raises(BadMessage, match="a head of more than"):
        take_request(bytearray(LINE + b"a: " + b"x" * LONGEST_HEAD))  # one that never ends


@pytest.mark.parametrize("take", [take_request, take_response])
def test_a_head_has_so_many_fields_and_no_more(take: object) -> None:
    line = LINE if take is take_request else b"HTTP/1.1 200 OK\r\n"
    assert take(bytearray(line + b"a: b\r\n" * MOST_FIELDS + b"\r\n"))  # type: ignore[operator]
    with pytest.raises(BadMessage, match="fields"):
        take(bytearray(line + b"a: b\r\n" * (MOST_FIELDS + 1) + b"\r\n"))  # type: ignore[operator]


def test_a_head_is_taken_when_it_is_whole_and_what_is_none_is_known_by_its_first_line() -> None:
    whole = LINE + b"Host: a\r\n\r\n"
    assert [size for size in range(len(whole) + 1) if take_request(bytearray(whole[:size]))] == [len(whole)]
    for none in (b"GET / HTTP/2.0\r\n", b"\x16\x03\x01\n", b"GET / HTTP/1.1\n"):
        with pytest.raises(BadMessage, match="first line"):
            take_request(bytearray(none))
    after = bytearray(b"\r\n\r\n" + whole + b"rest")
    assert take_request(after) is not None and after == b"rest"


@pytest.mark.parametrize("name", [*FOR_ONE_HOP, b"x-named"])
def test_what_is_for_one_hop_is_not_passed_on(name: bytes) -> None:
    said = head((b"Connection", b"close, X-Named"), (name, b"x"), (b"Accept", b"y"))
    assert [each for each, _, _ in end_to_end(said)] == [b"accept"]
    assert end_to_end(said, frozenset((b"accept",))) == []


@pytest.mark.parametrize("name", FRAMES)
def test_connection_names_nothing_that_frames_the_message(name: bytes) -> None:
    with pytest.raises(BadMessage, match="frames"):
        end_to_end(head((b"Connection", b"close, " + name.upper())))


@pytest.mark.parametrize("name", [each for each in {*FOR_ONE_HOP, *FRAMES, *TYPES} if b"-" in each])
def test_what_frames_or_types_a_message_is_spelled_in_one_way(name: bytes) -> None:
    with pytest.raises(BadMessage, match="underscore"):
        take_request(bytearray(LINE + name.replace(b"-", b"_").title() + b": x\r\n\r\n"))
    assert take_request(bytearray(LINE + name + b": x\r\nx_other: y\r\n\r\n"))


@pytest.mark.parametrize(
    ("values", "length"),
    [([], None), ([b"0"], 0), ([b"12"], 12), ([b"9" * 18], 10**18 - 1), ([b"9" * 19], ...), ([b"1", b"1"], ...),
     ([b"+1"], ...), ([b"1, 1"], ...), ([b""], ...), ([b"0x1"], ...), ([b"1_0"], ...)],
)  # fmt: skip
def test_a_length_is_one_number(values: list[bytes], length: object) -> None:
    said = head(*((b"Content-Length", value) for value in values))
    if length is ...:
        with pytest.raises(BadMessage):
            content_length(said)
    else:
        assert content_length(said) == length


@pytest.mark.parametrize(
    ("values", "minor", "chunked"),
    [([], 1, False), ([b"chunked"], 1, True), ([b"Chunked"], 1, True), ([b"chunked"], 0, ...),
     ([b"gzip, chunked"], 1, ...), ([b"chunked", b"chunked"], 1, ...), ([b"identity"], 1, ...), ([b""], 1, ...)],
)  # fmt: skip
def test_the_one_encoding_of_a_transfer_is_chunked(values: list[bytes], minor: int, chunked: object) -> None:
    said = head(*((b"Transfer-Encoding", value) for value in values), minor=minor)
    if chunked is ...:
        with pytest.raises(BadMessage):
            is_chunked(said)
    else:
        assert is_chunked(said) is chunked


@pytest.mark.parametrize(
    ("said", "minor", "closes"),
    [(b"", 1, False), (b"close", 1, True), (b"Keep-Alive, CLOSE", 1, True), (b"keep-alive", 0, False), (b"", 0, True),
     (b"x-close", 1, False)],
)  # fmt: skip
def test_when_a_connection_ends_after_a_message(said: bytes, minor: int, closes: bool) -> None:
    assert head((b"Connection", said), minor=minor).closes is closes
