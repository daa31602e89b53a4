"""Where a datagram was sent, from its headers."""

from __future__ import annotations

import struct
from contextlib import suppress
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.udp.lost import answers, destination


def packet(options: bytes = b"") -> bytes:
    header = bytes([0x45 + len(options) // 4]) + bytes(15) + IPv4Address("203.0.113.9").packed + options
    return header + struct.pack("!4H", 40000, 123, 8, 0)


@pytest.mark.parametrize("options", [b"", bytes(4), bytes(40)])
def test_it_is_found_behind_any_options(options: bytes) -> None:
    assert destination(packet(options)) == (IPv4Address("203.0.113.9"), 123)


@pytest.mark.parametrize("size", [0, 1, 19, 20, 23])
def test_half_a_header_says_nothing(size: int) -> None:
    with pytest.raises(struct.error):
        destination(packet()[:size])


@given(st.binary(max_size=80))
def test_anything_else_is_an_address_or_an_error(data: bytes) -> None:
    with suppress(struct.error):
        address, port = destination(data)
        assert isinstance(address, IPv4Address) and 0 <= port < 65536


@pytest.mark.parametrize(("port", "expected"), [(53, True), (54, False)])
def test_the_answer_to_a_question_is_no_refusal(port: int, expected: bool) -> None:
    """It goes back to whoever asked, at the very address that was asked."""

    class Nobody:
        outbound = None

    assert answers(Nobody(), IPv4Address("203.0.113.9"), port) is expected  # type: ignore[arg-type]
