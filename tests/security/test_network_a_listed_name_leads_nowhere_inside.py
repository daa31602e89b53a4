"""Claim: a name that the policy lists, and that its owner points at the host itself, at the metadata service or into a
private network, is refused at every door; only an address that the policy lists is an exception.
"""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet, places

from .network import attack, control

NAMES = ("rebind.example", "metadata.example", "private.example", "zero.example", "cage.example")
WAYS = {
    "socks": "for name in NAMES: says(name, socks, name.encode(), PORT)",
    "connect": "for name in NAMES: says(name, connect, name.encode(), PORT)",
    "transparent": "for name in NAMES: says(name, direct, name, PORT)",
}
RESOLVED = """
    for name in NAMES:
        try:
            says(name, direct, name, PORT)
        except OSError as error:
            say(name, str(error))
"""
INSIDE = (places.METADATA, places.PRIVATE, "127.0.0.1", "198.18.0.1")


def came_in(net: Internet) -> list[dict[str, object]]:
    return [each for each in net.arrivals_at(*INSIDE) if each["port"] == places.ECHO]


def test_uncaged_the_names_lead_inside(net_host: Host, net: Internet) -> None:
    reached = control(net_host, WAYS["transparent"], names={"NAMES": NAMES[:3], "PORT": places.ECHO})

    assert dict(reached.values) == dict.fromkeys(NAMES[:3], "reached")
    assert len(came_in(net)) == 3


@pytest.mark.parametrize("way", WAYS)
def test_no_listed_name_leads_inside(way: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, WAYS[way], names={"NAMES": NAMES, "PORT": places.ECHO}, hosts=NAMES)

    assert said.let_through() == {}
    assert came_in(net) == []
    assert said.answer.denials


@pytest.mark.parametrize("way", WAYS)
def test_an_address_that_is_listed_is_an_exception(way: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, WAYS[way], names={"NAMES": ["private.example"], "PORT": places.ECHO},
                  hosts=["private.example"], allow_ips=[f"{places.PRIVATE}:{places.ECHO}"])  # fmt: skip

    assert said["private.example"] == "reached"
    assert [each["to"] for each in came_in(net)] == [places.PRIVATE]


@pytest.mark.parametrize("way", WAYS)
def test_a_name_does_not_lift_the_list_of_addresses(way: str, net_host: Host, net: Internet) -> None:
    """One private address is listed; the name leads to another."""
    said = attack(net_host, WAYS[way], names={"NAMES": ["metadata.example"], "PORT": places.ECHO},
                  hosts=["metadata.example"], allow_ips=[places.PRIVATE])  # fmt: skip

    assert said.let_through() == {}
    assert came_in(net) == []


# ---- the host itself, port by port -----------------------------------------------------------------------------------

PORTS = (places.ECHO, places.GREET)
TO_THE_HOST = 'for port in PORTS: says(str(port), direct, "self.example", port)'
# At every port but one the name does without a relay, from ECHO on for instance.
DIRECT = [{"domain": "self.example", "direct": True}, {"domain": "*.example", "ports": [places.ECHO - 1]}]


def test_uncaged_the_name_of_the_host_leads_to_its_services(net_host: Host) -> None:
    reached = control(net_host, TO_THE_HOST, names={"PORTS": PORTS})

    assert dict(reached.values) == dict.fromkeys(map(str, PORTS), "reached")


def test_one_port_of_the_host_that_is_listed_opens_no_other(net_host: Host, net: Internet) -> None:
    said = attack(net_host, TO_THE_HOST, names={"PORTS": PORTS}, hosts=DIRECT,
                  allow_ips=[f"{places.HOST}:{places.ECHO}"])  # fmt: skip

    assert said[str(places.ECHO)] == "reached"
    assert {*said.let_through()} == {str(places.ECHO)}
    assert {each["port"] for each in net.arrivals_at(places.HOST)} <= {places.ECHO}
