"""gate/sni.py: one name out of a hello, in whatever pieces it comes; nothing out of anything odd."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.tcp.sni import LONGEST_HELLO, MOST_RECORDS, ClientHello, HelloReader, NotTls
from unit.gate.hellos import ECH, GREASE, alpn, body, extension, handshake, hello, records, server_name, vector

WHOLE = hello(GREASE, server_name(b"example.com"), alpn(b"h2", b"http/1.1"))


def read(*pieces: bytes) -> ClientHello | None:
    reader, found = HelloReader(), None
    for piece in pieces:
        assert found is None
        found = reader.feed(piece)
    return found


def test_name_and_protocols_are_read() -> None:
    assert read(WHOLE) == ClientHello(b"example.com", (b"h2", b"http/1.1"))
    assert read(hello(server_name(b"outer.example"), ECH)) == ClientHello(b"outer.example", ())
    assert read(hello(GREASE)) == ClientHello(None, ())
    assert read(hello()) == ClientHello(None, ())


def test_the_hello_of_a_real_library_is_read() -> None:
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="example.com").do_handshake()
    assert read(said.read()) == ClientHello(b"example.com", (b"h2",))


@pytest.mark.parametrize("at", range(1, len(WHOLE)))
def test_it_may_be_split_anywhere(at: int) -> None:
    assert read(WHOLE[:at], WHOLE[at:]) == read(WHOLE)


@given(st.integers(1, 200))
def test_it_may_come_in_many_records(size: int) -> None:
    message = handshake(body(server_name(b"example.com")))
    if len(message) / size > 200:
        size = 8
    found = read(*(bytes([byte]) for byte in records(message, size)))
    assert found is not None and found.name == b"example.com"


def test_it_may_be_so_large_and_in_so_many_records_and_no_more() -> None:
    """What is kept of a hello that never ends is bounded."""
    assert (LONGEST_HELLO, MOST_RECORDS) == (1 << 16, 256)
    message = handshake(body(server_name(b"example.com")) + b"x" * 300)
    reader = HelloReader()
    assert all(reader.feed(b"\x16\3\1\0\1" + bytes([each])) is None for each in message[:MOST_RECORDS])
    with pytest.raises(NotTls, match="in more than"):
        reader.feed(b"\x16\3\1\0\1" + bytes([message[MOST_RECORDS]]))
    claims = b"\x16\3\1\0\4\1" + LONGEST_HELLO.to_bytes(3, "big")
    assert HelloReader().feed(claims) is None
    with pytest.raises(NotTls, match="a ClientHello of"):
        HelloReader().feed(b"\x16\3\1\0\4\1" + (LONGEST_HELLO + 1).to_bytes(3, "big"))


def test_what_follows_the_extensions_is_none() -> None:
    with pytest.raises(NotTls, match="after the extensions"):
        HelloReader().feed(records(handshake(body(server_name(b"a")) + b"x")))


ODD = {
    "two names": hello(server_name(b"example.com", b"evil.com")),
    "the extension twice": hello(server_name(b"example.com"), server_name(b"evil.com")),
    "another extension twice": hello(server_name(b"example.com"), alpn(b"h2"), alpn(b"h2")),
    "an empty list": hello(extension(0, vector(2, b""))),
    "an empty name": hello(extension(0, vector(2, b"\0\0\0"))),
    "an empty extension": hello(extension(0, b"")),
    "another kind of name": hello(extension(0, vector(2, b"\1" + vector(2, b"example.com")))),
    "bytes behind the list": hello(extension(0, vector(2, b"\0" + vector(2, b"a")) + b"x")),
    "bytes behind the extensions": records(handshake(body(server_name(b"a")) + b"x")),
    "a length past the end": records(handshake(body(server_name(b"a"))[:-1])),
    "a session of 33 bytes": records(handshake(body(server_name(b"a"), session=b"s" * 33))),
    "half a suite": records(handshake(body(server_name(b"a"), suites=b"\x13"))),
    "no suites": records(handshake(body(server_name(b"a"), suites=b""))),
    "another message": records(handshake(b"", kind=2)),
    "a message behind it": records(handshake(body(server_name(b"a"))) + b"\x0b"),
    "an alert": b"\x15\3\1\0\2\2\x28",
    "an alert in between": WHOLE[:5] + b"",
    "an empty record": b"\x16\3\1\0\0",
    "a record too long": b"\x16\3\1\x40\x01",
    "a hello too long": records(b"\1" + (LONGEST_HELLO + 1).to_bytes(3, "big")),
    "SSL 2": b"\x80\x2e\1\3\1",
    "SSL 3 in version 2": b"\x16\2\0",
}
del ODD["an alert in between"]


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
def test_what_is_odd_is_refused(said: bytes) -> None:
    with pytest.raises(NotTls):
        read(said)


def test_too_many_records_are_refused() -> None:
    with pytest.raises(NotTls, match="records"):
        read(records(handshake(body(extension(21, bytes(1000)))), 1))


@given(st.binary(max_size=200), st.integers(0, len(WHOLE)), st.integers(0, 20))
def test_whatever_is_damaged_is_refused_or_read_and_nothing_else(noise: bytes, at: int, cut: int) -> None:
    with suppress(NotTls):
        found = read(WHOLE[:at] + noise + WHOLE[at + cut :])
        assert found is None or isinstance(found, ClientHello)
