"""Where a refused connection was meant to go, from its first packet."""

from __future__ import annotations

import struct
from contextlib import suppress
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.tcp.refused import meant


def packet(options: bytes = b"", flags: int = 0x02) -> bytes:
    header = bytes([0x45 + len(options) // 4]) + bytes(15) + IPv4Address("198.18.0.2").packed + options
    tcp = struct.pack("!2HI4s4H", 40000, 0, 7, IPv4Address("203.0.113.9").packed, 0x5000 | flags, 1024, 0, 443)
    return header + tcp


@pytest.mark.parametrize("options", [b"", bytes(4), bytes(40)])
def test_it_is_found_behind_any_options(options: bytes) -> None:
    assert meant(packet(options)) == (IPv4Address("203.0.113.9"), 443)


@pytest.mark.parametrize("size", [0, 1, 19, 20, 39])
def test_half_a_header_says_nothing(size: int) -> None:
    with pytest.raises(struct.error):
        meant(packet()[:size])


@pytest.mark.parametrize(("flags", "heard"), [(0xC2, True), (0x12, False), (0x14, False), (0x10, False), (0x06, False)])
def test_only_a_first_packet_says_so(flags: int, heard: bool) -> None:
    """One with ECN (RFC 3168) is; an answer to somebody at that address is not."""
    assert (meant(packet(flags=flags)) is not None) is heard


@given(st.binary(max_size=80))
def test_anything_else_is_an_address_or_an_error(data: bytes) -> None:
    with suppress(struct.error):
        found = meant(data)
        assert found is None or (isinstance(found[0], IPv4Address) and 0 <= found[1] < 65536)
