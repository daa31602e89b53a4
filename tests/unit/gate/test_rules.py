"""What a cage's grants say of a name and of an address, and what is left of them when they are tightened."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest

from _support.gate import net_plan
from pysandbox.compile.doors import host_grants
from pysandbox.compile.plan import ANY_MESSAGE, ANY_REQUEST, Contract, HostGrant, InspectionPlan, SecretGrant
from pysandbox.gate.rules import GateRules
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.model import Policy
from pysandbox.policy.names import HOST_ALIAS
from pysandbox.policy.parent import ParentProxy


def rules(
    *patterns: str, ips: tuple[str, ...] = (), ports: tuple[int, ...] = (), loopback=None, direct=False
) -> GateRules:
    return GateRules.of(net_plan(*patterns, ips=ips, ports=ports, loopback=loopback, direct=direct))


def granting(*hosts: HostGrant) -> GateRules:
    return GateRules.of(replace(net_plan(), hosts=hosts))


def test_an_empty_list_allows_nothing():
    nothing = rules()
    assert not nothing.name("example.com", 443).allowed
    assert not nothing.name("example.com", None).allowed
    assert not nothing.name(HOST_ALIAS, 443).allowed
    assert not nothing.address(ip_address("203.0.113.7"), 443, "tcp", own=False).allowed
    assert nothing.tightened(()).name("example.com", 443).allowed is False


def test_a_name_permits_no_address_and_a_range_permits_no_name():
    named, ranged = rules("example.com"), rules(ips=("0.0.0.0/0", "::/0"))
    assert (
        named.name("example.com", 443).allowed
        and ranged.address(ip_address("203.0.113.7"), 443, "tcp", own=False).allowed
    )
    assert not named.address(ip_address("203.0.113.7"), 443, "tcp", own=False).allowed
    assert not ranged.name("example.com", 443).allowed


def test_ports_of_a_grant_hold_for_dialling_and_the_name_resolves():
    some = rules("example.com", ports=(443,))
    assert some.name("example.com", 443).allowed and some.name("example.com", None).allowed
    assert not some.name("example.com", 80).allowed


@pytest.mark.parametrize("name", ["example.com", "a.example.com"])
def test_the_line_that_a_refusal_gives_allows_it(name):
    decision = rules().name(name, 443)
    (block,) = Policy.parse(decision.fix).hosts
    assert rules(block.domain).name(name, 443).allowed


def test_the_line_for_another_port_allows_that_port():
    decision = rules("example.com", ports=(443,)).name("example.com", 8443)
    (block,) = Policy.parse(decision.fix).hosts
    assert (decision.rule, block.ports) == ("host.ports", (8443,))


@pytest.mark.parametrize(("address", "port"), [("203.0.113.7", 443), ("2001:db8::7", 80), ("10.0.0.1", 5432)])
def test_the_line_for_an_address_allows_it(address, port):
    decision = rules().address(ip_address(address), port, "tcp", own=False)
    listed = Policy.parse("[network]\n" + decision.fix).allow_ips
    assert rules(ips=listed).address(ip_address(address), port, "tcp", own=False).allowed


SPECIAL = [
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.200",
    "169.254.169.254", "168.63.129.16", "192.0.0.192", "224.0.0.1", "255.255.255.255", "198.18.0.1", "198.19.255.254",
    "::1", "::", "fe80::1", "fec0::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1",
    "2001::1",
]  # fmt: skip


PRIVATE = ["10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1"]


@pytest.mark.parametrize("address", SPECIAL)
def test_a_name_leads_to_no_special_address_unless_that_is_listed(address):
    there = ip_address(address)
    decision = rules("example.com").resolved("example.com", there, 80, own=False)
    assert not decision.allowed
    key = "network.host_loopback_ports" if there.is_loopback else "network.allow_ips"
    assert decision.rule.partition(":")[0] == ("host.private_addresses" if address in PRIVATE else key)
    listed = rules("example.com", ips=(f"[{address}]:80" if ":" in address else f"{address}:80",))
    assert listed.resolved("example.com", there, 80, own=False).allowed
    assert not listed.resolved("example.com", there, 81, own=False).allowed


@pytest.mark.parametrize("address", SPECIAL)
def test_everywhere_does_not_mean_a_special_address(address):
    everywhere = rules("example.com", ips=("0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1"))
    assert everywhere.address(ip_address("8.8.8.8"), 80, "tcp", own=False).allowed
    assert not everywhere.address(ip_address(address), 80, "tcp", own=False).allowed
    assert not everywhere.resolved("example.com", ip_address(address), 80, own=False).allowed


def test_a_range_inside_a_special_one_is_a_word_for_it():
    office = rules(ips=("10.20.0.0/16",))
    assert office.address(ip_address("10.20.1.1"), 22, "tcp", own=False).allowed
    assert not office.address(ip_address("10.21.1.1"), 22, "tcp", own=False).allowed


def test_an_ordinary_address_is_reached_by_name():
    assert rules("example.com").resolved("example.com", ip_address("8.8.8.8"), 443, own=False).allowed


def test_who_is_scanned_is_told_that_no_address_can_be_listed() -> None:
    there, loopback = ip_address("169.254.1.1"), ip_address("127.0.0.1")
    plain, scanned = rules("example.com"), replace(rules("example.com"), scans=True)
    assert "169.254.1.1:443" in plain.resolved("example.com", there, 443, own=False).fix  # the control
    refused = scanned.resolved("example.com", there, 443, own=False)
    assert (refused.allowed, refused.fix) == (False, "") and refused.rule.startswith("network.dlp.enabled: the name")
    public = ip_address("8.8.8.8")
    assert scanned.resolved("example.com", public, 443, own=False).allowed
    at_home = [each.resolved("example.com", loopback, 443, own=False).allowed for each in (plain, scanned)]
    assert at_home == [False, False]


def test_the_alias_leads_to_the_ports_it_was_given():
    assert not rules().name(HOST_ALIAS, 80).allowed
    assert rules(loopback=()).name(HOST_ALIAS, 80).allowed
    some = rules(loopback=(5432,))
    assert some.name(HOST_ALIAS, 5432).allowed and some.name(HOST_ALIAS, None).allowed
    assert not some.name(HOST_ALIAS, 80).allowed
    assert some.resolved(HOST_ALIAS, ip_address("127.0.0.1"), 5432, own=False).allowed


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_a_name_that_leads_to_the_host_s_loopback_is_told_the_way_there(address: str) -> None:
    decision = rules("example.com", loopback=()).resolved("example.com", ip_address(address), 8000, own=False)
    assert not decision.allowed and "--host-loopback-port 8000" in decision.rule and HOST_ALIAS in decision.rule
    other = rules("example.com").resolved("example.com", ip_address("169.254.1.1"), 8000, own=False)
    assert other.rule == "network.allow_ips" and "169.254.1.1:8000" in other.fix


def test_tightening_leaves_what_is_in_both():
    before = rules("example.com", ips=("203.0.113.0/24",), loopback=())
    after = before.tightened((parse_endpoint("203.0.113.7:443"),))
    assert after.address(ip_address("203.0.113.7"), 443, "tcp", own=False).allowed
    assert not after.address(ip_address("203.0.113.8"), 443, "tcp", own=False).allowed
    assert after.resolved("example.com", ip_address("203.0.113.7"), 443, own=False).allowed
    assert not after.resolved("example.com", ip_address("203.0.113.8"), 443, own=False).allowed
    assert not after.resolved(HOST_ALIAS, ip_address("127.0.0.1"), 443, own=False).allowed


def test_tightening_to_nothing_allows_nothing():
    after = rules("example.com", ips=("203.0.113.0/24",), loopback=()).tightened(())
    assert not after.name("example.com", None).allowed and not after.name(HOST_ALIAS, 80).allowed
    assert not after.address(ip_address("203.0.113.7"), 443, "tcp", own=False).allowed
    assert after.name("example.com", 443) == (False, "policy_fn", "", False, False)


def test_tightening_never_widens():
    """A range that did not mean the loopback does not mean it when it is cut down to it."""
    after = rules("example.com", ips=("0.0.0.0/0",)).tightened((parse_endpoint("127.0.0.1"),))
    assert not after.address(ip_address("127.0.0.1"), 80, "tcp", own=False).allowed
    assert not after.resolved("example.com", ip_address("127.0.0.1"), 80, own=False).allowed
    again = after.tightened((parse_endpoint("0.0.0.0/0"),))
    assert not again.address(ip_address("8.8.8.8"), 80, "tcp", own=False).allowed


def test_direct_grants_are_those_that_no_other_grant_wants_relayed():
    assert rules("example.com").direct_ports("example.com") == ()
    assert rules("example.com", direct=True).direct_ports("example.com") == ((1, 65535),)
    assert rules("example.com", ports=(443, 80), direct=True).direct_ports("example.com") == ((80, 80), (443, 443))
    both = granting(HostGrant("a.b", (), True), HostGrant("*.b", (443,), False))
    assert both.direct_ports("a.b") == ((1, 442), (444, 65535))
    assert both.name("a.b", 443).direct is False and both.name("a.b", 80).direct is True
    assert granting(HostGrant("a.b", (), True), HostGrant("*.b", (), False)).direct_ports("a.b") == ()
    beside = granting(HostGrant("a.b", (), True), HostGrant("*.b", (80, 81), False), HostGrant("x.c", (), False))
    assert beside.direct_ports("a.b") == ((1, 79), (82, 65535))


HELD = Contract(methods=("GET",))


def test_the_most_specific_grant_alone_says_at_which_ports_a_name_is_reached():
    """Else what a block holds at its ports, a wider one would let pass at the others."""
    both = granting(
        HostGrant("a.b.c", (443,), False, HELD), HostGrant("*.b.c", (), False), HostGrant("**.c", (22,), False)
    )
    assert both.name("a.b.c", 443).inspect and both.contract("a.b.c", 443) == HELD
    assert both.name("a.b.c", 80)[:2] == (False, "host.ports") and both.contract("a.b.c", 80) is None
    assert both.name("x.b.c", 80).allowed and both.name("y.x.b.c", 22).allowed and not both.name("y.x.b.c", 443).allowed


def test_two_grants_of_one_pattern_add_their_ports():
    both = granting(HostGrant("*.b.c", (443,), False), HostGrant("*.b.c", (80,), False))
    assert both.name("a.b.c", 443).allowed and both.name("a.b.c", 80).allowed and not both.name("a.b.c", 22).allowed


def test_the_nearest_grant_says_whether_a_name_is_asked_of_the_parent_proxy():
    granted = granting(HostGrant("a.b", (), False), HostGrant("**.b", (), True))
    asked = replace(granted, parent=ParentProxy("proxy.example", 3128, "", ()))
    assert asked.by_parent("a.b") and not asked.by_parent("c.b")


def test_a_wider_direct_grant_opens_no_port_of_a_more_specific_one():
    both = granting(HostGrant("a.b", (443,), True), HostGrant("*.b", (), True))
    assert both.direct_ports("a.b") == ((443, 443),) and both.direct_ports("x.b") == ((1, 65535),)
    held = granting(HostGrant("a.b", (443,), False, HELD), HostGrant("*.b", (), True))
    assert held.direct_ports("a.b") == () and not held.name("a.b", 80).allowed


TOKEN = SecretGrant("A_TOKEN", "env:A_TOKEN", ("a.b", "*.c"), ("header:authorization",))


@pytest.mark.parametrize(
    ("grant", "name", "contract"),
    [
        (HostGrant("a.b", (), False), "a.b", ANY_REQUEST),
        (HostGrant("a.b", (443,), False), "a.b", ANY_REQUEST),
        (HostGrant("a.b", (), False, websocket=True), "a.b", ANY_MESSAGE),
        (HostGrant("*.c", (), False), "a.c", ANY_REQUEST),
        (HostGrant("a.b", (), False, HELD), "a.b", HELD),
        (HostGrant("a.b", (443,), False, HELD), "a.b", HELD),
        (HostGrant("x.b", (), False), "x.b", None),  # no secret is for it
    ],
)
def test_requests_to_where_a_secret_may_go_are_looked_at(grant: HostGrant, name: str, contract: Contract | None):
    """Whatever the block says; and nobody speaks to a listed address under that name, where nothing looks."""
    inspection = InspectionPlan(1000, 1, secrets=(TOKEN,))
    held = GateRules.of(replace(net_plan(), hosts=(grant,), inspection=inspection))
    assert held.contract(name, 443) == contract
    assert held.contract(name, 0) == contract
    assert held.name(name, 443).allowed and held.name(name, 443).inspect is (contract is not None)
    assert held.may_name_at_address(name, 443) is (contract is None)
    assert not held.may_name_at_address("unlisted.example", 443)
    without = GateRules.of(replace(net_plan(), hosts=(grant,)))
    assert without.contract(name, 443) == grant.contract


def test_of_two_blocks_either_may_open_a_websocket():
    both = (HostGrant("a.b", (443,), False), HostGrant("a.b", (443,), False, websocket=True))
    inspection = InspectionPlan(1000, 1, secrets=(TOKEN,))
    assert GateRules.of(replace(net_plan(), hosts=both, inspection=inspection)).contract("a.b", 443) == ANY_MESSAGE


# ---- private addresses of one name -------------------------------------------------------------------------------

API = HostGrant("api.corp", (443,), False, private=("10.1.0.0/16", "fd00:1::7"))


def reached(several: GateRules, name: str, address: str, port: int = 443, *, own: bool = False) -> bool:
    return several.resolved(name, ip_address(address), port, own=own).allowed


@pytest.mark.parametrize("scans", [False, True])
def test_a_name_leads_to_the_private_addresses_of_its_own_block_alone(scans: bool) -> None:
    several = replace(granting(API, HostGrant("b.corp", (), False), HostGrant("**.corp", (), False)), scans=scans)
    assert reached(several, "api.corp", "10.1.2.3") and reached(several, "api.corp", "fd00:1::7")
    assert reached(several, "api.corp", "::ffff:10.1.2.3") and reached(several, "api.corp", "8.8.8.8")
    for name, address, port in (
        ("b.corp", "10.1.2.3", 443), ("x.api.corp", "10.1.2.3", 443), ("c.corp", "10.1.2.3", 443),  # other names
        ("api.corp", "10.1.2.3", 80), ("api.corp", "10.2.2.3", 443), ("api.corp", "fd00:1::8", 443),
        ("api.corp", "64:ff9b::a01:203", 443), ("api.corp", "127.0.0.1", 443), ("api.corp", "169.254.169.254", 443),
    ):  # fmt: skip
        assert not reached(several, name, address, port), (name, address, port)
    assert not several.address(ip_address("10.1.2.3"), 443, "tcp", own=False).allowed
    assert not several.resolved("api.corp", ip_address("10.1.2.3"), 443, "udp", own=False).allowed


@pytest.mark.parametrize("address", [each for each in SPECIAL if each not in PRIVATE])
def test_nothing_that_is_not_private_is_reached_by_it_even_where_a_plan_said_so(address: str) -> None:
    held = f"{address}" if ":" in address else f"{address}/32"
    assert not reached(granting(replace(API, private=(held, "0.0.0.0/0", "::/0"))), "api.corp", address)


def test_a_more_specific_block_decides_alone() -> None:
    several = granting(replace(API, pattern="**.corp"), HostGrant("api.corp", (443,), False))
    assert reached(several, "other.corp", "10.1.2.3") and not reached(several, "api.corp", "10.1.2.3")


def test_two_grants_of_one_pattern_each_hold_at_their_own_ports() -> None:
    several = granting(API, HostGrant("api.corp", (80,), False))
    assert reached(several, "api.corp", "10.1.2.3", 443) and not reached(several, "api.corp", "10.1.2.3", 80)


def test_an_address_of_this_host_has_to_be_listed_by_itself() -> None:
    assert not reached(granting(API), "api.corp", "10.1.2.3", own=True)
    assert "this host's own" in granting(API).resolved("api.corp", ip_address("10.1.2.3"), 443, own=True).rule
    assert reached(granting(API), "api.corp", "fd00:1::7", own=True)


def test_tightening_takes_private_addresses_as_any_and_never_gives_them() -> None:
    before = granting(API)
    some = before.tightened((parse_endpoint("10.1.2.0/24"),))
    assert reached(some, "api.corp", "10.1.2.3") and not reached(some, "api.corp", "10.1.3.3")
    assert not reached(some.tightened((parse_endpoint("10.1.0.0/16"),)), "api.corp", "10.1.3.3")
    wide = before.tightened((parse_endpoint("10.0.0.0/8"),))
    assert reached(wide, "api.corp", "10.1.2.3") and not reached(wide, "api.corp", "10.2.2.3")
    assert not reached(before.tightened((parse_endpoint("10.1.2.3:80"),)), "api.corp", "10.1.2.3")
    assert not reached(before.tightened(()), "api.corp", "10.1.2.3")


def test_the_parent_proxy_is_nowhere_a_name_leads() -> None:
    asked = replace(granting(API), parent=ParentProxy("10.1.2.3", 443, "", ("api.corp",)))
    assert asked.resolved("api.corp", ip_address("10.1.2.3"), 443, own=False).rule == "proxy.parent"


@pytest.mark.parametrize("scans", [False, True])
@pytest.mark.parametrize("block", [
    {}, {"ports": [443]}, {"methods": ["GET"], "paths": ["/v1/"], "max_request_bytes": 10}, {"websocket": True},
    {"contract_mode": "relaxed"}, {"tls": "inspect"}, {"private_addresses": ["10.9.0.0/16"]},
])  # fmt: skip
@pytest.mark.parametrize("domain", ["api.corp", "**.corp"])
def test_the_block_that_a_refusal_gives_allows_that_address_and_nothing_else(
    domain: str, block: dict[str, object], scans: bool
) -> None:  # fmt: skip
    policy = Policy(egress="proxy-only", hosts=[{"domain": domain, **block}], dlp_enabled=scans)
    before = of_policy(policy)
    refused = before.resolved("api.corp", ip_address("10.1.2.3"), 443, own=True)
    assert refused.rule.startswith("host.private_addresses: the name leads to 10.1.2.3")
    after = of_policy(policy.merge(Policy.parse(refused.fix)))
    assert reached(after, "api.corp", "10.1.2.3", own=True) and not reached(after, "api.corp", "10.1.2.4")
    assert not reached(after, "b.corp", "10.1.2.3")
    for port in (443, 80):
        one, other = before.contract("api.corp", port), after.contract("api.corp", port)
        assert (one and replace(one, private=())) == (other and replace(other, private=()))
        assert before.name("api.corp", port)[:3:2] == after.name("api.corp", port)[:3:2] or port == 80
    assert reached(after, "api.corp", "10.9.1.1") == ("private_addresses" in block)


def of_policy(policy: Policy) -> GateRules:
    grants = [grant for rule in policy.hosts for grant in host_grants(rule, policy.dlp_enabled)]
    return replace(granting(*grants), scans=policy.dlp_enabled)
