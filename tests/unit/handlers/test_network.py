"""The rules on addresses, in Python and in C: one answer."""

from __future__ import annotations

import socket
import struct
from errno import EPERM

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysandbox._native import lib

from _support.network_rules import in_c_half
from pysandbox.handlers.address import AF_INET, AF_INET6, AF_UNSPEC
from pysandbox.handlers.call import Call
from pysandbox.handlers.decide import decide
from pysandbox.handlers.network import reach_of
from pysandbox.handlers.network_rules import NetworkRules, both
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Errno, OnBehalf
from pysandbox.policy.endpoint import ANYWHERE, MAPPED, Endpoint

# Few bytes, so that addresses and networks meet.
BYTES = st.sampled_from([0, 1, 10, 127, 128, 192, 254, 255])
FOUR = st.lists(BYTES, min_size=4, max_size=4).map(bytes)
SIX = st.one_of(st.lists(BYTES, min_size=16, max_size=16).map(bytes), FOUR.map(lambda four: MAPPED + four))
PORTS = st.sampled_from([0, 1, 80, 443, 1024, 65535])


@st.composite
def endpoints(draw: st.DrawFn) -> Endpoint:
    prefix = draw(st.sampled_from([0, 1, 7, 8, 96, 97, 104, 120, 127, 128]))
    kept = int.from_bytes(draw(SIX), "big") >> (128 - prefix) << (128 - prefix)
    low, high = sorted((draw(PORTS), draw(PORTS)))
    return Endpoint(kept.to_bytes(16, "big"), prefix, low, high, draw(st.integers(1, 3)))


LISTS = st.lists(endpoints(), max_size=4).map(tuple)
EVERYWHERE = NetworkRules((ANYWHERE,))


@st.composite
def addresses(draw: st.DrawFn) -> bytes:
    port = struct.pack("!H", draw(PORTS))
    whole = draw(
        st.sampled_from(
            [
                struct.pack("=H", AF_INET) + port + draw(FOUR) + bytes(8),
                struct.pack("=H", AF_INET6) + port + bytes(4) + draw(SIX) + bytes(4),
                struct.pack("=H", AF_UNSPEC) + bytes(14),
                struct.pack("=H", draw(st.integers(0, 50))) + draw(st.binary(max_size=126)),
            ]
        )
    )
    return whole[: draw(st.sampled_from([0, 1, 2, 8, 15, 16, 23, 24, 27, 28, 127, 128]))]


def settled(raw: bytes) -> bytes:
    """As the C half writes it before anybody judges it: "any" is loopback for a destination."""
    if raw[:2] == struct.pack("=H", AF_INET) and len(raw) >= 16 and raw[4:8] == bytes(4):
        return raw[:4] + b"\x7f\0\0\x01" + raw[8:]
    if raw[:2] == struct.pack("=H", AF_INET6) and len(raw) >= 28:
        if raw[8:24] == bytes(16):
            return raw[:8] + bytes(15) + b"\x01" + raw[24:]
        if raw[8:24] == MAPPED + bytes(4):
            return raw[:20] + b"\x7f\0\0\x01" + raw[24:]
    return raw


@settings(max_examples=500, deadline=None)
@given(LISTS, addresses(), st.sampled_from([0, 6, 17]))
def test_c_and_python_say_the_same(listed: tuple[Endpoint, ...], raw: bytes, protocol: int) -> None:
    rules = NetworkRules(listed)
    in_c = in_c_half(rules, raw, protocol) if raw else 0
    call = Call("CONNECT", "connect", 1, protocol=protocol, address=settled(raw))
    assert (decide(call, CallRules(rules)) == OnBehalf()) == bool(in_c)


@given(LISTS, LISTS, SIX, PORTS, st.sampled_from([1, 2]))
def test_what_both_lists_hold_is_what_their_meet_holds(
    one: tuple[Endpoint, ...], other: tuple[Endpoint, ...], address: bytes, port: int, protocol: int
) -> None:
    def holds(listed: tuple[Endpoint, ...]) -> bool:
        return any(each.holds(address, port, protocol) for each in listed)

    assert holds(both(one, other)) == holds(both(other, one)) == (holds(one) and holds(other))


@given(LISTS)
def test_the_meet_with_anywhere_changes_nothing_and_with_nothing_leaves_nothing(listed: tuple[Endpoint, ...]) -> None:
    assert both(listed, (ANYWHERE,)) == tuple(dict.fromkeys(listed))
    assert both(listed, ()) == both((), listed) == ()


def test_a_mark_binds_beside_the_list_of_all() -> None:
    raw = struct.pack("=H", AF_INET) + struct.pack("!H", 80) + b"\x0a\0\0\x01" + bytes(8)
    call = Call("CONNECT", "connect", 1, protocol=6, address=raw)
    marked = Call("CONNECT", "connect", 1, protocol=6, address=raw, marks=frozenset({7}))
    rules = CallRules(EVERYWHERE, {7: ()})
    assert decide(call, rules) == OnBehalf()
    assert decide(marked, rules) == Errno(EPERM, "policy_fn")
    assert decide(marked, CallRules(EVERYWHERE, {7: (ANYWHERE,)})) == OnBehalf()


@pytest.mark.parametrize("kind", ["BIND", "LISTEN"])
def test_a_bind_is_no_question_of_addresses(kind: str) -> None:
    unlisted = struct.pack("=H", AF_INET) + struct.pack("!H", 80) + b"\x0a\0\0\x01" + bytes(8)
    for address in (b"", bytes(16), unlisted):
        assert decide(Call(kind, kind.lower(), 1, address=address), CallRules(NetworkRules())) == OnBehalf()


@pytest.mark.parametrize("kind", ["SENDTO", "SENDMSG"])
def test_an_address_of_no_family_undoes_a_connect_and_names_nobody_to_send_to(kind: str) -> None:
    """The kernel sends a datagram to the address of IPv4 that follows (udp_sendmsg)."""
    listed = CallRules(NetworkRules(local=(ANYWHERE,), grants=(ANYWHERE,)))
    leads = struct.pack("=H", AF_UNSPEC) + struct.pack("!H", 53) + b"\x0a\0\0\x01" + bytes(8)
    assert decide(Call("CONNECT", "connect", 1, protocol=17, address=leads), CallRules(NetworkRules())) == OnBehalf()
    for rules in (listed, CallRules(NetworkRules())):
        assert decide(Call(kind, kind.lower(), 1, protocol=17, address=leads), rules) == Errno(EPERM, "network.egress")


def test_a_send_without_an_address_goes_where_the_socket_leads_and_a_connect_does_not() -> None:
    assert decide(Call("SENDMSG", "sendmsg", 1), CallRules(NetworkRules())) == OnBehalf()
    assert decide(Call("CONNECT", "connect", 1), CallRules(EVERYWHERE)) == Errno(EPERM, "network.egress")


@settings(max_examples=500, deadline=None)
@given(LISTS, LISTS, addresses(), st.sampled_from([0, 6, 17]))
def test_they_name_the_same_way(
    listed: tuple[Endpoint, ...], granted: tuple[Endpoint, ...], raw: bytes, protocol: int
) -> None:
    rules = NetworkRules(listed, granted)
    in_c = in_c_half(rules, raw, protocol) if raw else 0
    call = Call("CONNECT", "connect", 1, protocol=protocol, address=settled(raw))
    ways = {0: "", lib.PSB_REACH_LOCAL: "local", lib.PSB_REACH_GRANT: "grant"}
    assert reach_of(call, rules) == ways[in_c]


@pytest.mark.parametrize("own", ["127.0.0.1", "127.8.0.1", "0.0.0.0", "198.18.0.1", "198.19.255.255"])
def test_no_grant_leads_to_what_the_cage_has_for_itself(own: str) -> None:
    raw = settled(struct.pack("=H", AF_INET) + struct.pack("!H", 80) + socket.inet_aton(own) + bytes(8))
    call = Call("CONNECT", "connect", 1, protocol=6, address=raw)
    assert reach_of(call, NetworkRules(grants=(ANYWHERE,))) == ""
    assert reach_of(call, NetworkRules((ANYWHERE,), (ANYWHERE,))) == "local"


def test_a_narrower_list_narrows_every_way() -> None:
    rules = CallRules(NetworkRules(*[(ANYWHERE,)] * 4)).narrowed((), "policy_fn")
    assert rules == CallRules(NetworkRules(), source="policy_fn")
