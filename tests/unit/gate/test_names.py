"""The synthetic addresses of a cage."""

from __future__ import annotations

from ipaddress import IPv4Address

from pysandbox.gate.dns.names import DOORS, SYNTHETIC, Names


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


def test_an_address_is_not_given_away_before_all_the_others_were():
    names = Names(kept=2)
    first = names.address_of("name-0.com")
    given = {names.address_of(f"name-{number}.com") for number in range(1, SYNTHETIC.num_addresses - DOORS - 1)}
    assert first not in given
    assert all(each in SYNTHETIC and int(each) & 0x1FFFF >= DOORS for each in given)
    assert names.address_of("again.com") == first
