"""One line of a list of addresses, held against ipaddress."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.policy.endpoint import (
    ANYWHERE,
    LOOPBACK,
    MAPPED,
    TCP,
    UDP,
    of_its_family,
    parse_endpoint,
    parse_list,
    special,
    without_special,
)
from pysandbox.policy.refusal import CommandRefused

NETWORKS = st.one_of(
    st.tuples(st.ip_addresses(v=4), st.integers(0, 32)), st.tuples(st.ip_addresses(v=6), st.integers(0, 128))
).map(lambda pair: ipaddress.ip_network(pair, strict=False))
ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
PORTS = st.integers(1, 65535)


def packed(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    return address.packed if address.version == 6 else MAPPED + address.packed


def written(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    return str(network) if network.version == 4 else f"[{network.network_address}]/{network.prefixlen}"


@given(NETWORKS, ADDRESSES, PORTS)
def test_a_network_holds_the_addresses_that_ipaddress_says(network, address, port) -> None:  # type: ignore[no-untyped-def]
    endpoint = parse_endpoint(written(network))
    prefix = network.prefixlen if network.version == 6 else network.prefixlen + 96
    inside = ipaddress.IPv6Address(packed(address)) in ipaddress.IPv6Network((packed(network[0]), prefix))
    assert endpoint.holds(packed(address), port, TCP) == endpoint.holds(packed(address), port, UDP) == inside


@given(NETWORKS, st.data())
def test_a_network_holds_every_address_of_its_own(network, data) -> None:  # type: ignore[no-untyped-def]
    offset = data.draw(st.integers(0, network.num_addresses - 1))
    assert parse_endpoint(written(network)).holds(packed(network[offset]), 80, TCP)


@given(ADDRESSES, PORTS, PORTS, PORTS)
def test_ports_are_inclusive(address, one, other, port) -> None:  # type: ignore[no-untyped-def]
    low, high = sorted((one, other))
    host = str(address) if address.version == 4 else f"[{address}]"
    endpoint = parse_endpoint(f"{host}:{low}-{high}/udp")
    assert endpoint.holds(packed(address), port, UDP) == (low <= port <= high)
    assert not endpoint.holds(packed(address), port, TCP)


@given(st.text(alphabet="0123456789abcdef:./[]-tcpud", max_size=40))
def test_no_text_fails_otherwise(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except CommandRefused:
        return
    assert len(endpoint.address) == 16 and 0 <= endpoint.prefix <= 128
    assert 0 <= endpoint.first_port <= endpoint.last_port <= 65535


@pytest.mark.parametrize(
    "text",
    ["", "example.com", "10.0.0.1/33", "10.0.0.1/8", "[::1]/129", "1.2.3", "01.2.3.4", "1.2.3.4:0", "1.2.3.4:70000",
     "1.2.3.4:9-8", "1.2.3.4/tcpudp", "1.2.3.4 ", "1.2.3.4\n", "[1.2.3.4", "::1:", "fe80::1%eth0", "١.2.3.4"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(CommandRefused):
        parse_endpoint(text)


def test_anywhere_holds_everything_and_loopback_itself() -> None:
    assert ANYWHERE.holds(bytes(16), 1, TCP) and ANYWHERE.holds(b"\xff" * 16, 65535, UDP)
    here = ipaddress.ip_address("127.9.9.9")
    assert any(each.holds(packed(here), 1, TCP) for each in LOOPBACK)
    assert not any(each.holds(packed(ipaddress.ip_address("128.0.0.1")), 1, TCP) for each in LOOPBACK)


WIDE = ["0.0.0.0/0", "::/0", "8.0.0.0/5:443/tcp", "160.0.0.0/3", "168.63.0.0/16", "2000::/3", "f000::/4"]
NAMED = ["10.0.0.0/8", "10.1.2.3", "169.254.169.254:80/tcp", "192.168.1.0/24", "203.0.113.0/24", "fd00::/8"]


@given(st.sampled_from(WIDE), st.integers(0, 2**128 - 1), st.booleans())
def test_a_wide_range_means_the_internet_and_nothing_special(text: str, number: int, four: bool) -> None:
    whole = parse_endpoint(text)
    address = (b"\0" * 10 + b"\xff\xff" + number.to_bytes(16, "big")[12:]) if four else number.to_bytes(16, "big")
    listed = any(each.holds(address, 443, TCP) for each in of_its_family(whole))
    expected = listed and not any(each.holds(address, 443, TCP) for each in special())
    assert any(each.holds(address, 443, TCP) for each in without_special(whole)) is expected


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1), st.integers(0, 80))
def test_what_is_written_as_ipv6_holds_no_ipv4(number: int, four: int, prefix: int) -> None:
    pieces = parse_list([f"::/{prefix}"])
    six, mapped = number.to_bytes(16, "big"), MAPPED + four.to_bytes(4, "big")
    assert not any(each.holds(mapped, 443, TCP) for each in pieces)
    holds = parse_endpoint(f"::/{prefix}").holds(six, 443, TCP) and not six.startswith(MAPPED)
    assert any(each.holds(six, 443, TCP) for each in pieces) is holds


@pytest.mark.parametrize("text", NAMED)
def test_what_is_named_as_such_is_meant(text: str) -> None:
    assert without_special(parse_endpoint(text)) == (parse_endpoint(text),)


@pytest.mark.parametrize("text", WIDE)
def test_the_edges_of_what_is_special_are_where_they_should_be(text: str) -> None:
    pieces = without_special(parse_endpoint(text))
    for each in special():
        first, size = int.from_bytes(each.address, "big"), 1 << (128 - each.prefix)
        for number in (first - 1, first, first + size - 1, first + size):
            if not 0 <= number < 1 << 128:
                continue
            address = number.to_bytes(16, "big")
            meant = any(one.holds(address, 443, TCP) for one in of_its_family(parse_endpoint(text)))
            meant = meant and not any(one.holds(address, 443, TCP) for one in special())
            assert any(piece.holds(address, 443, TCP) for piece in pieces) is meant
