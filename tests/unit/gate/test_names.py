"""The synthetic addresses of a cage."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from pysandbox.compile.plan import HostGrant, InspectionPlan, NetPlan, ScanPlan
from pysandbox.gate.dns.names import DOORS, SYNTHETIC, Names, asked_names, name_scan


def test_a_name_has_one_address_which_stands_for_it_alone():
    names = Names()
    one, other = names.address_of("a.com"), names.address_of("b.com")
    assert one == names.address_of("a.com") == IPv4Address("198.18.1.0") and one != other
    assert (names.name_of(one), names.name_of(other)) == ("a.com", "b.com")
    assert names.name_of(IPv4Address("198.18.0.1")) is None and names.name_of("a.com") is None


def test_the_names_that_are_kept_are_bounded_and_the_longest_unused_goes():
    names = Names(kept=2)
    first, second = names.address_of("a.com"), names.address_of("b.com")
    assert names.name_of(first) == "a.com"  # used just now
    names.address_of("c.com")
    assert names.name_of(second) is None and names.name_of(first) == "a.com"


def test_a_name_that_is_asked_for_again_is_used():
    names = Names(kept=2)
    first, second = names.address_of("a.com"), names.address_of("b.com")
    names.address_of("a.com")
    names.address_of("c.com")
    assert (names.name_of(first), names.name_of(second)) == ("a.com", None)


def test_an_address_is_not_given_away_before_all_the_others_were():
    names = Names(kept=2)
    first = names.address_of("name-0.com")
    given = {names.address_of(f"name-{number}.com") for number in range(1, SYNTHETIC.num_addresses - DOORS - 1)}
    assert first not in given
    assert all(each in SYNTHETIC and int(each) & 0x1FFFF >= DOORS for each in given)
    assert names.address_of("again.com") == first


SCANS = InspectionPlan(1000, 1000, scan=ScanPlan(3, 1000, (), False, 1000))
READS = InspectionPlan(1000, 1000)


def net(inspection: InspectionPlan | None, *patterns: str) -> NetPlan:
    hosts = tuple(HostGrant(each, (), False) for each in patterns)
    return NetPlan((), b"", b"", hosts, (), (), None, "", "nodata", inspection)


@pytest.mark.parametrize(
    ("inspection", "patterns", "looked_through", "charged"),
    [
        (SCANS, ("a.example", "*.b.example"), True, True),
        (SCANS, ("**.b.example",), True, True),
        (SCANS, ("a.example",), True, False),
        (READS, ("*.b.example",), False, False),
        (None, ("*.b.example",), False, False),
    ],
)
def test_names_are_looked_through_where_all_is_and_charged_where_a_cage_makes_them_up(
    inspection, patterns, looked_through, charged
):
    plan, told = net(inspection, *patterns), []
    names = name_scan(plan, {})
    asked = asked_names(plan, names, lambda host, name: told.append(name))
    assert (names is not None, asked is not None) == (looked_through, charged)
    if asked is not None:
        assert asked.take(f"{'g' * 60}.{'h' * 60}.b.example") is None and names.looked == 1
        assert asked_names(plan, None, print) is None


def test_a_plan_has_a_pool_for_each_list_of_ports():
    names = Names.of(net(None, "a.example"))
    assert names.address_of("a.example") == IPv4Address("198.18.1.0")
