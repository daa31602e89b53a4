"""May this address be reached? One table, held against everybody who decides it: the C half, the handlers, the
gatekeeper. What a row should say is written by hand, or worked out with `ipaddress`, which knows none of them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pysandbox._native import lib

from _support.network_rules import EVALUATORS, Asked, by_c, by_gatekeeper, by_name, in_c_half, sockaddr
from golden.pretend import plan_of
from pysandbox.gate.rules import GateRules, sixteen
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.policy.endpoint import ANYWHERE, TCP, UDP, Endpoint, special
from pysandbox.policy.model import Policy
from pysandbox.policy.names import IPAddress, plain
from pysandbox.supervise.rules_in_force import network_of

EVERYWHERE = ("0.0.0.0/0", "::/0")
CAGE_OWN = [ip_network(each) for each in ("127.0.0.0/8", "198.18.0.0/15", "::1/128")]  # in a cage with its own network
SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", "::/96", "64:ff9b::/96",
    "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip
Network = IPv4Network | IPv6Network
WAYS = {0: "", lib.PSB_REACH_LOCAL: "local", lib.PSB_REACH_GRANT: "grant"}


def answers(lines: tuple[str, ...], asked: Asked) -> dict[str, bool]:
    return {name: evaluator(lines, asked) for name, evaluator in EVALUATORS.items()}


def everybody_says(lines: tuple[str, ...], asked: Asked, allowed: bool) -> None:
    assert answers(lines, asked) == dict.fromkeys(EVALUATORS, allowed), (lines, asked)


def at(text: str, port: int = 443, protocol: str = "tcp", **more: object) -> Asked:
    return Asked(ip_address(text), port, protocol, **more)  # type: ignore[arg-type]


# (lines of allow_ips, what is asked, whether it is granted)
TABLE: list[tuple[tuple[str, ...], Asked, bool]] = [
    ((), at("203.0.113.7"), False),
    (("203.0.113.7",), at("203.0.113.7"), True),
    (("203.0.113.7",), at("203.0.113.8"), False),
    (("[::ffff:203.0.113.7]",), at("203.0.113.7"), True),
    (("203.0.113.7",), at("::ffff:203.0.113.7"), True),
    (("::/0",), at("203.0.113.7"), False),  # a range is of one family
    (("0.0.0.0/0",), at("2001:db9::7"), False),
    (("203.0.112.0/23",), at("203.0.113.255"), True),
    (("203.0.112.0/23",), at("203.0.114.0"), False),
    # ports and protocols
    (("203.0.113.7:443",), at("203.0.113.7", 443), True),
    (("203.0.113.7:443",), at("203.0.113.7", 442), False),
    (("203.0.113.7:443",), at("203.0.113.7", 444), False),
    (("203.0.113.7:1-1023",), at("203.0.113.7", 1), True),
    (("203.0.113.7:1-1023",), at("203.0.113.7", 1023), True),
    (("203.0.113.7:1-1023",), at("203.0.113.7", 1024), False),
    (("203.0.113.7:1-65535",), at("203.0.113.7", 0), False),
    (("203.0.113.7",), at("203.0.113.7", 0), True),
    (("203.0.113.7",), at("203.0.113.7", 65535), True),
    (("203.0.113.7:443/tcp",), at("203.0.113.7", 443, "udp"), False),
    (("203.0.113.7:443/udp",), at("203.0.113.7", 443, "udp"), True),
    (("203.0.113.7:443/udp",), at("203.0.113.7", 443, "tcp"), False),
    # what is no single host, or near: as such, and everywhere
    (EVERYWHERE, at("255.255.255.255"), False),
    (("255.255.255.255",), at("255.255.255.255"), True),
    (EVERYWHERE, at("239.255.255.250", 1900, "udp"), False),
    (("239.255.255.250:1900/udp",), at("239.255.255.250", 1900, "udp"), True),
    (EVERYWHERE, at("ff02::fb", 5353, "udp"), False),
    (EVERYWHERE, at("fe80::1"), False),
    (("[fe80::1]",), at("fe80::1"), True),
    (EVERYWHERE, at("169.254.169.254", 80), False),
    (("169.254.0.0/16",), at("169.254.169.254", 80), True),
    (("0.0.0.0/0", "169.254.169.254:80/tcp"), at("169.254.169.254", 80), True),
    (("0.0.0.0/0", "169.254.169.254:80/tcp"), at("169.254.169.254", 81), False),
    (("128.0.0.0/1",), at("169.254.169.254", 80), False),
    # IPv4 inside IPv6
    (EVERYWHERE, at("2002:7f00:1::"), False),  # 6to4
    (EVERYWHERE, at("64:ff9b::7f00:1"), False),  # NAT64
    (EVERYWHERE, at("64:ff9b:1::a00:1"), False),
    (EVERYWHERE, at("::7f00:1"), False),  # IPv4-compatible
    (EVERYWHERE, at("2001:0:7f00:1::1"), False),  # Teredo
    (("[64:ff9b::]/96",), at("64:ff9b::808:808"), True),
    # this host's own addresses: only the whole address, written down
    (("203.0.113.7",), at("203.0.113.7", own=True), True),
    (("203.0.113.7:443",), at("203.0.113.7", 443, own=True), True),
    (("203.0.113.7:443",), at("203.0.113.7", 80, own=True), False),
    (("203.0.113.6/31",), at("203.0.113.7", own=True), False),
    (EVERYWHERE, at("203.0.113.7", own=True), False),
    (("0.0.0.0/0", "203.0.113.7:443"), at("203.0.113.7", 443, own=True), True),
    (("0.0.0.0/0", "203.0.113.7:443"), at("203.0.113.7", 444, own=True), False),
    (("2001:db9::/32",), at("2001:db9::7", own=True), False),
    (("[2001:db9::7]",), at("2001:db9::7", own=True), True),
    (("10.0.0.0/8",), at("10.1.2.3", own=True), False),
    (("10.1.2.3",), at("10.1.2.3", own=True), True),
    # ... where what is left of a range beside a special address is a single one
    (("0.0.0.0/0",), at("168.63.129.17"), True),
    (("0.0.0.0/0",), at("168.63.129.17", own=True), False),
    (("168.63.129.16/31",), at("168.63.129.17", own=True), False),
    (("168.63.129.16/31",), at("168.63.129.16"), False),
    # narrowed
    (("203.0.113.0/24",), at("203.0.113.7", 443, narrowed=("203.0.113.7:443",)), True),
    (("203.0.113.0/24",), at("203.0.113.7", 80, narrowed=("203.0.113.7:443",)), False),
    (("203.0.113.0/24",), at("203.0.113.8", 443, narrowed=("203.0.113.7:443",)), False),
    (("203.0.113.7:443/tcp",), at("203.0.113.7", 443, narrowed=("203.0.113.0/24:1-443/udp",)), False),
    (("203.0.113.7",), at("203.0.113.8", narrowed=EVERYWHERE), False),
    (EVERYWHERE, at("10.1.2.3", narrowed=("10.1.2.3",)), False),  # cut down to it, a range still does not mean it
    (EVERYWHERE, at("203.0.113.7", own=True, narrowed=("203.0.113.7",)), False),
    (("203.0.113.7",), at("203.0.113.7", own=True, narrowed=("203.0.113.0/24",)), True),
    (("203.0.113.7",), at("203.0.113.7", narrowed=()), False),
]


@pytest.mark.parametrize(("lines", "asked", "allowed"), TABLE, ids=[f"{row[0]}-{row[1][:4]}" for row in TABLE])
def test_everybody_gives_the_answer_of_the_table(lines: tuple[str, ...], asked: Asked, allowed: bool) -> None:
    everybody_says(lines, asked, allowed)


def test_the_special_ranges_are_these() -> None:
    four = {IPv4Network((each.address[12:], each.prefix - 96)) for each in special() if each.is_four}
    six = {IPv6Network((each.address, each.prefix)) for each in special() if not each.is_four}
    assert four | six == {ip_network(each) for each in SPECIAL}


def edges(network: Network) -> list[tuple[IPAddress, bool]]:
    """The addresses at both ends, and whether each is inside."""
    kind = type(network[0])
    first, last = int(network[0]), int(network[-1])
    tried = [(first - 1, False), (first, True), (last, True), (last + 1, False)]
    return [(kind(number), inside) for number, inside in tried if 0 <= number < 1 << network.max_prefixlen]


def lies_in(address: IPAddress, networks: list[Network]) -> bool:
    return any(address.version == each.version and address in each for each in networks)


@pytest.mark.parametrize("text", SPECIAL)
def test_a_special_range_has_its_edges_where_everybody_sees_them(text: str) -> None:
    all_special = [ip_network(each) for each in SPECIAL]
    network = ip_network(text)
    line = (str(network) if network.version == 4 else f"[{network[0]}]/{network.prefixlen}",)
    for address, inside in edges(network):
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            continue  # that is the IPv4 address
        asked = Asked(address, 80)
        everybody_says(EVERYWHERE, asked, not lies_in(address, all_special))
        assert by_name((), asked) is not lies_in(address, all_special)
        expected = dict.fromkeys(EVALUATORS, inside)
        if lies_in(address, CAGE_OWN) or address.is_unspecified:  # for a socket of the cage that is its own
            expected |= dict.fromkeys(set(EVALUATORS) - {"by_gatekeeper"}, False)
        if address.is_unspecified:  # which the C half has read as loopback by then
            expected |= {"by_rule": inside, "by_handler": inside}
        assert answers(line, asked) == expected, (line, address)


# ---- by name, by which socket, to the cage's own ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "asked", "allowed"),
    [
        ((), at("203.0.113.7"), True),  # the name is the grant
        ((), at("203.0.113.7", own=True), False),
        (("203.0.113.0/24",), at("203.0.113.7", own=True), False),
        (("203.0.113.7:443",), at("203.0.113.7", 443, own=True), True),
        (("203.0.113.7:443",), at("203.0.113.7", 80, own=True), False),
        ((), at("10.1.2.3"), False),
        (EVERYWHERE, at("10.1.2.3"), False),
        (("10.0.0.0/8",), at("10.1.2.3"), True),
        (("10.0.0.0/8",), at("10.1.2.3", own=True), False),
        (("10.1.2.3",), at("10.1.2.3", own=True), True),
        (("10.0.0.0/8",), at("10.1.2.3", narrowed=("192.0.2.7",)), False),
        ((), at("203.0.113.7", narrowed=("203.0.113.0/24:443",)), True),
        ((), at("203.0.113.7", 80, narrowed=("203.0.113.0/24:443",)), False),
        (EVERYWHERE, at("10.1.2.3", narrowed=("10.1.2.3",)), False),
        ((), at("203.0.113.7", narrowed=()), False),
    ],
)
def test_a_name_leads_to_what_is_nobody_s_in_particular_or_listed(
    lines: tuple[str, ...], asked: Asked, allowed: bool
) -> None:
    assert by_name(lines, asked) is allowed


FROM = (
    # local, grants, named; real, own, the socket is of the host's network; how it is reached
    ("203.0.113.7", (ANYWHERE,), (), (), None, False, False, "local"),
    ("203.0.113.7", (ANYWHERE,), (), (), None, False, True, ""),
    ("203.0.113.7", (ANYWHERE,), (ANYWHERE,), (), None, False, False, "grant"),
    ("203.0.113.7", (ANYWHERE,), (ANYWHERE,), (), None, False, True, "grant"),
    ("203.0.113.7", (ANYWHERE,), (ANYWHERE,), (), None, True, False, "local"),
    ("203.0.113.7", (ANYWHERE,), (ANYWHERE,), (), None, True, True, ""),
    ("127.0.0.1", (ANYWHERE,), (ANYWHERE,), (), None, False, False, "local"),
    ("127.0.0.1", (), (ANYWHERE,), (ANYWHERE,), None, False, False, ""),
    ("127.0.0.1", (ANYWHERE,), (ANYWHERE,), (), None, False, True, ""),
    ("::1", (), (ANYWHERE,), (), None, False, False, ""),
    ("0.0.0.0", (), (ANYWHERE,), (), None, False, False, ""),
    ("198.18.0.1", (ANYWHERE,), (ANYWHERE,), (), None, False, False, "local"),
    ("198.19.255.255", (), (ANYWHERE,), (), None, False, False, ""),
    ("198.18.1.1", (ANYWHERE,), (), (ANYWHERE,), "203.0.113.7", False, False, "grant"),
    ("198.18.1.1", (ANYWHERE,), (), (ANYWHERE,), None, False, False, "local"),
    ("198.18.1.1", (ANYWHERE,), (), (), "203.0.113.7", False, False, "local"),
    ("198.18.1.1", (ANYWHERE,), (ANYWHERE,), (), "203.0.113.7", False, False, "local"),
    ("198.18.1.1", (ANYWHERE,), (), (ANYWHERE,), "127.0.0.1", False, False, "local"),
    ("198.18.1.1", (), (), (ANYWHERE,), "198.18.0.1", False, False, ""),
)


@pytest.mark.parametrize(("text", "local", "grants", "named", "real", "own", "host_netns", "reach"), FROM)
def test_how_it_is_reached_depends_on_the_socket_and_on_what_the_address_stands_for(
    text: str, local: tuple[Endpoint, ...], grants: tuple[Endpoint, ...], named: tuple[Endpoint, ...],
    real: str | None, own: bool, host_netns: bool, reach: str,
) -> None:  # fmt: skip
    rules = NetworkRules(local, grants, named)
    packed = sixteen(ip_address(real)) if real else None
    raw = sockaddr(ip_address(text), 80)
    assert WAYS[in_c_half(rules, raw, 6, own=own, host_netns=host_netns, real=packed)] == reach
    if text != "0.0.0.0":  # which the C half has read as loopback by then
        found = rules.reach(sixteen(ip_address(text)), 80, TCP, own=own, host_netns=host_netns, real=packed)
        assert found == reach


@pytest.mark.parametrize("size", range(29))
def test_an_address_that_is_cut_short_is_none(size: int) -> None:
    rules = NetworkRules((ANYWHERE,), (ANYWHERE,))
    for whole, least in ((sockaddr(ip_address("203.0.113.7"), 80), 16), (sockaddr(ip_address("2001:db9::7"), 80), 24)):
        found = in_c_half(rules, whole[:size], 6)
        assert found == (lib.PSB_REACH_GRANT if size >= least else lib.PSB_REACH_LOCAL if size < 2 else 0)


NOBODY_ASKED = 2


def test_an_address_of_which_nobody_asked_whose_it_is_is_granted_nowhere_but_where_it_is_written_down() -> None:
    """So whoever adds a call to the C half and forgets to ask opens nothing."""
    raw = sockaddr(ip_address("203.0.113.7"), 80)
    asked_about = NetworkRules(local=(ANYWHERE,), grants=(ANYWHERE,))
    assert in_c_half(asked_about, raw, 6) == lib.PSB_REACH_GRANT
    assert in_c_half(asked_about, raw, 6, own=NOBODY_ASKED) == lib.PSB_REACH_LOCAL
    assert in_c_half(asked_about, raw, 6, own=NOBODY_ASKED, host_netns=True) == 0
    assert in_c_half(NetworkRules(grants=(ANYWHERE,), own=(ANYWHERE,)), raw, 6, own=NOBODY_ASKED) == lib.PSB_REACH_GRANT


@pytest.mark.parametrize("protocol", [0, 1, 58, 132, 255])
def test_what_is_neither_tcp_nor_udp_leads_nowhere(protocol: int) -> None:
    assert in_c_half(NetworkRules(*[(ANYWHERE,)] * 4), sockaddr(ip_address("203.0.113.7"), 80), protocol) == 0


# ---- for all of them -------------------------------------------------------------------------------------------------


INTERESTING = [edge for text in SPECIAL for edge, _ in edges(ip_network(text))]
ADDRESSES = st.one_of(st.sampled_from(INTERESTING), st.ip_addresses(v=4), st.ip_addresses(v=6))
PORTS = st.sampled_from([0, 1, 79, 80, 81, 443, 65535])


@st.composite
def written(draw: st.DrawFn) -> str:
    """A line of allow_ips."""
    address = draw(ADDRESSES)
    network = ip_network((address, draw(st.integers(0, address.max_prefixlen))), strict=False)
    host = str(network[0]) if network.version == 4 else f"[{network[0]}]"
    low, high = sorted((draw(st.integers(1, 65535)), draw(st.sampled_from([1, 80, 443, 65535]))))
    ports = draw(st.sampled_from(["", f":{low}", f":{low}-{high}"]))
    return f"{host}/{network.prefixlen}{ports}{draw(st.sampled_from(['', '/tcp', '/udp']))}"


LINES = st.lists(written(), max_size=4).map(tuple)


@settings(max_examples=400, deadline=None)
@given(LINES, ADDRESSES, PORTS, st.sampled_from(["tcp", "udp"]), st.booleans(), st.none() | LINES)
@example(("0.0.0.0/0",), IPv4Address("168.63.129.17"), 80, "tcp", True, None)
@example(("0.0.0.0/0", "0.0.0.0/8"), IPv6Address("::ffff:0.0.0.0"), 80, "tcp", False, None)
@example(("127.0.0.0/8",), IPv6Address("::ffff:127.0.0.1"), 80, "tcp", False, None)
def test_the_c_half_the_handlers_and_the_gatekeeper_are_of_one_mind(
    lines: tuple[str, ...], address: IPAddress, port: int, protocol: str, own: bool, narrowed: tuple[str, ...] | None
) -> None:
    if lies_in(plain(address), CAGE_OWN) or plain(address).is_unspecified:
        return  # on purpose not the same: the gatekeeper dials for the cage, and its loopback is the host's
    asked = Asked(address, port, protocol, own, narrowed)
    said = answers(lines, asked)
    assert len(set(said.values())) == 1, said
    if said["by_c"] and narrowed is not None:
        assert by_c(lines, asked._replace(narrowed=None))  # tightening only ever takes away
    if said["by_c"] and own:
        assert by_gatekeeper(lines, asked._replace(own=False))


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(*[st.sampled_from([(), (ANYWHERE,)])] * 3), ADDRESSES, st.booleans(), st.booleans(),
    st.none() | ADDRESSES, st.sampled_from([(6, TCP), (17, UDP)]),
)  # fmt: skip
def test_c_and_python_reach_by_every_socket_the_same(
    lists: tuple[tuple[Endpoint, ...], ...], address: IPAddress, own: bool, host_netns: bool, real: IPAddress | None,
    protocol: tuple[int, int],
) -> None:  # fmt: skip
    if plain(address).is_unspecified:
        return
    rules, packed = NetworkRules(*lists), sixteen(real) if real is not None else None
    in_c = in_c_half(rules, sockaddr(address, 80), protocol[0], own=own, host_netns=host_netns, real=packed)
    found = rules.reach(sixteen(address), 80, protocol[1], own=own, host_netns=host_netns, real=packed)
    assert WAYS[in_c] == found


@pytest.mark.parametrize("line", ["0.0.0.0/0", "::/0", "168.63.129.16/31", "203.0.113.0/24", "203.0.113.7:443/tcp"])
def test_a_cage_s_calls_and_its_gatekeeper_are_given_the_same_lists(line: str) -> None:
    plan = plan_of(Policy(allow_ips=[line]))
    assert plan.net is not None
    calls, gate = network_of(plan), GateRules.of(plan.net).listed
    assert (set(calls.grants), calls.own) == (set(gate.grants), gate.own)
