"""gate/socks.py: requests as RFC 1928 has them, and nothing else."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.tcp.socks import Request, SocksRefused, read_greeting, read_request, reply
from pysandbox.policy.names import canonical


def request(kind: int, address: bytes, port: int = 443, command: int = 1) -> bytes:
    return bytes((5, command, 0, kind)) + address + port.to_bytes(2, "big")


def named(name: bytes, command: int = 1) -> bytes:
    return request(3, bytes([len(name)]) + name, command=command)


def test_the_three_kinds_of_address() -> None:
    assert read_request(named(b"Example.COM.") + b"more") == Request("example.com", 443, 19)
    assert read_request(request(1, b"\x7f\0\0\1", 80)) == Request(IPv4Address("127.0.0.1"), 80, 10)
    assert read_request(request(4, bytes(15) + b"\1")) == Request(IPv6Address("::1"), 443, 22)


@pytest.mark.parametrize("spelled", [b"2130706433", b"0x7f.1", b"0177.0.0.1", b"127.1", b"127.0.0.1."])
def test_an_address_is_one_however_it_is_spelled(spelled: bytes) -> None:
    found = read_request(named(spelled))
    assert found is not None and found.host == IPv4Address("127.0.0.1")


def test_an_address_of_version_4_in_one_of_version_6_is_one_of_version_4() -> None:
    found = read_request(request(4, IPv6Address("::ffff:169.254.169.254").packed))
    assert found is not None and found.host == IPv4Address("169.254.169.254")


@pytest.mark.parametrize(
    "name", [b"", b"example.com\0.evil.com", b"a b", b"user@example.com", b"[::1", b"a..b", b"\xff", b"a" * 255, b"*.x"]
)
def test_a_name_with_two_readings_is_not_allowed(name: bytes) -> None:
    with pytest.raises(SocksRefused) as refused:
        read_request(named(name))
    assert refused.value.answer == reply(2)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (named(b"example.com", command=2), reply(7)), (named(b"example.com", command=3), reply(7)),
        (request(2, b""), reply(8)), (b"\4\1\0\x50\x7f\0\0\1", b""),
    ],
)  # fmt: skip
def test_what_is_not_connect_is_refused_as_the_rfc_says(said: bytes, answer: bytes) -> None:
    with pytest.raises(SocksRefused) as refused:
        read_request(said)
    assert refused.value.answer == answer


def test_a_greeting_needs_the_method_without_authentication() -> None:
    greeting = read_greeting(b"\5\2\2\0")
    assert greeting is not None and greeting.size == 4
    for said, answer in ((b"\5\1\2", b"\5\xff"), (b"\5\0", b"\5\xff"), (b"\4", b""), (b"GET", b"")):
        with pytest.raises(SocksRefused) as refused:
            read_greeting(said)
        assert refused.value.answer == answer


@given(st.binary(max_size=300))
def test_any_bytes_are_read_refused_or_waited_for(said: bytes) -> None:
    try:
        found = read_request(b"\5" + said)
    except SocksRefused:
        return
    if found is not None:
        assert canonical(str(found.host)) == found.host
        assert found.size <= 1 + len(said)


@pytest.mark.parametrize("said", [named(b"example.com"), request(1, bytes(4)), request(4, bytes(16))])
def test_a_request_is_waited_for_up_to_its_last_byte(said: bytes) -> None:
    assert [read_request(said[:end]) for end in range(len(said))] == [None] * len(said)
    assert read_request(said) is not None


@pytest.mark.parametrize("said", [named(b"example.com"), request(1, b"\x7f\0\0\1"), request(4, bytes(15) + b"\1")])
def test_what_comes_in_pieces_is_judged_when_it_is_whole(said: bytes) -> None:
    assert [size for size in range(len(said) + 1) if read_request(said[:size]) is not None] == [len(said)]


@pytest.mark.parametrize("methods", [b"\0", b"\1\0", b"\1\2\3\0"])
def test_a_greeting_is_judged_when_all_its_methods_are_there(methods: bytes) -> None:
    said = bytes((5, len(methods))) + methods
    assert [size for size in range(len(said) + 1) if read_greeting(said[:size]) is not None] == [len(said)]
